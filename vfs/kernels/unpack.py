"""Unpacks Medipix raw data: pixels in big-endian 64-bit words, the smallest x in the lowest bits.

A word holds 64, 8 or 4 pixels of 1, 8 or 16 bits; 24-bit pixels are two images of 16-bit lanes,
high 12 bits and low 12 bits. Ranges of any SKIP, COUNT and STEP decode. Most time goes into whole
words that are copied forwards (STEP 1) or backwards (STEP -1, sectors mounted upside down). For
these there are loops of 64-bit loads and stores; only incomplete words at the ends and other steps
are copied pixel by pixel.

Backward lines are also written backwards: the lines of a sector that is mounted upside down go down
in memory too, and a processor can predict writes if addresses keep rising or keep falling. Lines
written upwards, each before the last one, took twice as long once the output did not fit the caches
(R64 12 bit of four chips on an AMD EPYC: 0.43 of memcpy, downwards 0.80).

A line of a sector is short (32 to 512 bytes), so the fixed cost of a line counts: words are loaded
from and stored to addresses, which need not be aligned. Lines of sectors that lie side by side come
in the order of the file.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.columns import COUNT, DEST, LINES, NEXT, PITCH, PLANE, SKIP, START, STEP
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import get_word, set_word, swap_bytes
from vfs.kernels.ranges import MAX_INTERLEAVED, interleaved


def _spread_bits():
    """Make a table of the eight 1-bit pixels of each byte, as a word of eight bytes.

    Returns: uint64[2, 256]; row 0 with the lowest bit first, row 1 with the highest bit first.
    """
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return np.stack([np.ascontiguousarray(order).view(np.uint64)[:, 0] for order in (bits, bits[:, ::-1])])


_SPREAD = _spread_bits()


@inner
def _whole(skip, count, by, log):
    """Find the whole words of a range, of 2 ** log pixels each.

    There are none if the pixels do not lie side by side in the output (`by` is not 1 or -1).

    Returns: (pixels before, index of the first whole word, number of words, pixels up to their end).
    """
    if by != 1 and by != -1:
        return count, 0, 0, count
    head = min(count, -skip & ((1 << log) - 1))
    n = (count - head) >> log
    return head, (skip + head) >> log, n, head + (n << log)


@inner
def _pixel(words, q, log):
    """Return pixel `q` of the words of 2 ** log pixels that begin at an address."""
    bits = 64 >> log
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    return (swap_bytes(get_word(words, q >> log)) >> np.uint64((q & ((1 << log) - 1)) * bits)) & mask


@inner
def _forwards(src, dst, n):
    for i in range(n):
        set_word(dst, i, swap_bytes(get_word(src, i)))


@inner
def _backwards(src, dst, n, bits):
    if bits == 8:  # a big-endian word already has its pixels backwards: it is copied as it is
        for i in range(n):
            set_word(dst, n - 1 - i, get_word(src, i))
    else:  # only the two bytes of a pixel are swapped
        low, eight = np.uint64(0x00FF00FF00FF00FF), np.uint64(8)
        for i in range(n):
            word = get_word(src, i)
            set_word(dst, n - 1 - i, ((word & low) << eight) | ((word >> eight) & low))


@kernel
def place_lanes(ranges, data, base, out):
    """Unpack words of 8 pixels of 8 bits (`out` uint8) or of 4 pixels of 16 bits (`out` uint16).

    Args:
        ranges: int64[n, 11].
        data: uint8[m], a file's bytes from `base` on.
        out: uint8 or uint16, contiguous.
    """
    width = out.itemsize
    log = 3 if width == 1 else 2
    source, target = data.ctypes.data, out.ctypes.data
    ahead = np.empty(MAX_INTERLEAVED, np.int64)
    end = 0
    while end < ranges.shape[0]:
        r = end
        end, lines = interleaved(ranges, r, ahead)
        for step in range(lines):
            for k in range(r, end):
                line = step - ahead[k - r]
                if line < 0 or line >= max(1, ranges[k, LINES]):
                    continue
                count, skip, by = ranges[k, COUNT], ranges[k, SKIP], ranges[k, STEP]
                to = ranges[k, DEST] + line * ranges[k, NEXT]
                src = source + ranges[k, START] - base + line * ranges[k, PITCH]
                head, word, n, tail = _whole(skip, count, by, log)
                if n > 0:
                    if by == 1:
                        _forwards(src + word * 8, target + (to + head) * width, n)
                    else:
                        _backwards(src + word * 8, target + (to - tail + 1) * width, n, width * 8)
                for i in range(head):
                    out[to + i * by] = _pixel(src, skip + i, log)
                for i in range(tail, count):
                    out[to + i * by] = _pixel(src, skip + i, log)


@inner
def _bits_forwards(data, first, dst, n):
    for i in range(n):
        for j in range(8):
            set_word(dst, 8 * i + j, _SPREAD[0, data[np.uint64(first + 8 * i + 7 - j)]])


@inner
def _bits_backwards(data, first, dst, n):
    for i in range(n):
        for j in range(8):
            set_word(dst, 8 * (n - 1 - i) + j, _SPREAD[1, data[np.uint64(first + 8 * i + j)]])


@kernel
def place_bits(ranges, data, base, out):
    """Unpack words of 64 pixels of 1 bit.

    Args:
        ranges: int64[n, 11].
        data: uint8[m], a file's bytes from `base` on.
        out: uint8, contiguous.
    """
    source, target = data.ctypes.data, out.ctypes.data
    ahead = np.empty(MAX_INTERLEAVED, np.int64)
    end = 0
    while end < ranges.shape[0]:
        r = end
        end, lines = interleaved(ranges, r, ahead)
        for step in range(lines):
            for k in range(r, end):
                line = step - ahead[k - r]
                if line < 0 or line >= max(1, ranges[k, LINES]):
                    continue
                count, skip, by = ranges[k, COUNT], ranges[k, SKIP], ranges[k, STEP]
                to = ranges[k, DEST] + line * ranges[k, NEXT]
                start = ranges[k, START] - base + line * ranges[k, PITCH]
                head, word, n, tail = _whole(skip, count, by, 6)
                if n > 0:
                    if by == 1:
                        _bits_forwards(data, start + word * 8, target + to + head, n)
                    else:
                        _bits_backwards(data, start + word * 8, target + to - tail + 1, n)
                for i in range(head):
                    out[to + i * by] = _pixel(source + start, skip + i, 6)
                for i in range(tail, count):
                    out[to + i * by] = _pixel(source + start, skip + i, 6)


_LOW_BITS = np.uint64(12)


@inner
def _put_lanes(dst, i, word, high):
    """Write 4 lanes of 16 bits to 4 elements of 32 bits, from word `2 * i` on.

    If `high`, the lanes become the high 12 bits of the elements; else they are added to the elements.
    """
    even, odd, sixteen, half = np.uint64(0xFFFF), np.uint64(0xFFFF00000000), np.uint64(16), np.uint64(32)
    first, second = (word & even) | ((word << sixteen) & odd), ((word >> half) & even) | ((word >> sixteen) & odd)
    if high:
        set_word(dst, 2 * i, first << _LOW_BITS)
        set_word(dst, 2 * i + 1, second << _LOW_BITS)
    else:
        set_word(dst, 2 * i, get_word(dst, 2 * i) + first)
        set_word(dst, 2 * i + 1, get_word(dst, 2 * i + 1) + second)


@inner
def _halves_forwards(src, dst, n, high):
    for i in range(n):
        _put_lanes(dst, i, swap_bytes(get_word(src, i)), high)


@inner
def _halves_backwards(src, dst, n, high):
    low, eight = np.uint64(0x00FF00FF00FF00FF), np.uint64(8)
    for i in range(n):
        word = get_word(src, i)
        _put_lanes(dst, n - 1 - i, ((word & low) << eight) | ((word >> eight) & low), high)


@inner
def _put_half(out, at, half, high):
    out[at] = np.uint32(half << _LOW_BITS) if high else np.uint32(out[at] + half)


@kernel
def place_halves(ranges, data, base, out):
    """Unpack 24-bit pixels: words of 4 lanes of 16 bits, two planes.

    Plane 0 has the high 12 bits of the pixels and overwrites the output. Plane 1 has the low 12
    bits, which are added. To add both to a cleared output would go through memory once more (0.65 of
    memcpy, this way 0.77).

    Args:
        ranges: int64[n, 11], for every pixel its plane 0 before its plane 1, as they lie in a file.
        data: uint8[m], a file's bytes from `base` on.
        out: uint32, contiguous.
    """
    source, target = data.ctypes.data, out.ctypes.data
    ahead = np.empty(MAX_INTERLEAVED, np.int64)
    end = 0
    while end < ranges.shape[0]:
        r = end
        end, lines = interleaved(ranges, r, ahead)
        for step in range(lines):
            for k in range(r, end):
                line = step - ahead[k - r]
                if line < 0 or line >= max(1, ranges[k, LINES]):
                    continue
                count, skip, by = ranges[k, COUNT], ranges[k, SKIP], ranges[k, STEP]
                to = ranges[k, DEST] + line * ranges[k, NEXT]
                high = ranges[k, PLANE] == 0
                src = source + ranges[k, START] - base + line * ranges[k, PITCH]
                head, word, n, tail = _whole(skip, count, by, 2)
                if n > 0:
                    if by == 1:
                        _halves_forwards(src + word * 8, target + (to + head) * 4, n, high)
                    else:
                        _halves_backwards(src + word * 8, target + (to - tail + 1) * 4, n, high)
                for i in range(head):
                    _put_half(out, to + i * by, _pixel(src, skip + i, 2), high)
                for i in range(tail, count):
                    _put_half(out, to + i * by, _pixel(src, skip + i, 2), high)


@kernel
def place_nibbles(ranges, data, base, out):
    """Unpack pixels of 4 bits, two in a byte, the low half first.

    Args:
        ranges: int64[n, 11], with words of one byte and two pixels.
        data: uint8[m], a file's bytes from `base` on.
        out: uint8.
    """
    ahead = np.empty(MAX_INTERLEAVED, np.int64)
    end = 0
    while end < ranges.shape[0]:
        r = end
        end, lines = interleaved(ranges, r, ahead)
        for step in range(lines):
            for k in range(r, end):
                line = step - ahead[k - r]
                if line < 0 or line >= max(1, ranges[k, LINES]):
                    continue
                first = (ranges[k, START] - base + line * ranges[k, PITCH]) * 2 + ranges[k, SKIP]
                to, by = ranges[k, DEST] + line * ranges[k, NEXT], ranges[k, STEP]
                for i in range(ranges[k, COUNT]):
                    p = first + i
                    out[to + i * by] = (data[p >> 1] >> ((p & 1) << 2)) & 15
