"""Asks libhdf5 in another process what an HDF5 file contains.

HDF5 files are parsed by a C library that a damaged file can make hang, crash or ask for any amount
of memory. So it never runs in the process that opens a file: `survey.survey(path)` asks another
process (`vfs.helper`), which has limits, and gets plain facts. There, too, libhdf5 opens no file by
its name: `vfs.sources.boundary` opens files and gives them to it as descriptors.

    facts.py     the facts (frozen dataclasses of plain values and integer tables)
    reading.py   an HDF5 file -> facts, with h5py: links.py (files and paths), values.py (attributes
                 and types), chunks.py (where chunks are), virtual.py (what virtual data sets take
                 of their sources), writers.py (who writes a file)
    tree.py      an HDF5 file -> what it says beside its arrays: all attributes, texts, small numbers
    server.py    what the other process does with a request
    survey.py    this process: asks the other one, and understands its answer
"""
