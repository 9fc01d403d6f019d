"""Describes what a mount or an HTTP server has done, and writes it once a second, in a thread."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Self, TypeVar

from vfs.errors import size
from vfs.sources.counts import in_all

log = logging.getLogger("vfs.serving")

PERIOD = 1.0  # seconds between two reports
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a server."""


def asked() -> dict[str, int]:
    """Return what this process asked servers and stores for: the counts of `Status.remote`."""
    return {"requests": in_all.requests, "bytes": in_all.nbytes, "kept": in_all.kept}


@dataclass(frozen=True, kw_only=True)
class Status:
    """Holds what a server has done: the fields of `status.json`. `MountStatus` and `ServerStatus` add where it is.

    The document has one more field, `vfs`: 1, its version. Programs should ignore fields that they
    do not know.
    """

    sources: tuple[str, ...]  # the file that names each data set, or the folder of a tree; the first 100
    pid: int  # of the server
    since: float  # time of its first answer: seconds since 1970, in the document as "2026-11-21T07:00:28Z"
    requests: int  # requests that came to the server; of a mount, the kernel answers many others from its cache
    reads: int  # requests for bytes, which are part of `requests`
    bytes: int  # bytes that reads returned
    hits: int  # requests for decoded pieces that were in the cache
    misses: int  # requests for decoded pieces that were not in the cache
    errors: int  # requests answered with an error, EIO or 422 where a source could not be read; the log has reasons
    cached: int  # bytes of decoded pieces in the cache now
    cache_size: int  # the limit of `cached`
    remote: Mapping[str, int] = field(default_factory=dict)
    """What servers and stores were asked for: requests, bytes that came, and bytes kept that were taken instead."""
    log: str | None  # log file of a server in the background
    warnings: tuple[str, ...]  # data that is missing from data sets; the first 100
    live: Mapping[str, Any] = field(default_factory=dict)
    """Main face of each set that is still being written -> frames, of, complete."""

    def document(self) -> dict[str, Any]:
        """Return the document that status.json holds: where the server is, then what it has done."""
        where = [field.name for field in fields(self) if field.name not in Status.__annotations__]
        return {
            "vfs": 1,
            **{name: getattr(self, name) for name in where},
            **vars(self),
            "sources": list(self.sources),
            "warnings": list(self.warnings),
            "live": dict(self.live),
            "remote": dict(self.remote),
            "since": stamp(self.since),
        }

    def counts(self) -> str:
        """Return a line for people about the work done."""
        pieces = self.hits + self.misses
        cache = f", {self.hits / pieces:.0%} of {pieces:,} pieces from the cache" if pieces else ""
        live = "".join(f", live: {one['frames']:,} of {one['of'] or '?'} frames" for one in self.live.values())
        errors = "no errors" if not self.errors else "1 error" if self.errors == 1 else f"{self.errors:,} errors"
        return f"{size(self.bytes)} in {self.reads:,} reads{cache}, {errors}{live}"

    def summary(self) -> str:
        """Return a line for people about the work done, and the time since the beginning."""
        return f"{self.counts()}, in {timedelta(seconds=round(time.time() - self.since)) if self.since else 'no time'}"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Make a status from the document in status.json.

        Raises:
            ValueError: it is not such a document.
        """
        try:
            names = [field.name for field in fields(cls) if field.name in document]
            told = {"live": {}, "remote": {}} | {name: document[name] for name in names}
            return cls(
                **{
                    **told,
                    "sources": tuple(told["sources"]),
                    "warnings": tuple(told["warnings"]),
                    "since": datetime.fromisoformat(told["since"]).timestamp(),
                }
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the status of a server: {error!r}") from None


@dataclass(frozen=True, kw_only=True)
class MountStatus(Status):
    """Holds the status of a mount."""

    mountpoint: str  # absolute, without symbolic links; bytes that are not UTF-8 as surrogateescape spells them
    device: str  # "0:57", as /proc/self/mountinfo has it
    libfuse: int  # version of libfuse, 2 or 3


@dataclass(frozen=True, kw_only=True)
class ServerStatus(Status):
    """Holds the status of an HTTP server."""

    address: str  # "http://127.0.0.1:8765/", without the token
    computed: int = 0  # bytes of frames that computations of the page went over, of which it is sent little

    def counts(self) -> str:
        """Return a line for people about the work done."""
        return f"{super().counts()}{f', {size(self.computed)} of frames computed' if self.computed else ''}"


def stamp(seconds: float) -> str:
    """Return a time in the form that status.json has."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


Kept = TypeVar("Kept", bound=Status)


class Reporter(Generic[Kept]):
    """Reports the status of a server about once a second if something changed, and at the end.

    It does so in a thread of its own. An error in `write` or `watch` becomes a line in the log.

    Args:
        take: returns the present status.
        write: is called with each status; the first call comes before the server is reported as ready.
        watch: is called with each status after `write`.
    """

    def __init__(
        self, take: Callable[[], Kept], write: Callable[[Kept], None] | None, watch: Callable[[Kept], None] | None
    ) -> None:
        self._take = take
        self._write = write
        self._watch = watch
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self, ready: Callable[[], None] | None = None) -> None:
        """Start the thread. `ready` is called once the status was written."""
        self.last = self._take()
        self._tell(self._write, self.last)
        if ready is not None:
            ready()
        self._tell(self._watch, self.last)
        self._thread.start()

    def end(self) -> Kept:
        """End the thread, report once more, and return the last status."""
        self._ending.set()
        if self._thread.ident is not None:  # else it has never begun
            self._thread.join()
        self._told(self._take())
        return self.last

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread handles them
        while not self._ending.wait(PERIOD):
            now = self._take()
            if now != self.last:
                self._told(now)

    def _told(self, status: Kept) -> None:
        self.last = status
        self._tell(self._write, status)
        self._tell(self._watch, status)

    def _tell(self, whom: Callable[[Kept], None] | None, status: Kept) -> None:
        try:
            if whom is not None:
                whom(status)
        except Exception as error:
            log.warning("the status cannot be reported: %s", error)
