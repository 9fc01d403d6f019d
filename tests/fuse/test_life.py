"""Mounts begin and end: signals, crashes, use, `vfs.mount()`."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import vfs
from tests.fuse.support import MOUNTING, Foreground, Scan, free, python, run, server_of
from tests.waiting import eventually
from vfs.errors import MountError, OptionError
from vfs.fuse import Mount, MountHow, mounts, unmount
from vfs.fuse import process as starting
from vfs.fuse.points import KIND, detach, mounted
from vfs.fuse.process import _check
from vfs.serving import process


@pytest.mark.parametrize(
    ("lib", "number"),  # both kinds of library are told to end in the same way, whatever the signal
    [
        *(("libfuse3", number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        ("libfuse2", signal.SIGTERM),
        ("fusepy", signal.SIGINT),
    ],
    indirect=["lib"],
)
def test_signals_unmount_cleanly(small: Path, point: Path, number: signal.Signals, lib: str) -> None:
    with Foreground(point, small) as server:
        assert server.first == "ready"
        assert run("md5sum", point / "small.npy").returncode == 0
        server.process.send_signal(number)
        assert server.rest() == (0, "ended", "")
    assert mounted(str(point)) is None
    assert os.listdir(point) == []


def test_unmount_ends_the_server(small: Path, point: Path, lib: str, monkeypatch: pytest.MonkeyPatch) -> None:
    glances = [(errno.EBUSY, "busy")] * 2  # programs that look at every new mount
    monkeypatch.setattr(
        sys.modules["vfs.fuse.mounts"], "detach", lambda *how: glances.pop() if glances else detach(*how)
    )
    with Foreground(point, small) as server:
        unmount(point)
        assert mounted(str(point)) is None
        assert server.rest() == (0, "ended", "")


def test_unmount_by_another_name(small: Path, point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(point)
    monkeypatch.chdir(tmp_path)
    with vfs.mount("small.npy", "link") as mount:
        assert mount.path == str(point)
        unmount("link/")
        assert os.listdir(point) == []


def test_a_mount_in_use_says_by_whom(small: Path, point: Path, tmp_path: Path) -> None:
    holders = {
        "open": "import sys, time; f = open(sys.argv[1] + '/small.npy', 'rb')",
        "mapped": (
            "import sys, mmap, os; fd = os.open(sys.argv[1] + '/small.npy', 0); m = mmap.mmap(fd, 0,"
            " access=mmap.ACCESS_READ); os.close(fd)"
        ),
        "folder": "import sys, os; os.chdir(sys.argv[1] + '/small.zarr')",
    }
    with Foreground(point, small) as server:
        for code in holders.values():
            with holder(code, point, cwd=tmp_path) as held:
                with pytest.raises(MountError, match=rf"in use by \S+ \(pid {held.pid}\); close") as caught:
                    unmount(point, force=True)
                assert caught.value.errno == errno.EBUSY
                assert "\n" not in str(caught.value)
        unmount(point)
        assert server.rest()[0] == 0


@contextmanager
def holder(code: str, point: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that has run something and waits; it prints an error number for what it evaluates then."""
    waits = (
        f"{textwrap.dedent(code)}\nprint(1, flush=True)\ntry: print(eval(sys.stdin.readline()), flush=True)\nexcept"
        " OSError as e: print(e.errno, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", waits, point], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    ) as held:
        assert held.stdout
        assert held.stdout.readline() == "1\n"
        try:
            yield held
        finally:
            held.communicate(timeout=250)


READ = (
    "import sys, threading; t = threading.Thread(target=lambda: open(sys.argv[1] + '/small.zarr/zarr.json').read());"
    " t.start(); t.join()"
)
"""Opens nothing but a document, in a thread that ends."""


def test_a_mount_ends_when_its_readers_have_ended_or_by_force(small: Path, point: Path, lib: str) -> None:
    with vfs.mount(small, point), holder(READ, point) as held:
        for lazy in (False, True):
            with pytest.raises(
                MountError,
                match=(
                    rf"still running after reading there: \S+ \(pid {held.pid}\); zarr would .*; end them first, or:"
                    r" vfs unmount --force"
                ),
            ) as caught:
                unmount(point, lazy=lazy)
            assert caught.value.errno == errno.EBUSY
            assert "\n" not in str(caught.value)
        assert np.load(point / "small.npy").size == 24
        unmount(point, force=True)
        assert mounted(str(point)) is None
    with vfs.mount(small, point):
        with holder(READ, point):
            pass
        unmount(point)
        assert mounted(str(point)) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_signal_ends_is_an_error_to_those_who_read_on(
    small: Path, point: Path, number: signal.Signals, lib: str
) -> None:
    with Foreground(point, small) as server, holder(READ, point) as held:
        server.process.send_signal(number)
        status, out, err = server.rest()
        said, _ = held.communicate("open(sys.argv[1] + '/small.npy')\n", timeout=250)
        assert said.strip() == str(errno.ENOTCONN)
        assert (status, out) == (0, "ended")
        assert re.fullmatch(
            rf"{point}: ended; still running after reading there: \S+ \(pid {held.pid}\); .* errors, not zeros, until"
            rf" `vfs unmount {point}`",
            err,
        )
    assert [one.state for one in mounts() if one.point == str(point)] == ["dead"]
    unmount(point)
    assert os.listdir(point) == []
    assert [one for one in mounts() if one.point == str(point)] == []


def test_a_mount_ended_by_the_death_of_its_parent_is_an_error_to_readers(small: Path, point: Path) -> None:
    code = textwrap.dedent(MOUNTING) + "time.sleep(100)"
    with subprocess.Popen(
        [sys.executable, "-c", code, small, point], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout
        parent.stdout.readline()
        with holder(READ, point):
            parent.kill()
            assert eventually(lambda: not_connected(point))
    assert mounted(str(point))


def not_connected(point: Path) -> bool:
    try:
        os.statvfs(point)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def test_ending_while_in_use_detaches_and_says_so(small: Path, point: Path, tmp_path: Path, lib: str) -> None:
    with (
        Foreground(point, small) as server,
        holder("import sys, os; os.chdir(sys.argv[1])", point, cwd=tmp_path) as held,
    ):
        server.process.send_signal(signal.SIGTERM)
        status, out, err = server.rest()
        said, _ = held.communicate("open('small.npy')\n", timeout=250)
    assert (status, out) == (0, "ended")
    assert re.fullmatch(
        rf"{point}: unmounted while in use by \S+ \(pid {held.pid}\); what they have open there fails from now on", err
    )
    assert mounted(str(point)) is None
    assert said.strip() == str(errno.ENOTCONN)


def test_a_dead_mount_stays_an_error_and_is_cleared_by_the_next(
    small: Path, point: Path, caplog: pytest.LogCaptureFixture, lib: str
) -> None:
    with Foreground(point, small) as server:
        os.stat(point / "small.npy")
        server.process.kill()
        server.process.wait(100)
    with pytest.raises(OSError, match="not connected"):
        os.statvfs(point)
    dead = mounted(str(point))
    assert dead
    assert dead.kind == KIND
    with vfs.mount(small, point) as mount:
        assert np.load(point / "small.npy").size == 24
        again = mounted(str(point))
        assert again
        assert again.kind == KIND
        assert Path("/proc/self/mountinfo").read_text().count(f" {point} ") == 1
        assert "stdin" not in repr(mount)
    assert caplog.messages == [f"{point}: cleared a mount whose server had died"]
    assert mounted(str(point)) is None


def test_who_has_read_from_a_dead_mount_is_named_by_the_next(
    small: Path, point: Path, caplog: pytest.LogCaptureFixture, lib: str
) -> None:
    code = "import sys; open(sys.argv[1], 'rb').read(); print('read', flush=True); sys.stdin.read()"
    with Foreground(point, small) as server:
        reader = subprocess.Popen(
            [sys.executable, "-c", code, point / "small.npy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"read\n"
        server.process.kill()
        server.process.wait(100)
    try:
        with vfs.mount(small, point):
            pass
    finally:
        reader.communicate()
    assert len(caplog.messages) == 2
    said = rf"{point}: still running after reading there: \S+ \(pid {reader.pid}\); end them, .* would read zeros of"
    assert re.match(said, caplog.messages[1])


def test_readers_of_a_killed_server_get_errors_not_hangs(scan: Scan, point: Path) -> None:
    code = """
        import sys, os
        print("reading", flush=True)
        try:
            while True:
                fd = os.open(sys.argv[1], os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                while os.read(fd, 1 << 16): pass
                os.close(fd)
        except OSError as error:
            print(error.errno)
    """
    with scan.mount(point) as mount:
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(code), point / "part0.npy"], stdout=subprocess.PIPE, text=True
            )
            for _ in range(8)
        ]
        for reader in readers:
            assert reader.stdout
            reader.stdout.readline()
        server_of(mount).kill()
        ends = [int(reader.communicate(timeout=250)[0]) for reader in readers]
    assert set(ends) <= {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO}
    assert mounted(str(point)) is None
    with scan.mount(point):
        np.testing.assert_array_equal(np.load(point / "part0.npy"), scan.twin)


def test_the_handle(small: Path, point: Path) -> None:
    mount = vfs.mount(small, point)
    process = server_of(mount)
    assert mount.path == str(point)
    assert os.path.join(mount, "x") == f"{point}/x"
    assert repr(mount) == f"<vfs.Mount {point}>"
    assert os.listdir(mount)
    mount.close()
    assert process.returncode == 0
    assert repr(mount) == f"<vfs.Mount {point}, closed>"
    assert mounted(str(point)) is None
    mount.close()
    mount.unmount()
    with vfs.mount([str(small)], str(point)) as again:
        assert again.path == str(point)
    again.unmount()


def test_a_mount_unmounted_by_somebody_else_closes_quietly(
    small: Path, point: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with vfs.mount(small, point):
        unmount(point)
    assert capfd.readouterr().err == ""


def test_importing_is_light() -> None:
    assert (
        python("import sys, vfs; print([m for m in ('numpy', 'mfusepy', 'fuse', 'ctypes') if m in sys.modules])")
        == "[]\n"
    )
    assert python("import sys, vfs.fuse; print([m for m in ('mfusepy', 'fuse', 'zarr') if m in sys.modules])") == "[]\n"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, "buffered"),
        ({"backend": "auto"}, "buffered"),
        ({"backend": "mmap"}, "mmap"),
        ({"backend": "buffered"}, "buffered"),
    ],
)
def test_a_mount_reads_with_pread_unless_told_otherwise(
    small: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], used: str
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(Mount, "start", lambda make_folder, point, how: made.append(make_folder))
    vfs.mount(small, "/nowhere", **given)
    names = {
        type(array.backend).__name__
        for face in made[0]().faces.values()
        if hasattr(face, "arrays")
        for array in face.arrays.values()
    }
    assert names == {"BufferedBackend" if used == "buffered" else "MmapBackend"}


def test_what_cannot_be_opened_is_said_before_anything_is_started(tmp_path: Path, point: Path, small: Path) -> None:
    with pytest.raises(OptionError, match="nothing to mount"):
        vfs.mount([], point)
    with pytest.raises(OptionError, match="expected the name of a file"):
        vfs.mount(range(10**18), point)  # type: ignore[arg-type]
    with pytest.raises(vfs.MissingSourceError):
        vfs.mount(tmp_path / "nothing.npy", point)
    with pytest.raises(OptionError):
        vfs.mount(small, point, sync_offset=1, no_such_option=1)
    assert mounted(str(point)) is None


def test_a_server_that_fails_says_why_in_one_line(point: Path) -> None:
    with pytest.raises(MountError, match=r"^ValueError: invalid literal for int\(\) with base 10: 'x'$"):
        Mount.start(partial(int, "x"), point, MountHow())  # type: ignore[arg-type]
    with pytest.raises(MountError, match=r"the server ended without an answer \(exit status 7\)"):
        Mount.start(partial(os._exit, 7), point, MountHow())
    assert mounted(str(point)) is None


def test_a_server_that_cannot_start(point: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(MountError, match="no server: '/nonexistent/python' does not start: No such file"):
        vfs.mount(small, point)


def test_nothing_answers_where_nothing_is_mounted(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="unmounted as soon as"):
        _check(str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_when_its_parent_dies(small: Path, point: Path, number: signal.Signals) -> None:
    code = textwrap.dedent(MOUNTING) + "time.sleep(100)"
    with subprocess.Popen(
        [sys.executable, "-c", code, small, point], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "mounted True\n"
        parent.send_signal(number)
        parent.wait(100)
        assert eventually(lambda: mounted(str(point)) is None)


def test_the_server_ends_when_its_parent_dies_though_a_forked_child_lives(small: Path, point: Path) -> None:
    code = textwrap.dedent(MOUNTING) + "pid = os.fork()\nprint(pid, flush=True) if pid else None\ntime.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", code, small, point], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        parent.stdout.readline()
        child = int(parent.stdout.readline())
        try:
            parent.kill()
            assert eventually(lambda: mounted(str(point)) is None)
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_neither_ends_a_mount_nor_delays_closing(small: Path, point: Path) -> None:
    code = """
        if os.fork() == 0:
            sys.exit()  # runs the exit handlers
        os.wait()
        print(len(os.listdir(mount)))
        child = os.fork()
        if child == 0:
            time.sleep(100)
        from tests.fuse.support import server_of
        server = server_of(mount)
        mount.close()
        print(server.returncode, os.listdir(sys.argv[2]))  # one that does not end is killed after a while
        os.kill(child, 9)
    """
    assert python(textwrap.dedent(MOUNTING) + textwrap.dedent(code), small, point) == "mounted True\n5\n0 []\n"


def test_a_mount_that_nobody_closes_ends_with_its_process(small: Path, point: Path) -> None:
    assert python(MOUNTING, small, point) == "mounted True\n"
    assert mounted(str(point)) is None


def test_an_interrupt_while_starting_or_closing_leaves_nothing(small: Path, point: Path) -> None:
    """Wherever Python may raise it once the server was told what to do: as functions begin, and as those of C end."""
    files, events = {process.__file__, starting.__file__}, 0

    def interrupted(at: int) -> None:
        nonlocal events
        events = 0

        def raises(frame: FrameType, event: str, _: object) -> None:
            nonlocal events
            if event in ("call", "c_return") and frame.f_code.co_filename in files:
                events += 1
                if events == at:
                    raise KeyboardInterrupt

        sys.setprofile(raises)
        try:
            vfs.mount(small, point).close()
        finally:
            sys.setprofile(None)

    interrupted(0)
    for at in range(events - 14, events - 1, 2):
        with pytest.raises(KeyboardInterrupt):
            interrupted(at)
        assert eventually(lambda: mounted(str(point)) is None)


def test_a_server_that_does_not_end_is_killed_and_leaves_nothing(
    small: Path, point: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.2)
    mount = vfs.mount(small, point)
    server = server_of(mount)
    os.kill(server.pid, signal.SIGSTOP)
    mount.close()
    assert server.returncode == -signal.SIGKILL
    assert eventually(lambda: mounted(str(point)) is None)


def test_ctrl_c_of_the_terminal_does_not_end_the_server_under_the_block(small: Path, point: Path) -> None:
    with vfs.mount(small, point) as mount:
        assert os.getpgid(server_of(mount).pid) != os.getpgid(0)


def test_two_threads_mount(small: Path, tmp_path: Path) -> None:
    folders = [tmp_path / f"m{k}" for k in range(3)]
    for folder in folders:
        folder.mkdir()
    sizes: list[int] = []

    def one(folder: Path) -> None:
        with vfs.mount(small, folder):
            sizes.append((folder / "small.npy").stat().st_size)

    threads = [threading.Thread(target=one, args=(folder,)) for folder in folders]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert sizes == [128 + 24 * 8] * 3
    finally:
        for folder in folders:
            free(folder)
