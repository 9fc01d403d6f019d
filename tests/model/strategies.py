"""What hypothesis draws for many tests: indices and regions, and arrays laid out in files in any way."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from hypothesis import event
from hypothesis import strategies as st

from vfs.engine.array import ArrayReader
from vfs.kernels.columns import COUNT, DEST, PLANE, SKIP, START, STEP, STOP
from vfs.model.as_scan import as_scan
from vfs.model.codecs import CodecDecoder
from vfs.model.decode import BlockDecoder, Decoder, Elements, PlainDecoder
from vfs.model.layout import BlockLayout, BlockTable, FrameLayout, FrameRecord, Scan
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.testing.backends import MemoryBackend, local_files, memory_files

shapes = st.lists(st.integers(0, 7), max_size=5).map(tuple)
steps = st.sampled_from([1, 2, 3, 4, -1, -2, -3, -4, 100, -100, None])
bounds = st.integers(-10, 10) | st.sampled_from([None, -(2**62), 2**62])
slices = st.builds(slice, bounds, bounds, steps)


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Anything that numpy takes as a basic index of an array of this shape, except newaxis."""
    parts: list[Any] = []
    for n in shape:
        kinds: list[st.SearchStrategy[Any]] = [slices]
        if n:
            inside = st.integers(-n, n - 1)
            kinds += [
                inside,
                inside.map(np.int64),
                inside.map(np.int8),
                inside.map(np.array),
                st.integers(0, n - 1).map(np.uint64),
            ]
        parts.append(draw(st.one_of(kinds)))
    given = draw(st.integers(0, len(shape)))
    form = draw(st.sampled_from(["front", "dots", "alone"]))
    if form == "alone" and parts and given:
        return parts[0]
    if form == "dots":
        at = draw(st.integers(0, given))
        return (*parts[:at], Ellipsis, *parts[len(shape) - (given - at) :])
    return tuple(parts[:given])


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...]) -> Region:
    """A region of an array of this shape, with steps, often empty along some axis."""
    ends = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    by = [draw(st.integers(1, 3)) for _ in shape]
    return Region(tuple(a for a, _ in ends), tuple(b for _, b in ends), tuple(by))


U2 = np.dtype(np.uint16)
GARBAGE = b"\xee"  # what lies between the pixels
DTYPES = [
    np.dtype(t).newbyteorder(o)
    for t in ["u1", "i1", "?", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8", "c16"]
    for o in "<>"
]


@dataclass(frozen=True)
class TwelveBits(Elements):
    """Two pixels in three bytes, little-endian: a slow decoder that obeys SKIP and COUNT to the letter."""

    dtype: np.dtype = U2
    word_bytes: int = 3
    word_pixels: int = 2

    @staticmethod
    def pack(pixels: np.ndarray) -> bytes:
        even, odd = np.pad(pixels.reshape(-1), (0, pixels.size % 2)).reshape(-1, 2).T.astype(np.uint32)
        word = even | odd << 12
        return np.stack([word & 255, word >> 8 & 255, word >> 16], axis=1).astype(np.uint8).tobytes()

    def decode(self, rows: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        for row in rows:
            triples = data[row[START] - base : row[STOP] - base].reshape(-1, 3).astype(np.uint16)
            pixels = np.stack(
                [triples[:, 0] | (triples[:, 1] & 15) << 8, triples[:, 1] >> 4 | triples[:, 2] << 4], axis=1
            ).reshape(-1)
            assert 0 <= row[SKIP] < 2
            assert row[COUNT] > 0
            assert pixels.size - 1 <= row[SKIP] + row[COUNT] <= pixels.size  # no word too many
            out[row[DEST] + row[STEP] * np.arange(row[COUNT])] = pixels[row[SKIP] : row[SKIP] + row[COUNT]]


@dataclass(frozen=True)
class BytePlanes(Elements):
    """The high bytes of a frame, then its low bytes: a decoder that adds up."""

    dtype: np.dtype = U2
    word_bytes: int = 1
    word_pixels: int = 1
    accumulates: ClassVar[bool] = True

    def decode(self, rows: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        for row in rows:
            part = data[row[START] - base : row[STOP] - base].astype(np.uint16)
            assert part.size == row[COUNT]
            out[row[DEST] + row[STEP] * np.arange(row[COUNT])] += part << (8 if row[PLANE] == 0 else 0)


@dataclass(frozen=True)
class Case:
    """An array in files, and the same array in memory."""

    dataset: StoredArray
    contents: list[bytes]
    twin: np.ndarray

    def memory(self, **how: Any) -> ArrayReader:
        return ArrayReader(self.dataset, MemoryBackend(self.contents, **how))

    def written(self, folder: str | Path) -> StoredArray:
        """The same in real files."""
        paths = [Path(folder) / f"{n}.bin" for n in range(len(self.contents))]
        for path, content in zip(paths, self.contents, strict=True):
            path.write_bytes(content)
        return replace(self.dataset, files=local_files(paths))


def some(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers that every dtype of that size can tell apart."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2 if dtype.kind == "b" else 120, shape)
    return (values + 1j * rng.integers(0, 120, shape) if dtype.kind == "c" else values).astype(dtype.newbyteorder("="))


def partition(
    draw: st.DrawFn, low: tuple[int, ...], high: tuple[int, ...], cuts: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Guillotine: a box cut in two, and these again, `cuts` times."""
    boxes = [(low, high)]
    for _ in range(cuts):
        k = draw(st.integers(0, len(boxes) - 1))
        a, b = boxes[k]
        axes = [axis for axis in range(len(a)) if b[axis] - a[axis] > 1]
        if not axes:
            continue
        axis = draw(st.sampled_from(axes))
        at = draw(st.integers(a[axis] + 1, b[axis] - 1))
        boxes[k : k + 1] = [(a, (*b[:axis], at, *b[axis + 1 :])), ((*a[:axis], at, *a[axis + 1 :]), b)]
    return boxes


@st.composite
def piece_tables(draw: st.DrawFn, sig: tuple[int, ...], planes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of a frame, each with its axes in any order and direction, one after the other in the file.

    Returns: (pieces, int[sig]: which stored element every element of the frame is).
    """
    size = math.prod(sig)
    rows, where = [], np.empty(sig, int)
    first = 0
    boxes = partition(draw, (0,) * len(sig), sig, draw(st.integers(0, 3)))
    for a, b in draw(st.permutations(boxes)):
        shape = [y - x for x, y in zip(a, b, strict=True)]
        strides = [0] * len(sig)
        begin, pitch = first, 1
        for axis in reversed(draw(st.permutations(range(len(sig))))):
            strides[axis] = pitch
            if draw(st.booleans()):  # mirrored
                begin += (shape[axis] - 1) * pitch
                strides[axis] = -pitch
            pitch *= shape[axis]
        grid = np.indices(shape)
        where[tuple(slice(x, y) for x, y in zip(a, b, strict=True))] = begin + sum(
            g * s for g, s in zip(grid, strides, strict=True)
        )
        rows += [[*a, *shape, *strides, begin + plane * size, plane] for plane in range(planes)]
        first += math.prod(shape)
    return np.array(rows, np.int64), where


@st.composite
def frame_cases(draw: st.DrawFn) -> Case:
    """Frames of any kind, spread over files in any way, some files missing, shown as any scan."""
    kind = draw(st.sampled_from(["plain", "plain", "packed", "planes"]))
    sig = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=3)))
    size = math.prod(sig)
    n = draw(st.integers(0, 8))
    seed = draw(st.integers(0, 3))
    if kind == "plain":
        stored_dtype = draw(st.sampled_from(DTYPES))
        decoder: Decoder = PlainDecoder(stored_dtype)
        elements = some(stored_dtype, (n, size), seed)
        payloads = [row.astype(stored_dtype).tobytes() for row in elements]
    elif kind == "packed":
        decoder = TwelveBits()
        elements = np.random.default_rng(seed).integers(0, 4096, (n, size)).astype(np.uint16)
        payloads = [TwelveBits.pack(row) for row in elements]
    else:
        decoder = BytePlanes()
        elements = np.random.default_rng(seed).integers(0, 65536, (n, size)).astype(np.uint16)
        payloads = [(row >> 8).astype(np.uint8).tobytes() + row.astype(np.uint8).tobytes() for row in elements]
    planes = 2 if kind == "planes" else 1
    word, per_word = decoder.word_bytes, decoder.word_pixels
    length = -(-size // per_word) * word * planes
    pieces, where = (
        draw(piece_tables(sig, planes)) if planes == 2 or draw(st.booleans()) else (None, np.arange(size).reshape(sig))
    )
    head, foot = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    spread = draw(st.sampled_from(["whole", "running", "holes", "anywhere"] if planes == 1 else ["whole"]))
    fill = draw(st.sampled_from([0, 0, 1])) if planes == 1 else 0
    there = np.ones((n, size), bool)
    contents: list[bytes] = []

    if spread == "anywhere":  # a list of offsets
        files = draw(st.integers(1, 3))
        contents = [GARBAGE * draw(st.integers(0, 3)) for _ in range(files)]
        at, which = [-1] * n, [0] * n
        for i in draw(st.permutations(range(n))):
            if draw(st.integers(0, 4)) == 0:
                there[i] = False
                continue
            which[i] = draw(st.integers(0, files - 1))
            at[i] = len(contents[which[i]])
            contents[which[i]] += payloads[i] + GARBAGE * draw(st.integers(0, 3))
        layout = FrameLayout.planes(FrameRecord(sig, word, per_word, pieces=pieces), which, at)
    else:
        pad = draw(st.integers(0, 3)) if spread == "whole" else 0  # bytes behind the pixels that belong to the payload
        records = [GARBAGE * head + payload + GARBAGE * (pad + foot) for payload in payloads]
        stride = head + length + pad + foot
        if spread == "whole":
            borders = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
            parts = list(zip([0, *borders], [*borders, n], strict=True))
            heads = [draw(st.integers(0, 9)) for _ in parts]
            order = draw(st.permutations(range(len(parts))))  # entry k describes part order[k]
            gone = [draw(st.integers(0, 4)) == 0 for _ in parts]
            kept = [k for k in order if not gone[k]]
            for k in kept:
                contents.append(GARBAGE * heads[k] + b"".join(records[slice(*parts[k])]))
            for k, (a, b) in enumerate(parts):
                there[a:b] &= not gone[k]
            layout = FrameLayout.of(
                FrameRecord(
                    sig,
                    word,
                    per_word,
                    payload=length + pad if pad or planes == 2 or draw(st.booleans()) else None,
                    header=head,
                    footer=foot,
                    pieces=pieces,
                ),
                [parts[k][1] - parts[k][0] for k in kept],
                file_header=[heads[k] for k in kept],
                first=[parts[k][0] for k in kept],
            )
        else:
            stream = b"".join(records)
            borders = sorted(
                {
                    b - (b % stride - head) % word if head < b % stride < head + length else b
                    for b in draw(st.lists(st.integers(0, len(stream)), max_size=4))
                }
            )
            parts = list(zip([0, *borders], [*borders, len(stream)], strict=True))
            file_head = draw(st.integers(0, 9))
            if spread == "running":
                contents = [GARBAGE * file_head + stream[a:b] for a, b in parts]
                layout = FrameLayout.running_on(
                    FrameRecord(sig, word, per_word, header=head, footer=foot),
                    [len(c) for c in contents],
                    file_header=file_head,
                )
                assert layout.stored == n
                if pieces is not None:
                    layout = replace(layout, pieces=pieces)
            else:  # a stream with holes anywhere
                rows, present = [], np.zeros(len(stream), bool)
                for a, b in parts:
                    if a < b and draw(st.integers(0, 3)):
                        rows.append([a, b, file_head, len(contents)])
                        contents.append(GARBAGE * file_head + stream[a:b])
                        present[a:b] = True
                first_byte = np.arange(n)[:, None] * stride + head + np.arange(size) // per_word * word
                there = present[first_byte]
                table = np.array(rows, np.int64).reshape(-1, 4)
                whole = FrameLayout.of(FrameRecord(sig, word, per_word, header=head, footer=foot, pieces=pieces), [n])
                layout = replace(whole, stream=table)
    stored = (
        np.where(there, elements, decoder.dtype.type(fill)).astype(decoder.dtype)[:, where.reshape(-1)].reshape(n, *sig)
    )
    stored_n = layout.stored
    assert stored_n <= n
    if stored_n < n:  # the last files are missing, and nobody knows of them
        assert not there[stored_n:].any()
        stored = stored[:stored_n]
    names = tuple("abc"[: len(sig)])
    dataset = StoredArray(
        "data", memory_files(contents), layout, decoder, layout.shape, ("frame", *names), 1, fill=fill
    )
    event(f"{kind}, {spread}, {'pieces' if pieces is not None else 'plain frames'}")
    shown, twin = draw(scans(dataset, stored))
    return Case(shown, contents, twin)


@st.composite
def scans(draw: st.DrawFn, dataset: StoredArray, stored: np.ndarray) -> tuple[StoredArray, np.ndarray]:
    """A data set of one navigation axis arranged in some way, and its twin."""
    n = stored.shape[0]
    sig = stored.shape[1:]
    if draw(st.booleans()):
        return dataset, stored
    nav = draw(st.none() | st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    sync = draw(st.integers(-n - 2, n + 2))
    shape = (n,) if nav is None else nav
    twin = np.full((math.prod(shape), *sig), dataset.fill, stored.dtype)
    for i in range(len(twin)):
        if 0 <= i + sync < n:
            twin[i] = stored[i + sync]
    roi: Any = None
    if len(twin) and draw(st.booleans()):
        roi = np.array(draw(st.lists(st.integers(0, len(twin) - 1), min_size=1, max_size=6)))
        twin = twin[roi]
        if draw(st.booleans()):
            mask = np.zeros(math.prod(shape), bool)
            mask[roi] = True
            twin = twin[[list(roi).index(i) for i in np.flatnonzero(mask)]]
            roi = mask.reshape(shape)
    else:
        twin = twin.reshape(*shape, *sig)
    shown = as_scan(dataset, Scan(nav, sync, roi))
    if roi is not None and draw(st.booleans()):  # of what is shown, some again
        again = np.array(draw(st.lists(st.integers(0, len(twin) - 1), min_size=1, max_size=4)))
        shown, twin = as_scan(shown, Scan(chosen=again)), twin[again]
    return shown, twin


@st.composite
def block_cases(draw: st.DrawFn, whole: bool | None = None) -> Case:
    """Blocks that form no grid, in any file order, some missing, stored in their own shape or in a
    common larger one.
    """
    nd = draw(st.integers(1, 5))
    shape = tuple(draw(st.integers(1, 9 if nd < 3 else 4)) for _ in range(nd))
    by_frame = nd > 1 and draw(st.booleans())  # every block within one position of the first axis: it can be arranged
    boxes = []
    for a, b in [((i,), (i + 1,)) for i in range(shape[0])] if by_frame else [((0,), (shape[0],))]:
        boxes += partition(draw, (*a, *(0,) * (nd - 1)), (*b, *shape[1:]), draw(st.integers(0, 6)))
    pitch = (
        tuple(np.max([np.subtract(b, a) for a, b in boxes], axis=0) + draw(st.integers(0, 1)))
        if draw(st.integers(0, 3)) == 0
        else ()
    )
    whole = draw(st.booleans()) if whole is None else whole
    dtype = draw(st.sampled_from(DTYPES))
    fill = draw(st.sampled_from([0, 1]))
    values = some(dtype, shape, draw(st.integers(0, 3)))
    twin = np.full(shape, dtype.newbyteorder("=").type(fill))
    files = draw(st.integers(1, 3))
    contents = [GARBAGE * draw(st.integers(0, 5)) for _ in range(files)]
    codec = draw(
        st.sampled_from(
            [{"id": "zlib"}, {"id": "bitround", "keepbits": 23} if dtype == np.dtype("f4") else {"id": "gzip"}]
        )
    )
    decoder: Decoder | BlockDecoder = CodecDecoder(dtype, codec) if whole else PlainDecoder(dtype)
    origins, sizes, which, offsets, lengths = [], [], [], [], []
    for a, b in draw(st.permutations(boxes)):
        if draw(st.integers(0, 5)) == 0:
            continue
        cut = tuple(slice(x, y) for x, y in zip(a, b, strict=True))
        twin[cut] = values[cut]
        block = values[cut]
        if pitch:
            block = np.pad(block, [(0, p - n) for p, n in zip(pitch, block.shape, strict=True)], constant_values=1)
        stored = block.astype(dtype).tobytes()
        if whole:
            from numcodecs import get_codec

            stored = bytes(get_codec(codec).encode(np.frombuffer(stored, dtype)))
        file = draw(st.integers(0, files - 1))
        origins.append(a)
        sizes.append(np.subtract(b, a))
        which.append(file)
        offsets.append(len(contents[file]))
        lengths.append(len(stored))
        contents[file] += stored + GARBAGE * draw(st.integers(0, 3))
    layout = BlockLayout.of(
        shape,
        BlockTable(
            np.array(origins, np.int64).reshape(-1, nd),
            np.array(sizes, np.int64).reshape(-1, nd),
            np.array(which, np.int64),
            np.array(offsets, np.int64),
            np.array(lengths, np.int64),
        ),
        word_bytes=0 if whole else dtype.itemsize,
        pitch=pitch,
    )
    layout.check_apart()
    event(f"{nd} axes, {'whole' if whole else 'plain'} blocks{', common pitch' if pitch else ''}")
    dataset = StoredArray(
        "data", memory_files(contents), layout, decoder, shape, tuple("abcde"[:nd]), 1 if by_frame else 0, fill=fill
    )
    if by_frame:
        dataset, twin = draw(scans(dataset, twin))
    return Case(dataset, contents, twin)


cases = frame_cases() | block_cases()


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the last bit, with shape and dtype."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()
