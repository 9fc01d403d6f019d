"""Stores of objects that are written to, and read back: `s3://bucket/OUT.zarr`, through obstore.

An object is there as a whole or not at all, and none can be renamed. What can be asked again is asked again, by obstore
itself; what fails in the end is an OSError in words.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from vfs.errors import OptionError
from vfs.sources.library import obstore
from vfs.sources.names import is_url
from vfs.sources.reasons import reason
from vfs.sources.threads import in_parallel
from vfs.sources.transfers import Limits, Transfers
from vfs.sources.urls import SCHEMES, WEB, given, place

LIMITS = Limits(parallel=8)
"""Of a large object, obstore sends twelve parts of 5 MiB at the same time: so fewer objects than when reading."""
_RETRIES = {"max_retries": LIMITS.tries - 1, "retry_timeout": timedelta(seconds=LIMITS.seconds)}
_DELETED = 1000  # objects that are deleted with one request, at most
PartOf = tuple[int, int] | dict[str, int]
"""Bytes of an object: (first, behind the last), or {"offset": first}, or {"suffix": how many at the end}."""
WRITABLE = tuple(scheme for scheme in SCHEMES if scheme not in WEB)


def bucket_name(target: str | os.PathLike[str]) -> str:
    """Return the URL of what is to be written to a store of objects; "" for a name that is no URL.

    Raises:
        OptionError: it is a URL that nothing is written to.
    """
    name = os.fspath(target).rstrip("/")
    if not is_url(name):
        return ""
    name = given(name)
    where = place(name)
    if where.scheme not in WRITABLE or not where.path:
        raise OptionError(
            f"{name}: cannot be written to; expected a folder, or a URL such as s3://bucket/OUT.zarr that begins with"
            f" one of {', '.join(WRITABLE)}"
        )
    return name


class Bucket:
    """The objects of a store.

    Args:
        url: of any of them; the others that are named here are in the same bucket.

    Raises:
        DependencyError: obstore is not installed.
        SourceError: there is no such store, as far as obstore can tell.
    """

    def __init__(self, url: str) -> None:
        where = place(url)
        self.root = where.root
        self._store = Transfers(LIMITS, {"retry_config": _RETRIES}).store(where)

    def read(self, url: str, part: PartOf | None = None) -> bytes | None:
        """Return an object; None if it is not there.

        Args:
            part: only these bytes of it.

        Raises:
            OSError: it cannot be read.
        """
        how = {"range": part} if part is not None else None
        try:
            data: bytes = self._asked(url, lambda path: bytes(obstore().get(self._store, path, options=how).bytes()))
            return data
        except FileNotFoundError:
            return None

    def read_all(self, urls: Sequence[str]) -> list[bytes | None]:
        """Return many objects, some at a time; None for those that are not there.

        Raises:
            OSError: one cannot be read.
        """
        return in_parallel(self.read, urls, LIMITS.parallel)

    def sizes(self, url: str) -> dict[str, int]:
        """Return the objects below a URL, as a folder has files, and the bytes of each.

        Raises:
            OSError: they cannot be listed.
        """

        def listed(path: str) -> dict[str, int]:
            pages = obstore().list(self._store, f"{path}/")
            return {f"{self.root}/{one['path']}": int(one["size"]) for page in pages for one in page}

        found: dict[str, int] = self._asked(url, listed)
        return found

    def any(self, url: str) -> bool:
        """Return True if there is an object below a URL.

        Raises:
            OSError: that cannot be found out.
        """
        return bool(self._asked(url, lambda path: any(obstore().list(self._store, f"{path}/", chunk_size=1))))

    def write(self, url: str, data: bytes) -> None:
        """Write an object.

        Raises:
            OSError: it cannot be written.
        """
        self._asked(url, lambda path: obstore().put(self._store, path, data))

    def create(self, url: str, data: bytes) -> bool:
        """Write an object that nobody else writes. Returns False if somebody has written another one.

        Raises:
            OSError: it cannot be written.
        """
        try:
            self._asked(url, lambda path: obstore().put(self._store, path, data, mode="create", use_multipart=False))
        except FileExistsError:
            return self.read(url) == data  # the first try wrote it, and its answer was lost
        return True

    def upload(self, files: Sequence[tuple[str, str]]) -> None:
        """Write files of this machine as objects, some at a time.

        Args:
            files: (name of the file, URL of the object).

        Raises:
            OSError: one cannot be read or written.
        """

        def send(one: tuple[str, str]) -> None:
            name, url = one
            with open(name, "rb") as file:
                self._asked(url, lambda path: obstore().put(self._store, path, file))

        in_parallel(send, files, LIMITS.parallel)

    def delete(self, urls: Sequence[str]) -> None:
        """Delete objects. Some may be gone: Google's and Azure's stores say so, and S3 does not.

        Raises:
            OSError: one cannot be deleted.
        """
        for first in range(0, len(urls), _DELETED):
            some = urls[first : first + _DELETED]
            try:
                self._delete(some)
            except FileNotFoundError:  # it may have left others alone
                for url in some:
                    with suppress(FileNotFoundError):
                        self._delete([url])

    def _delete(self, urls: Sequence[str]) -> None:
        self._asked(urls[0], lambda _: obstore().delete(self._store, [place(url).path for url in urls]))

    def _asked(self, url: str, ask: Callable[[str], Any]) -> Any:
        """Ask the store, with the path of an object, and turn what it says into errors of vfs.

        Raises:
            FileNotFoundError, FileExistsError: as the store says.
            OSError: anything else.
        """
        try:
            return ask(place(url).path)
        except (FileNotFoundError, FileExistsError):
            raise
        except Exception as error:
            if type(error).__name__ == "AlreadyExistsError":
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), url) from None
            if isinstance(error, OSError) and error.errno:
                raise
            why = "there is no such bucket" if "NoSuchBucket" in str(error) else reason(error)[0]
            raise OSError(errno.EIO, why, url) from None
