"""Planning: regions to read ranges. Pure functions on small integer arrays; no file is touched here.

A table of read ranges is `int64[n, 11]`, a row for one contiguous piece of a file, or for several that lie equally far apart:

========  ==============================================================================================
FILE      index into the data set's files
START     first byte in that file
STOP      byte after the last one (of the last line)
DEST      flat index in the output of the first element
STEP      distance in the output between neighbouring elements (1 contiguous, -1 mirrored, n transposed)
SKIP      elements to leave out at the front of the first word (packed pixels; 0 where a word is an element)
COUNT     elements in this range (in each of its lines)
PLANE     which bit plane the elements are (0 where there is one), or the block where blocks decode whole
LINES     how many lines of COUNT elements the range has; 0 and 1: one. More only where a word is an element
PITCH     bytes from the start of a line to that of the next one, which does not overlap it; 0 where there is one line
NEXT      distance in the output from a line's first element to that of the next line
========  ==============================================================================================

Lines are what a mirrored or cropped frame is made of, and a block of a larger image: with a row for each of them, planning and grouping
rows of 512 bytes takes half as long as copying them.

A *word* is the smallest unit that can be decoded by itself: `word_bytes` bytes that hold `word_pixels` elements.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FILE, START, STOP, DEST, STEP, SKIP, COUNT, PLANE, LINES, PITCH, NEXT = range(11)
COLUMNS = 11

_inner = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
"""For functions that only kernels call: nothing is compiled to call them from elsewhere; the cache of their callers holds them."""

# working memory of `box_rows`, a row for each axis: distance in the file and in the output, length, where we are
_BY, _TO, _COUNT, _INDEX = range(4)

# columns of a window table: neighbouring ranges of one file that are fetched together
W_FILE, W_START, W_STOP, W_FIRST, W_LAST, W_WANTED = range(6)


@_inner
def _grown(table):
    more = np.empty((2 * table.shape[0], table.shape[1]), np.int64)
    for r in range(table.shape[0]):  # a loop: assigning slices makes numba compile its error messages too, for 2.5 s
        for c in range(table.shape[1]):
            more[r, c] = table[r, c]
    return more


@_inner
def box_rows(box, region, axis, word_bytes, word_pixels, rows, n):
    """Append the part of a stored box that a region wants: runs of neighbouring elements, in stored order; lines of them where a word is an element.

    Bytes count from where element 0 is stored, places from the first element of the region's part that has the box's axes; FILE is 0.

    Args:
        box: int64[3 * k + 2]: origin (k), shape (k), strides (k, elements in the file between neighbours along an axis), the
            element its origin is stored at, its plane.
        region, axis: int64[3, ndim], start, stop and step; the box has the axes from `axis` on, k = ndim - axis.
        rows, n: the table, and how many rows it has; the first ndim are working memory.

    Returns: number of rows then; where that is more than the table has room for, nothing was written.
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
    if word_pixels == 1 and axes > 0 and rows[axes - 1, _BY] >= run:
        axes -= 1
        lines, pitch, after = rows[axes, _COUNT], rows[axes, _BY], rows[axes, _TO]
        while axes > 0 and rows[axes - 1, _BY] == lines * pitch and rows[axes - 1, _TO] == lines * after:
            axes -= 1
            lines *= rows[axes, _COUNT]
        pitch *= word_bytes

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
        rows[r, DEST], rows[r, STEP], rows[r, SKIP], rows[r, COUNT], rows[r, PLANE] = to, by, at % word_pixels, run, box[3 * k + 1]
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


@njit(nogil=True, inline="always", error_model="numpy")
def push(rows, first, n, file, start, stop, dest, by, skip, count, plane, word_bytes, word_pixels):
    """Append a row of one line, or lengthen the last one where both file and output go on without a gap (never with a negative plane).

    Args:
        rows, first, n: the table; rows are those from `first` to `n`.

    Returns: `n` as it is then; where that is more than the table has room for, nothing was written.
    """
    k = n - 1
    if (
        k >= first
        and rows[k, FILE] == file
        and rows[k, STOP] == start
        and skip == 0
        and rows[k, PLANE] == plane
        and (rows[k, SKIP] + rows[k, COUNT]) * word_bytes == (start - rows[k, START]) * word_pixels  # it ends with a whole word
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


@_inner
def _file_at(files, position):
    """Index of the last file whose stream starts at or before `position`, -1 where there is none."""
    lo, hi = 0, files.shape[0]
    while lo < hi:
        mid = (lo + hi) >> 1
        if files[mid, 0] <= position:
            lo = mid + 1
        else:
            hi = mid
    return lo - 1


@_inner
def frame_rows(region, axis, pieces, word_bytes, word_pixels, rows, first):
    """Rows of the part of a frame that a region wants; bytes and places count from the frame's first ones.

    In file order: pieces that lie interleaved (detector sectors side by side) are read from front to back once, not once
    each, and R64 of four chips decodes 1.4 to 1.9 times as fast.

    Args:
        region, axis: int64[3, ndim], start, stop and step; the frame's axes are those from `axis` on.
        pieces: int64[p, 3 * k + 2], what a frame is made of: see `box_rows`. Faster where they are in the order in which they begin in the file.
        word_bytes, word_pixels: see the module.
        rows, first: the table; they are written from `first` on.

    Returns: end of the rows. Where the table has no room for them, or there are several pieces and it has not for as many again, they are not
        what they should be.
    """
    n = first
    for p in range(pieces.shape[0]):
        end = box_rows(pieces[p], region, axis, word_bytes, word_pixels, rows, n)
        if n > first and end > n and 2 * end - n <= rows.shape[0] and rows[n, START] < rows[n - 1, START]:
            for r in range(n, end):
                for c in range(COLUMNS):
                    rows[r + end - n, c] = rows[r, c]
            i, j = n - 1, 2 * end - n - 1
            for r in range(end - 1, first - 1, -1):  # from the back, until what is left are rows that are where they belong
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


_MANY = 1 << 14  # ranges that room is made for before it is known that they are needed

STRIDE, HEADER, STORED, OFFSET, WORD_BYTES, WORD_PIXELS, NAV_SHAPE = range(7)
"""What `plan_frames` has to know of an array of frames: frame n starts at stream byte `n * stride + header`, number of stored frames,
stored frame = scan position + offset, bytes and pixels of a word, then the length of each navigation axis."""


@njit(nogil=True, cache=True, error_model="numpy")
def plan_frames(region, how, pieces, files, chosen, rows, most):
    """Read ranges of a region of an array of frames.

    Most of what a process takes to its first frame, where no kernel is compiled yet, is to compile this: nothing in here makes arrays, slices
    them or calls `min` and `max`, each of which numba compiles anew, and no view of a row is taken in a loop (its reference counts are atomic).

    Args:
        region: int64[3, ndim], start, stop and step; navigation axes first.
        how: int64[6 + nav_ndim], see `NAV_SHAPE`.
        pieces: int64[p, 3 * sig_ndim + 2], see `frame_rows`.
        files: int64[f, 4]; the stream of bytes from `T_START` to `T_STOP` lies in file `FILE` from byte `BYTE` on:
            columns T_START, T_STOP, BYTE, FILE; sorted, without overlap. What no file covers is blank.
        chosen: int64[m] scan positions that the (flat) navigation axis shows, or empty: all.
        rows: int64[m, 11], m > ndim, for the ranges; the rest of it is working memory.
        most: ranges at most.

    Returns:
        (first, end, number of elements of plane 0 that they cover) of the ranges in `rows`; -1 elements where it would be more than `most`
        ranges, -2 where `rows` is too short: `end` of them may be enough.
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

    # what every frame gives, once: rows with bytes from the frame's first one and places from its first element
    shift = region.shape[1]  # a row of what is added to each of them
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

    n, covered, file = first, 0, -1
    for f in range(frames):
        frame = 0
        for k in range(nav):
            frame = frame * how[NAV_SHAPE + k] + rows[k, _INDEX]
        for k in range(nav - 1, -1, -1):
            rows[k, _INDEX] += region[2, k]
            if rows[k, _INDEX] < region[1, k]:
                break
            rows[k, _INDEX] = region[0, k]
        if chosen.shape[0] > 0:
            frame = chosen[frame]
        frame += how[OFFSET]
        if frame < 0 or frame >= how[STORED]:
            continue
        base = frame * how[STRIDE] + how[HEADER]
        a = base + rows[table, START]
        if file < 0 or a < files[file, 0] or a >= files[file, 1]:
            file = _file_at(files, a)
        whole = file >= 0 and base + high <= files[file, 1]
        r, line = table, 0
        while r < first:
            if whole and (r > table or rows[r, LINES] > 1):  # as most frames: all of it lies in one file
                end = n + first - r
                if end <= rows.shape[0]:
                    rows[shift, FILE], rows[shift, DEST] = files[file, 3], f * size
                    rows[shift, START] = rows[shift, STOP] = base + files[file, 2] - files[file, 0]
                    while r < first:
                        for k in range(COLUMNS):
                            rows[n, k] = rows[r, k] + rows[shift, k]
                        if rows[r, PLANE] == 0:
                            covered += rows[r, COUNT] * rows[r, LINES]
                        n += 1
                        r += 1
                n, r = end, first
            else:  # line by line: a border of files may be in any of them
                last = rows[r, LINES] - 1
                a, b = base + rows[r, START] + line * rows[r, PITCH], base + rows[r, STOP] - (last - line) * rows[r, PITCH]
                to, by = f * size + rows[r, DEST] + line * rows[r, NEXT], rows[r, STEP]
                skip, count, plane = rows[r, SKIP], rows[r, COUNT], rows[r, PLANE]
                line += 1
                if line > last:
                    r, line = r + 1, 0
                while a < b and n <= rows.shape[0]:
                    if file < 0 or a < files[file, 0] or a >= files[file, 1]:
                        file = _file_at(files, a)
                    if file < 0 or a >= files[file, 1]:  # no file here: blank until the next one starts
                        if file + 1 >= files.shape[0] or files[file + 1, 0] >= b:
                            break
                        file += 1
                        gone = (files[file, 0] - a) // word_bytes * word_pixels - skip
                        a = files[file, 0]
                        to += gone * by
                        count -= gone
                        skip = 0
                    end, here = b, count
                    if files[file, 1] < b:
                        end = files[file, 1]
                        here = (end - a) // word_bytes * word_pixels - skip
                    move = files[file, 2] - files[file, 0]
                    n = push(rows, first, n, files[file, 3], a + move, end + move, to, by, skip, here, plane, word_bytes, word_pixels)
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


@njit(nogil=True, cache=True)
def in_lines(ranges, limit):
    """Cut ranges of several lines that span more than `limit` bytes into ones that do not, and into single lines where none is that short."""
    n = 0
    for r in range(ranges.shape[0]):
        n += _pieces(ranges[r], limit)
    if n == ranges.shape[0]:
        return ranges
    rows = np.empty((n, ranges.shape[1]), np.int64)
    n = 0
    for r in range(ranges.shape[0]):
        pieces = _pieces(ranges[r], limit)
        lines, pitch = ranges[r, LINES], ranges[r, PITCH]
        size = ranges[r, STOP] - ranges[r, START] - (lines - 1) * pitch
        most = max(1, -(-lines // pieces))
        for piece in range(pieces):
            row, done = rows[n], piece * most
            for c in range(ranges.shape[1]):
                row[c] = ranges[r, c]
            if pieces > 1:
                here = min(most, lines - done)
                row[START] += done * pitch
                row[STOP] = row[START] + (here - 1) * pitch + size
                row[DEST] += done * row[NEXT]
                row[LINES] = here
                if here == 1:
                    row[PITCH], row[NEXT] = 0, 0
            n += 1
    return rows


@_inner
def _pieces(row, limit):
    """Into how many pieces `in_lines` cuts a range."""
    lines, pitch = row[LINES], row[PITCH]
    if lines <= 1 or row[STOP] - row[START] <= limit:
        return 1
    size = row[STOP] - row[START] - (lines - 1) * pitch
    most = max(1, (limit - size) // pitch + 1) if limit > size else 1
    pieces = -(-lines // most)
    return -(-lines // -(-lines // pieces))  # of equal lengths, as far as that goes


@njit(nogil=True, cache=True)
def split(ranges, limit, word_bytes, word_pixels):
    """Cut ranges of one line longer than `limit` bytes into shorter ones, at word borders."""
    words = max(1, limit // word_bytes)
    rows = np.empty((ranges.shape[0] + 16, COLUMNS), np.int64)
    n = 0
    for r in range(ranges.shape[0]):
        row = ranges[r].copy()
        while True:
            if n == rows.shape[0]:
                rows = _grown(rows)
            rows[n] = row
            n += 1
            cut = row[START] + words * word_bytes
            if cut >= row[STOP]:
                break
            here = words * word_pixels - row[SKIP]
            rows[n - 1, STOP] = cut
            rows[n - 1, COUNT] = here
            row[START] = cut
            row[DEST] += here * row[STEP]
            row[COUNT] -= here
            row[SKIP] = 0
    return rows[:n]


@njit(nogil=True, cache=True)
def at_edges(ranges, edges, word_bytes, word_pixels):
    """Cut ranges where they run across edges of tiles of the output.

    Args:
        edges: int64[m + 1], first element of each tile in the flat output, and the end of the last one.

    Returns:
        (ranges with places that count from the tile's first element, int64[m + 1] first range of each tile); no edges where the
        ranges do not go through the tiles in order, or something other than one forward line crosses an edge.
    """
    m = edges.shape[0] - 1
    rows = np.empty((ranges.shape[0] + m, COLUMNS), np.int64)
    begins = np.zeros(m + 1, np.int64)
    failed = begins[:0]
    if ranges.shape[1] != COLUMNS:
        return rows[:0], failed
    n, t = 0, 0
    for r in range(ranges.shape[0]):
        start, to, by = ranges[r, START], ranges[r, DEST], ranges[r, STEP]
        skip, count = ranges[r, SKIP], ranges[r, COUNT]
        low, high = min(to, to + (count - 1) * by), max(to, to + (count - 1) * by)
        lines = max(1, ranges[r, LINES])
        if lines > 1:
            low, high = low + min(0, (lines - 1) * ranges[r, NEXT]), high + max(0, (lines - 1) * ranges[r, NEXT])
        while t + 1 < m and edges[t + 1] <= low:
            t += 1
            begins[t] = n
        if low < edges[t] or (high >= edges[t + 1] and (by != 1 or lines > 1 or ranges[r, PLANE] < 0)):
            return rows[:0], failed
        while True:
            here = min(count, edges[t + 1] - to) if by == 1 and lines == 1 else count
            row = rows[n]
            row[FILE], row[START] = ranges[r, FILE], start
            row[STOP] = ranges[r, STOP] if here == count else start + (skip + here + word_pixels - 1) // word_pixels * word_bytes
            row[DEST], row[STEP], row[SKIP], row[COUNT], row[PLANE] = to - edges[t], by, skip, here, ranges[r, PLANE]
            row[LINES], row[PITCH], row[NEXT] = lines, ranges[r, PITCH], ranges[r, NEXT]
            n += 1
            if here == count:
                break
            start += (skip + here) // word_pixels * word_bytes
            skip = (skip + here) % word_pixels
            to += here
            count -= here
            t += 1
            begins[t] = n
    for k in range(t + 1, m + 1):
        begins[k] = n
    return rows[:n], begins


@njit(nogil=True, cache=True)
def by_file(ranges):
    """The same rows, sorted by file where files go back and forth, so that `windows` finds what lies in one together."""
    for r in range(1, ranges.shape[0]):
        if ranges[r, FILE] < ranges[r - 1, FILE]:
            return ranges[np.argsort(ranges[:, FILE], kind="mergesort")]
    return ranges


@njit(nogil=True, cache=True)
def windows(ranges, limit):
    """Group neighbouring rows that lie in one file within `limit` bytes.

    Returns int64[m, 6]: FILE, first byte, last byte (half-open), first row, last row (half-open), bytes wanted.
    """
    out = np.empty((16, 6), np.int64)
    n = 0
    rows = ranges.shape[0]
    file, lo, hi, first, wanted = -1, 0, 0, 0, 0
    for r in range(rows + 1):
        if r < rows:
            a, b = ranges[r, START], ranges[r, STOP]
            size = b - a
            if ranges[r, LINES] > 1:
                size = (size - (ranges[r, LINES] - 1) * ranges[r, PITCH]) * ranges[r, LINES]
            if r > first and ranges[r, FILE] == file and max(hi, b) - min(lo, a) <= limit:
                lo, hi = min(lo, a), max(hi, b)
                wanted += size
                continue
        if r > 0:
            if n == out.shape[0]:
                out = _grown(out)
            out[n, W_FILE], out[n, W_START], out[n, W_STOP] = file, lo, hi
            out[n, W_FIRST], out[n, W_LAST], out[n, W_WANTED] = first, r, wanted
            n += 1
        if r < rows:
            file, lo, hi, first, wanted = ranges[r, FILE], a, b, r, size
    return out[:n]
