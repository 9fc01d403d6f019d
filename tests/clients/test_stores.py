"""The sets of every row of the conformance table, read from servers that others wrote, equal what is read here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.clients.clients import NPM
from tests.conformance.rows import ROWS
from tests.waiting import eventually
from vfs.api.opening import open_group
from vfs.sources.library import obstore
from vfs.testing.arranged import same
from vfs.testing.rows import WrittenSet

pytest.importorskip("obstore")


def _moto(folder: Path, port: int) -> list[str]:
    return ["moto_server", "-p", str(port)]


def _s3rver(folder: Path, port: int) -> list[str]:
    return ["s3rver", "-d", str(folder / "s3rver"), "-p", str(port), "--configure-bucket", "sets", "-s"]


def _nginx(folder: Path, port: int) -> list[str]:
    """Lists folders, and answers requests for ranges."""
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; daemon off; error_log stderr; user root; events {{}}\n"
        f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder / 'sets'}; autoindex on; }} }}\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf")]


SERVERS: dict[str, Callable[[Path, int], list[str]]] = {"moto_server": _moto, "s3rver": _s3rver, "nginx": _nginx}


@contextmanager
def _running(command: list[str], port: int) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert eventually(answers)
            yield url
        finally:
            process.terminate()


@pytest.mark.parametrize("kind", SERVERS)
def test_every_row_reads_as_it_does_here(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [os.environ.get("PATH", ""), os.path.dirname(sys.executable), f"{NPM}/node_modules/.bin", "/usr/sbin"]
    monkeypatch.setenv("PATH", os.pathsep.join(found))
    if shutil.which(kind) is None:
        pytest.skip(f"{kind} IS NOT TRIED: it is not installed")
    written = []
    for k, row in enumerate(ROWS):
        folder = tmp_path / "sets" / f"{k}"
        folder.mkdir(parents=True)
        written.append(WrittenSet(row, folder, *row.write(folder)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with _running(SERVERS[kind](tmp_path, port), port) as url:
        top = url if kind == "nginx" else "s3://sets"
        if kind != "nginx":
            settings = {"ENDPOINT_URL": url, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
            keys = {"ACCESS_KEY_ID": "S3RVER", "SECRET_ACCESS_KEY": "S3RVER"}
            for name, value in {**settings, **keys}.items():
                monkeypatch.setenv(f"AWS_{name}", value)
            _upload(tmp_path / "sets", url, kind)
        failed = [f"{one.row.name}: {said}" for one in written if (said := _compared(one, top))]
    assert failed == []


def _upload(folder: Path, url: str, kind: str) -> None:
    if kind == "moto_server":
        with urlopen(Request(f"{url}/sets", method="PUT")):
            pass
    store = obstore().store.from_url("s3://sets", client_options={"allow_http": True})
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        obstore().put(store, str(path.relative_to(folder)), path.read_bytes())


def _compared(one: WrittenSet, top: str) -> str:
    """Return what differs between a set here and the same one on a server; "" if nothing does."""
    local = {path: array[...] for path, array in one.group().items()}
    here = f"{top}/{one.folder.name}"
    options = {name: one.url(value, here) for name, value in one.options.items()}
    how = options if one.row.detected else {"format": one.row.format, **options}
    try:
        found = open_group([one.url(str(path), here) for path in one.named], **how)
        assert {*found} == {*local}, f"{[*found]} for {[*local]}"
        for path, array in found.items():
            same(array[...], local[path])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""
