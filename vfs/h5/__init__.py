"""What libhdf5 says of an HDF5 file, asked in another process.

HDF5 files are taken apart by a C library that a damaged file can make hang, crash or ask for any amount of memory. So it never
runs in the process that opens a file: `helper.survey(path)` asks a process of its own, which has limits, and gets plain facts. libhdf5 opens no file by its
name there: files are opened by `vfs.boundary` and given to it as descriptors.

    facts.py     the facts (frozen dataclasses of plain values and integer tables), and how they are written into a pipe
    reading.py   an HDF5 file -> facts, with h5py: links.py (files and paths), values.py (attributes and types), chunks.py (where chunks are),
                 virtual.py (what virtual data sets take of their sources), budget.py (limits)
    server.py    the other process: for each file a fork of itself with limits of its own, so that none leaves anything for the next
    helper.py    this process: starts the other one, asks, and says what became of it

Nothing is run of what comes back: it is JSON and integers.
"""
