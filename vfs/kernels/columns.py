"""Columns of the tables that kernels and those who call them share. Loads no numba.

A table of read ranges is `int64[n, 11]`. A row describes one contiguous part of a file, or several
*lines* that lie equally far apart:

========  ==============================================================================================
FILE      index into the data set's files
START     first byte in that file
STOP      byte after the last one (of the last line)
DEST      flat index in the output of the first element
STEP      distance in the output between neighbouring elements (1 contiguous, -1 mirrored, n transposed)
SKIP      elements to leave out at the front of the first word (packed pixels; 0 where a word is an element)
COUNT     elements in this range (in each of its lines)
PLANE     bit plane of the elements (0 if there is only one), or number of the block if blocks decode as a whole
LINES     number of lines of COUNT elements in the range, each with SKIP; 0 counts as 1
PITCH     bytes from the start of a line to that of the next one, which does not overlap it; 0 if there is one line
NEXT      distance in the output from a line's first element to that of the next line
========  ==============================================================================================

A *word* is the smallest unit that can be decoded by itself: `word_bytes` bytes that hold `word_pixels` elements.
"""

from __future__ import annotations

import numpy as np

FILE, START, STOP, DEST, STEP, SKIP, COUNT, PLANE, LINES, PITCH, NEXT = range(11)
COLUMNS = 11
NO_ROWS = np.empty((0, COLUMNS), np.int64)
NO_LIMIT = 1 << 62
"""More than any number of ranges in a plan or of bytes in a window."""

# Columns of a window table. A window is a group of neighbouring ranges of one file, fetched at once.
W_FILE, W_START, W_STOP, W_FIRST, W_LAST, W_WANTED = range(6)

S_START, S_STOP, S_BYTE, S_FILE = range(4)
S_COLUMNS = 4
"""Columns of a stream: its bytes from S_START to S_STOP (half-open) lie in file S_FILE from byte S_BYTE on.

Rows are sorted and do not overlap; bytes that no row has are in no file."""

SIZE, WRITTEN, CHANGED = range(3)
"""Columns of the states of files, int64[n, 3]: bytes, time of writing, time of change. See `vfs.model.files`."""

FAN = 16
"""Boxes, or nodes, below a node of a search tree: see `vfs.kernels.blocks`."""
