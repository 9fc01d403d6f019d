"""Has files that exist only in memory, with URLs for names: no descriptor, no path, nothing that could be mapped.

Formats that open and read through these need nothing of this machine's file system.
"""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.model.file_state import FileState
from vfs.model.sources import Sources
from vfs.sources.names import is_absolute

SCHEME = "memory://"


class MemorySources(Sources):
    """Files in memory.

    Args:
        contents: URL of each file -> its bytes.

    Attributes:
        asked: (verb, name) of each question.
    """

    anywhere = False

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(contents)
        self.asked: list[tuple[str, str]] = []

    def __reduce__(self) -> tuple[type, tuple[Mapping[str, bytes]]]:
        return type(self), (self.contents,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySources) and self.contents == other.contents

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, folder: str | os.PathLike[str], name: str = "set") -> MemorySources:
        """Take in a folder with everything in it: `FOLDER/a/b` becomes `memory://NAME/a/b`."""
        found = {}
        for above, _, names in os.walk(folder):
            for one in names:
                path = os.path.join(above, one)
                with open(path, "rb") as file:
                    found[f"{SCHEME}{name}/{os.path.relpath(path, folder)}"] = file.read()
        return cls(found)

    def _content(self, verb: str, name: str) -> bytes:
        self.asked.append((verb, name))
        if not name.startswith(SCHEME):
            raise SourceError(f"{name}: expected a name that begins with {SCHEME}")
        content = self.contents.get(name)
        if content is None:
            if any(other.startswith(f"{name}/") for other in self.contents):
                raise SourceError(f"{name}: expected a file, found a folder")
            raise MissingSourceError(f"{name}: no such file")
        return content

    def state(self, name: str) -> FileState:
        return FileState(len(self._content("state", name)), 1)

    def read(self, name: str, start: int, size: int) -> bytes:
        content = self._content("read", name)
        return content[start : start + size] if start >= 0 else b""

    def stream(self, name: str) -> BinaryIO:
        return io.BytesIO(self._content("stream", name))

    def names(self, folder: str) -> Sequence[str]:
        self.asked.append(("names", folder))
        inside = {name[len(folder) + 1 :].split("/")[0] for name in self.contents if name.startswith(f"{folder}/")}
        if not inside:
            raise MissingSourceError(f"{folder}: no such folder")
        return sorted(inside)

    def join(self, folder: str, name: str) -> str:
        store = folder.removeprefix(SCHEME)
        path = posixpath.normpath(posixpath.join(f"/{store}", name)) if not is_absolute(name) else ""
        if not path.startswith(f"/{store}/"):
            raise OutsideError(f"{name}: lies outside of {folder}")
        return f"{SCHEME}{path[1:]}"

    def opening(self) -> AbstractContextManager[MemorySources]:
        return nullcontext(self)
