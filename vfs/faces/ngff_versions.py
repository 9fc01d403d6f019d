"""Says which versions of OME-NGFF there are, and how a face that shows images is called: see `vfs.faces.ngff`.

Who opens a set to read its pixels makes no such face, and loads no more of it than this.
"""

from __future__ import annotations

from vfs.errors import OptionError
from vfs.model.wording import option

OLD, USUAL, NEW = "0.4", "0.5", "0.6"
"""Versions of NGFF: that of zarr v2; of zarr v3, unless the other is asked for; that one."""
OME_ENDING = ".ome"
"""What stands before the ending of a zarr face in the name of one that shows images."""


def check_version(ngff: str) -> None:
    """Check the version of NGFF that people ask for, of a hierarchy of zarr v3.

    Raises:
        OptionError: it is another one.
    """
    if ngff not in (USUAL, NEW):
        raise OptionError(f"{option(ngff=ngff)}: expected {USUAL} or {NEW}")
