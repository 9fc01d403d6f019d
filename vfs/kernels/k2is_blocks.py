"""What a block of Gatan K2 IS cameras is made of, and the columns of its read ranges. Loads no numba.

Read ranges have eight columns more than others (see `vfs.kernels.columns`). Where the wanted rows
are far from the header, the header is a range of its own, with no elements.

========  ==============================================================================================
START     first byte: of the block where BLOCK is not -1, else of the first wanted row
STEP      distance in the output between neighbouring rows
SKIP      bytes from START to the first wanted row
COUNT     elements: ROWS * COLS
ROWS      rows wanted, every ROW_STEP-th
COLS      columns wanted, every COL_STEP-th from FIRST on
BLOCK     place of the block in its sector's part of the frame, 0 to 31; -1 where its header is not in the range
ID        frame id that the header must have; -1 for any
GROUP     a number that blocks of one band of one sector of one frame have in common
========  ==============================================================================================
"""

from vfs.kernels.columns import COLUMNS

ROWS, COLS, FIRST, ROW_STEP, COL_STEP, BLOCK, ID, GROUP = range(COLUMNS, COLUMNS + 8)
WIDE = COLUMNS + 8

HEADER, BYTES = 40, 22360  # bytes of a block's header, and of the whole block
HEIGHT, WIDTH, LINE = 930, 16, 24  # rows and columns of a block, bytes of a row
BLOCKS, BANDS, SECTORS = 32, 2, 8
GOOD, BAD_SYNC, BAD_SIZE, BAD_PLACE, BAD_ID = range(5)
