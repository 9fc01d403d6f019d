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

# columns of a run table: contiguous elements of one stored box, or lines of them, before they get a place in a file
_FIRST, _RUN, _TO, _BY, _LINES, _PITCH, _NEXT = range(7)
RUN_COLUMNS = 7

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
def _runs(origin, shape, strides, first, start, stop, step, out_strides, runs, most, lined):
    """Cut the part of a stored box that a region wants into runs of neighbouring elements, in stored order; where `lined`, into lines of them.

    The box lies at `origin` of the array and is `shape` long; neighbours along axis k lie `strides[k]` elements apart
    in the file, the element at `origin` is element `first`. `runs` is a table that may be replaced by a longer one.

    Returns (runs, number of rows), -1 rows where there are more than `most`.
    """
    nd = len(origin)
    n = np.empty(nd, np.int64)
    src = np.empty(nd, np.int64)
    dst = np.empty(nd, np.int64)
    at = first
    to = 0
    axes = 0
    for k in range(nd):
        lo = start[k]
        if origin[k] > lo:
            lo += (origin[k] - lo + step[k] - 1) // step[k] * step[k]
        hi = min(stop[k], origin[k] + shape[k])
        count = (hi - lo + step[k] - 1) // step[k]
        if hi <= lo:
            return runs, 0
        s = strides[k] * step[k]
        d = out_strides[k]
        at += (lo - origin[k]) * strides[k]
        to += (lo - start[k]) // step[k] * d
        if count == 1:
            continue
        if s < 0:  # walk mirrored axes in stored order
            at += (count - 1) * s
            to += (count - 1) * d
            s, d = -s, -d
        j = axes  # keep the axes sorted, the slowest stored one first
        while j > 0 and src[j - 1] < s:
            src[j], dst[j], n[j] = src[j - 1], dst[j - 1], n[j - 1]
            j -= 1
        src[j], dst[j], n[j] = s, d, count
        axes += 1

    run, by = 1, 1
    if axes > 0 and src[axes - 1] == 1:
        axes -= 1
        run, by = n[axes], dst[axes]
        while axes > 0 and src[axes - 1] == run and dst[axes - 1] == run * by:
            axes -= 1
            run *= n[axes]
    lines, pitch, after = 1, 0, 0
    if lined and axes > 0 and src[axes - 1] >= run:
        axes -= 1
        lines, pitch, after = n[axes], src[axes], dst[axes]
        while axes > 0 and src[axes - 1] == lines * pitch and dst[axes - 1] == lines * after:
            axes -= 1
            lines *= n[axes]

    rows = 1
    for k in range(axes):
        rows *= n[k]
    if rows > most:
        return runs, -1
    while runs.shape[0] < rows:
        runs = _grown(runs)
    index = np.empty(nd, np.int64)
    for k in range(nd):
        index[k] = 0
    for row in range(rows):
        runs[row, _FIRST], runs[row, _RUN], runs[row, _TO], runs[row, _BY] = at, run, to, by
        runs[row, _LINES], runs[row, _PITCH], runs[row, _NEXT] = lines, pitch, after
        for k in range(axes - 1, -1, -1):
            index[k] += 1
            at += src[k]
            to += dst[k]
            if index[k] < n[k]:
                break
            at -= n[k] * src[k]
            to -= n[k] * dst[k]
            index[k] = 0
    return runs, rows


@njit(nogil=True, cache=True)
def _push(rows, n, file, start, stop, dest, by, skip, count, plane, word_bytes, word_pixels):
    """Append a row of one line, or lengthen the last one where both file and output go on without a gap (never with a negative plane)."""
    if n > 0:
        last = rows[n - 1]
        if (
            last[FILE] == file
            and last[STOP] == start
            and skip == 0
            and last[PLANE] == plane
            and (last[SKIP] + last[COUNT]) * word_bytes == (last[STOP] - last[START]) * word_pixels  # it ends with a whole word
            and last[STEP] == by
            and last[DEST] + by * last[COUNT] == dest
            and plane >= 0
        ):
            last[STOP] = stop
            last[COUNT] += count
            return rows, n
    if n == rows.shape[0]:
        rows = _grown(rows)
    row = rows[n]
    row[FILE], row[START], row[STOP], row[DEST] = file, start, stop, dest
    row[STEP], row[SKIP], row[COUNT], row[PLANE] = by, skip, count, plane
    row[LINES], row[PITCH], row[NEXT] = 1, 0, 0
    return rows, n + 1


@_inner
def _file_at(files, position):
    """Index of the last file whose stream starts at or before `position`, -1 where there is none."""
    lo, hi = 0, files.shape[0]
    while lo < hi:
        mid = (lo + hi) // 2
        if files[mid, 0] <= position:
            lo = mid + 1
        else:
            hi = mid
    return lo - 1


@njit(nogil=True, cache=True)
def _merged(keys, ends, m):
    """Order that sorts `keys`, which are `m` sorted runs, each up to (half-open) its entry of `ends`; those are overwritten."""
    n = len(keys)
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        order[k] = k
    while m > 1:
        pairs, a = 0, 0
        for e in range(0, m, 2):
            b, c = ends[e], ends[min(e + 1, m - 1)]
            i, j = a, b
            for k in range(a, c):
                if j >= c or (i < b and keys[order[i]] <= keys[order[j]]):
                    other[k] = order[i]
                    i += 1
                else:
                    other[k] = order[j]
                    j += 1
            ends[pairs] = a = c
            pairs += 1
        m = pairs
        order, other = other, order
    return order


@_inner
def _frame_rows(start, stop, step, out_strides, pieces, word_bytes, word_pixels, most):
    """Rows of the part of a frame that a region wants; bytes and places count from the frame's first ones.

    In file order: pieces that lie interleaved (detector sectors side by side) are read from front to back once, not once
    each, and R64 of four chips decodes 1.4 to 1.9 times as fast.

    Returns (rows, True), or False where there are more than `most`.
    """
    k = len(start)
    runs = np.empty((16, RUN_COLUMNS), np.int64)
    rows = np.empty((16, COLUMNS), np.int64)
    ends = np.empty(pieces.shape[0], np.int64)
    n = 0
    for p in range(pieces.shape[0]):
        piece = pieces[p]
        box, size, strides = piece[:k], piece[k : 2 * k], piece[2 * k : 3 * k]
        runs, m = _runs(box, size, strides, piece[3 * k], start, stop, step, out_strides, runs, most - n, word_pixels == 1)
        if m < 0:
            return np.empty((0, COLUMNS), np.int64), False
        while rows.shape[0] < n + m:
            rows = _grown(rows)
        for r in range(m):
            first, count = runs[r, _FIRST], runs[r, _RUN]
            rows[n, FILE], rows[n, START] = 0, first // word_pixels * word_bytes
            pitch = runs[r, _PITCH] * word_bytes
            rows[n, STOP] = ((first + count - 1) // word_pixels + 1) * word_bytes + (runs[r, _LINES] - 1) * pitch
            rows[n, DEST], rows[n, STEP], rows[n, SKIP] = runs[r, _TO], runs[r, _BY], first % word_pixels
            rows[n, COUNT], rows[n, PLANE] = count, piece[3 * k + 1]
            rows[n, LINES], rows[n, PITCH], rows[n, NEXT] = runs[r, _LINES], pitch, runs[r, _NEXT]
            n += 1
        ends[p] = n
    if pieces.shape[0] < 2:
        return rows[:n], True
    keys = np.empty(n, np.int64)
    for r in range(n):
        keys[r] = rows[r, START]
    order = _merged(keys, ends, pieces.shape[0])
    table = np.empty((n, COLUMNS), np.int64)
    for r in range(n):
        for c in range(COLUMNS):
            table[r, c] = rows[order[r], c]
    return table, True


@njit(nogil=True, cache=True)
def plan_frames(start, stop, step, nav_shape, sig_ndim, pieces, files, stride, header, stored, offset, chosen, word_bytes, word_pixels, most):
    """Read ranges of a region of an array of frames.

    Args:
        start, stop, step: the region, int64[ndim]; navigation axes first.
        nav_shape: length of the navigation axes, int64[nav_ndim].
        sig_ndim: number of signal axes, k.
        pieces: int64[p, 3 * k + 2]; what a frame is made of: origin (k), shape (k), strides (k, elements) of a box of
            the frame, the element its origin is stored at, and its plane.
        files: int64[f, 4]; the stream of bytes from `T_START` to `T_STOP` lies in file `FILE` from byte `BYTE` on:
            columns T_START, T_STOP, BYTE, FILE; sorted, without overlap. What no file covers is blank.
        stride, header: frame n starts at stream byte `n * stride + header`.
        stored: number of stored frames.
        offset: stored frame = scan position + offset.
        chosen: int64[m] scan positions that the (flat) navigation axis shows, or empty: all.
        word_bytes, word_pixels: see the module.
        most: rows at most.

    Returns:
        (ranges int64[n, 11], number of elements of plane 0 that the ranges cover); -1 elements where it would be more than `most` ranges.
    """
    nd = len(start)
    nav_ndim = nd - sig_ndim
    out = np.empty(nd, np.int64)
    size = 1
    for k in range(nd - 1, -1, -1):
        out[k] = size
        size *= (stop[k] - start[k] + step[k] - 1) // step[k]
    rows = np.empty((16, COLUMNS), np.int64)
    if size == 0:
        return rows[:0], 0

    # what every frame gives, once: rows with bytes from the frame's first one and places from its first element, in file order
    table, fits = _frame_rows(start[nav_ndim:], stop[nav_ndim:], step[nav_ndim:], out[nav_ndim:], pieces, word_bytes, word_pixels, most)
    if not fits:
        return np.empty((0, COLUMNS), np.int64), -1
    t = table.shape[0]
    low, high, full = 0, 0, 0
    for r in range(t):
        low = min(low, table[r, START]) if r > 0 else table[r, START]
        high = max(high, table[r, STOP])
        full += table[r, COUNT] * table[r, LINES] if table[r, PLANE] == 0 else 0

    frames = 1
    for k in range(nav_ndim):
        frames *= (stop[k] - start[k] + step[k] - 1) // step[k]
    index = np.empty(nav_ndim, np.int64)
    for k in range(nav_ndim):
        index[k] = start[k]
    n = 0
    covered = 0
    file = -1
    dest = 0
    frame_size = size // frames
    if t > 1:  # many rows: make room at once
        rows = np.empty((min(frames * t, most, 1 << 17) + 16, COLUMNS), np.int64)
    for _ in range(frames):
        position = 0
        for k in range(nav_ndim):
            position = position * nav_shape[k] + index[k]
        if chosen.shape[0] > 0:
            position = chosen[position]
        frame = position + offset
        whole = False
        base = frame * stride + header
        if 0 <= frame < stored and t > 0:
            if file < 0 or base + low < files[file, 0] or base + low >= files[file, 1]:
                file = _file_at(files, base + low)
            whole = file >= 0 and base + low < files[file, 1] and base + high <= files[file, 1]
            if (file < 0 or base + low >= files[file, 1]) and (file + 1 == files.shape[0] or files[file + 1, 0] >= base + high):
                frame = -1  # no file here
        if whole:  # as most frames: all of it lies in one file
            shift = base + files[file, 2] - files[file, 0]
            alone = 0
            if table[0, LINES] == 1:
                a, b, skip, plane = table[0, START] + shift, table[0, STOP] + shift, table[0, SKIP], table[0, PLANE]
                rows, n = _push(rows, n, files[file, 3], a, b, table[0, DEST] + dest, table[0, STEP], skip, table[0, COUNT], plane, word_bytes, word_pixels)
                alone = 1
            while rows.shape[0] < n + t:
                rows = _grown(rows)
            for r in range(alone, t):
                rows[n, FILE] = files[file, 3]
                rows[n, START] = table[r, START] + shift
                rows[n, STOP] = table[r, STOP] + shift
                rows[n, DEST] = table[r, DEST] + dest
                rows[n, STEP] = table[r, STEP]
                rows[n, SKIP] = table[r, SKIP]
                rows[n, COUNT] = table[r, COUNT]
                rows[n, PLANE] = table[r, PLANE]
                rows[n, LINES] = table[r, LINES]
                rows[n, PITCH] = table[r, PITCH]
                rows[n, NEXT] = table[r, NEXT]
                n += 1
            covered += full
        elif 0 <= frame < stored:
            r, line = 0, 0
            while r < t:  # line by line: a border of files may be in any of them
                last = table[r, LINES] - 1
                a, b = base + table[r, START] + line * table[r, PITCH], base + table[r, STOP] - (last - line) * table[r, PITCH]
                to, by = dest + table[r, DEST] + line * table[r, NEXT], table[r, STEP]
                skip, count, plane = table[r, SKIP], table[r, COUNT], table[r, PLANE]
                r, line = (r + 1, 0) if line == last else (r, line + 1)
                while a < b:
                    if file < 0 or a < files[file, 0] or a >= files[file, 1]:
                        file = _file_at(files, a)
                    if file < 0 or a >= files[file, 1]:  # no file here: blank until the next one starts
                        if file + 1 >= files.shape[0] or files[file + 1, 0] >= b:
                            break
                        gone = (files[file + 1, 0] - a) // word_bytes * word_pixels - skip
                        a = files[file + 1, 0]
                        to += gone * by
                        count -= gone
                        skip = 0
                        file += 1
                    end = min(b, files[file, 1])
                    here = count if end == b else (end - a) // word_bytes * word_pixels - skip
                    shift = files[file, 2] - files[file, 0]
                    rows, n = _push(rows, n, files[file, 3], a + shift, end + shift, to, by, skip, here, plane, word_bytes, word_pixels)
                    if plane == 0:
                        covered += here
                    to += here * by
                    count -= here
                    skip = 0
                    a = end
        if n > most:
            return np.empty((0, COLUMNS), np.int64), -1
        dest += frame_size
        for k in range(nav_ndim - 1, -1, -1):
            index[k] += step[k]
            if index[k] < stop[k]:
                break
            index[k] = start[k]
    return rows[:n], covered


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
