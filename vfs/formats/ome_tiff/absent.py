"""Reports what a set lacks, and what of it no image shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vfs.errors import MissingSourceError
from vfs.formats.ome_tiff.document import Image
from vfs.formats.ome_tiff.placed import OmeSet
from vfs.model.stored import Absence
from vfs.model.wording import option
from vfs.sources.names import basename


def pixels_in_text(images: Sequence[Image], holder: str) -> list[Absence]:
    """Report images whose pixels are in the text of the document."""
    bare = [k for k, image in enumerate(images) if image.inside and not image.runs]
    if not bare:
        return []
    said = (
        f"{holder}: its OME-XML has pixels in its text (BinData) of image {bare[0]}"
        + f", and of {len(bare) - 1:,} more" * (len(bare) > 1)
    )
    return [Absence(f"{said}; they are not shown", counts={"frames_left_out": len(bare)})]


def pages_in_no_image(found: OmeSet, holder: str, named: Sequence[np.ndarray]) -> tuple[Absence, ...]:
    """Report pages to which the document gives no plane.

    Args:
        named: rows of the pages of images.
    """
    rows = np.concatenate([np.asarray(one.rows) for one in found.structures.values()] or [np.zeros(0, np.int64)])
    left = np.setdiff1d(rows, np.concatenate([np.zeros(0, np.int64), *named]))
    if not len(left):
        return ()
    said = (
        f"{holder}: its OME-XML has no plane for {len(left):,} of {len(rows):,} pages; open with"
        f" {option(format='tiff')} to see them"
    )
    return (Absence(said, counts={"frames_left_out": len(left)}),)


def damaged_files(found: OmeSet, planes: int) -> tuple[Absence, ...]:
    """Report the files of which nothing can be read, with so many planes."""
    if not found.errors:
        return ()
    error = next(iter(found.errors.values()))
    more = len(found.errors) - 1
    said = str(error) + f", and {more:,} more files" * bool(more)
    return (Absence(said, type(error), "shows the planes of such files as blank", {"frames_missing": planes}),)


def lost_files(found: OmeSet, holder: str, planes: int, strange: Sequence[str]) -> tuple[Absence, ...]:
    """Report the files that do not exist.

    Args:
        planes: number of planes in them.
        strange: words for each file that has the name of one of them, and is another one.
    """
    gone = tuple([path for path, size in zip(found.paths, found.files.sizes.tolist(), strict=True) if size < 0])
    if not gone:
        return ()
    names = ", ".join([basename(path) for path in gone[:3]]) + ", …" * (len(gone) > 3)
    said = (
        f"{holder}: its OME-XML names {names}: missing, {len(gone):,} of {len(found.paths):,} files with {planes:,}"
        " planes"
    )
    said += "".join(f"; {words}" for words in strange[:3]) + "; …" * (len(strange) > 3)
    counts = {"files_missing": len(gone), "frames_missing": planes}
    return (Absence(said, MissingSourceError, "shows their planes as blank", counts, gone),)
