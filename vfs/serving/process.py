"""Starts a server in another process, and ends it: for `vfs.mount`, `vfs.serve` and `--background`.

The process runs `vfs.serving.child.run`, which describes what is written and answered.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from vfs.errors import ServeError, printable
from vfs.model.wording import speaks_shell
from vfs.serving.signals import held_back

PATIENCE = 10  # seconds that a server has to finish its requests when it is told to end
FREE = b"."  # tells a background server to go on without the process that started it

Taken = TypeVar("Taken")


class Command(NamedTuple):
    """What a server is to do. It is pickled and sent to its process.

    Attributes:
        make: makes the contents that are served, in the process of the server.
        background: the server outlives the process that starts it, and logs into a file of its own.
        log_level: "error", "warning", "info" or "debug".
        how: more arguments of the function that serves, by name.
    """

    make: Callable[[], Any]
    background: bool
    log_level: str
    how: dict[str, Any]


class ServerProcess:
    """A server that another process runs, for whoever started it.

    It lasts until `close`, the end of a `with` block, or the end of this process.

    Args:
        name: the mount point or address, for `repr`.
        process: what `start` returned.
        end: ends it, and waits until it has ended.
    """

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], end: Callable[[subprocess.Popen[bytes]], None]
    ) -> None:
        self._name = name
        self._process = process
        self._end_now = partial(_end_own, process, end, os.getpid())
        self._end = weakref.finalize(self, self._end_now)  # also at the end of this process

    @property
    def running(self) -> bool:
        """True until the server has ended."""
        return self._end.alive and self._process.poll() is None

    def close(self) -> None:
        """End the server, and wait until it has ended. Further calls do nothing."""
        try:
            self._end()
        except BaseException:  # it was interrupted, perhaps as it began
            self._end_now()
            raise

    def __repr__(self) -> str:
        return f"<vfs.{type(self).__name__} {printable(self._name)}{'' if self._end.alive else ', closed'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end_own(process: subprocess.Popen[bytes], end: Callable[[subprocess.Popen[bytes]], None], owner: int) -> None:
    if os.getpid() == owner:  # else a forked child ends; the server belongs to its parent
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server, and wait until it has ended. It is killed if it takes longer than `PATIENCE`."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except BaseException as error:  # it does not end, or we are interrupted
        process.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
    finally:
        # Not earlier: that would end the server a second time, when it handles no signals any more
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def start(
    module: str,
    command: Command,
    name: str,
    take: Callable[[subprocess.Popen[bytes], dict[str, Any]], Taken],
    end: Callable[[subprocess.Popen[bytes]], None] = end,
    error: type[ServeError] = ServeError,
) -> Taken:
    """Start a server and wait until it answers.

    Args:
        module: the module whose `main` the process runs.
        name: the mount point or address, for messages.
        take: takes over the process of the server, and its answer. Until it returns, an error or Ctrl-C ends the
            server.
        end: ends it, and waits until it has ended.
        error: class of the errors.

    Returns: what `take` returns.

    Raises:
        ServeError: it cannot start; the message says why.
    """
    modules = os.pathsep.join(
        os.path.abspath(name) for name in sys.path if name
    )  # the server imports from the same places as this process, and not from the current folder
    shown = printable(name)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {module} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": modules},
            start_new_session=True,  # Ctrl-C reaches only this process, which tells the server to end
        )
    except OSError as failed:
        raise error(
            failed.errno or errno.EIO, f"{shown}: no server: {sys.executable!r} does not start: {failed.strerror}"
        ) from None
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # the server died; its answer, or the lack of one, is reported below
            process.stdin.write(pickle.dumps((os.getpid(), speaks_shell(), command)))
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise error(errno.EIO, f"{shown}: the server ended without an answer (exit status {process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise error(answer["code"], answer["error"])
        return take(process, answer)
    except BaseException:
        end(process)
        raise


def set_free(
    process: subprocess.Popen[bytes], name: str, say: Callable[[], None], error: type[ServeError] = ServeError
) -> None:
    """Let a background server go on without this process.

    Args:
        name, error: see `start`.
        say: reports that the server is ready. Signals are held back meanwhile, so that a signal
            either comes before that, and ends the server too, or acts after the report.

    Raises:
        ServeError: the server has ended already.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with held_back(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        try:
            with process.stdout, process.stdin:
                process.stdin.write(FREE)
        except BrokenPipeError:
            raise error(
                errno.EIO, f"{printable(name)}: the server ended as soon as it was ready; its log may say why"
            ) from None
        process.returncode = 0  # nobody will wait for it
        say()
