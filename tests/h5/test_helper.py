"""Asking another process about HDF5 files: what that process does wrong is an error here, and nothing is left of it."""

from __future__ import annotations

import base64
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import one_line
from tests.waiting import eventually
from vfs.h5 import survey
from vfs.helper import process
from vfs.sources.local import LocalSources

h5py = pytest.importorskip("h5py")


@pytest.fixture
def path(tmp_path: Path) -> str:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file["entry/data"] = np.arange(12).reshape(3, 4)
    return str(tmp_path / "set.h5")


def behaving(desk: Any, body: str) -> None:
    """The other process does this instead of reading a file: `write` is what it answers with."""
    lines = "".join(f"\n    {line}" for line in body.splitlines())
    program = f"""
import ctypes, os, time, vfs.helper.budget as budget, vfs.h5.reading as r
from vfs.helper.messages import packed
budget.SECONDS, budget.STEP_SECONDS = 1.0, 600.0
def read(path, fd, boundary, write, make=None):
    r.Budget().file(os.fstat(fd).st_size)
    write(packed({{"at": "entry/data"}})){lines}
r.read = read
{desk.entry}"""
    desk.entry = program


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "does not come to an end at entry/data"),
        ("ctypes.string_at(0)", "crashes (SIGSEGV) at entry/data"),
        ("budget.STEP_SECONDS = 0.3; r.Budget(); time.sleep(1000)", "gives no answer for 10 seconds at entry/data"),
        ("os.abort()", "crashes (SIGABRT) at entry/data"),
        ("os._exit(3)", "ends without an answer"),
        ("write(packed({'error': 'bad sector'}))", "cannot be understood: bad sector"),
        ("write(packed({'name': 5})[:-3])", "ends without an answer"),
        ("write(packed({'nme': ''}))", "are not valid"),
        ("write(packed({'group': 3}))", "are not valid"),
        ("write(b'nonsense' * 100)", "ends without an answer"),
    ],
)
def test_whatever_goes_wrong_there_is_an_error_here(
    desk: Any, monkeypatch: pytest.MonkeyPatch, path: str, body: str, words: str
) -> None:
    behaving(desk, body)
    for _ in range(2):
        with pytest.raises(vfs.FormatError) as caught:
            vfs.open(path)
        assert words in one_line(caught.value)
        assert path in str(caught.value)
    assert desk.running.process.poll() is None  # the next file does not notice


CRASHES = """
eNrtWb1v00AUv7PjxHFdakQl4laVmokMdGGqVFXiowEPqC0fA1sbVNNGBAcFqxQkpKpT2Ri7s4R/AHVhYWJBsKEuiBGJhbFb8dnvpXfXJi4fA1LfT0pe3/ly773zz8+6X18Gc9eHnTGHCdg2KzCPyT
gA7FZVH68vg+Vgt8F2DRzn6bUKjJ+F9fV5d2/X62L2gQaM883KrM0IpxFB/cqisPfAR5Z+MNR5YRR3nkl8DP4yLmclhb8eRO76mf+KnYy/07aaN+F08xf5tG2p81YacUPYuBm3QonHl/8w7p35hTnR
gbFvTppqvw7AX7PoHg3uA262Zxz9WmaNbKAA83AbdR/7hj2h9iUruTNiBcPIFrKBGSbfLGczakoeLjCBJ78cTWYjX3zO0wheL0Vbuc+jomeVD+895jM9puaD49545i/2ItvH8MrojdZKg/cP+97+OH
FJxtLW+71PP0ZeV7/sbe2/8+q73z/Ov5l94Uz8vHru7YWZwsytrxc3nl/6fOPawk0ubaR8X7Fv6B8xjq/HEbDrjU6zcb8VTrbCaDVeY/D49+a1H6j8LWh9Cfnsy+/b477gejEnfqlPfFt7fnBNoDCb
AttqR6tLUeNReJI/kvlOTj5DffJxwS/rccEf1vJ92u6sPJH7/xniOoFAIBAIBAKBQCAQ8oG6zCboNag7u+wx6AFCD6rk60E88/Dcb0rnfNSHCnD+Rd+E8zL6BpN1qGKqQ+H5PE+H8qV1LKmuZdCFdo
7UVUzryl2/T12WFM/W6ippdRXTuAHEddK69HO+b7KB9U1J6wmD/+/SdVaXbUhxKkfj/GadZSmuq9U5pNXpAF9UPVOtw0xy4gPyONQtmaZbdqvIWBU7//XzZSb5csjakPJ3UedNK0740IweCv887ATu
F+rqBAKB8K8hv8eE1vwLTb/MkA==
"""  # a file of test_hdf5's writers with changed bytes, packed: libhdf5 2.0 dies of an attribute of it (SIGSEGV)


def test_a_file_on_which_libhdf5_crashes(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.h5").write_bytes(zlib.decompress(base64.b64decode(CRASHES)))
    with suppress(vfs.FormatError):  # newer ones may get over it
        vfs.open_group(tmp_path / "bad.h5", format="hdf5")
    assert desk.running.process.poll() is None


def test_memory_is_limited(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    behaving(desk, "try: bytes(1 << 30)\nexcept MemoryError: write(packed({'error': 'no more memory'}))")
    with pytest.raises(vfs.FormatError, match="no more memory"):
        vfs.open(path)


def test_silence_is_limited(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    behaving(desk, "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(1000)")
    monkeypatch.setattr(process, "SILENCE", 1.0)
    with pytest.raises(vfs.FormatError, match="gives no answer for 1 seconds"):
        vfs.open(path)
    assert desk.running is None


def test_who_asks_first_may_have_blocked_all_signals(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(process, "SILENCE", 60.0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        assert vfs.open(path).shape == (3, 4)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_one_process_for_many_files_and_threads(desk: Any, path: str) -> None:
    before = ended()  # such as the process of a library that another test used, which ends when nobody asks
    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(lambda _: vfs.open(path), range(40)))
    assert all((array[...] == np.arange(12).reshape(3, 4)).all() for array in arrays)
    number = desk.running.process.pid
    vfs.open(path)
    assert desk.running.process.pid == number
    assert ended() <= before  # no zombies of ours
    assert eventually(lambda: not children(number))


def ended() -> set[int]:
    """Children of this process that have ended, and that nobody waited for."""
    states = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children(os.getpid())}
    return {pid for pid, state in states.items() if state == "Z"}


def children(of: int) -> list[int]:
    return [
        int(word) for task in Path(f"/proc/{of}/task").iterdir() for word in (task / "children").read_text().split()
    ]


def test_nobody_waits_for_a_file_that_somebody_else_asked_for(
    desk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The fork that was asked for later must not keep the pipe of the first one open."""
    behaving(desk, "while not os.path.exists(path + '.go'): time.sleep(0.01)\nwrite(packed({'end': True}))")
    names = [str(tmp_path / name) for name in ("first", "second")]
    for name in names:
        Path(name).touch()
    with ThreadPoolExecutor(2) as pool:
        waiting = []
        for n, name in enumerate(names):
            waiting.append(pool.submit(survey.survey, LocalSources(), name))
            assert eventually(lambda n=n: desk.waiting == n + 1)
        try:
            for name, answer in zip(names, waiting, strict=True):
                Path(name + ".go").touch()
                assert answer.result(100).data == {}
        finally:
            for name in names:
                Path(name + ".go").touch()


def test_it_leaves_when_it_has_nothing_to_do(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(process, "IDLE", 0.05)
    for _ in range(3):
        vfs.open(path)
        number = desk.running.process.pid
        assert ends(number)


def test_it_does_not_leave_while_a_file_is_read(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(process, "IDLE", 0.05)
    behaving(
        desk,
        """
status = lambda: open(f'/proc/{os.getpgrp()}/status').read()
waits = lambda: int(status().split('\\nvoluntary_ctxt_switches:')[1].split()[0])
before = waits()
while 'Z (zombie)' not in status() and waits() < before + 5: time.sleep(0.01)
assert 'Z (zombie)' not in status()
write(packed({'error': 'all the time'}))""",
    )
    with pytest.raises(vfs.FormatError, match="all the time"):
        vfs.open(path)


def test_no_thread_stays_in_a_process_that_may_be_forked(desk: Any, path: str) -> None:
    before = set(threading.enumerate())
    vfs.open(path)
    assert set(threading.enumerate()) <= before


def test_a_killed_one_is_replaced(desk: Any, path: str) -> None:
    vfs.open(path)
    os.kill(desk.running.process.pid, signal.SIGKILL)
    assert ends(desk.running.process.pid)
    vfs.open(path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, of a process with threads
def test_a_forked_process_starts_its_own(desk: Any, path: str) -> None:
    vfs.open(path)
    number = desk.running.process.pid
    gone = os.fork()
    if gone == 0:
        ok = desk.running is None
        vfs.open(path)
        gc.collect()
        ok = ok and desk.running.process.pid != number
        desk.close()
        os._exit(0 if ok else 1)
    assert os.waitpid(gone, 0)[1] == 0
    assert desk.running.process.poll() is None
    vfs.open(path)
    assert desk.running.process.pid == number


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_a_file_is_asked_for_does_not_hold_up_the_answer(
    desk: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The child kept the pipe open on which the answer ends: that came when the child ended, or was called damage."""
    vfs.open(path)
    asking, forked = threading.Event(), threading.Event()
    enter = desk.enter

    def slow(*args: Any) -> Any:
        asking.set()
        forked.wait(0.2)
        return enter(*args)

    monkeypatch.setattr(desk, "enter", slow)
    monkeypatch.setattr(process, "SILENCE", 30.0)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(vfs.open, path)
        asking.wait()
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        forked.set()
        try:
            assert opened.result().shape == vfs.open(path).shape
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_no_process_can_be_started(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(vfs.SourceError, match="does not start: No such file") as caught:
        vfs.open(path)
    assert path in one_line(caught.value)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(vfs.SourceError, match=r"does not start: Broken pipe|ended without an answer") as caught:
        vfs.open(path)
    one_line(caught.value)


def test_h5py_is_missing(desk: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    desk.entry = "import sys; sys.modules['h5py'] = None\n" + desk.entry
    with pytest.raises(vfs.DependencyError, match=r"needs h5py: .*pip install 'vfs\[hdf5\]'"):
        vfs.open(path)


def test_it_ends_with_the_process_that_started_it(path: str) -> None:
    program = f"""
import vfs
from vfs.h5.survey import LIBHDF5
vfs.open({path!r})
print(LIBHDF5.running.process.pid, flush=True)
"""
    for how in ("", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"):
        top = str(Path(__file__).parents[2])
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program + how],
            env={**os.environ, "PYTHONPATH": top},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        assert ends(int(done.stdout))


def ends(number: int) -> bool:
    return eventually(lambda: not alive(number))


def alive(number: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False


def _opened(path: str) -> int:
    return vfs.open(path).shape[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_in_worker_processes(desk: Any, path: str, method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_opened, [path] * 6) == [3] * 6
