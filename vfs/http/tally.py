"""Counts and logs what a server does."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from vfs.errors import NotYetError, VfsError, printable
from vfs.serving.failures import Failures

log = logging.getLogger("vfs.http")


@dataclass
class Tally:
    """Counts what a server has done, as `vfs.serving.status.Status` says."""

    requests: int = 0
    reads: int = 0
    bytes: int = 0
    errors: int = 0


class ServerLog:
    """Counts and logs what a server does, but natively.

    Args:
        debug: log every request, and put tracebacks into the log.

    Attributes:
        tally: what was done so far.
        failures: log of requests that failed.
    """

    def __init__(self, debug: bool = False) -> None:
        self.debug = debug
        self.tally = Tally()
        self.failures = Failures(log)

    def answered(self, method: str, path: str, status: int) -> None:
        """Log a request. It is called only if all are to be logged."""
        log.debug("%s", printable(f"{method} {path} {status}"))

    def failed(self, path: str, error: Exception) -> str:
        """Count and log that something could not be answered. Returns what is wrong.

        Frames that are yet to be written are no failure: somebody asks for them again and again.
        """
        if isinstance(error, NotYetError):
            return str(error)
        self.tally.errors += 1
        what = str(error) if isinstance(error, VfsError) else f"{type(error).__name__}: {error}"
        self.failures.add(printable(what), printable(f"{path[:200]}: {what}"), trace=self.debug)
        return what
