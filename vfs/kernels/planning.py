"""Plans reads: turns a region of an array into read ranges (`vfs.kernels.columns`).

It does so for frames and for any stored box. A range may stand for many lines of a mirrored or
cropped frame, or of a block of a larger image. With a range for each line, planning and grouping
lines of 512 bytes would take half as long as copying them.
"""

from __future__ import annotations

import math

import numpy as np

from vfs.kernels.columns import (
    COLUMNS,
    COUNT,
    DEST,
    FILE,
    LINES,
    NEXT,
    PITCH,
    PLANE,
    S_BYTE,
    S_FILE,
    S_START,
    S_STOP,
    SKIP,
    START,
    STEP,
    STOP,
)
from vfs.kernels.deferred import inlined, inner, kernel
from vfs.kernels.locate import OFFSET, locate, row_of, tables

# Working memory of `box_rows`, a row for each axis: distance in the file, distance in the output,
# length, current index
_BY, _TO, _COUNT, _INDEX = range(4)


@inner
def box_rows(box, region, axis, word_bytes, word_pixels, rows, n):
    """Append the ranges of the part of a stored box that lies in a region.

    Ranges are runs of neighbouring elements, in stored order. Runs that lie equally far apart become
    lines of one range if each begins with the same pixel of a word. Bytes count from the place where
    element 0 is stored. Places (DEST) count from the region's first element along the axes of the
    box. FILE is 0.

    Args:
        box: int64[3 * k + 2]: origin (k), shape (k), strides (k, elements in the file between
            neighbours along an axis), the element at which its origin is stored, its plane.
        region: int64[3, ndim], start, stop and step.
        axis: the box has the axes of the region from this one on; k = ndim - axis.
        rows, n: the table, and the number of its rows so far; the first ndim rows are working memory.

    Returns: the number of rows after that. If the table has no room for so many, nothing is written.
    """
    k = region.shape[1] - axis
    at, to, place, axes = box[3 * k], 0, 1, 0
    for a in range(k - 1, -1, -1):
        origin, start, stop, step = box[a], region[0, axis + a], region[1, axis + a], region[2, axis + a]
        s, d = box[2 * k + a] * step, place
        place *= (stop - start + step - 1) // step
        lo = (origin - start + step - 1) // step
        if lo < 0:
            lo = 0
        if stop > origin + box[k + a]:
            stop = origin + box[k + a]
        count = (stop - start + step - 1) // step - lo
        if count <= 0:
            return n
        at += (start - origin) * box[2 * k + a] + lo * s
        to += lo * d
        if count == 1:
            continue
        if s < 0:  # walk mirrored axes in stored order
            at += (count - 1) * s
            to += (count - 1) * d
            s, d = -s, -d
        j = axes
        while j > 0 and rows[j - 1, _BY] <= s:  # keep the axes sorted, the slowest stored one first
            for c in range(_INDEX):
                rows[j, c] = rows[j - 1, c]
            j -= 1
        rows[j, _BY], rows[j, _TO], rows[j, _COUNT] = s, d, count
        axes += 1

    run, by = 1, 1
    if axes > 0 and rows[axes - 1, _BY] == 1:
        axes -= 1
        run, by = rows[axes, _COUNT], rows[axes, _TO]
        while axes > 0 and rows[axes - 1, _BY] == run and rows[axes - 1, _TO] == run * by:
            axes -= 1
            run *= rows[axes, _COUNT]
    lines, pitch, after = 1, 0, 0
    if axes > 0 and rows[axes - 1, _BY] % word_pixels == 0 and rows[axes - 1, _BY] >= at % word_pixels + run:
        axes -= 1
        lines, pitch, after = rows[axes, _COUNT], rows[axes, _BY], rows[axes, _TO]
        while axes > 0 and rows[axes - 1, _BY] == lines * pitch and rows[axes - 1, _TO] == lines * after:
            axes -= 1
            lines *= rows[axes, _COUNT]
        pitch = pitch // word_pixels * word_bytes

    end = 1
    for a in range(axes):
        end *= rows[a, _COUNT]
        rows[a, _INDEX] = 0
    end += n
    if end > rows.shape[0]:
        return end
    for r in range(n, end):
        rows[r, FILE], rows[r, START] = 0, at // word_pixels * word_bytes
        rows[r, STOP] = ((at + run - 1) // word_pixels + 1) * word_bytes + (lines - 1) * pitch
        rows[r, DEST], rows[r, STEP], rows[r, SKIP] = to, by, at % word_pixels
        rows[r, COUNT], rows[r, PLANE] = run, box[3 * k + 1]
        rows[r, LINES], rows[r, PITCH], rows[r, NEXT] = lines, pitch, after
        for a in range(axes - 1, -1, -1):
            rows[a, _INDEX] += 1
            at += rows[a, _BY]
            to += rows[a, _TO]
            if rows[a, _INDEX] < rows[a, _COUNT]:
                break
            at -= rows[a, _COUNT] * rows[a, _BY]
            to -= rows[a, _COUNT] * rows[a, _TO]
            rows[a, _INDEX] = 0
    return end


@inlined
def push(rows, first, n, file, start, stop, dest, by, skip, count, plane, word_bytes, word_pixels):
    """Append a range of one line, or lengthen the last range.

    It lengthens the last range if both file and output continue where that ends, unless the plane
    is negative.

    Args:
        rows, first, n: the table; its ranges are the rows `first` to `n`.
        start, stop, dest, by, skip, count, plane: the range, see `vfs.kernels.columns`.

    Returns: the new `n`. If the table has no room for so many, nothing is written.
    """
    k = n - 1
    if (
        k >= first
        and rows[k, FILE] == file
        and rows[k, STOP] == start
        and skip == 0
        and rows[k, PLANE] == plane
        # The last range ends with a whole word
        and (rows[k, SKIP] + rows[k, COUNT]) * word_bytes == (start - rows[k, START]) * word_pixels
        and rows[k, STEP] == by
        and rows[k, DEST] + by * rows[k, COUNT] == dest
        and plane >= 0
    ):
        rows[k, STOP] = stop
        rows[k, COUNT] += count
    else:
        if n < rows.shape[0]:
            rows[n, FILE], rows[n, START], rows[n, STOP], rows[n, DEST] = file, start, stop, dest
            rows[n, STEP], rows[n, SKIP], rows[n, COUNT], rows[n, PLANE] = by, skip, count, plane
            rows[n, LINES], rows[n, PITCH], rows[n, NEXT] = 1, 0, 0
        n += 1
    return n


@inner
def frame_rows(region, axis, pieces, word_bytes, word_pixels, rows, first):
    """Write the ranges of the part of a frame that lies in a region.

    Bytes count from the frame's first byte, places from its first element. The ranges are in file
    order. So interleaved pieces (detector sectors side by side) are read from front to back together,
    not each for itself: R64 of four chips decodes 1.4 to 1.9 times as fast.

    Args:
        region: int64[3, ndim], start, stop and step.
        axis: the frame has the axes of the region from this one on.
        pieces: int64[p, 3 * k + 2], the pieces that a frame is made of: see `box_rows`. It is
            faster if they are in the order in which they begin in the file.
        word_bytes, word_pixels: see `vfs.kernels.columns`.
        rows, first: the table; ranges are written from row `first` on.

    Returns: end of the rows. The rows are wrong if this is beyond the table, or if there are several
        pieces and the table has no room for as many rows again.
    """
    n = first
    for p in range(pieces.shape[0]):
        end = box_rows(pieces[p], region, axis, word_bytes, word_pixels, rows, n)
        if n > first and end > n and 2 * end - n <= rows.shape[0] and rows[n, START] < rows[n - 1, START]:
            for r in range(n, end):
                for c in range(COLUMNS):
                    rows[r + end - n, c] = rows[r, c]
            i, j = n - 1, 2 * end - n - 1
            # Merge from the back, until the rows that are left are in their places
            for r in range(end - 1, first - 1, -1):
                k = j
                if i >= first and rows[i, START] > rows[j, START]:
                    k = i
                    i -= 1
                else:
                    j -= 1
                for c in range(COLUMNS):
                    rows[r, c] = rows[k, c]
                if j < end:
                    break
        n = end
    return n


_MANY = 1 << 14  # most ranges for which there is room before their number is known

WORD_BYTES, WORD_PIXELS, NAV_SHAPE = range(OFFSET + 1, OFFSET + 4)
"""Indices of the numbers that `plan_frames` takes behind those of `vfs.kernels.locate`.

They are bytes and pixels of a word, then the length of each navigation axis."""


def _frames(region, how, *_):
    """Return how many frames `plan_frames` goes through."""
    count = -(-(region[1] - region[0]) // region[2])
    return math.prod(count[: how.shape[0] - NAV_SHAPE].tolist())


@kernel(error_model="numpy", rows=_frames)
def plan_frames(region, how, pieces, stream, chosen, rows, most):
    """Plan the read ranges of a region of an array of frames.

    If no kernel is compiled yet, a process spends most of the time to its first frame on compiling
    this one. So the code does not make or slice arrays and does not call `min` and `max`, each of
    which numba compiles anew. It passes no plain 0 or -1 to a function, because a literal is a type
    of its own, for which the function is compiled once more. It takes no view of a row in a loop,
    because counting references is atomic, and slow.

    Args:
        region: int64[3, ndim], start, stop and step; navigation axes first.
        how: int64[6 + nav_ndim], see `NAV_SHAPE`.
        pieces: int64[p, 3 * sig_ndim + 2], see `frame_rows`.
        stream: int64[f, 4], see `vfs.kernels.locate`. Bytes of the stream that no file has are blank.
        chosen: int64[m] scan positions that the (flat) navigation axis shows; empty to show all.
        rows: int64[m, 11], m > ndim, for the ranges; the other rows are working memory.
        most: most ranges that the caller wants.

    Returns:
        (first, end, covered): the ranges are rows `first` to `end` of `rows`, and cover so many
        elements (of plane 0). `covered` is -1 if there would be more than `most` ranges. It is -2
        if `rows` is too short; then `end` rows may be enough.
    """
    word_bytes, word_pixels, nav = how[WORD_BYTES], how[WORD_PIXELS], how.shape[0] - NAV_SHAPE
    frames, size = 1, 1
    for k in range(region.shape[1]):
        count = (region[1, k] - region[0, k] + region[2, k] - 1) // region[2, k]
        if k < nav:
            frames *= count
        else:
            size *= count
    if frames * size == 0:
        return 0, 0, 0

    # First the ranges of one frame, whose bytes count from its first byte and places from its first element
    shift = region.shape[1]  # a row with the numbers that are added to each of these ranges
    table = shift + 1
    first = frame_rows(region, nav, pieces, word_bytes, word_pixels, rows, table)
    if first == table:
        return 0, 0, 0
    if first - table > most:
        return 0, 0, -1
    need = (first - table) * frames
    need = 2 * first + (need if need < _MANY else _MANY)
    if first > rows.shape[0] or (pieces.shape[0] > 1 and 2 * first > rows.shape[0]):
        return 0, need, -2
    high = 0
    for r in range(table, first):
        if rows[r, STOP] > high:
            high = rows[r, STOP]
    for k in range(COLUMNS):
        rows[shift, k] = 0
    for k in range(nav):
        rows[k, _INDEX] = region[0, k]

    where = tables(how, chosen, stream)
    n, covered, file = first, 0, np.int64(-1)  # file: row of the stream that was used last
    for f in range(frames):
        position = np.int64(0)
        for k in range(nav):
            position = position * how[NAV_SHAPE + k] + rows[k, _INDEX]
        for k in range(nav - 1, -1, -1):
            rows[k, _INDEX] += region[2, k]
            if rows[k, _INDEX] < region[1, k]:
                break
            rows[k, _INDEX] = region[0, k]
        base, file = locate(where, position, rows[table, START], file)
        if base < 0:
            continue
        whole = file >= 0 and base + high <= stream[file, S_STOP]
        r, line = table, 0
        while r < first:
            if whole and (r > table or rows[r, LINES] > 1):  # most frames: all of it lies in one file
                end = n + first - r
                if end <= rows.shape[0]:
                    rows[shift, FILE], rows[shift, DEST] = stream[file, S_FILE], f * size
                    rows[shift, START] = rows[shift, STOP] = base + stream[file, S_BYTE] - stream[file, S_START]
                    while r < first:
                        for k in range(COLUMNS):
                            rows[n, k] = rows[r, k] + rows[shift, k]
                        if rows[r, PLANE] == 0:
                            covered += rows[r, COUNT] * rows[r, LINES]
                        n += 1
                        r += 1
                n, r = end, first
            else:  # line by line, because any line may cross the border of two files
                last = rows[r, LINES] - 1
                a = base + rows[r, START] + line * rows[r, PITCH]
                b = base + rows[r, STOP] - (last - line) * rows[r, PITCH]
                to, by = f * size + rows[r, DEST] + line * rows[r, NEXT], rows[r, STEP]
                skip, count, plane = rows[r, SKIP], rows[r, COUNT], rows[r, PLANE]
                line += 1
                if line > last:
                    r, line = r + 1, 0
                while a < b and n <= rows.shape[0]:
                    file = row_of(where, a, file)
                    if file < 0:  # in no file: blank until the next row of the stream begins
                        after = -1 - file
                        if after >= stream.shape[0] or stream[after, S_START] >= b:
                            break
                        file = after
                        gone = (stream[file, S_START] - a) // word_bytes * word_pixels - skip
                        a = stream[file, S_START]
                        to += gone * by
                        count -= gone
                        skip = 0
                    end, here = b, count
                    if stream[file, S_STOP] < b:
                        end = stream[file, S_STOP]
                        here = (end - a) // word_bytes * word_pixels - skip
                    move = stream[file, S_BYTE] - stream[file, S_START]
                    n = push(
                        rows,
                        first,
                        n,
                        stream[file, S_FILE],
                        a + move,
                        end + move,
                        to,
                        by,
                        skip,
                        here,
                        plane,
                        word_bytes,
                        word_pixels,
                    )
                    if plane == 0:
                        covered += here
                    to += here * by
                    count -= here
                    skip = 0
                    a = end
            if n - first > most:
                return 0, 0, -1
            if n > rows.shape[0]:
                need = need if need > n else 4 * n
                return 0, (need if need < first + most else first + most), -2
    return first, n, covered
