"""The way out: `export`, which writes a data set as a zarr store."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.errors import IncompleteWarning, OptionError
from vfs.model.command_options import OF_STORES, PAGE_ENDING, SIGNAL_ENDING, TIFF_ENDINGS, ExportOptions
from vfs.model.open_options import OpenOptions, split
from vfs.model.option_fields import known, option
from vfs.model.signatures import Path, exports
from vfs.sets.opening import OpenedSet, open_set, warned


@dataclass(frozen=True, kw_only=True)
class ExportHere(ExportOptions):
    """The options of `export`, which opens and writes data in this process."""

    zarr_format: int = option(3, "Version of zarr: 3 or 2.")
    progress: Callable[[int, int, int], object] | None = option(
        None,
        "Is called with the bytes of the arrays that are done, of all of them, and of the files so far.",
        more="What it raises ends the export.",
    )
    executor: Any = option(
        None,
        "Does the work: a pool of `concurrent.futures`, a `dask.distributed.Client`, or anything else with `submit`.",
        more="Its workers are told what to write, and must find the files and `target` by the same names.",
    )


@exports(ExportHere)
def export(data: Any, target: Path, **given: Any) -> int:
    """Write a data set as a real zarr store: compressed, with all its arrays and attributes.

    With `to`, copy nothing, and write references to the bytes of the data set's own files: "kerchunk" (OUT.json or
    OUT.parquet) or "icechunk" (a repository). Options that are about stores are refused then.

    With a name that ends in .html, write a scan as one page that any browser opens without a server: frames in
    bins, of 20 MB, and exact images of the usual detectors. Options that are about stores are refused then.

    With a name that ends in .tif, write the main array as a hyperstack of ImageJ, with .ome.tif as OME-TIFF (BigTIFF
    where it is large, with smaller versions): plane by plane; with .hspy as a signal of HyperSpy. Options that are
    about stores are refused then.

    `target` has its name only when everything is on the disk; `target + ".sums"` then holds checksums of all chunks.
    An export that fails leaves `target + ".part"` and `target + ".part.marks"` if anything of it was done:
    `resume=True` goes on from there.

    Args:
        data: what `open_group` takes, or what `open` or `open_group` returned; then no options for opening.
        target: "scan.zarr"; "scan.ome.zarr" is OME-Zarr, "scan.zarr.zip" one file; "scan.html" is a page;
            "cells.tif" and "cells.ome.tif" are TIFFs, "map.hspy" is a signal.
        {options}

    Returns: bytes of the files that were written.

    Raises:
        OptionError: `target` exists already or cannot be written; an option does not fit; an export was interrupted
            there, and `resume` is False or something is not as it was.
        NotReferenceableError: with `to`: the chunks of the main array are not single runs of bytes that zarr decodes.
        SourceError: bytes of the data set cannot be read, or its files changed meanwhile.
        ExecutorError: the executor lost a worker for good, takes no tasks, or its workers cannot do what they are told.
        VerifyError: with `verify`: what was written does not read as what was noted.
        VfsError: what `open_group` raises.

    Warns:
        IncompleteWarning: with `to`: arrays are left out, because nobody can refer to them.
    """
    options, format_options = split(ExportHere, given)
    if options.to is not None:
        return _references(_opened(data, options, format_options), target, options, given)
    if options.blank:
        raise OptionError("blank: has no effect without `to`")
    path = os.fspath(target)
    if path.lower().endswith((PAGE_ENDING, SIGNAL_ENDING, *TIFF_ENDINGS)):
        kind = {PAGE_ENDING: "page", SIGNAL_ENDING: "signal"}.get(os.path.splitext(path)[1].lower(), "TIFF")
        unused = [name for name in (*OF_STORES, "progress", "executor") if name in given]
        if unused:
            raise OptionError(f"{unused[0]}: has no effect on a {kind}, which is no store")
        found = _opened(data, options, format_options)
        if kind == "TIFF":
            from vfs.zarr.export import tiffs

            return tiffs.write(found, path)
        if kind == "signal":
            from vfs.zarr.export import hyperspy

            return hyperspy.write(found, path)
        from vfs.page import mail

        return mail.write(found, path)
    from vfs.zarr.export import export as write
    from vfs.zarr.export import face_of
    from vfs.zarr.verify import verify

    found = _opened(data, options, format_options)
    stored = write(
        found.tree.zarr(options.zarr_format, face_of(target)),
        target,
        options,
        found.opening,
        progress=options.progress,
        executor=options.executor,
    )
    if options.verify:
        verify(target).check()
    return stored


def _references(found: OpenedSet, target: Path, options: ExportHere, given: Mapping[str, Any]) -> int:
    from vfs.zarr.references import export as refer

    unused = [name for name in (*OF_STORES, "progress", "executor") if name in given and name != "chunks"]
    if unused:
        raise OptionError(f"{unused[0]}: has no effect on references, which are no store")
    assert options.to is not None
    written = refer(found, target, options.to, options.blank)
    if written.found.left_out:
        said = "; ".join(f"{path} is omitted: {why}" for path, why in written.found.left_out.items())
        warnings.warn(said, IncompleteWarning, stacklevel=3)
    return written.nbytes


def _opened(data: Any, options: ExportHere, format_options: dict[str, Any]) -> OpenedSet:
    """Return the data set; one that is opened here is read with pread, for a source that shrinks kills no process."""
    if isinstance(data, VirtualArray | VirtualGroup):
        opening = [name for name in options.said() if name in known(OpenOptions)] + list(format_options)
        if opening:
            raise OptionError(f"{opening[0]}: has no effect on a data set that is open; give it to vfs.open_group")
        return data._group._opened if isinstance(data, VirtualArray) else data._opened
    backend = "buffered" if options.backend == "auto" else options.backend
    return warned(open_set(data, options.common(backend=backend), format_options))
