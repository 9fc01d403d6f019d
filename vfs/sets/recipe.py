"""Writes how a data set was opened, as Python and a shell do, so that people open it and get the same numbers."""

from __future__ import annotations

import glob
import os
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version as _version_of
from itertools import takewhile
from math import isfinite
from typing import Any
from zlib import compress

import numpy as np

from vfs.errors import VfsError
from vfs.formats import by_name, detect
from vfs.model import calibration
from vfs.model.open_options import OpenOptions
from vfs.model.sources import Sources
from vfs.model.wording import flag
from vfs.sources.globs import expand
from vfs.sources.local import LocalSources

LISTED = 20
"""Most files that are written one by one where a glob finds the same."""
SHORT = 64
"""Most elements of an array that are written as numbers; others are written as packed bytes."""
PACKED = 2 << 20
"""Most letters of packed bytes."""
SERVING = (
    "backend",
    "chunks",
    "accept_changes",
    "cache_dir",
    "cache_dir_size",
    "requests",
    "ngff",
    "pyramid_cache",
    "pyramid_cache_size",
)
"""Options that only say how a set is served: its numbers are the same without them."""


@dataclass(frozen=True)
class Recipe:
    """Says in Python how a data set was opened: `vfs.open_group(paths, option=…)`.

    Attributes:
        name: that the set gets without another of this name beside it.
        paths: text of each path, to be written as a list unless there is one.
        options: name -> text, of the options that decide which numbers there are, but for the usual ones.
        imports: lines that the texts need.
        absent: names of options whose values are too long, or of classes that are not those of vfs.
        words: what a shell types behind `vfs reduce` to open it so, a word each; None: it has no such words.
        version: of vfs.
    """

    name: str
    paths: Sequence[str]
    options: Mapping[str, str]
    imports: Sequence[str] = ()
    absent: Sequence[str] = ()
    words: Sequence[str] | None = None
    version: str = ""

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        options: OpenOptions,
        format_options: Mapping[str, Any],
        sources: Sources | None = None,
    ) -> Recipe:
        """Write how a set was opened.

        Args:
            paths: absolute paths of the files that were named.
            options, format_options: how they were opened.
            sources: where they are; None for this machine.
        """
        looked = LocalSources() if sources is None else sources
        found = _found(looked, paths[0], options.format, format_options)
        given = {name: value for name, value in options.said().items() if name not in SERVING}
        if not format_options and given.get("format") == found:
            del given["format"]  # vfs finds it
        own = {name: os.path.abspath(file) if _is_file(file) else file for name, file in format_options.items()}
        writer, texts, absent = _Writer(), {}, []
        for name, value in {**given, **own}.items():
            try:
                texts[name] = writer.write(value)
            except ValueError:
                absent.append(name)
        label = by_name(options.format or found).label(paths[0])
        short = _short(looked, paths)
        words = _words(short, given, own)
        return cls(
            label, [_text(path) for path in short], texts, sorted(writer.imports), absent, words, _version_of("vfs")
        )


def _words(paths: Sequence[str], given: Mapping[str, Any], own: Mapping[str, Any]) -> Sequence[str] | None:
    """Write a path and options as words of a shell, without quotes; None where several paths or a value have none.

    Args:
        given, own: options of `OpenOptions`, of which `derive` decides no numbers of other arrays; of the format.
    """
    if len(paths) > 1:
        return None
    try:
        typed = [f"{flag(name)}={word}" for name, value in given.items() if name != "derive" for word in _said(value)]
        typed = [word.removesuffix("=true") for word in typed]
        return [paths[0], *typed, *(word for name, value in own.items() for word in ("-o", f"{name}={_typed(value)}"))]
    except ValueError:
        return None


def _said(value: Any) -> list[str]:
    """Write a value as a shell takes it: what may be given several times as several words.

    Raises:
        ValueError: it has no such text.
    """
    if isinstance(value, Mapping):
        known = calibration.asked(value)
        words = [calibration.written(name, axis) for name, axis in known.items()]
        if calibration.asked(words) != known:
            raise ValueError(value)
        return words
    if isinstance(value, tuple | list) and all(isinstance(one, str) for one in value):
        return list(value)
    return [_typed(value)]


def _typed(value: Any) -> str:
    """Write a value as a shell takes it.

    Raises:
        ValueError: it has no such text.
    """
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, tuple | list) and all(type(one) is int for one in value):
        return ",".join(map(str, value))
    raise ValueError(type(value))


@dataclass
class _Writer:
    """Writes values.

    Attributes:
        imports: lines that were needed so far.
    """

    imports: set[str] = field(default_factory=set)

    def write(self, value: Any) -> str:
        """Write a value.

        Raises:
            ValueError: it has no text.
        """
        if isinstance(value, str | os.PathLike):
            return _text(os.fspath(value))
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, int):
            return repr(int(value))
        if isinstance(value, float):
            return repr(float(value)) if isfinite(value) else f'float("{value}")'
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic | int | float)):
            return _text(np.dtype(value).str)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.itemsize <= 8:
            return self.write(value.item())
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, tuple | list):
            inner = ", ".join(map(self.write, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{self.write(key)}: {self.write(one)}' for key, one in value.items())}}}"
        if is_dataclass(value) and type(value).__module__.startswith("vfs.reduce."):
            own = [(one.name, getattr(value, one.name), one.default) for one in fields(value) if one.init]
            said = [f"{name}={self.write(given)}" for name, given, usual in own if given is not usual]
            return f"vfs.{type(value).__name__}({', '.join(said)})"
        raise ValueError(type(value))

    def _array(self, array: np.ndarray) -> str:
        if array.dtype.kind not in "biufc":
            raise ValueError(array.dtype)
        self.imports.add("import numpy as np")
        kind = array.dtype.str
        if 0 < array.size <= SHORT and array.dtype.kind in "biu":
            return f'np.array({array.tolist()}, "{kind}")'
        text = b64encode(compress(array.tobytes())).decode()
        if len(text) > PACKED:
            raise ValueError(array.shape)
        self.imports |= {"import base64", "import zlib"}
        return f'np.frombuffer(zlib.decompress(base64.b64decode("{text}")), "{kind}").reshape({array.shape})'


def _text(value: str) -> str:
    """Write text, in double quotes where that needs nothing else."""
    said = repr("".join(value))  # numpy has texts of its own, which say so
    return said if '"' in said or "\\'" in said else f'"{said[1:-1]}"'


def _found(sources: Sources, path: str, given: str | None, own: Collection[str]) -> str:
    """Return the name of the format that vfs finds a file to have; "" if it finds none and one is given.

    Raises: what `detect` raises, if none is given.
    """
    try:
        return detect(sources, path, own if given is None else ()).name
    except VfsError:
        if given is None:
            raise
        return ""


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and os.path.isfile(value)


def _short(sources: Sources, paths: Sequence[str]) -> Sequence[str]:
    """Return a glob for many files, if it finds these files in this order; else the files."""
    if len(paths) <= LISTED:
        return paths
    parts = [path.split(os.sep) for path in paths]
    if len({len(part) for part in parts}) > 1:
        return paths
    pattern = os.sep.join(map(_alike, zip(*parts, strict=True)))
    try:
        return [pattern] if expand(pattern, sources) == list(paths) else paths
    except (VfsError, OSError):
        return paths


def _alike(names: Sequence[str]) -> str:
    """Write what names have in common, with * where they differ."""
    if len(set(names)) == 1:
        return glob.escape(names[0])
    start = _start(names)
    end = _start([name[len(start) :][::-1] for name in names])[::-1]
    return f"{glob.escape(start)}*{glob.escape(end)}"


def _start(names: Sequence[str]) -> str:
    """Return the letters with which all names begin."""
    return "".join(letters[0] for letters in takewhile(lambda some: len(set(some)) == 1, zip(*names, strict=False)))
