"""The access log: a line for each answer, also for those that need no interpreter, and for nobody's token."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.http.asking import ask, contents_of
from tests.http.support import answer, natively, request, talk
from vfs.errors import OptionError
from vfs.http.access_log import AccessLog
from vfs.http.guard import Guard
from vfs.http.persons import Person
from vfs.http.proxies import network_of
from vfs.http.reads import Reads
from vfs.server.application import AnswerHow, Application

ADA = Person("ada", "token_of_ada.~~~~~~")
VALUES = np.arange(24 * 64 * 32, dtype="u2").reshape(24, 64, 32)
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\S+) (\S+) (\S+) (\S+) (\d+) (\d+) (\d+\.\d)")


def application_of(data: Path, log: AccessLog) -> Application:
    values = data / "a #1.npy"
    np.save(values, VALUES)
    how = AnswerHow((network_of("127.0.0.1"),), log)
    return Application(contents_of(values, chunks="frames"), Guard((ADA,)), Reads(2), how=how)


def lines_of(path: Path) -> list[tuple[str, ...]]:
    """Fields of the lines but times, in the same form for both kinds of files."""
    if path.suffix == ".jsonl":
        every = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one.pop("time")) for one in every)
        assert all(0 <= one.pop("ms") < 600_000 for one in every)
        return [tuple(map(str, one.values())) for one in every]
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    return [one.groups()[:-1] if one is not None else () for one in found]


@pytest.mark.parametrize("name", ["access.log", "access.jsonl"])
def test_every_answer_has_a_line(tmp_path: Path, name: str) -> None:
    log = AccessLog(str(tmp_path / name))
    application = application_of(tmp_path, log)
    chunk = f"t/{ADA.token}/a%20%231.zarr/data/c/2/0/0"

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def asked(data: bytes, body: bool = True) -> int:
            writer.write(data)
            return (await answer(reader, body))[0]

        for n in range(2):  # the second time, its head is known
            assert await asked(request(f"t/{ADA.token}/a%20%231.zarr/zarr.json")) == 200, n
        assert (
            await asked(request(f"t/{ADA.token}/a%20%231.npy?secret", "HEAD", "X-Forwarded-For: 192.0.2.7\r\n"), False)
            == 200
        )
        assert await asked(request(f"t/{ADA.token}/a%20%231.zarr/nope", "GET", "X-Remote-User: Ben\r\n")) == 404
        assert await asked(request(f"t/{ADA.token}/nope")) == 404
        assert await natively(application, reader, writer, chunk) == (200, VALUES[2].tobytes())
        assert application.native is not None
        application.native.write_notes()
        assert await asked(request(f"t/{ADA.token[:-1]}/a.npy")) == 401

    talk(application, to)
    log.write()
    text = (tmp_path / name).read_text()
    assert ADA.token[:-1] not in text
    assert "secret" not in text
    found = lines_of(tmp_path / name)
    document = f"{len(ask(application, f'/t/{ADA.token}/a%20%231.zarr/zarr.json').body)}"
    asks = ("ada", "127.0.0.1")
    assert found.count((*asks, "GET", "/a%20%231.zarr/zarr.json", "200", document)) == 2
    assert ("ada", "192.0.2.7", "HEAD", "/a%20%231.npy", "200", "0") in found
    assert [one[:4] for one in found if one[4] == "404"] == [
        ("Ben", asks[1], "GET", "/a%20%231.zarr/nope"),
        (*asks, "GET", "/nope"),
    ]
    assert found[-1][:5] == ("-", "127.0.0.1", "GET", "-", "401")
    chunks = [one for one in found if one[3] == "/a%20%231.zarr/data/c/2/0/0"]
    assert set(chunks) == {(*asks, "GET", "/a%20%231.zarr/data/c/2/0/0", "200", f"{VALUES[2].nbytes}")}
    assert application.native is not None
    assert len(chunks) >= application.native.done[0] > 0


def test_lines_of_native_answers_are_written_when_there_is_no_room(tmp_path: Path) -> None:
    log = AccessLog(str(tmp_path / "access.log"))
    application = application_of(tmp_path, log)
    chunk = f"t/{ADA.token}/a%20%231.zarr/data/c/1/0/0"
    many = 3 * (64 << 10) // 60

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        await natively(application, reader, writer, chunk)
        for _ in range(many):
            writer.write(request(chunk))
            assert (await answer(reader))[0] == 200
        assert application.native is not None
        native = application.native.done[0]
        application.native.write_notes()
        return native

    native = talk(application, to)
    log.write()
    found = lines_of(tmp_path / "access.log")
    assert set(found) == {("ada", "127.0.0.1", "GET", "/a%20%231.zarr/data/c/1/0/0", "200", f"{VALUES[1].nbytes}")}
    assert len(found) >= max(native, many)


def test_a_log_that_was_renamed_goes_on_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("before\n")
    log = AccessLog(str(path))
    log.add(log.asks("", "::1", "GET"), b"/a", 200, 5, 0.0021)
    path.rename(tmp_path / "old")
    before = log.fd
    log.reopen()
    assert log.fd == before
    log.add(log.asks("", "", "GET"), b"/b", 404, 0, 1.0)
    log.close()
    first, line = (tmp_path / "old").read_text().splitlines()
    assert (first, line[20:]) == ("before", " - ::1 GET /a 200 5 2.1")
    assert path.read_text()[20:] == " - - GET /b 404 0 1000.0\n"
    assert path.stat().st_mode & 0o007 == 0


def test_files_that_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    os.mkfifo(tmp_path / "pipe")
    os.link(tmp_path / "there", tmp_path / "other")
    for name in ("link", "pipe", "other", "no/folder", "", "a\0b"):
        with pytest.raises(OptionError, match="expected a file that can be written: ") as refused:
            AccessLog(str(tmp_path / name) if name else str(tmp_path))
        assert str(refused.value).isprintable()


def test_a_full_disk_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AccessLog(str(tmp_path / "a"))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log.fd)
    os.close(full)
    for _ in range(3):
        log.add(log.asks("", "", "GET"), b"/a", 200, 0, 0)
        log.write()
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / 'a'}: lines are lost: No space left on device"
    ]
    log.close()
