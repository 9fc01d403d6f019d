"""Runs a server in the process that `vfs.serving.process` starts."""

from __future__ import annotations

import errno
import json
import logging
import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from vfs.errors import VfsError
from vfs.kernels import notice
from vfs.model.wording import shell
from vfs.serving.logs import Line, LogHow, Stderr
from vfs.streams import open_missing

Ready = Callable[[dict[str, Any]], None]


def run(serve: Callable[..., str], name: str, prepare: Callable[[], None] | None = None) -> None:
    """Run a server.

    It reads a pickled (pid of the parent, whether its messages are for a
    shell, `vfs.serving.process.Command`) from standard input. It
    answers with one line of JSON on standard output: what the server says when it is ready, else
    {"code", "error"}. It serves until standard input is closed or the parent is gone. A background
    server goes on without its parent once that has written `FREE`.

    Args:
        serve: called with the contents, and by keyword with `ready` (to be called with the answer),
            `log_how`, `alone` (returns True if the parent is gone without having told this process to end), and
            `Command.how`. Returns the last words for the log.
        name: the command, for lines on stderr.
        prepare: is called before threads look at the data sets.
    """
    open_missing()  # the process that started this one may have had no stderr
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not look like the answer

    def tell(answer: dict[str, Any]) -> None:
        with answers:
            json.dump(answer, answers)

    try:
        parent, for_shell, plan = pickle.load(sys.stdin.buffer)
        if for_shell:
            notice.ask()
        alone = threading.Event()
        if plan.background:
            alone.set()
        handler = Stderr(plan.background)
        handler.setFormatter(
            Line("%(asctime)s %(levelname)s %(message)s" if plan.background else f"vfs {name}: %(message)s")
        )
        logging.basicConfig(level=plan.log_level.upper(), handlers=[handler])
        _follow(parent, alone)
        if prepare is not None:
            prepare()
        with shell(for_shell):
            contents = plan.make()
            if plan.background:
                os.chdir("/")  # so that every other file system can be unmounted
            last = serve(
                contents,
                ready=tell,
                log_how=LogHow(plan.background, plan.log_level == "debug"),
                alone=alone.is_set,
                **plan.how,
            )
        logging.getLogger("vfs.serving").info("%s", last)
    except Exception as error:
        if answers.closed:
            raise
        what = str(error) if isinstance(error, VfsError) else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # the parent is gone
            tell({"code": getattr(error, "errno", None) or errno.EIO, "error": what})
        sys.exit(1)


def _follow(parent: int, alone: threading.Event) -> None:
    """End this process, as SIGTERM would, if its parent is gone or closes standard input.

    `alone` is set if the parent is gone. The process goes on if the parent has written to standard
    input before. Watching standard input alone is not enough: a child that the parent forked may
    still hold its other end.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    with suppress(OSError, AttributeError):  # before Linux 5.3
        poll.register(os.pidfd_open(parent), select.POLLIN)
    gone = os.getppid() != parent

    def watch() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread gets them
        if not gone:
            poll.poll()
        with suppress(OSError):
            os.set_blocking(0, False)
            if os.read(0, 1):
                return
        alone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
