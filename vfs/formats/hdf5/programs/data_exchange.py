"""Data Exchange, of tomography: `exchange/data` is shown first."""

import re

from vfs.formats.hdf5.program import Program, named

PROGRAM = Program(first=named(re.compile(r"exchange/data", re.I)))
