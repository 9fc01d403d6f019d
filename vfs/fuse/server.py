"""Serves a mount in the main thread of a process. `main` runs the process that `vfs.mount` starts."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice

from vfs.contents.contents import Contents
from vfs.errors import MountError, OptionError, ServeError, VfsError, printable
from vfs.fuse.askers import EVERYBODY, Askers
from vfs.fuse.ending import Ending
from vfs.fuse.heap import give_back, share_heap
from vfs.fuse.how import MountHow
from vfs.fuse.loop import loop
from vfs.fuse.points import CONTAINER, Mounted, dead, detach, mounted, place, prepare, users
from vfs.fuse.readers import Readers
from vfs.fuse.view import WORKERS, FuseView, library, version
from vfs.model.wording import option
from vfs.serving.child import Ready, run
from vfs.serving.entry import Entry
from vfs.serving.logs import TO_STDERR, LogHow
from vfs.serving.signals import signals
from vfs.serving.status import ENDING, MountStatus, Reporter, asked
from vfs.sources.names import absolute

log = logging.getLogger("vfs.fuse")

# Seconds that a busy Python thread may keep the others waiting: 0.65 instead of 0.11 GB/s are read
# beside such a thread (fuse.md)
SWITCH = 5e-4
SOURCES = WARNINGS = 100  # at most so many are named in a status
NOISE = "Ignoring invalid max threads value"  # libfuse 3 says this whenever it starts


def serve(
    folder: Contents,
    mountpoint: str | os.PathLike[str],
    how: MountHow,
    *,
    ready: Callable[[], None] | None = None,
    watch: Callable[[MountStatus], None] | None = None,
    leave: Callable[[], bool] = lambda: True,
    log_how: LogHow = TO_STDERR,
) -> MountStatus:
    """Show a folder at a mount point until it is unmounted, or SIGINT, SIGTERM or SIGHUP ends it.

    This must run in the main thread.

    Args:
        folder: the contents of the mount. Its arrays should use the buffered backend: a source that
            shrinks kills a process that reads its map.
        mountpoint: an existing, empty folder.
        how: how to mount.
        ready: called once when the mount answers, from another thread.
        watch: called with the status after `ready`, about once a second if something changed, and at
            the end.
        leave: called when a signal comes. If it returns True, and a process that has read from the
            mount still runs, the mount stays, dead: see `vfs.fuse.ending`.
        log_how: how the server logs; with `debug`, libfuse prints every request to stderr.

    Returns: the last status.

    Raises:
        MountError: mounting cannot work; the message says why and what to do.
        OptionError: `workers` is not a number from 1 on.
    """
    workers = _workers(how)
    share_heap()
    module = library()
    point = prepare(mountpoint, version(module), how.allow_other)
    ending = Ending(module, printable(point), lambda: readers.living() if leave() else [])
    # Until `Ending` handles them, nothing is mounted, and signals end this process at once. A handler that raises would
    # not do: its exception gets lost if it is raised inside a callback of the compiler
    at_once = signals(signal.SIG_DFL, *ENDING)
    with _switching(), at_once, _written_down(point, log_how.to_file, lambda: bool(ending.left)) as entry:
        readers = Readers(entry.folder if entry else None)
        _warm_up(folder)
        gc.freeze()  # objects stay: opening sets takes a twentieth longer where the collector goes through them
        if how.allow_other:
            _warn_of_closed(folder)
        said = _Stderr(log_how.debug)
        kinds = {"allow_other": how.allow_other, "direct_io": how.direct_io}
        view = FuseView(folder, module, log_how.debug, workers=workers, readers=readers, **kinds)
        named = tuple(absolute(name) for name in how.sources[:SOURCES])
        session = _Session(view, readers, point, named, entry, version(module))
        reporter = Reporter(session.status, session.write, watch)

        try:
            with ending, _mounting(session, said):
                loop(
                    view,
                    module,
                    point,
                    partial(_begin, session, said, log_how.to_file, partial(reporter.start, ready)),
                    ending,
                )
        finally:
            said.restore()
            view.failures.close()
        last = reporter.end()
    if ending.left:
        ending.say()
    elif session.mount is not None:
        _leave(point, session.mount)
    return last


def _begin(session: _Session, said: _Stderr, to_log: bool, report: Callable[[], None]) -> None:
    """Say that a mount is there. A thread of libfuse calls this."""
    said.restore()
    try:
        session.begin(to_log)
        report()
    except Exception:
        log.exception("%s: cannot say that the mount is ready", printable(session.point))


def _workers(how: MountHow) -> int:
    """Return the number of reads that are answered at once.

    Raises:
        OptionError: it is not a number from 1 on.
        MountError: this is not the main thread.
    """
    workers = WORKERS if how.workers is None else how.workers
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise OptionError(f"{option(workers=workers)}: expected a number, at least 1")
    if threading.current_thread() is not threading.main_thread():
        raise MountError(
            errno.EPERM, "a mount is served by the main thread of a process; vfs.mount() starts a process for it"
        )
    return workers


class _Session:
    """What is known of a mount while it is served.

    Attributes:
        mount: what is mounted; None before that.
        since: time at which it was, in seconds since 1970.
    """

    def __init__(
        self,
        view: FuseView,
        readers: Readers,
        point: str,
        sources: tuple[str, ...],
        entry: Entry | None,
        libfuse: int,
    ) -> None:
        self.view = view
        self.readers = readers
        self.point = point
        self.sources = sources
        self.entry = entry
        self.libfuse = libfuse
        self.mount: Mounted | None = None
        self.since = 0.0

    def begin(self, to_log: bool) -> None:
        """Note that it is mounted now; with `to_log`, stdout and stderr go to the log file from now on."""
        self.since = time.time()
        self.mount = mounted(self.point)
        if to_log and self.entry:
            os.dup2(self.entry.log_fd, 1)
            os.dup2(self.entry.log_fd, 2)
        log.info("%s: mounted", printable(self.point))

    def status(self) -> MountStatus:
        """Return what was done so far."""
        folder = self.view.folder
        return MountStatus(
            mountpoint=self.point,
            device=self.mount.device if self.mount else "",
            sources=self.sources,
            pid=os.getpid(),
            since=self.since,
            cached=folder.cache.held,
            cache_size=folder.cache.limit,
            log=self.entry.log if self.entry else None,
            libfuse=self.libfuse,
            remote=asked(),
            warnings=tuple(map(printable, list(folder.warnings)[:WARNINGS])),
            live={name: one.said() for name, one in islice(folder.progress().items(), WARNINGS)},
            **_counted(self.view),
        )

    def write(self, status: MountStatus) -> None:
        """Write a status down. This is called each second in which something was done, so it tidies up, too."""
        give_back()
        self.readers.look_again()
        others = status.requests - status.reads
        self.view.remembered.look(self.point, list(self.view.looked_up), others, status.cached)
        if self.entry:
            self.entry.write(status.document())


@contextmanager
def _mounting(session: _Session, said: _Stderr) -> Iterator[None]:
    """Turn what libfuse raises where it cannot mount into a MountError that says why."""
    shown = printable(session.point)
    try:
        yield
    except UnicodeEncodeError:
        raise MountError(
            errno.EILSEQ,
            f"{shown}: fusepy takes only names in UTF-8 as mount points; choose another, or install mfusepy",
        ) from None
    except RuntimeError as error:
        if session.mount is None:  # once mounted, its number only tells how the mount ended
            reason = said.text() or f"libfuse gave up with code {error}"
            hint = f"; {CONTAINER}" if "not permitted" in reason else ""
            raise MountError(errno.EIO, f"{shown}: cannot mount: {printable(reason)}{hint}") from None


def _counted(view: FuseView) -> dict[str, int]:
    """Return the counts of a server and of its cache."""
    counted = view.counters.totals()
    counted["hits"] += view.folder.cache.hits
    counted["misses"] += view.folder.cache.misses
    return counted


@contextmanager
def _written_down(point: str, to_log: bool, stays: Callable[[], bool]) -> Iterator[Entry | None]:
    """Keep the entry of a mount until the mount ends, or longer if it stays dead.

    If there is no folder for entries, the mount goes on without one, unless its log belongs there.
    """
    try:
        entry = Entry(point, to_log)
    except ServeError as error:
        if to_log:
            raise
        log.warning("%s; `vfs mounts` will not know of it", error)
        yield None
        return
    try:
        yield entry
    finally:
        entry.end(stays())


def _leave(point: str, mount: Mounted) -> None:
    """Unmount if something is still mounted, and log the processes whose open files fail from now on."""
    where = place(mount)  # another path than at the beginning if a folder above was renamed
    if where is not None and dead(where):
        detach(where, lazy=True)
    who = users(mount, detached=True)
    if who:
        log.warning(
            "%s: unmounted while in use by %s; what they have open there fails from now on",
            printable(point),
            ", ".join(who),
        )


def _warm_up(folder: Contents) -> None:
    """Read a few elements of every stored array, so that kernels are compiled before the first request.

    A source that cannot be read does not matter here: a later read of it gets the error.
    """
    faces = [folder.faces[entry.path] for entry in folder.at("").sets()] if folder.faces else []
    shown = {array: path for face in faces for path, array in face.arrays.items()}
    for array, path in shown.items():
        if array.dataset.computed:
            continue
        try:
            array.read(tuple(slice(0, 2) for _ in array.shape))
        except (VfsError, MemoryError) as error:
            log.warning("%s", printable(f"{path}: cannot be read now: {error}"))


def _warn_of_closed(folder: Contents) -> None:
    """Log the sets that other users will not see, though these users are let in."""
    askers = Askers(lambda: (0, 0, 0))
    for file in dict.fromkeys(
        filter(None, (askers.unreadable(folder.at(name).source_files(True), EVERYBODY) for name in folder.faces))
    ):
        log.warning(
            "%s: its data are shown only to those who may read that file themselves (chmod go+r FILE, and go+x of its"
            " folders, changes that)",
            printable(file),
        )


@contextmanager
def _switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Stderr:
    """Captures stderr until `restore`, since libfuse and fusermount write only there why mounting failed.

    Args:
        off: True to leave stderr alone.
    """

    def __init__(self, off: bool) -> None:
        self.kept = self.file = -1
        with suppress(OSError):  # stderr is closed
            if not off:
                self.kept = os.dup(2)
                sys.stderr.flush()
                self.file = os.memfd_create("stderr")
                os.dup2(self.file, 2)

    def restore(self) -> None:
        """Restore stderr."""
        kept, self.kept = self.kept, -1
        if kept >= 0:
            os.dup2(kept, 2)
            os.close(kept)

    def text(self) -> str:
        """Return the captured text in one line."""
        if self.file < 0:
            return ""
        lines = os.pread(self.file, 1 << 16, 0).decode(errors="replace").splitlines()
        return "; ".join(line.strip() for line in lines if line.strip() and not line.startswith(NOISE))


def main() -> None:
    """Run the process that `vfs.fuse.process` starts."""
    run(_served, "mount", share_heap)  # the heap is shared before threads look at the data sets


def _served(
    folder: Contents,
    *,
    ready: Ready,
    alone: Callable[[], bool],
    log_how: LogHow,
    mountpoint: str,
    how: MountHow,
) -> str:
    """Serve a mount for `vfs.serving.child.run`; return the last words for its log."""
    last = serve(folder, mountpoint, how, ready=lambda: ready({}), leave=alone, log_how=log_how)
    return f"{printable(last.mountpoint)}: {last.summary()}"
