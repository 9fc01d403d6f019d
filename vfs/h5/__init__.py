"""Asks libhdf5 in another process what an HDF5 file contains.

HDF5 files are parsed by a C library that a damaged file can make hang, crash or ask for any amount
of memory. So it never runs in the process that opens a file: `helper.survey(path)` asks another
process, which has limits, and gets plain facts. There, too, libhdf5 opens no file by its name:
`vfs.sources.boundary` opens files and gives them to it as descriptors.

    facts.py     the facts (frozen dataclasses of plain values and integer tables), and how they are
                 written into a pipe
    reading.py   an HDF5 file -> facts, with h5py: links.py (files and paths), values.py (attributes
                 and types), chunks.py (where chunks are), virtual.py (what virtual data sets take
                 of their sources), budget.py (limits),
                 writers.py (who writes a file)
    server.py    the other process: reads each file in a fork of its own with limits, so that none
                 leaves anything for the next
    helper.py    this process: starts the other one, asks it, and reports how it ended

Nothing that comes back is executed: it is JSON and integers.
"""
