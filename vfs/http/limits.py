"""Bounds what requests may cost that are under way: how many a client has, and how many bytes they hold."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from vfs.errors import size
from vfs.http.guard import RefusedError


class AtOnce:
    """Bounds how many requests of a kind a client has under way.

    Args:
        most: of each kind; kinds that it does not name have no bound.
    """

    def __init__(self, most: dict[str, int]) -> None:
        self._most = most
        self._under_way: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def counted(self, what: str, client: str) -> Iterator[None]:
        """Count a request while it is under way.

        Raises:
            RefusedError: the client has too many.
        """
        key = (what, client)
        if self._under_way[key] >= self._most.get(what, 1 << 30):
            raise RefusedError(429, f"{self._most[what]} requests for api/{what} are under way; wait for one of them")
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]


class Held:
    """Bounds the bytes that requests hold, for each client and for all of them together.

    What is alone is let in whatever it holds: who knows what one request may cost bounds that.

    Args:
        client: most bytes of a client; every: of all clients.
    """

    def __init__(self, client: int, every: int) -> None:
        self._most = client, every
        self._clients: Counter[str] = Counter()
        self._total = 0
        self._left: deque[tuple[str, int]] = deque()

    def take(self, client: str, nbytes: int) -> Callable[[], None]:
        """Count bytes.

        Returns: a function to call once when they are free again, in any thread: also when memory is freed.

        Raises:
            RefusedError: there would be too many.
        """
        self._settle()
        for held, most in zip((self._clients[client], self._total), self._most, strict=True):
            if held and held + nbytes > most:
                raise RefusedError(
                    429, f"answers under way hold {size(held)}, this one {size(nbytes)}, at most {size(most)} go; wait"
                )
        self._clients[client] += nbytes
        self._total += nbytes
        return lambda: self._left.append((client, nbytes))

    def _settle(self) -> None:
        """Take what is free again into account."""
        with suppress(IndexError):
            while True:
                client, nbytes = self._left.popleft()
                self._total -= nbytes
                self._clients[client] -= nbytes
                if not self._clients[client]:
                    del self._clients[client]
