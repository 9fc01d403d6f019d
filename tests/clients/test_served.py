"""Foreign tools in full, over HTTP: `scripts/test --clients`, which installs them first (`install.py`).

Each reads what `test_mounted.py` makes it read, by a URL with a token, and is compared with numpy.
Then reading fails in every way that HTTP knows. What each tool makes of that is written down: an
error, unless `clients.SERVED` says that it lies. `vfs/docs/serve.md` says the same to people.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vfs

from .between import Between
from .clients import CHUNKS, FACES, NPY, SERVED, Answer, Client, Record, Scan, cases, need, outcome, run, status

if not os.environ.get("VFS_CLIENTS"):
    pytest.skip("foreign tools in full are opt-in: scripts/test --clients", allow_module_level=True)

WRONG_TOKEN = "0123456789012345678901"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return Scan.written(tmp_path_factory.mktemp("scan"))


@pytest.fixture(scope="module")
def url(kept: Scan) -> Iterator[str]:
    """Where a scan is served that does not break."""
    with vfs.serve(kept.path, port=0, chunks=CHUNKS) as server:
        yield server.url


def not_offered(client: Client, face: str, answer: Answer) -> None:
    if set(answer.regions.values()) == {"not offered"}:
        pytest.skip(f"{client.name} {answer.seen['version']} does not know the {face} face")


@pytest.mark.parametrize(("client", "face"), cases(SERVED))
def test_reads(client: Client, face: str, url: str, kept: Scan, record_property: Record) -> None:
    line = {"client": client.name, "face": face}
    need(client, line, record_property, "served")
    answer = run(client, url + FACES[face], kept.expected)
    for name in ("whole", "crossing", "edge"):
        line[name] = answer.regions.get(name, status(answer.ended))
    record_property("served", line | {"version": answer.seen.get("version", "")})
    not_offered(client, face, answer)
    assert answer.ended == 0
    assert set(answer.regions.values()) == {"equal"}


def fail(client: Client, face: str, failure: str, url: str, kept: Scan, folder: Path) -> Answer:
    """Let a client read what fails."""
    face = FACES[face]
    if failure == "404":
        return run(client, url + face.replace("scan.npy", "absent.npy"), kept.expected, "absent")
    if failure == "401":
        return run(client, url.replace(url.split("/")[-2], WRONG_TOKEN) + face, kept.expected)
    if failure.startswith("422"):
        scan = Scan.written(folder)
        with vfs.serve(scan.path, port=0, chunks=CHUNKS) as server:

            def truncate() -> None:
                os.truncate(scan.second, 1000)

            if failure == "422":
                truncate()
            return run(client, server.url + face, scan.expected, meanwhile=None if failure == "422" else truncate)
    with Between(url) as between:

        def broken() -> None:
            if failure in ("cut", "gone"):
                setattr(between, failure, True)
            else:
                between.token = WRONG_TOKEN

        at_once = client.script == "npy"  # it has all when it has opened the file
        if at_once:
            broken()
        return run(client, between.url + face, kept.expected, meanwhile=None if at_once else broken)


FAILURES = ["404", "422", "422 later", "401", "401 later", "cut", "gone"]


def failures() -> list[Any]:
    """Every client, face and failure, but for what comes later to who fetches a file whole."""
    return [
        pytest.param(*case.values, failure, id=f"{case.id}-{failure}")
        for case in cases(SERVED)
        for failure in FAILURES
        if not (case.values[1] == NPY and case.values[0].script == "npy" and failure.endswith("later"))
    ]


@pytest.mark.parametrize(("client", "face", "failure"), failures())
def test_failures(
    client: Client, face: str, failure: str, url: str, kept: Scan, tmp_path: Path, record_property: Record
) -> None:
    line = {"client": client.name, "face": face}
    need(client, line, record_property, "served")
    answer = fail(client, face, failure, url, kept, tmp_path)
    not_offered(client, face, answer)
    made, expected = outcome(answer), client.makes.get(failure, "error")
    if {made, expected} == {"wrong numbers", "fill values"}:  # what memory held before: sometimes zeros
        made = expected
    record_property("served", line | {failure: made})
    assert made == expected
    assert answer.regions["whole"] != "equal"


@pytest.mark.parametrize(
    ("client", "face"),
    cases([client for client in SERVED if client.name in ("zarrita, Chromium", "neuroglancer, Chromium")]),
)
def test_pages_of_other_origins_can_be_kept_out(client: Client, face: str, kept: Scan, record_property: Record) -> None:
    need(client, {"client": client.name, "face": face}, record_property, "served")
    with vfs.serve(kept.path, port=0, chunks=CHUNKS, cors=["https://example.org"]) as server:
        answer = run(client, server.url + FACES[face], kept.expected)
    assert outcome(answer) == "error"
    assert set(answer.regions.values()) == {"unreadable"}
