"""Writes references as an Icechunk repository on this machine (https://icechunk.io).

Each reference has the time at which its file was written, so a file that is written again is an error there. Readers
have to allow the folders that are read from, which the repository lists: `vfs/docs/export.md` has the lines.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import numpy as np

from vfs.errors import DependencyError, NotReferenceableError, extra
from vfs.faces.documents import document
from vfs.faces.references import References
from vfs.zarr.references.shown import ReferencedSet, check_names, chunk_coordinates, copied_bytes, documents, url

MAX_REFERENCES = 50_000_000
"""References in a commit: Icechunk holds those of a commit in memory."""


def write(found: ReferencedSet, target: str, check: Callable[[], None]) -> None:
    """Write references as a repository in a new folder, on its branch `main`.

    Args:
        check: is called after every group of references.

    Raises:
        DependencyError: Icechunk is not installed.
        NotReferenceableError: files are not on this machine, or have names that Icechunk does not read.
        OSError: it cannot be written.
    """
    icechunk = _icechunk()
    if "ICECHUNK_LOG" not in os.environ:  # it prints of each folder of a disk that only one process may write there
        icechunk.set_logs_filter("error")
    check_names(found.files, "Icechunk", r"\x00-\x1f\x7f")
    prefixes = _folders(found)
    config = icechunk.RepositoryConfig.default()
    for folder, prefix in prefixes.items():
        store = icechunk.local_filesystem_store(folder)
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    try:
        repository = icechunk.Repository.create(icechunk.local_filesystem_storage(target), config)
        repository.save_config()
        _commit(icechunk, repository, found, MAX_REFERENCES, check)
    except icechunk.IcechunkError as error:
        raise OSError(0, f"Icechunk: {_said(error)}") from None


def _said(error: Exception) -> str:
    """Return the first line of a message of Icechunk, which draws trees of causes below it."""
    first = next((line.strip(" x×│") for line in str(error).splitlines() if line.strip(" x×│")), "")
    return first[:200] or type(error).__name__


def _commit(icechunk: Any, repository: Any, found: ReferencedSet, most: int, check: Callable[[], None]) -> None:
    """Write all documents, elements that are copied, and references, in as many commits as these need."""
    session = repository.writable_session("main")
    for key, node in documents(found, 3).items():
        _set(session.store, key, document(node))
    for path, array in found.copied.items():
        _set(session.store, "/".join([path, "c", *["0"] * array.ndim]), copied_bytes(array))
    held = 0
    for path, one in found.referenced.items():
        for group in _specs(icechunk, one):
            specs = group
            while specs:
                if held == most:
                    session.commit("references, to be continued")
                    session, held = repository.writable_session("main"), 0
                now, specs = specs[: most - held], specs[most - held :]
                refused = session.store.set_virtual_refs(f"/{path}", now, validate_containers=True)
                if refused:
                    raise NotReferenceableError(f"{path}: Icechunk refuses the places of {len(refused):,} chunks")
                held += len(now)
                check()
    session.commit("references")


def _specs(icechunk: Any, one: References) -> Iterator[list[Any]]:
    """Return the chunks of an array as Icechunk takes them, some at a time.

    Its faster way in (`set_virtual_refs_arr`, from Icechunk 2 on) has one time of writing for all files.
    """
    files = one.array.dataset.files
    names = np.array([url(name) for name in files.paths], object)
    written = np.array([_after(int(when)) for when in files.written], object)
    tags = np.array([tag or None for tag in files.tags or ("",) * len(files)], object)
    for coordinates, file, offset, nbytes in chunk_coordinates(one):
        columns = (coordinates.tolist(), names[file], offset.tolist(), nbytes.tolist(), tags[file], written[file])
        yield [
            icechunk.VirtualChunkSpec(index, name, first, size, tag, when)
            for index, name, first, size, tag, when in zip(*columns, strict=True)
        ]


def _after(written: int) -> datetime | None:
    """Return the first second at which a file was complete, for Icechunk counts whole seconds; None if not known."""
    return datetime.fromtimestamp(math.ceil(written / 1e9), UTC) if written else None


def _folders(found: ReferencedSet) -> dict[str, str]:
    """Return the folders that the files are below, none within another -> their URLs.

    Icechunk compares the URL of a file with that of a folder as texts, and quotes the first only. So these are folders
    whose URLs need no quotes.

    Raises:
        NotReferenceableError: a file is not on this machine.
    """
    plain = set()
    for path in {os.path.dirname(path) for path in found.files}:
        if not path.startswith("/"):
            raise NotReferenceableError(f"{path}: Icechunk repositories are written for files of this machine only")
        while quote(path) != path:
            path = os.path.dirname(path)
        plain.add(path)
    folders: list[str] = []
    for path in sorted(plain, key=len):
        if not any(path == above or path.startswith(f"{above.rstrip('/')}/") for above in folders):
            folders.append(path)
    return {folder: f"{url(folder.rstrip('/'))}/" for folder in folders}


def _set(store: Any, key: str, data: bytes) -> None:
    """Store bytes under a key."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def _icechunk() -> Any:
    try:
        import icechunk
    except ImportError:
        raise DependencyError(f"an Icechunk repository needs Icechunk: {extra('references')}") from None
    return icechunk
