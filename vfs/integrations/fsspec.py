"""The file system `vfs://PATH[/KEY]` of fsspec: the keys of a data set's zarr hierarchy, read-only.

`zarr.open("vfs:///data/scan.hdr")` and whatever else takes fsspec's URLs finds it by its entry point,
without importing vfs. `VfsFileSystem` says what a URL means.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from glob import glob, has_magic
from itertools import accumulate
from typing import Any, NoReturn
from urllib.parse import unquote

from fsspec.asyn import AsyncFileSystem

from vfs.api.again import opened_again
from vfs.engine.cache import ChunkCache
from vfs.errors import MissingSourceError, OptionError, SourceError
from vfs.faces.data_set import check_face
from vfs.faces.face import Node, ZarrFace
from vfs.formats import Format
from vfs.model.open_options import OpenOptions, split
from vfs.model.option_fields import known
from vfs.model.options import from_text, named
from vfs.model.pickles import digest
from vfs.sets.opening import OpenedSet, Opening, open_set, warned

MAX_SETS = 16
"""Sets that one file system keeps open."""


class VfsFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Shows data sets as folders with the keys of a zarr hierarchy. Read-only.

    In `vfs://PATH/KEY`, PATH is the part that is a file on disk: one that names a set, relative or
    absolute. Where no part is a file, PATH is the part that is a glob which finds files: they are
    the set. A folder is no set. KEY is a key of the hierarchy, such as `zarr.json` or
    `data/c/0/0/0/0`; without it, the URL is the root group.

    Options say how sets are opened: as `storage_options`, or after a `?` at the end of the URL
    (`vfs://scan.mib?nav_shape=16,16&zarr_format=2`). They are those of `vfs.open` but `cache`, those
    of the format, `zarr_format` (3 or 2) and `face` ("zarr", or "ome" for the images as OME-Zarr). One
    that does not fit is an OptionError, at the latest when the set is opened.

    - An absent key is a FileNotFoundError. A source that cannot be read or is not there is another
      OSError, and so is a key that looks like a chunk and is none, because zarr turns
      FileNotFoundError into fill values.
    - Once a set was opened, an instance reads it in that state only: sources that change are an
      error, also in another process that unpickled the instance. So instances are not cached:
      whoever opens a URL again sees the files as they are now.
    - Sync methods need no event loop and work after a fork. `asynchronous=True` reads large chunks
      in threads, and gives bytes of chunks as a memoryview, which spares zarr a copy.
    """

    protocol = "vfs"
    root_marker = "/"
    cachable = False
    mirror_sync_methods = False  # sync methods are here or derived from those here: none needs an event loop

    def __init__(
        self,
        *,
        zarr_format: int | str = 3,
        face: str = "zarr",
        asynchronous: bool = False,
        loop: Any = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(asynchronous=asynchronous, loop=loop, batch_size=batch_size)
        if "fo" in options:  # fsspec cut the URL at "::"
            raise OptionError(
                f"fsspec takes what stands after :: in a URL ({options['fo']}) for another URL; a file with :: in its"
                " name opens with vfs.open_group(FILE).zarr()"
            )
        if str(zarr_format) not in ("2", "3"):
            raise OptionError(f"zarr_format={zarr_format!r}: expected 3 or 2")
        self._face = int(zarr_format), face
        check_face(face, self._face[0])
        self._options, self._format_options = split(OpenOptions, {k: _value(k, v) for k, v in options.items()})
        self._openings: dict[str, Opening] = {}  # the states of the sets that were opened
        self._sets: OrderedDict[str, tuple[OpenedSet, ZarrFace]] = OrderedDict()
        self._cache = ChunkCache()
        self._locks: dict[int, threading.Lock] = {}  # one for each process: a fork may copy one that is held

    # what a URL says

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        plain = os.fspath(path).removeprefix("vfs://")
        return os.path.abspath(os.path.expanduser(_QUERY.sub("", plain)))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        found = _QUERY.search(path)
        given: dict[str, Any] = {}
        for pair in found[1].split("&") if found else ():
            name, equals, text = pair.partition("=")
            if not equals or not text:
                raise OptionError(f"{path}: expected ?NAME=VALUE&NAME=VALUE, found {pair!r}")
            several = name in known(OpenOptions) and known(OpenOptions)[name].about.several
            if name in given and not several:
                raise OptionError(f"{path}: {name} is given twice")
            given[name] = (*given.get(name, ()), unquote(text)) if several else unquote(text)
        return given

    def _split(self, path: str) -> tuple[str, str]:
        """Split an absolute path into PATH, which names a set, and KEY.

        Raises:
            SourceError: no part of it is a file.
        """
        parts = list(accumulate(path.split("/"), lambda a, b: f"{a}/{b}"))[1:]
        found = next((part for part in parts if part in self._openings), None)
        found = found or next((part for part in parts if os.path.isfile(part)), None)
        found = found or next(
            (part for part in parts if has_magic(part) and any(map(os.path.isfile, glob(part)))), None
        )
        if found is None:
            missing = next((part for part in parts if not os.path.exists(part)), None)
            folder, _, name = (missing or "").rpartition("/")
            what = f"there is no file {name} in {folder or '/'}" if missing else "is a folder"
            raise SourceError(f"{path}: {what}: expected vfs://FILE or vfs://FILE/KEY, with a FILE that names a set")
        return found, path[len(found) + 1 :]

    def _resolve(self, path: Any) -> tuple[OpenedSet, ZarrFace, str]:
        """Return the set that a URL or path names, open, its face, and the key in it.

        Raises:
            OSError: it cannot be opened; never FileNotFoundError.
            FormatError, OptionError: it is no set, or an option does not fit.
        """
        found, key = self._split(self._strip_protocol(path))
        kept = self._sets.get(found)
        if kept is None:
            with self._locks.setdefault(os.getpid(), threading.Lock()):
                kept = self._sets.get(found) or self._open_set(found)
        return *kept, key

    def _open_set(self, path: str) -> tuple[OpenedSet, ZarrFace]:
        opening = self._openings.get(path)
        try:
            if opening is None:
                opened = warned(open_set(path, self._options, self._format_options, self._cache, convert=_converted))
            else:
                opened = opened_again(opening)
        except MissingSourceError as error:
            raise _unreadable(error) from None
        self._openings[path] = opened.opening
        made = self._sets[path] = opened, opened.tree.zarr(*self._face)
        while len(self._sets) > MAX_SETS:
            self._sets.popitem(last=False)
        return made

    # sync

    def info(self, path: Any, **kwargs: Any) -> dict[str, Any]:
        """Return name, size (bytes), type ("file" or "directory") and mtime (seconds since 1970) of a key.

        Raises:
            FileNotFoundError: there is no such key.
            OSError: the set cannot be opened.
        """
        opened, face, key = self._resolve(path)
        return _info(self._strip_protocol(path), face.node(key), opened)

    def ls(self, path: Any, detail: bool = True, **kwargs: Any) -> list[Any]:
        """Return what `info` returns for each key in a folder, or their names.

        Raises:
            FileNotFoundError: there is no such key.
            OSError: the set cannot be opened.
        """
        opened, face, key = self._resolve(path)
        path = self._strip_protocol(path)
        own = _info(path, face.node(key), opened)
        if own["type"] == "file":
            return [own if detail else path]
        names = [(f"{path}/{name}", f"{key}/{name}".lstrip("/")) for name in face.children(key)]
        return [_info(name, face.node(below), opened) for name, below in names] if detail else [n for n, _ in names]

    def cat_file(self, path: Any, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """Return the bytes of a key, or a range of them; negative numbers count from the end.

        Raises:
            FileNotFoundError: there is no such key.
            OSError: the source cannot be read.
        """
        _, face, key = self._resolve(path)
        return bytes(_read(path, face, key, start, end))

    def find(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the keys below a path: see `fsspec.AbstractFileSystem.find`.

        Raises:
            OSError: the set cannot be opened.
        """
        self._resolve(path)  # who walks passes over errors
        return super().find(path, *args, **kwargs)

    def modified(self, path: Any) -> Any:
        """Return when the newest source of a set was written."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def _open(self, path: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> io.BytesIO:
        if mode != "rb":
            self._refuse(path)
        return io.BytesIO(self.cat_file(path))

    # async

    async def _resolved(self, path: Any) -> tuple[OpenedSet, ZarrFace, str]:
        if self._split(self._strip_protocol(path))[0] in self._sets:
            return self._resolve(path)
        return await asyncio.to_thread(self._resolve, path)

    async def _info(self, path: Any, **kwargs: Any) -> dict[str, Any]:
        await self._resolved(path)
        return self.info(path)

    async def _ls(self, path: Any, detail: bool = True, **kwargs: Any) -> list[Any]:
        await self._resolved(path)
        return self.ls(path, detail)

    async def _cat_file(
        self, path: Any, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes | memoryview:
        _, face, key = await self._resolved(path)
        wanted = path, face, key, start, end
        slow = key[-1:].isdecimal() and key.startswith(face.slow) and not face.in_memory(key)
        found = await asyncio.to_thread(_read, *wanted) if slow else _read(*wanted)
        return found if self.asynchronous and key not in face.documents else bytes(found)

    async def _find(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        await self._resolved(path)
        return await super()._find(path, *args, **kwargs)

    # read-only

    def _refuse(self, path: Any = "", *args: Any, **kwargs: Any) -> NoReturn:
        raise OSError(errno.EROFS, "vfs:// is read-only", str(path))

    async def _refused(self, path: Any = "", *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(path)

    pipe_file = put_file = rm = rm_file = cp_file = mv = mkdir = makedirs = rmdir = touch = _refuse
    _pipe_file = _put_file = _rm = _rm_file = _cp_file = _mv_file = _mkdir = _makedirs = _refused

    # identity

    @property
    def _fs_token(self) -> str:
        said = {name: value for name, value in self.storage_options.items() if name != "asynchronous"}
        return digest((type(self).__qualname__, sorted(said.items()))).hex()

    def __dask_tokenize__(self) -> tuple[str, dict[str, bytes]]:
        return self._fs_token, {path: opening.version for path, opening in self._openings.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.storage_options, self._openings)


_QUERY = re.compile(r"\?([A-Za-z_]\w*=[^?]*)$")
"""Options at the end of a URL. A file may have a `?` in its name: without a NAME= behind it, it belongs to the name."""


def _again(options: Mapping[str, Any], openings: Mapping[str, Opening]) -> VfsFileSystem:
    made = VfsFileSystem(**options)
    made._openings.update(openings)
    return made


def _value(name: str, value: Any) -> Any:
    """Convert an option for all formats from text, where it is one that takes no text."""
    option = known(OpenOptions).get(name)
    if option is None or option.annotation is Any or not isinstance(value, str):
        return value
    return _from_text(name, value, option.annotation)


def _converted(kind: Format, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of a format from text, where they are texts."""
    kind.check_options(given)
    return {
        name: _from_text(name, value, kind.options[name].annotation) if isinstance(value, str) else value
        for name, value in given.items()
    }


def _from_text(name: str, text: str, annotation: Any) -> Any:
    try:
        return from_text(text, annotation)
    except ValueError:
        raise OptionError(f"{name}={text}: expected {named(annotation)}") from None


def _info(path: str, node: Node | None, opened: OpenedSet) -> dict[str, Any]:
    if node is None:
        raise _absent(path)
    kind = "directory" if node.folder else "file"
    return {"name": path, "size": node.size, "type": kind, "mtime": opened.tree.time / 1e9}


def _read(path: Any, face: ZarrFace, key: str, start: int | None, end: int | None) -> memoryview:
    """Return bytes `start` to `end` of a key, as Python slices count."""
    size = face.size(key)
    if size is None:
        face.get(key)  # says if it may be absent
        raise _absent(path)
    first, last, _ = slice(start, end).indices(size)
    try:
        found = face.get(key, first, max(first, last))
    except MissingSourceError as error:
        raise _unreadable(error) from None
    assert found is not None
    return found


def _absent(path: Any) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such key", str(path))


def _unreadable(error: MissingSourceError) -> SourceError:
    """Return an error that nobody takes for an absent key."""
    return SourceError(str(error))
