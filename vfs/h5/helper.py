"""Asks for the facts of an HDF5 file: starts the process that reads them, and reports how it ended.

One process serves all files that this one opens, from any number of threads. It ends by itself
after `IDLE` seconds without work: a thread of ours that ends it would be one too many if this
process is forked. When this process ends, it ends the other one, too. A fork of this process starts
its own.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, suppress
from typing import Any

from vfs.errors import DependencyError, FormatError, SourceChangedError, SourceError
from vfs.h5.asking import Answering
from vfs.h5.budget import STEP_SECONDS
from vfs.h5.facts import Data, Survey, data_of, unpacked
from vfs.h5.server import MARK, STATUS
from vfs.model.sources import Sources
from vfs.sources.local import LocalSources

IDLE = 20.0  # seconds after which the process, which takes about 35 MB, ends if it has no work
SILENCE = 30.0  # seconds to wait for its next bytes; usual files take 0.02 in all. Its own limits: `vfs.h5.budget`
PIPE = 1 << 20  # bytes that a Linux pipe can hold on request
_ENTRY = "from vfs.h5.server import main; main()"


class _Helper:
    """Starts the helper process, sends it requests, and ends it."""

    def __init__(self) -> None:
        here = os.path.abspath(f"{__file__}/../../..")  # where this package is
        modules = os.pathsep.join([here, *(os.path.abspath(name) for name in sys.path if name)])
        # A process with threads must not be forked
        one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with its:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-S", "-c", _ENTRY, str(IDLE)],
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # "::": libhdf5 loads no plugins
                    env={**os.environ, "PYTHONPATH": modules, "HDF5_PLUGIN_PRELOAD": "::", **one_thread},
                    start_new_session=True,  # Ctrl-C must not reach it
                )
        except BaseException:
            mine.close()
            raise
        self.socket = mine

    def ask(self, request: dict[str, Any], pipe: int, file: int) -> None:
        """Send it a request.

        Raises:
            OSError: it has ended.
        """
        socket.send_fds(self.socket, [json.dumps(request).encode()], [pipe, file])

    def end(self, at_once: bool = False) -> None:
        """End it, with the forks that it started."""
        self.socket.close()
        try:
            if at_once:
                raise subprocess.TimeoutExpired("", 0)
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class _SharedHelper:
    """Holds the one helper of this process, and counts the threads that wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.helper: _Helper | None = None
        self.waiting = 0

    def enter(self, request: dict[str, Any], pipe: int, file: int) -> _Helper:
        """Send a request, and start the helper if necessary. `leave` must follow.

        Raises:
            OSError: no process can be started.
        """
        with self.lock:
            if self.helper is not None:
                try:
                    self.helper.ask(request, pipe, file)
                except OSError:  # it has ended since it was last asked
                    self.helper.end(at_once=True)
                    self.helper = None
            if self.helper is None:
                started = _Helper()
                try:
                    started.ask(request, pipe, file)
                except BaseException:
                    started.end(at_once=True)
                    raise
                self.helper = started
            self.waiting += 1
            return self.helper

    def leave(self, helper: _Helper, failed: bool) -> None:
        """Stop waiting for the helper. A helper that failed is ended, and not used again."""
        with self.lock:
            self.waiting -= 1
            if failed and self.helper is helper:
                self.helper = None
        if failed:
            helper.end(at_once=True)

    def close(self) -> None:
        """End the helper, unless a thread waits for it."""
        with self.lock:
            if self.waiting or self.helper is None:
                return
            helper, self.helper = self.helper, None
        helper.end()


_shared = _SharedHelper()
_piping = threading.RLock()  # held while this process has the end of a pipe that the helper writes to; see `_sent`


def _after_fork() -> None:
    global _shared
    _piping.release()
    if _shared.helper is not None:
        _shared.helper.socket.close()
        _shared.helper.process.returncode = 0  # it is the parent's child: this process cannot wait for it
    _shared = _SharedHelper()


os.register_at_fork(before=_piping.acquire, after_in_parent=_piping.release, after_in_child=_after_fork)
atexit.register(lambda: _shared.close())


def survey(sources: Sources, path: str) -> Survey:
    """Return the facts of an HDF5 file.

    Args:
        sources: where the file is, and the files to which its links lead.
        path: absolute. The file is opened here, once, and passed on as a descriptor.

    Raises:
        FormatError: it is damaged: libhdf5 refuses it, crashes, or does not come to an end; or a
            program is writing it.
        DependencyError: h5py is not installed.
        SourceError: the file cannot be opened, or no other process can be started.
        SourceChangedError: the file was removed meanwhile.
    """
    if not isinstance(sources, LocalSources):
        return _asking(sources, path)
    boundary = sources.boundary
    file, _ = sources.open(path)
    try:
        request = {"path": path, "folders": boundary.folders, "files": boundary.files}
        return _understood(sources, path, *_asked(path, request, file))
    except FormatError:
        if os.fstat(file).st_nlink == 0:  # libhdf5 refuses files that were removed
            raise SourceChangedError(f"{path}: replaced or removed while it was being opened; open it again") from None
        raise
    finally:
        os.close(file)


def _asking(sources: Sources, path: str) -> Survey:
    """Return the facts of a file that is not on this machine: the other process asks for its bytes."""
    sources.state(path)
    with closing(Answering(sources, path)) as answering:
        return _understood(sources, path, *_asked(path, {"path": path}, answering.theirs.fileno(), answering))


def _understood(origin: Sources, path: str, stream: memoryview, status: int) -> Survey:
    data: dict[str, Data] = {}
    sources: dict[int, Data] = {}
    groups: dict[str, dict[str, Any]] = {}
    files: dict[str, tuple[int, int]] = {}
    writers: dict[str, str] = {}
    at, ended = "", False
    try:
        for said, tables in unpacked(stream):
            if "missing" in said:
                raise DependencyError(f"{path}: reading HDF5 needs h5py: pip install 'vfs[hdf5]' ({said['missing']})")
            if "busy" in said:
                raise FormatError(f"{path}: {said['busy']}")
            if "error" in said:
                raise FormatError(f"{path}: the HDF5 file cannot be understood: {said['error']}")
            if "at" in said:
                at = said["at"]
            elif "end" in said:
                ended = True
            elif "file" in said and "name" not in said:
                files[said["file"]] = int(said["size"]), int(said["time"])
                writers |= {said["file"]: said["writer"]} if "writer" in said else {}
            elif "same" in said:
                data[said["name"]] = data[said["same"]]
            elif "group" in said:
                groups[said["group"]] = said["attrs"]
            elif "number" in said:
                sources[said["number"]] = data_of(said, tables)
            else:
                data[said["name"]] = data_of(said, tables)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{path}: the HDF5 file cannot be understood: its facts are not valid ({str(error)[:200]})"
        ) from None
    if not ended:
        where = f" at {at[:200]}" if at else ""
        raise FormatError(f"{path}: the HDF5 file looks damaged: libhdf5, which parses it, {_ending(status)}{where}")
    return Survey(data, tuple(sources[n] for n in range(len(sources))), groups, files, writers, origin)


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return "does not come to an end"
        if number == signal.SIGALRM:
            return f"gives no answer for {STEP_SECONDS:.0f} seconds"
        return f"crashes ({signal.Signals(number).name})"
    return f"ends without an answer (status {status})"


def _asked(
    path: str, request: dict[str, Any], file: int, answering: Answering | None = None, again: bool = True
) -> tuple[memoryview, int]:
    """Return (what the other process wrote, its wait status).

    Args:
        answering: answers its questions meanwhile, if `file` is a socket.
    """
    helper, reading = _sent(path, request, file)
    failed = True
    try:
        stream = _all_of(reading, answering)
        mark, status = (0, 0) if stream is None or len(stream) < STATUS.size else STATUS.unpack(stream[-STATUS.size :])
        failed = mark != MARK
    finally:
        os.close(reading)
        _shared.leave(helper, failed)
    if stream is None:
        raise FormatError(
            f"{path}: the HDF5 file looks damaged: libhdf5, which parses it, gives no answer for {SILENCE:.0f} seconds"
        )
    if failed:
        if again:  # it ended just then, or was killed, perhaps because of another thread's request
            return _asked(path, request, file, answering, again=False)
        raise SourceError(
            f"{path}: HDF5 files are read by another process, and that ended without an answer (status"
            f" {helper.process.returncode})"
        )
    return stream[: -STATUS.size], status


def _sent(path: str, request: dict[str, Any], file: int) -> tuple[_Helper, int]:
    """Send a request. Return (the helper, the end of a pipe from which its answer is read).

    No fork comes between: a child would keep the other end open, and the answer would have no end before it ends.
    """
    with _piping:
        reading, writing = os.pipe()
        try:
            with suppress(OSError):
                fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, PIPE)
            return _shared.enter(request, writing, file), reading
        except OSError as error:
            os.close(reading)
            why = error.strerror or str(error)
            raise SourceError(
                f"{path}: HDF5 files are read by another process, and {sys.executable!r} does not start: {why}"
            ) from None
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)


def _all_of(pipe: int, answering: Answering | None = None) -> memoryview | None:
    """Read everything up to the end of a pipe; None if nothing comes for `SILENCE` seconds."""
    got = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if answering is not None:
        poll.register(answering.socket, select.POLLIN)
    while ready := poll.poll(SILENCE * 1000):
        if answering is not None and ready[0][0] == answering.socket.fileno():
            if not answering.answer():
                poll.unregister(answering.socket)
            continue
        more = os.read(pipe, PIPE)
        if not more:
            return memoryview(got)
        got += more
    return None
