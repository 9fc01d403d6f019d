"""What a person who mounts sees: the foreground, the background, who is told what, and how it ends.
Through the command line, in processes of their own.
"""

from __future__ import annotations

import ctypes
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vfs
from tests.fuse.support import STAGES, Failing, Scan, free, python, reach, run
from tests.waiting import eventually
from vfs.cli.app import main
from vfs.cli.console import mounts_json
from vfs.errors import MountError, OptionError, ServeError
from vfs.fuse import mounts, points, unmount
from vfs.fuse.how import MountHow
from vfs.fuse.points import mounted, prepare
from vfs.fuse.server import serve
from vfs.fuse.view import FuseView, library
from vfs.serving import entry
from vfs.serving.entry import Entry, alive, home
from vfs.serving.status import MountStatus

VFS = (sys.executable, "-P", "-m", "vfs")


def cli(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return run(*VFS, *map(str, arguments), **options)


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime folder of this test's mounts; those of others, who have theirs in the usual
    places, are not looked for.
    """
    path, temporary = tmp_path / "runtime", tmp_path / "temporary"
    path.mkdir(mode=0o700)
    temporary.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return path


@pytest.fixture
def points_(tmp_path: Path) -> Iterator[list[Path]]:
    made = [tmp_path / f"m{k}" for k in range(3)]
    for path in made:
        path.mkdir()
    yield made
    for path in made:
        free(path)


class Mounting:
    """`vfs mount` in the foreground, its stderr a pipe."""

    def __init__(self, *arguments: object, **options: Any) -> None:
        self.process = subprocess.Popen(
            [*VFS, "mount", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        assert self.process.stderr
        self.first = self.process.stderr.readline()

    def rest(self) -> tuple[int, str]:
        """Exit status, and what else it said on stderr."""
        out, err = self.process.communicate(timeout=250)
        assert out == ""
        return self.process.returncode, err

    def __enter__(self) -> Mounting:
        return self

    def __exit__(self, *args: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=250)


def steady(one: dict[str, Any]) -> dict[str, Any]:
    """What is told of a mount, without what changes when somebody only looks at it."""
    return {key: value for key, value in one.items() if key != "requests"}


def listed() -> list[dict[str, Any]]:
    """The mounts of this test: of others beside it nothing is known but that they are there."""
    return [one for one in mounts_json(mounts()) if one["folder"]]


# the foreground


@pytest.mark.parametrize("end", ["unmount", "SIGINT"])  # other signals: tests/fuse/test_life.py
def test_the_foreground_says_how_to_end_it_and_then_what_it_did(small: Path, point: Path, end: str) -> None:
    with Mounting(small, point) as server:
        assert server.first == f"vfs: 1 data set at {point}; Ctrl-C or `vfs unmount {point}` ends it\n"
        assert run("md5sum", point / "small.npy").returncode == 0
        if end == "unmount":
            done = cli("unmount", point)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        else:
            server.process.send_signal(getattr(signal, end))
        status, said = server.rest()
    assert status == 0
    assert re.fullmatch(rf"vfs: {point}: 320 B in [1-9] reads, no errors, in 0:\d\d:\d\d\n", said)
    assert mounted(str(point)) is None


def test_on_a_pipe_there_is_no_status_line_and_on_a_terminal_there_is(scan: Scan, point: Path) -> None:
    dark = point.parent / "dark.npy"
    np.save(dark, np.ones((64, 48), "f4"))
    files = [
        f"{scan.files[0].parent}/*",
        "--format",
        "raw",
        "--nav-shape",
        "6,10",
        "-o",
        "dtype=>u2",
        "--dark",
        str(dark),
        "--chunks",
        "2,3,64,48",
    ]
    files += [
        part
        for key in ("sig_shape", "file_header", "frame_header", "frame_footer")
        for part in ("-o", f"{key}={scan.options[key]}")
    ]
    with Mounting(*files, point) as server:
        (point / "part0.npy").read_bytes()
        assert eventually(lambda: any(one["bytes"] for one in listed()))  # now a line would be shown
        unmount(point)
        assert server.rest()[1].count("\n") == 1

    pid, terminal = pty.fork()  # a session whose terminal it is
    if pid == 0:
        os.execv(VFS[0], [*VFS, "mount", *files, str(point)])
    shown = ""

    def says(text: str) -> bool:
        nonlocal shown
        if select.select([terminal], [], [], 0.02)[0]:
            with suppress(OSError):  # it has ended
                shown += os.read(terminal, 1 << 16).decode()
        return text in shown

    try:
        assert eventually(lambda: says("ends it"))
        with open(point / "part0.zarr/data/c/0/0/0/0", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(file.fileno(), 4096, 0)
            os.pread(file.fileno(), 4096, 20000)
        assert eventually(lambda: says("50% of 2 pieces from the cache, no errors")), shown
        assert "\rvfs: " in shown
        os.truncate(scan.files[3], 100)
        with pytest.raises(OSError, match="Input/output"):
            (point / "part0.zarr/data/c/2/3/0/0").read_bytes()
        # The kernel may ask twice
        assert eventually(lambda: says("") and bool(re.search(r"[1-9]\d* errors?\b", shown))), shown
        line = next(line for line in shown.replace("\r\n", "\n").split("\n") if "failed" in line)
        # It begins where the status line was
        assert line.rpartition("\r")[2].startswith("vfs: part0.zarr/data/c/2/3/0/0: read of")
        os.write(terminal, b"\x03")  # Ctrl-C
        assert eventually(lambda: says(", in 0:"))
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert "(pid " in shown  # of this process, which has read there
    assert "errors, not zeros" in shown


def test_a_job_in_the_background_of_a_terminal_does_not_write_over_it(small: Path, point: Path, tmp_path: Path) -> None:
    script = """
        set -m
        "$PYTHON" -P -m vfs mount "$1" "$2" &
        while ! test -e "$2/small.npy"; do sleep 0.1; done
        cat "$2/small.npy" >"$3"
        echo read
        read -r
        "$PYTHON" -P -m vfs unmount "$2"
        wait
        echo all
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            "/bin/bash",
            ["bash", "-c", script, "bash", small, point, tmp_path / "got"],
            {**os.environ, "PYTHON": sys.executable},
        )
    shown = ""
    while "read\r\n" not in shown:
        shown += os.read(terminal, 1 << 16).decode()
    assert eventually(lambda: any(one["bytes"] for one in listed()))  # now a line would be shown
    os.write(terminal, b"\n")
    while "all" not in shown:
        shown += os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    os.waitpid(pid, 0)
    assert "no errors, in 0:" in shown
    assert "\rvfs: " not in shown.replace("\r\n", "\n")


@pytest.mark.parametrize(("level", "says"), [("error", None), ("info", ": mounted\n"), ("debug", "READ")])
def test_log_levels(small: Path, point: Path, level: str, says: str | None) -> None:
    with Mounting(small, point, "--log-level", level) as server:
        assert eventually(lambda: mounted(str(point)) is not None)
        (point / "small.npy").read_bytes()
        unmount(point)
        said = server.first + server.rest()[1]
    assert says in said if says else said.count("\n") == 2


def test_a_log_level_that_is_none(small: Path, point: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mount", str(small), str(point), "--log-level", "loud"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "'loud' is not one of 'error', 'warning', 'info', 'debug'" in said


def test_a_service_manager_is_told(small: Path, point: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        with Mounting(small, point, env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}) as server:
            heard = {manager.recv(1000).decode() for _ in range(2)}
            assert heard == {"READY=1", "STATUS=0 B in 0 reads, no errors"}
            (point / "small.npy").read_bytes()
            assert manager.recv(1000).decode().startswith("STATUS=320 B in ")
            unmount(point)
            assert server.rest()[0] == 0


# the background


def test_the_background(small: Path, point: Path, runtime: Path, tmp_path: Path, lib: str) -> None:
    done = cli("mount", small.name, point.name, "--background", cwd=tmp_path)  # returns though its output is a pipe
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        done.stderr
        == f"vfs: 1 data set at {point.name}; `vfs unmount {point.name}` ends it, `vfs mounts` shows what it has"
        " served\n"
    )
    assert np.load(point / "small.npy").sum() == np.arange(24).sum()
    (folder,) = (runtime / "vfs").iterdir()
    assert {path.name for path in folder.iterdir()} == {"pid", "status.json", "readers", "log"}
    for path in (runtime / "vfs", folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    pid = int((folder / "pid").read_text())
    for name, to in (("cwd", "/"), ("fd/1", str(folder / "log")), ("fd/2", str(folder / "log"))):
        assert os.readlink(f"/proc/{pid}/{name}") == to
    assert os.getsid(pid) == pid
    assert eventually(lambda: json.loads((folder / "status.json").read_text())["bytes"] == 320)
    unmount(point)
    assert [path.name for path in folder.iterdir()] == ["log"]  # unmounting waits until the server has cleared up
    assert eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    log = (folder / "log").read_text().splitlines()
    assert re.fullmatch(rf"\S+ \S+ INFO {point}: mounted", log[0])
    assert re.fullmatch(rf"\S+ \S+ INFO {point}: 320 B in \d reads, no errors, in 0:\d\d:\d\d", log[-1])


@pytest.mark.parametrize("without", ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_the_background_without_streams_to_say_so(small: Path, point: Path, runtime: Path, without: str) -> None:
    done = run(
        "sh",
        "-c",
        f'"$@" --background {without}',
        "sh",
        sys.executable,
        "-P",
        "-m",
        "vfs",
        "mount",
        str(small),
        str(point),
    )
    assert done.returncode == 0  # not an error that leaves a mount behind
    assert np.load(point / "small.npy").sum() == np.arange(24).sum()
    unmount(point)


def test_what_goes_wrong_before_it_is_ready_is_said_at_once(
    small: Path, point: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (point / "thing").touch()
    for what, says in (
        (small, "expected an empty folder to mount on, it holds thing"),
        (tmp_path / "none.npy", "no such file"),
    ):
        assert main(["mount", str(what), str(point), "--background"]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert says in said.err


@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_before_it_is_ready_nothing_is_mounted(small: Path, point: Path, stage: str) -> None:
    process = subprocess.Popen(
        [*VFS, "mount", str(small), str(point), "--background"], stderr=subprocess.PIPE, start_new_session=True
    )
    reach(stage, process, point)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=250)
    if b"ends it" in said:  # it was ready
        unmount(point)
    else:
        assert process.returncode
    assert eventually(lambda: mounted(str(point)) is None)


def test_a_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
        import logging, os, sys
        from vfs.serving import logs
        logs.LIMIT = 1000
        os.dup2(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND), 2)
        handler = logs.Stderr(True)
        handler.setFormatter(logs.Line("%(message)s"))
        for k in range(1000):
            handler.handle(logging.makeLogRecord({"msg": f"line {k} \\n\\x1b[31m"}))
    """
    python(code, log)
    lines = log.read_text().splitlines()
    assert log.stat().st_size < 1200
    assert lines[0] == "(the log had 1,000 bytes; earlier lines were removed)"
    assert lines[-1] == "line 999 \\n\\x1b[31m"


# what is mounted


def test_mounts_lists_all_of_them_whoever_serves_them(
    small: Path, scan: Scan, points_: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, back, ours = points_
    with Mounting(small, front), scan.mount(ours, cache_size="1MiB", dark=np.ones((64, 48), "f4")):
        assert cli("mount", small, back, "--background", "--cache-size", "3KiB").returncode == 0
        (front / "small.npy").read_bytes()
        with open(ours / "part0.zarr/data/c/0/0/0/0", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(file.fileno(), 4096, 0)
            os.pread(file.fileno(), 4096, 20000)
        os.truncate(scan.files[3], 100)
        with pytest.raises(OSError, match="Input/output"):
            (ours / "part0.zarr/data/c/2/3/0/0").read_bytes()
        # Each tells once a second
        assert eventually(
            lambda: any(one["errors"] for one in listed()) and any(one["bytes"] == 320 for one in listed())
        )
        found = {one["mountpoint"]: one for one in listed()}
        assert set(found) == set(map(str, points_))
        assert {one["state"] for one in found.values()} == {"mounted"}
        assert found[str(front)]["sources"] == found[str(back)]["sources"] == [str(small)]
        assert found[str(ours)]["sources"] == [str(scan.files[0])]
        assert found[str(front)]["bytes"] == 320
        assert found[str(back)]["bytes"] == 0
        hits, misses = found[str(ours)]["hits"], found[str(ours)]["misses"]
        assert hits >= 1
        assert misses >= 2  # what failed was not there; the kernel may ask more than once
        # The chunk, and what it takes to find it
        assert 0 <= found[str(ours)]["cached"] - 2 * 3 * 64 * 48 * 4 < 1 << 12
        assert [found[str(path)]["cache_size"] for path in points_] == [256 << 20, 3 << 10, 1 << 20]
        assert [bool(found[str(path)]["log"]) for path in points_] == [False, True, False]
        for one in found.values():
            assert steady(json.loads(Path(one["folder"], "status.json").read_text())).items() <= one.items()
            assert abs(time.time() - MountStatus.of(one).since) < 100
            assert one["device"] == mounted(one["mountpoint"]).device  # type: ignore[union-attr]
        told = [one for one in json.loads(cli("mounts", "--json").stdout) if one["folder"]]
        assert {one["mountpoint"]: steady(one) for one in told} == {one["mountpoint"]: steady(one) for one in listed()}
        monkeypatch.setenv("COLUMNS", "500")
        table = cli("mounts").stdout
        rows = {line.split("  ")[0]: re.split(r"  +", line) for line in table.splitlines()}
        assert next(iter(rows)) == "WHERE"
        assert rows[str(front)][2:] == ["320 B", "-", "0", str(small)]
        assert rows[str(ours)][3:5] == [f"{hits / (hits + misses):.0%}", str(found[str(ours)]["errors"])]
        unmount(back)
        unmount(front)
    assert listed() == []


def test_a_server_that_died_leaves_an_entry_that_is_cleared(small: Path, point: Path, runtime: Path) -> None:
    with Mounting(small, point) as server:
        (folder,) = (runtime / "vfs").iterdir()
        server.process.kill()
        server.process.wait(100)
        (one,) = listed()
        assert (one["state"], one["mountpoint"]) == ("dead", str(point))
        assert not alive(str(folder))
        unmount(point)
        assert folder.exists()
        assert listed() == []
        assert not folder.exists()


def test_only_entries_of_dead_servers_are_taken_over(small: Path, point: Path, runtime: Path) -> None:
    first = Entry(str(point))
    assert alive(first.folder)
    second = Entry(str(point))
    assert second.folder == first.folder + "-2"
    first.write({"mountpoint": str(point)})
    # It says that it serves, and is not in the table
    assert [one.state for one in mounts() if one.folder] == ["detached"]
    os.close(first._fd)  # as if it had died
    assert not alive(first.folder)
    third = Entry(str(point), log=True)
    assert third.folder == first.folder
    assert sorted(os.listdir(third.folder)) == ["log", "pid"]
    second.end()
    assert os.listdir(runtime / "vfs") == [os.path.basename(third.folder)]
    third.end()
    assert os.listdir(third.folder) == ["log"]
    assert [one for one in mounts() if one.folder] == []
    os.utime(Path(third.folder) / "log", (time.time() - entry.KEPT - 100,) * 2)
    mounts()
    assert os.listdir(runtime / "vfs") == []


def test_a_mount_that_is_written_down_nowhere_is_listed_all_the_same(
    small: Path, point: Path, runtime: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    with Mounting(small, point, env={**os.environ, "XDG_RUNTIME_DIR": str(elsewhere)}):
        assert [(one.state, one.status, one.folder) for one in mounts() if one.point == str(point)] == [
            ("unknown", None, None)
        ]
        assert f"{point} ? ? ? ? ? (its status cannot be read)" in " ".join(cli("mounts").stdout.split())
        unmount(point)


def test_strange_files_in_the_runtime_folder_do_no_harm(small: Path, point: Path, runtime: Path) -> None:
    above = Path(home())
    for name, content in (
        ("a", b"\xff{"),
        ("b", b"[]"),
        ("c", b'{"mountpoint": 3}'),
        ("d", b'{"mountpoint": "/none"}'),
    ):
        (above / name).mkdir(mode=0o700)
        (above / name / "pid").touch(mode=0o600)
        (above / name / "status.json").write_bytes(content)
    (above / "e").symlink_to(above / "a")
    (above / "f").touch()
    (above / "g").mkdir(mode=0o777)
    (above / "g").chmod(0o777)
    assert [one for one in mounts() if one.folder] == []
    assert sorted(os.listdir(above)) == ["e", "f", "g"]


def test_a_folder_that_is_not_ours_alone_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Path, point: Path
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / f"vfs-{os.geteuid()}"
    assert home() == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    path.chmod(0o750)
    with pytest.raises(
        ServeError,
        match=(
            rf"{path}: expected a folder of yours alone: others may use it \(mode 0750\); remove it, or set"
            r" XDG_RUNTIME_DIR"
        ),
    ):
        home()
    path.rmdir()
    path.symlink_to(tmp_path)
    with pytest.raises(ServeError, match="not a folder"):
        home()
    if os.geteuid() == 0:
        path.unlink()
        path.mkdir(mode=0o700)
        os.chown(path, 12345, 0)
        with pytest.raises(ServeError, match="it belongs to user 12345"):
            home()
        done = cli("mount", small, point, "--background", env={**os.environ, "TMPDIR": str(tmp_path)})
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "it belongs to user 12345" in done.stderr
        with Mounting(small, point, env={**os.environ, "TMPDIR": str(tmp_path)}) as server:  # goes on without
            assert "it belongs to user 12345" in server.first
            assert server.first.endswith("; `vfs mounts` will not know of it\n")
            assert server.process.stderr
            assert "1 data set at" in server.process.stderr.readline()
            unmount(point)
            assert server.rest()[0] == 0


def test_a_runtime_folder_of_another_user_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert home() == str(runtime / "vfs")
    runtime.chmod(0o777)
    assert home() == str(tmp_path / f"vfs-{os.geteuid()}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert home() == str(tmp_path / f"vfs-{os.geteuid()}")


def test_the_status_is_never_seen_half_written(tmp_path: Path, runtime: Path) -> None:
    code = """
        import os, sys
        from vfs.serving.entry import Entry
        entry = Entry("/some/where")
        print(entry.folder, flush=True)
        n = 0
        while not os.path.exists(sys.argv[1]):
            n += 1
            entry.write({"n": n, "filling": "x" * 20000, "again": n})
        entry.end()
    """
    enough = tmp_path / "enough"
    command = [sys.executable, "-c", textwrap.dedent(code), enough]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        file = Path(writer.stdout.readline().strip(), "status.json")
        seen = set()
        while writer.poll() is None:
            try:
                found = json.loads(file.read_text())
            except FileNotFoundError:
                continue
            assert found["n"] == found["again"]
            seen.add(found["n"])
            if len(seen) == 100:
                enough.touch()
    assert len(seen) >= 100
    assert not file.parent.exists()


# ending


def test_a_mount_in_use_offers_lazy_which_lets_it_be_read_on(small: Path, point: Path, tmp_path: Path) -> None:
    code = (
        "import sys; f = open(sys.argv[1] + '/small.npy', 'rb', buffering=0); print(1, flush=True);"
        " sys.stdin.readline(); print(len(f.read()))"
    )
    with (
        Mounting(small, point) as server,
        subprocess.Popen(
            [sys.executable, "-c", code, point], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
        ) as holder,
    ):
        assert holder.stdout
        holder.stdout.readline()
        done = cli("unmount", point)
        assert (done.returncode, done.stdout) == (2, "")
        assert "still running after reading there: " in done.stderr
        assert f" (pid {holder.pid}); zarr would show zeros" in done.stderr
        assert done.stderr.endswith(f"; end them first, or: vfs unmount --force {point}\n")
        done = cli("unmount", "--force", point)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(
            rf"vfs: {point}: in use by \S+ \(pid {holder.pid}\); close what is open there and try again, or: vfs"
            rf" unmount --lazy --force {point}\n",
            done.stderr,
        )
        done = cli("unmount", "--lazy", "--force", point)
        assert (done.returncode, done.stdout) == (0, "")
        assert re.fullmatch(
            rf"vfs: {point}: still in use by \S+ \(pid {holder.pid}\); it is served until they close what they have"
            r" open\n",
            done.stderr,
        )
        assert os.listdir(point) == []
        (one,) = listed()
        assert (one["state"], one["pid"]) == ("detached", server.process.pid)
        with vfs.mount(small, point):  # the next one does not wait for it
            assert {one["state"] for one in listed()} == {"detached", "mounted"}
        said, _ = holder.communicate("\n", timeout=250)
        assert said == "320\n"
        assert server.rest()[0] == 0
    assert listed() == []


def test_unmount_wants_a_mount_point_or_all(point: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--all", str(point)]):
        assert main(["unmount", *arguments]) == 2
        assert capsys.readouterr().err == "vfs: expected a mount point, the address of a server, or --all\n"


# who is let in


def modes(path: Path) -> tuple[str, str]:
    return stat.filemode((path / "small.npy").stat().st_mode), stat.filemode(path.stat().st_mode)


def options_of(point: Path) -> str:
    return next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {point} " in line).split()[
        -1
    ]


def test_only_the_mounting_user_is_let_in_unless_told_otherwise(small: Path, point: Path, lib: str) -> None:
    with vfs.mount(small, point):
        assert modes(point) == ("-r--------", "dr-x------")
        assert "allow_other" not in options_of(point)
    with vfs.mount(small, point, allow_other=True):  # which nobody else could reach: pytest's folders are its own
        assert modes(point) == ("-r--------", "dr-xr-xr-x")
        assert "allow_other" in options_of(point).split(",")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        shared = shutil.copy(small, folder)
        with vfs.mount(shared, point, allow_other=True):
            assert modes(point) == ("-r--r--r--", "dr-xr-xr-x")


def test_users_who_may_not_let_others_in_are_told_so(
    point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    config = tmp_path / "fuse.conf"
    monkeypatch.setattr(points, "CONFIG", str(config))
    assert prepare(point, 3, allow_other=True) == str(point)  # no such file: fusermount will say what it wants
    config.write_text("#user_allow_other\nmount_max = 10\n")
    with pytest.raises(
        MountError,
        match=rf"^allow_other=True: not permitted: {config} has no line user_allow_other; root can add it$",
    ):
        prepare(point, 3, allow_other=True)
    assert prepare(point, 3) == str(point)
    config.write_text("user_allow_other\n")
    assert prepare(point, 3, allow_other=True) == str(point)


# how much at a time


class Busy(Failing):
    """A folder that notes how many ask it at a time."""

    def __init__(self) -> None:
        super().__init__(None)
        self.now = self.most = 0
        self.lock = threading.Lock()

    def get(self, path: str, start: int = 0, stop: int | None = None) -> memoryview:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.01)
        with self.lock:
            self.now -= 1
        return memoryview(bytes(100))


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_are_the_reads_answered_side_by_side(workers: int) -> None:
    folder = Busy()
    view = FuseView(folder, library(), False, workers=workers)  # type: ignore[arg-type]

    def reads() -> None:
        buffer = ctypes.create_string_buffer(200)
        for _ in range(5):
            assert view.read(b"/f", buffer, 150, 0, info) == 100

    info = SimpleNamespace(contents=SimpleNamespace(fh=0))
    threads = [threading.Thread(target=reads) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folder.most == workers
    assert view.counters.totals()["bytes"] == 4000


@pytest.mark.parametrize("workers", [0, -1, True, "2", 1.5])
def test_workers_that_are_no_number(point: Path, workers: Any) -> None:
    with pytest.raises(OptionError, match=r"workers=.*expected a number, at least 1"):
        serve(Failing(None), point, MountHow(workers=workers))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--workers", "0"), "--workers 0: expected a number, at least 1"),
        (("--cache-size", "plenty"), '--cache-size plenty: expected a number of bytes, also as "512MiB"'),
    ],
)
def test_workers_and_cache_size_of_the_command_line(
    small: Path, point: Path, option: tuple[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mount", str(small), str(point), *option]) == 2
    assert capsys.readouterr().err == f"vfs: {says}\n"


def test_direct_io_asks_the_server_each_time(small: Path, point: Path, lib: str) -> None:
    """Otherwise the kernel answers from what it keeps."""
    for options, asked in (([], 1), (["--direct-io"], 3)):
        with Mounting(small, point, *options) as server:
            for _ in range(3):
                assert (point / "small.npy").read_bytes() == small.read_bytes()
            unmount(point)
            assert server.rest()[1].startswith(f"vfs: {point}: {320 * asked} B in ")


# stopped


def test_the_foreground_is_not_stopped_by_ctrl_z(small: Path, point: Path) -> None:
    with Mounting(small, point) as server:
        server.process.send_signal(signal.SIGTSTP)
        assert server.process.stderr
        assert re.match(
            rf"vfs: {point}: not stopped: .*`vfs mount --background` gives the terminal back$",
            server.process.stderr.readline(),
        )
        assert run("md5sum", point / "small.npy").returncode == 0
        server.process.send_signal(signal.SIGINT)
        assert server.rest()[0] == 0


def test_a_stopped_server_stops_no_command(small: Path, point: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(point)
    with Mounting(small, point) as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            for name in (point, tmp_path / "link"):
                done = cli("mount", small, name, "--background")
                assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert "vfs unmount" in done.stderr or "does not answer" in done.stderr
            done = cli("mount", small, point / "small.zarr", "--background")
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert "does not answer" in done.stderr
            assert cli("mounts").returncode == 0
            assert cli("unmount", point).returncode == 0
            assert mounted(str(point)) is None
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert server.rest()[0] == 0


def test_what_a_set_does_not_hold_is_in_the_status(point: Path, tmp_path: Path, runtime: Path) -> None:
    np.save(tmp_path / "scan.npy", np.ones((4, 3, 3), "u2"))
    with Mounting(tmp_path / "scan.npy", point, "--nav-shape", "2,3") as server:
        assert "warning: " in server.first
        (one,) = eventually_listed()
        (line,) = one["warnings"]
        assert line in server.first
        assert f"\n  warning: {line}\n" in cli("mounts").stdout
        unmount(point)


def eventually_listed() -> list[dict[str, Any]]:
    assert eventually(lambda: listed() != [])
    return listed()
