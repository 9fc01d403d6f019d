"""Finds the stored blocks, of any shape at any place, that a region touches, and plans their read ranges.

The boxes of the blocks are sorted along a Z-order curve and packed, `FAN` at a time, into a tree of
bounding boxes. A search goes down only where boxes overlap the region. So its cost grows with the
number of blocks that it finds, and with the logarithm of the number of all blocks.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.columns import COLUMNS, COUNT, DEST, FAN, FILE, LINES, NEXT, PLANE, START, STEP, STOP
from vfs.kernels.deferred import inner, kernel
from vfs.kernels.planning import box_rows, push


def _overlapping(tree, levels, start, stop):
    """Return how many boxes overlap a region; all of them where they are so many that this takes longer than numba."""
    n, nd = int(levels[1]), len(start)
    boxes = tree[:n]
    return n if n > _COUNTED else int(((boxes[:, :nd] < stop) & (boxes[:, nd:] > start)).all(axis=1).sum())


_COUNTED = 1 << 14  # numpy compares so many boxes in 0.3 ms


@kernel(rows=_overlapping)
def find(tree, levels, start, stop):
    """Find the boxes that overlap the region `start` to `stop`. Return their indices in curve order."""
    nd = len(start)
    top = len(levels) - 2
    stack_level = np.empty(FAN * (top + 2), np.int64)
    stack_node = np.empty(FAN * (top + 2), np.int64)
    found = np.empty(16, np.int64)
    n = 0
    depth = 0
    for node in range(levels[top + 1] - levels[top]):
        stack_level[depth], stack_node[depth] = top, node
        depth += 1
    while depth > 0:
        depth -= 1
        level, node = stack_level[depth], stack_node[depth]
        row = tree[levels[level] + node]
        meets = True
        for k in range(nd):
            if row[k] >= stop[k] or row[nd + k] <= start[k]:
                meets = False
                break
        if not meets:
            continue
        if level == 0:
            if n == found.shape[0]:
                more = np.empty(2 * n, np.int64)
                for i in range(n):
                    more[i] = found[i]
                found = more
            found[n] = node
            n += 1
        else:
            count = levels[level] - levels[level - 1]
            for child in range(min((node + 1) * FAN, count) - 1, node * FAN - 1, -1):
                stack_level[depth], stack_node[depth] = level - 1, child
                depth += 1
    return found[:n]


@kernel
def mark(boxes, shape, found):
    """Mark all positions of boxes along their first axes.

    Args:
        boxes: int64[n, 2 * nd], low then high.
        shape: int64[m], of the array along the first m axes, m ≥ 1.
        found: uint8[positions], set to 1 where a box is.
    """
    m, nd = shape.shape[0], boxes.shape[1] // 2
    at = np.empty(m, np.int64)
    for b in range(boxes.shape[0]):
        for k in range(m):
            at[k] = boxes[b, k]
        k = m
        while k >= 0:
            row = 0
            for k in range(m - 1):
                row = (row + at[k]) * shape[k + 1]
            for j in range(boxes[b, m - 1], boxes[b, nd + m - 1]):
                found[row + j] = 1
            k = m - 2  # the next row of this box
            while k >= 0:
                at[k] += 1
                if at[k] < boxes[b, nd + k]:
                    break
                at[k] = boxes[b, k]
                k -= 1


@inner
def _meet(tree, a, b, nd):
    for k in range(nd):  # noqa: SIM110 (numba does not compile the generator)
        if tree[a, k] >= tree[b, nd + k] or tree[b, k] >= tree[a, nd + k]:
            return False
    return True


@kernel(rows=lambda tree, levels: int(levels[1]))
def first_overlap(tree, levels):
    """Find two boxes that overlap.

    The tree is joined with itself: from pairs of nodes that overlap it goes down to pairs of their
    children that overlap. A million boxes in no grid take 0.4 s (with a search for every node of
    leaves 0.9 s, for every box 13 s).

    Returns: their indices in curve order, the lower one first; (-1, -1) if no boxes overlap.
    """
    nd = tree.shape[1] // 2
    stack = np.empty((FAN * FAN * len(levels), 3), np.int64)
    left, right = np.empty(FAN, np.int64), np.empty(FAN, np.int64)
    at, a, b = len(levels) - 1, 0, 0  # above the top level is one node, which holds all of it
    depth = 0
    while True:
        below = levels[at - 1]
        end = levels[at]
        m = n = 0
        for i in range(below + a * FAN, min(below + (a + 1) * FAN, end)):
            if a == b or _meet(tree, i, end + b, nd):
                left[m] = i - below
                m += 1
        if a == b:
            n = m
            right[:n] = left[:n]
        else:
            for i in range(below + b * FAN, min(below + (b + 1) * FAN, end)):
                if _meet(tree, i, end + a, nd):
                    right[n] = i - below
                    n += 1
        for i in range(m):
            for j in range(i if a == b else 0, n):
                p, q = left[i], right[j]
                if p != q and not _meet(tree, below + p, below + q, nd):
                    continue
                if at == 1:
                    if p != q:
                        return min(p, q), max(p, q)
                    continue
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = at - 1, p, q
                depth += 1
        if depth == 0:
            return -1, -1
        depth -= 1
        at, a, b = stack[depth, 0], stack[depth, 1], stack[depth, 2]


@inner
def _sort_by_place(hits, place):
    """Sort blocks by file and place there."""
    for i in range(1, hits.shape[0]):
        h, j = hits[i], i
        while j > 0:
            k = hits[j - 1]
            if place[k, 0] < place[h, 0] or (place[k, 0] == place[h, 0] and place[k, 1] <= place[h, 1]):
                break
            hits[j] = k
            j -= 1
        hits[j] = h


@inner
def _place_if_straight(region, tree, pitch, h):
    """Return the place of a block in the output if it is wanted as a whole and lies there side by side, else -1.

    Args:
        region, tree, pitch: see `plan_blocks`.
        h: index of the block.
    """
    nd = region.shape[1]
    to, size, straight, full = 0, 1, True, True
    for k in range(nd - 1, -1, -1):
        start, stop, step = region[0, k], region[1, k], region[2, k]
        low, high = tree[h, k], tree[h, nd + k]
        skipped = (max(start, low) - start + step - 1) // step
        lo, length = start + skipped * step, (stop - start + step - 1) // step
        count = (min(stop, high) - lo + step - 1) // step
        to += skipped * size
        size *= length
        whole = count == (pitch[k] if pitch.shape[0] > 0 else high - low)
        straight = straight and lo == low and whole and (full or count == 1)
        full = full and count == length
    return to if straight else -1


@kernel(error_model="numpy", rows=lambda region, hits, *_: len(hits))
def plan_blocks(region, hits, tree, place, pitch, whole, word_bytes, box, rows, most):
    """Plan the read ranges of the blocks that a region touches.

    Args:
        region: int64[3, nd], start, stop and step.
        hits: int64[m], indices of the blocks, from `find`. They are sorted here by their places in
            the files, with a simple sort that is slow for many: sort these before.
        tree: from `pack`.
        place: int64[n, 4] in curve order: file, first byte, bytes stored, number of the block.
        pitch: int64[nd], shape in which every block is stored (it may be larger than its box);
            empty if that is the shape of its box.
        whole: True if a block decodes only as a whole. Then each block has one row, with its number
            in PLANE. NEXT is 1 if all of the block is wanted, in elements of the output that lie
            side by side from DEST on.
        word_bytes: bytes of an element.
        box: int64[3 * nd + 2], working memory with any content.
        rows: int64[m, 11], m > nd, for the ranges, as in `vfs.kernels.planning.plan_frames`.
        most: most ranges that the caller wants.

    Returns: (first, end, covered): the ranges are rows `first` to `end` of `rows`, sorted by file
        and place, and cover so many elements. `covered` is -1 if there would be more than `most`
        ranges. It is -2 if `rows` is too short; then `end` rows may be enough.
    """
    _sort_by_place(hits, place)
    nd = region.shape[1]
    first = n = nd
    covered = 0
    for h in hits:
        here = 1
        length = 1
        for k in range(nd - 1, -1, -1):
            low, high, start, stop, step = tree[h, k], tree[h, nd + k], region[0, k], region[1, k], region[2, k]
            box[k], box[nd + k], box[2 * nd + k] = low, high - low, length
            length *= pitch[k] if pitch.shape[0] > 0 else high - low
            if high < stop:
                stop = high
            if low > start:
                start += (low - start + step - 1) // step * step
            here *= (stop - start + step - 1) // step if stop > start else 0
        if here == 0:  # the steps of the region jump over this block
            continue
        covered += here
        file, at = place[h, 0], place[h, 1]
        if whole:
            end = push(rows, first, n, file, at, at + place[h, 2], 0, 1, 0, here, -1, 1, 1)
            if end <= rows.shape[0]:
                rows[n, PLANE] = place[h, 3]
                to = _place_if_straight(region, tree, pitch, h)
                if to >= 0:
                    rows[n, DEST], rows[n, NEXT] = to, 1
                n = end
        else:
            box[3 * nd] = box[3 * nd + 1] = 0
            end = box_rows(box, region, 0, word_bytes, 1, rows, n)
            if end <= rows.shape[0]:
                for r in range(n, end):
                    a, b = at + rows[r, START], at + rows[r, STOP]
                    to, by, count = rows[r, DEST], rows[r, STEP], rows[r, COUNT]
                    if rows[r, LINES] > 1:
                        for c in range(COLUMNS):
                            rows[n, c] = rows[r, c]
                        rows[n, FILE], rows[n, START], rows[n, STOP] = file, a, b
                        n += 1
                    else:
                        n = push(rows, first, n, file, a, b, to, by, 0, count, 0, word_bytes, 1)
        if end - first > most:
            return 0, 0, -1
        if end > rows.shape[0]:
            return 0, (4 * end if 4 * end < first + most else first + most), -2
    return first, n, covered
