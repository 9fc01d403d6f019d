"""Requests at the same time, or one alone: for a server that has not enough memory for all of them at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets any number of threads in at the same time (`shared`), or one of them alone: `alone`
    waits until the others are out and keeps new ones out.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be inside together with other threads."""
        with self._changed:
            while self._alone:
                self._changed.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if not self._inside:
                    self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be inside with no other thread. A thread must not ask for this from within `shared`: it
        would wait for itself.
        """
        with self._changed:
            while self._alone:
                self._changed.wait()
            self._alone = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
