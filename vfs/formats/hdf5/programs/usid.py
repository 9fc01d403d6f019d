"""USID (pycroscopy): tables of positions and of spectroscopic values stand beside the data, never before them."""

from vfs.formats.hdf5.program import Program

PROGRAM = Program(never=r"(.*/)?(Position|Spectroscopic)_(Indices|Values)")
