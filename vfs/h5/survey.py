"""Asks for the facts of an HDF5 file, and understands the answer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import numpy as np

from vfs.errors import DependencyError, FormatError, SourceChangedError, SourceError, extra
from vfs.h5.asking import Answering
from vfs.h5.facts import Data, Survey, data_of
from vfs.helper.messages import unpacked
from vfs.helper.process import Helper, Outcome
from vfs.model.sources import Sources
from vfs.sources.local import LocalSources

T = TypeVar("T")

_CUT = re.compile(r"truncated file: eof = (\d+),.* stored_eof = (\d+)")  # libhdf5's words
_NO_PLUGINS = {"HDF5_PLUGIN_PRELOAD": "::"}  # libhdf5 loads none
LIBHDF5 = Helper("HDF5 files", "from vfs.h5.server import main; main()", _NO_PLUGINS)


def survey(sources: Sources, path: str) -> Survey:
    """Return the facts of an HDF5 file.

    Args:
        sources: where the file is, and the files to which its links lead.
        path: absolute. The file is opened here, once, and passed on as a descriptor.

    Raises:
        FormatError: it is damaged: libhdf5 refuses it, crashes, or does not come to an end; or a
            program is writing it.
        DependencyError: h5py is not installed.
        SourceError: the file cannot be opened, or no other process can be started.
        SourceChangedError: the file was removed meanwhile.
    """
    return ask(sources, path, partial(_understood, sources, path))


def ask(sources: Sources, path: str, understood: Callable[[Outcome], T], **more: Any) -> T:
    """Ask for the facts of an HDF5 file, or with `tree=True` for what it says beside its arrays.

    Args:
        understood: what makes the result of the answer.

    Raises: what `survey` raises.
    """
    if not isinstance(sources, LocalSources):
        sources.state(path)  # the other process asks for the bytes of a file that is not on this machine
        with closing(Answering(sources, path)) as answering:
            asked = LIBHDF5.ask(path, {"path": path, **more}, answering.theirs.fileno(), answering)
            return understood(asked)
    boundary = sources.boundary
    file, _ = sources.open(path)
    try:
        request = {"path": path, "folders": boundary.folders, "files": boundary.files}
        return understood(LIBHDF5.ask(path, request | more, file))
    except FormatError:
        if os.fstat(file).st_nlink == 0:  # libhdf5 refuses files that were removed
            raise SourceChangedError(f"{path}: replaced or removed while it was being opened; open it again") from None
        raise
    finally:
        os.close(file)


def told(path: str, answer: Outcome) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """Yield the messages of an answer.

    Raises:
        DependencyError: h5py is not installed.
        FormatError: the file cannot be understood.
        SourceError: a program is writing it.
    """
    for said, tables in unpacked(answer.stream):
        if "missing" in said:
            raise DependencyError(f"{path}: reading HDF5 needs h5py: {extra('hdf5')} ({said['missing']})")
        if "busy" in said:
            raise SourceError(f"{path}: {said['busy']}")
        if "error" in said:
            if cut := _CUT.search(said["error"]):
                size, expected = map(int, cut.groups())
                raise FormatError(
                    f"{path}: expected {expected:,} bytes, as the HDF5 file says of itself, it has {size:,};"
                    " it looks truncated, and libhdf5 reads nothing of it: copy it again"
                )
            raise FormatError(f"{path}: the HDF5 file cannot be understood: {said['error']}")
        yield said, tables


def _understood(origin: Sources, path: str, answer: Outcome) -> Survey:
    data: dict[str, Data] = {}
    sources: dict[int, Data] = {}
    groups: dict[str, dict[str, Any]] = {}
    files: dict[str, tuple[int, int]] = {}
    writers: dict[str, str] = {}
    growing: dict[str, str] = {}
    at, ended = "", False
    try:
        for said, tables in told(path, answer):
            if "at" in said:
                at = said["at"]
            elif "end" in said:
                ended = True
            elif "file" in said and "name" not in said:
                files[said["file"]] = int(said["size"]), int(said["time"])
                writers |= {said["file"]: said["writer"]} if "writer" in said else {}
                growing |= {said["file"]: said["growing"]} if "growing" in said else {}
            elif "same" in said:
                data[said["name"]] = data[said["same"]]
            elif "group" in said:
                groups[said["group"]] = said["attrs"]
            elif "number" in said:
                sources[said["number"]] = data_of(said, tables)
            else:
                data[said["name"]] = data_of(said, tables)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{path}: the HDF5 file cannot be understood: its facts are not valid ({str(error)[:200]})"
        ) from None
    if not ended:
        where = f" at {at[:200]}" if at else ""
        raise FormatError(f"{path}: the HDF5 file looks damaged: libhdf5, which parses it, {answer.ended}{where}")
    return Survey(data, tuple(sources[n] for n in range(len(sources))), groups, files, writers, growing, origin)
