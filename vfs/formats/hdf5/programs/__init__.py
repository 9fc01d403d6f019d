"""Lists the programs that write HDF5, and the conventions that several follow: a file each.

Where a question has one answer (`first`, the axes of an array), the first program that has one is heard. What NeXus
shows first holds for files of all programs; its axes only where the program says none in its own way.
"""

from __future__ import annotations

from vfs.formats.hdf5.programs import (
    abtem,
    cxi,
    data_exchange,
    dectris,
    dm5,
    ebsd,
    emd,
    hyperspy,
    image,
    imaris,
    nexus,
    nion,
    nxmx,
    stempy,
    topspin,
    usid,
    velox,
)

PROGRAMS = (
    nexus.SIGNALS,
    velox.PROGRAM,
    topspin.PROGRAM,
    stempy.PROGRAM,
    dm5.PROGRAM,
    emd.PROGRAM,
    hyperspy.PROGRAM,
    nion.PROGRAM,
    abtem.PROGRAM,
    ebsd.PROGRAM,
    data_exchange.PROGRAM,
    cxi.PROGRAM,
    usid.PROGRAM,
    imaris.PROGRAM,
    nexus.AXES,
    dectris.PROGRAM,
    nxmx.PROGRAM,
    image.PROGRAM,
)
