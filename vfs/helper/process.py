"""Starts the process that asks a library, sends it requests, and says how each answer ended.

One process serves all files that this one opens with a library, from any number of threads. It ends
by itself after `IDLE` seconds without work: a thread of ours that ends it would be one too many if
this process is forked. When this process ends, it ends the other one, too. A fork of this process
starts its own.
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
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from vfs.errors import SourceError
from vfs.helper.budget import STEP_SECONDS
from vfs.helper.server import MARK, STATUS
from vfs.own_code import check

IDLE = 20.0  # seconds after which the process, which takes about 35 MB, ends if it has no work
SILENCE = 30.0  # seconds to wait for its next bytes; usual files take 0.02 in all. Its own limits: `vfs.helper.budget`
PIPE = 1 << 20  # bytes that a Linux pipe can hold on request


class Outcome(NamedTuple):
    """What a fork of the helper process wrote.

    Attributes:
        stream: messages, see `vfs.helper.messages`. The last one may be cut.
        ended: how the fork ended, in words: "crashes (SIGSEGV)". Only its last message tells if it had finished.
    """

    stream: memoryview
    ended: str


class Questions(Protocol):
    """Answers questions that a fork asks while it reads.

    Attributes:
        socket: where its questions come.
    """

    socket: socket.socket

    def answer(self) -> bool:
        """Answer the next question. Returns False if there will be no more."""


class _Process:
    """The process itself.

    Args:
        entry: see `Helper`.
        env: see `Helper`.
    """

    def __init__(self, entry: str, env: Mapping[str, str]) -> None:
        here = os.path.abspath(f"{__file__}/../../..")  # where this package is
        modules = os.pathsep.join([here, *(os.path.abspath(name) for name in sys.path if name)])
        # A process with threads must not be forked
        one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with its:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-S", "-c", entry, str(IDLE)],
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": modules, **one_thread, **env},
                    start_new_session=True,  # Ctrl-C must not reach it
                )
        except BaseException:
            mine.close()
            raise
        self.socket = mine

    def send(self, request: Mapping[str, Any], pipe: int, file: int) -> None:
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

    def forget(self) -> None:
        """Let go of it in a fork of this process: it is the parent's child, for which the fork cannot wait."""
        self.socket.close()
        self.process.returncode = 0


class Helper:
    """Asks a library in another process, which is started when it is first needed.

    Args:
        what: the files that it reads, for messages: "HDF5 files".
        entry: program of the process: text of Python that calls `vfs.helper.server.serve`.
        env: environment variables that it needs besides those of this process.
        seconds: by the clock, after which a fork ends itself, for messages.

    Attributes:
        running: the process; None if there is none.
        waiting: number of threads that wait for it, and of forks that are not finished.
    """

    def __init__(self, what: str, entry: str, env: Mapping[str, str], seconds: float = STEP_SECONDS) -> None:
        self.what = what
        self.entry = entry
        self.env = env
        self.seconds = seconds
        self.running: _Process | None = None
        self.waiting = 0
        self._lock = threading.Lock()
        _helpers.add(self)

    def ask(self, path: str, request: Mapping[str, Any], file: int, questions: Questions | None = None) -> Outcome:
        """Send a request, and wait for all of its answer.

        Args:
            path: the file, for messages.
            request: goes to the process as JSON.
            file: descriptor of the file, which stays open; or of the other end of the socket of `questions`.
            questions: answers what the fork asks meanwhile.

        Raises:
            SourceError: no process can be started, or it ended without an answer, twice.
        """
        for _ in range(2):  # it may have ended just then, or been killed, perhaps because of another thread's request
            outcome = self.finish(*self.begin(path, request, file), questions)
            if outcome is not None:
                return outcome
        raise SourceError(f"{path}: {self.what} are read by another process, and that ended without an answer")

    def finish(self, process: _Process, reading: int, questions: Questions | None = None) -> Outcome | None:
        """Wait for the end of a fork that `begin` started. Return None if the process ended without telling it."""
        failed = True
        try:
            stream = _all_of(reading, questions)
            mark, status = _status(stream)
            failed = mark != MARK
        finally:
            os.close(reading)
            self.leave(process, failed)
        if stream is None:
            return Outcome(memoryview(b""), f"gives no answer for {SILENCE:.0f} seconds")
        return None if failed else Outcome(stream[: -STATUS.size], self._ending(status))

    def enter(self, request: Mapping[str, Any], pipe: int, file: int) -> _Process:
        """Send a request, and start the process if necessary. `leave` must follow.

        Raises:
            OSError: no process can be started.
            DependencyError: it would be of another version than this one: see `vfs.own_code.check`.
        """
        with self._lock:
            if self.running is not None:
                try:
                    self.running.send(request, pipe, file)
                except OSError:  # it has ended since it was last asked
                    self.running.end(at_once=True)
                    self.running = None
            if self.running is None:
                check()
                started = _Process(self.entry, self.env)
                try:
                    started.send(request, pipe, file)
                except BaseException:
                    started.end(at_once=True)
                    raise
                self.running = started
            self.waiting += 1
            return self.running

    def leave(self, process: _Process, failed: bool) -> None:
        """Stop waiting for the process. One that failed is ended, and not used again."""
        with self._lock:
            self.waiting -= 1
            if failed and self.running is process:
                self.running = None
        if failed:
            process.end(at_once=True)

    def close(self) -> None:
        """End the process, unless a thread waits for it."""
        with self._lock:
            if self.waiting or self.running is None:
                return
            process, self.running = self.running, None
        process.end()

    def forget(self) -> None:
        """Begin anew in a fork of this process, whose threads are gone."""
        if self.running is not None:
            self.running.forget()
        self.running, self.waiting, self._lock = None, 0, threading.Lock()

    def begin(self, path: str, request: Mapping[str, Any], file: int) -> tuple[_Process, int]:
        """Send a request. Return (the process, the end of a pipe from which its answer is read). `finish` must follow.

        No fork comes between: a child would keep the other end open, and the answer would have no end before it ends.

        Args:
            file: see `ask`.

        Raises:
            SourceError: no process can be started.
        """
        with _piping:
            reading, writing = os.pipe()
            try:
                with suppress(OSError):
                    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, PIPE)
                return self.enter(request, writing, file), reading
            except OSError as error:
                os.close(reading)
                why = error.strerror or str(error)
                raise SourceError(
                    f"{path}: {self.what} are read by another process, and {sys.executable!r} does not start: {why}"
                ) from None
            except BaseException:
                os.close(reading)
                raise
            finally:
                os.close(writing)

    def _ending(self, status: int) -> str:
        """Say how a fork ended, by its wait status."""
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU:
                return "does not come to an end"
            if number == signal.SIGALRM:
                return f"gives no answer for {self.seconds:.0f} seconds"
            return f"crashes ({signal.Signals(number).name})"
        return f"ends without an answer (status {status})"


_helpers: WeakSet[Helper] = WeakSet()
_piping = threading.RLock()  # held while this process has the end of a pipe that a helper writes to; see `Helper.begin`


def _after_fork() -> None:
    _piping.release()
    for helper in list(_helpers):
        helper.forget()


def _at_exit() -> None:
    for helper in list(_helpers):
        helper.close()


os.register_at_fork(before=_piping.acquire, after_in_parent=_piping.release, after_in_child=_after_fork)
atexit.register(_at_exit)


def _all_of(pipe: int, questions: Questions | None) -> memoryview | None:
    """Read everything up to the end of a pipe; None if nothing comes for `SILENCE` seconds."""
    got = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if questions is not None:
        poll.register(questions.socket, select.POLLIN)
    while ready := poll.poll(SILENCE * 1000):
        if questions is not None and ready[0][0] == questions.socket.fileno():
            if not questions.answer():
                poll.unregister(questions.socket)
            continue
        more = os.read(pipe, PIPE)
        if not more:
            return memoryview(got)
        got += more
    return None


def _status(stream: memoryview | None) -> tuple[int, int]:
    """Return (mark, wait status of the fork) from the end of a stream, (0, 0) if it has none."""
    if stream is None or len(stream) < STATUS.size:
        return 0, 0
    mark, status = STATUS.unpack(stream[-STATUS.size :])
    return mark, status
