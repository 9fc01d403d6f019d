"""Reads blocks of Gatan K2 IS cameras: plans reads, checks headers, and unpacks pixels of 12 bits.

A block is 40 bytes of header and 930 rows of 24 bytes, 16 pixels each. The blocks of a band lie side
by side in the image, so a row of 512 bytes of output comes from 16 places of a file. Blocks of one
band of one sector are unpacked together, row by row of the output: the processor can fetch ahead
in these 16 streams through the file and one through the output.

Measured, frames of 7.6 MB from memory: as fast as np.copyto with a vector of 16 pixels at a time;
0.43 of it with a loop over words, and rows by way of scratch memory.

`vfs.kernels.k2is_blocks` has the columns of their read ranges.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.columns import COUNT, DEST, FILE, SKIP, START, STEP, STOP
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import swap_bytes, unpack_12
from vfs.kernels.k2is_blocks import (
    BAD_ID,
    BAD_PLACE,
    BAD_SIZE,
    BAD_SYNC,
    BANDS,
    BLOCK,
    BLOCKS,
    BYTES,
    COL_STEP,
    COLS,
    FIRST,
    GOOD,
    GROUP,
    HEADER,
    HEIGHT,
    ID,
    LINE,
    ROW_STEP,
    ROWS,
    SECTORS,
    WIDE,
    WIDTH,
)
from vfs.kernels.locate import stored_frame, tables

_ACROSS = BLOCKS // BANDS
_NEAR = 4096  # up to so many bytes between the header and the wanted rows are read along with them


@kernel
def _frame_rows(start, stop, step, pitch):
    """Plan the ranges of a box of a frame.

    Bytes count from the frame's part of each sector, places in the output from the box's first element.

    Args:
        start, stop, step: int64[2], y and x in the full frame.
        pitch: elements in a row of the output.
    """
    table = np.zeros((2 * SECTORS * BLOCKS, WIDE), np.int64)
    n = 0
    for sector in range(SECTORS):
        for block in range(BLOCKS):
            band = block // _ACROSS
            y, x = band * HEIGHT, sector * WIDTH * _ACROSS + WIDTH * (_ACROSS - 1 - block % _ACROSS)
            # First wanted row and column at or after y, x
            r0, c0 = max(0, -((start[0] - y) // step[0])), max(0, -((start[1] - x) // step[1]))
            r1 = -((start[0] - min(stop[0], y + HEIGHT)) // step[0])
            c1 = -((start[1] - min(stop[1], x + WIDTH)) // step[1])
            if r1 <= r0 or c1 <= c0:
                continue
            first = HEADER + (start[0] + r0 * step[0] - y) * LINE
            last = HEADER + (start[0] + (r1 - 1) * step[0] - y + 1) * LINE
            row = table[n]
            row[FILE], row[START], row[STOP], row[BLOCK] = sector, block * BYTES, block * BYTES + HEADER, block
            if first > _NEAR:
                n += 1
                row = table[n]
                row[FILE], row[START], row[SKIP], row[BLOCK] = sector, block * BYTES + first, 0, -1
            else:
                row[SKIP] = first
            row[STOP] = block * BYTES + last
            row[DEST], row[STEP] = r0 * pitch + c0, pitch
            row[ROWS], row[COLS], row[COUNT] = r1 - r0, c1 - c0, (r1 - r0) * (c1 - c0)
            row[FIRST], row[ROW_STEP], row[COL_STEP] = start[1] + c0 * step[1] - x, step[0], step[1]
            row[GROUP] = sector * BANDS + band
            n += 1
    return table[:n]


@inner
def _stored_frames(start, stop, step, nav_shape, where, shown):
    """Find the stored frames that the scan positions of a region show, in C order.

    Args:
        start, stop, step, nav_shape: see `plan`.
        where: from `vfs.kernels.locate.tables`.
        shown: int64[positions], receives them; -1 where there is none.

    Returns: how many there are.
    """
    k = nav_shape.shape[0]
    index = start[:k].copy()
    count = 0
    for f in range(shown.shape[0]):
        position = 0
        for axis in range(k):
            position = position * nav_shape[axis] + index[axis]
        shown[f] = stored_frame(where, position)
        if shown[f] >= 0:
            count += 1
        for axis in range(k - 1, -1, -1):
            index[axis] += step[axis]
            if index[axis] < stop[axis]:
                break
            index[axis] = start[axis]
    return count


@kernel
def plan(start, stop, step, nav_shape, origin, how, chosen, first, first_id, most):
    """Plan the read ranges of a region of frames.

    Args:
        start, stop, step: int64[ndim], the region, navigation axes first.
        nav_shape: int64[ndim - 2], lengths of the navigation axes.
        origin: int64[2], y and x in the full frame at which the array begins.
        how, chosen: say which stored frame a scan position shows, see `vfs.kernels.locate.tables`.
        first: int64[8], byte of the first stored frame in each sector's file; -1 if a sector's file
            is missing: its pixels are not covered.
        first_id: frame id of the first stored frame, if each frame's id is one more than the last
            one's; else -1.
        most: most ranges that the caller wants.

    Returns: (ranges int64[n, 19], elements that they cover); (no ranges, -1) if there would be more
        than `most` ranges.
    """
    k = len(start) - 2
    lines = (stop[k] - start[k] + step[k] - 1) // step[k]
    pitch = (stop[k + 1] - start[k + 1] + step[k + 1] - 1) // step[k + 1]
    frames = 1
    for axis in range(k):
        frames *= (stop[axis] - start[axis] + step[axis] - 1) // step[axis]
    if frames == 0 or lines == 0 or pitch == 0:
        return np.empty((0, WIDE), np.int64), 0
    table = _frame_rows(start[k:] + origin, stop[k:] + origin, step[k:], pitch)
    t = table.shape[0]
    shown = np.empty(frames, np.int64)
    count = _stored_frames(start, stop, step, nav_shape, tables(how, chosen, first), shown)
    if count * t > most:
        return np.empty((0, WIDE), np.int64), -1
    rows = np.empty((count * t, WIDE), np.int64)
    n = covered = 0
    for f in range(frames):
        frame = shown[f]
        if frame < 0:
            continue
        for r in range(t):
            if first[table[r, FILE]] < 0:
                continue
            row = rows[n]
            row[:] = table[r]
            covered += row[COUNT]
            shift = first[row[FILE]] + frame * (BLOCKS * BYTES)
            row[START] += shift
            row[STOP] += shift
            row[DEST] += f * lines * pitch
            row[ID] = (first_id + frame) & 0xFFFFFFFF if first_id >= 0 else -1
            row[GROUP] += f * SECTORS * BANDS
            n += 1
    return rows[:n], covered


@kernel
def fault(header, block, frame_id):
    """Check the header of a block. Return GOOD, or the kind of error.

    Args:
        header: uint8[at least 40].
        block: place of the block in its sector's part of the frame; -1 to leave it unchecked.
        frame_id: frame id that the header should have; -1 to leave it unchecked.
    """
    if header[0] != 0xFF or header[1] != 0xFF or header[2] != 0x00 or header[3] != 0x55:
        return BAD_SYNC
    short = header[:HEADER].view(np.uint16)
    if (
        swap_bytes(short[10]) != 256
        or swap_bytes(short[11]) != BANDS * HEIGHT
        or swap_bytes(short[18]) != 0
        or swap_bytes(short[19]) != BYTES
    ):
        return BAD_SIZE
    if block >= 0 and (
        swap_bytes(short[14]) != WIDTH * (_ACROSS - 1 - block % _ACROSS)
        or swap_bytes(short[15]) != HEIGHT * (block // _ACROSS)
    ):
        return BAD_PLACE
    if frame_id >= 0 and (np.int64(swap_bytes(short[12])) << 16 | swap_bytes(short[13])) != frame_id:
        return BAD_ID
    return GOOD


@kernel
def _band(src, at, count, dst, rows, line, pitch):
    """Unpack the rows of blocks that lie side by side in the output.

    Args:
        src: address of the input.
        at: int64[16], byte of the input at which the first wanted row of each of `count` blocks
            begins, from right to left.
        dst: address of the first row of the leftmost block in the output.
        line, pitch: bytes from a wanted row to the next one, in a block and in the output.
    """
    for r in range(rows):
        to = dst + r * pitch
        for k in range(count - 1, -1, -1):
            unpack_12(to, src + at[k] + r * line)
            to += 2 * WIDTH


@kernel
def _pixels(data, a, row, out):
    """Unpack any pixels of one block, whose first wanted row begins at byte `a`."""
    for r in range(row[ROWS]):
        line = a + r * row[ROW_STEP] * LINE
        to = row[DEST] + r * row[STEP]
        for c in range(row[COLS]):
            x = row[FIRST] + c * row[COL_STEP]
            p = line + x // 2 * 3
            low, high = np.uint16(data[p + (x & 1)]), np.uint16(data[p + 1 + (x & 1)])
            out[to + c] = (
                (low >> np.uint16(4)) | (high << np.uint16(4))
                if x & 1
                else low | ((high & np.uint16(15)) << np.uint16(8))
            )


@kernel
def unpack(ranges, data, base, out):
    """Check the headers of blocks, then unpack their pixels to their places.

    Args:
        ranges: int64[n, 19], all of one file.
        data: uint8[m], bytes of that file from `base` on.
        out: uint16, contiguous.

    Returns: (-1, GOOD); or (index of the first range whose header is wrong, the kind of error), and
        then nothing is written.
    """
    n = ranges.shape[0]
    for r in range(n):
        if ranges[r, BLOCK] >= 0:
            a = ranges[r, START] - base
            wrong = fault(data[a : a + HEADER], ranges[r, BLOCK], ranges[r, ID])
            if wrong != GOOD:
                return r, wrong
    at = np.empty(_ACROSS, np.int64)
    r = 0
    while r < n:
        row = ranges[r]
        if row[COUNT] == 0:
            r += 1
            continue
        if row[COLS] != WIDTH:
            _pixels(data, row[START] + row[SKIP] - base, row, out)
            r += 1
            continue
        count, last = 0, r
        while r < n and count < _ACROSS:
            if ranges[r, COUNT] > 0:
                if (
                    ranges[r, GROUP] != row[GROUP]
                    or ranges[r, COLS] != WIDTH
                    or ranges[r, DEST] != row[DEST] - count * WIDTH
                ):
                    break
                at[count] = ranges[r, START] + ranges[r, SKIP] - base
                count += 1
                last = r
            r += 1
        first, to, line, pitch = (
            data.ctypes.data,
            out.ctypes.data + 2 * ranges[last, DEST],
            row[ROW_STEP] * LINE,
            2 * row[STEP],
        )
        if count == _ACROSS:  # a loop of known length: 1.05 of np.copyto instead of 0.8
            _band(first, at, _ACROSS, to, row[ROWS], line, pitch)
        else:
            _band(first, at, count, to, row[ROWS], line, pitch)
    return -1, GOOD
