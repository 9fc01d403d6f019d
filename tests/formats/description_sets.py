"""What the tests of descriptions share: arrays cut into blocks that form no grid, written to files
in any order, and their twin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numcodecs import get_codec

CODECS: list[Any] = [
    None,
    {"id": "zlib", "level": 1},
    {"id": "zstd"},
    {"id": "lz4"},
    {"id": "blosc", "cname": "lz4", "shuffle": 1},
    {"id": "gzip"},
    {"id": "bz2"},
    {"id": "lzma"},
    [{"id": "shuffle", "elementsize": 2}, {"id": "lz4"}],
    [{"id": "delta", "dtype": "u1"}, {"id": "zlib"}],
]
Box = tuple[tuple[int, ...], tuple[int, ...]]  # low, high


def write(folder: Path, document: Any, name: str = "x.vfs.json") -> Path:
    """A description (or any JSON) as a file."""
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def values(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Elements that are all different where the dtype allows it; every byte of them matters."""
    n = int(np.prod(shape))
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return (np.arange(n) % 3 == 0).reshape(shape).astype(dtype)
    if kind.kind in "fc":
        made = np.arange(n) * 1.25 + 3
        return (made + 1j * made[::-1] if kind.kind == "c" else made).reshape(shape).astype(dtype)
    return (np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(kind).reshape(shape)


@dataclass(frozen=True)
class BlockSet:
    """An array as blocks: the twin, the blocks' boxes in any order, a codec and a byte order for each."""

    twin: np.ndarray
    fill: Any
    boxes: list[Box]
    codecs: list[Any]
    orders: list[str | None]
    files: int

    @property
    def unsaid(self) -> bool:
        """True where no block names a codec or a byte order."""
        return not any(self.codecs) and not any(self.orders)

    @property
    def plain(self) -> bool:
        """True where all blocks are plain bytes of one byte order."""
        return not any(self.codecs) and len({self.stored(order) for order in self.orders}) <= 1

    def stored(self, order: str | None) -> np.dtype:
        """What a block of that byte order is in the file."""
        return self.twin.dtype.newbyteorder({"big": ">", "little": "<"}[order]) if order else self.twin.dtype

    def write(self, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Write the files; returns (description without blocks, blocks)."""
        data = [bytearray(b"\xcd" * (3 * k)) for k in range(self.files)]
        blocks = []
        for n, ((low, high), codec, order) in enumerate(zip(self.boxes, self.codecs, self.orders, strict=True)):
            part = self.twin[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
            encoded = part.astype(self.stored(order)).tobytes()
            for one in codec if isinstance(codec, list) else [codec] if codec else []:
                encoded = bytes(memoryview(get_codec(dict(one)).encode(np.frombuffer(encoded, np.uint8))).cast("B"))
            file = data[n % self.files]
            block = {
                "file": n % self.files,
                "offset": len(file),
                "origin": list(low),
                "shape": [b - a for a, b in zip(low, high, strict=True)],
            }
            block |= {"codec": codec, "nbytes": len(encoded)} if codec else {}
            blocks.append(block | ({"byte_order": order} if order else {}))
            file += encoded + b"\xcd" * (n % 7)
        for k, content in enumerate(data):
            (folder / f"part{k}.bin").write_bytes(content)
        head = {
            "vfs": 1,
            "dtype": self.twin.dtype.str,
            "shape": list(self.twin.shape),
            "files": [f"part{k}.bin" for k in range(self.files)],
        }
        return head | ({"fill_value": self.fill} if self.fill else {}), blocks


def columns(blocks: Sequence[dict[str, Any]], ndim: int) -> tuple[dict[str, list[int]], list[dict[str, Any]]]:
    """Blocks as the columns of a table, and the encodings that it counts."""
    kinds: list[dict[str, Any]] = []
    table: dict[str, list[int]] = {"file": [], "offset": []} | {
        f"{name}_{k}": [] for name in ("origin", "shape") for k in range(ndim)
    }
    table |= {"nbytes": [], "encoding": []}
    for block in blocks:
        kind = {name: block[name] for name in ("codec", "byte_order") if name in block}
        if kind not in kinds:
            kinds.append(kind)
        table["file"].append(block["file"])
        table["offset"].append(block["offset"])
        for name in ("origin", "shape"):
            for k in range(ndim):
                table[f"{name}_{k}"].append(block[name][k])
        table["nbytes"].append(block.get("nbytes", int(np.prod(block["shape"])) * 2))
        table["encoding"].append(kinds.index(kind))
    return table, kinds


def write_csv(path: Path, table: dict[str, list[int]], newline: str = "\n") -> str:
    """Columns as a .csv file; returns its name."""
    rows = zip(*table.values(), strict=True)
    path.write_bytes(newline.join([",".join(table), *(",".join(map(str, row)) for row in rows), ""]).encode())
    return path.name


def write_npz(path: Path, table: dict[str, Any], compressed: bool = False) -> str:
    """Columns as a .npz file; returns its name."""
    save = np.savez_compressed if compressed else np.savez
    save(path, **{"files" if name == "file" else name: np.asarray(column) for name, column in table.items()})
    return path.name


def cut(draw: Any, low: tuple[int, ...], high: tuple[int, ...], pieces: int) -> list[Box]:
    """A box in up to `pieces` boxes, cut from edge to edge again and again: they fill it and form no grid."""
    axes = [k for k, (a, b) in enumerate(zip(low, high, strict=True)) if b - a > 1]
    if pieces < 2 or not axes:
        return [(low, high)]
    axis = draw(st.sampled_from(axes))
    at = draw(st.integers(low[axis] + 1, high[axis] - 1))
    first = draw(st.integers(1, pieces - 1))
    left, right = list(high), list(low)
    left[axis] = right[axis] = at
    return cut(draw, low, tuple(left), first) + cut(draw, tuple(right), high, pieces - first)


@st.composite
def block_sets(draw: st.DrawFn, coded: bool | None = None, dtype: str | None = None) -> BlockSet:
    """Blocks of any shape and order with holes between, in one to three files."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    kind = dtype or draw(st.sampled_from(["|u1", "<u2", ">u2", "<i4", ">f4", "<f8", ">c8", "|b1"]))
    boxes = cut(draw, (0,) * len(shape), shape, draw(st.integers(1, 24)))
    boxes = draw(st.permutations(boxes))
    boxes = boxes[: draw(st.integers(0, len(boxes)))] if draw(st.booleans()) else boxes
    mixed = draw(st.booleans()) if coded is None else coded
    usable = CODECS if np.dtype(kind).itemsize > 1 else CODECS[:-2]  # shuffle takes pairs of bytes
    codecs = [draw(st.sampled_from(usable)) if mixed else None for _ in boxes]
    orders = [draw(st.sampled_from([None, "big", "little"])) if mixed else None for _ in boxes]
    fill = draw(st.sampled_from([0, 0, True if kind == "|b1" else 7]))
    twin = np.full(shape, fill, kind)
    full = values(shape, kind)
    for low, high in boxes:
        box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        twin[box] = full[box]
    return BlockSet(twin, fill, boxes, codecs, orders, draw(st.integers(1, 3)))


def regions(draw: Any, shape: Sequence[int]) -> tuple[slice, ...]:
    """A box with steps."""
    found = []
    for n in shape:
        a = draw(st.integers(0, n))
        found.append(slice(a, draw(st.integers(a, n)), draw(st.integers(1, 3))))
    return tuple(found)


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal, in native byte order."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype.newbyteorder("=")
    assert np.array_equal(got, expected)


def link(target: Path, path: Path) -> None:
    """A symbolic link."""
    os.symlink(target, path)
