"""The way out: `export`, which writes a data set as a zarr store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.errors import OptionError
from vfs.hierarchy.opening import OpenedSet, open_set, warned
from vfs.model.open_options import ExportOptions, OpenOptions, known, option, split
from vfs.model.signatures import Path, exports


@dataclass(frozen=True, kw_only=True)
class ExportHere(ExportOptions):
    """The options of `export`, which opens and writes data in this process."""

    zarr_format: int = option(3, "Version of zarr: 3 or 2.")
    progress: Callable[[int, int, int], object] | None = option(
        None,
        "Is called with the bytes of the arrays that are done, of all of them, and of the files so far.",
        more="What it raises ends the export.",
    )


@exports(ExportHere)
def export(data: Any, target: Path, **given: Any) -> int:
    """Write a data set as a real zarr store: compressed, with all its arrays and attributes.

    `target` has its name only when everything is on the disk; `target + ".sums"` then holds checksums of all chunks.
    An export that fails leaves `target + ".part"` and `target + ".part.marks"` if anything of it was done:
    `resume=True` goes on from there.

    Args:
        data: what `open_group` takes, or what `open` or `open_group` returned; then no options for opening.
        target: name of the folder, such as "scan.zarr"; with "scan.ome.zarr" images are written as OME-Zarr.
        {options}

    Returns: bytes of the files of the store.

    Raises:
        OptionError: `target` exists already or cannot be written; an option does not fit; an export was interrupted
            there, and `resume` is False or something is not as it was.
        SourceError: bytes of the data set cannot be read, or its files changed meanwhile.
        VerifyError: with `verify`: what was written does not read as what was noted.
        VfsError: what `open_group` raises.
    """
    from vfs.zarr.export import export as write
    from vfs.zarr.export import face_of
    from vfs.zarr.verify import verify

    options, format_options = split(ExportHere, given)
    found = _opened(data, options, format_options)
    stored = write(
        found.tree.zarr(options.zarr_format, face_of(target)),
        target,
        codec=options.codec,
        shards=options.shards,
        sources=found.opening.version,
        resume=options.resume,
        progress=options.progress,
    )
    if options.verify:
        verify(target).check()
    return stored


def _opened(data: Any, options: ExportHere, format_options: dict[str, Any]) -> OpenedSet:
    """Return the data set; one that is opened here is read with pread, for a source that shrinks kills no process."""
    if isinstance(data, VirtualArray | VirtualGroup):
        opening = [name for name in options.said() if name in known(OpenOptions)] + list(format_options)
        if opening:
            raise OptionError(f"{opening[0]}: has no effect on a data set that is open; give it to vfs.open_group")
        return data._group._opened if isinstance(data, VirtualArray) else data._opened
    backend = "buffered" if options.backend == "auto" else options.backend
    return warned(open_set(data, options.common(backend=backend), format_options))
