"""Opens the files of folders in a thread, before the listings of these folders ask for them."""

from __future__ import annotations

import signal
import threading

from vfs.errors import VfsError
from vfs.folder_tree.folder_records import log
from vfs.folder_tree.listing import Listing


class LookAhead:
    """Opens the files of folders that are being listed, beginning with the latest folder.

    One thread does it for all folders, and ends when there is nothing left to open. Two threads that
    open files side by side would keep each other waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: list[Listing] = []  # the folder that was added last stands last
        self._walking = False

    def add(self, listing: Listing) -> None:
        """Have the thread open the files of a folder, before those of other folders."""
        with self._lock:
            if listing in self._wanted:
                self._wanted.remove(listing)
            self._wanted.append(listing)
            if not self._walking:
                self._walking = True
                threading.Thread(target=self._walk, name="ahead", daemon=True).start()

    def _walk(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the thread that serves
        while True:
            with self._lock:
                if not self._wanted:
                    self._walking = False
                    return
                listing = self._wanted[-1]
            if not self._open(listing):
                with self._lock:
                    if listing in self._wanted:
                        self._wanted.remove(listing)

    def _open(self, listing: Listing) -> bool:
        """Open files of a folder until another folder is added. Return True if some are left."""
        listing.walked(True)
        try:
            more = True
            while more and listing is self._last():
                more = listing.step()
            return more
        except VfsError:
            return False  # who lists the folder comes to the same file
        except Exception:
            log.exception("%s: cannot be looked through ahead", listing.folder.path)
            return False
        finally:
            listing.walked(False)

    def _last(self) -> Listing:
        with self._lock:
            return self._wanted[-1]
