"""Turns blocks of any shape at any place, from a list or a table, into a `BlockLayout`.

If all blocks are plain bytes of one byte order, any part of a block can be read by itself. As soon
as one block has a codec or another byte order, all are decoded as wholes, each by its own decoder.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vfs.errors import FormatError, NotReferenceableError, OptionError, TruncatedSourceError
from vfs.formats.description.arrays import Common
from vfs.formats.description.schema import Keys, Members, Value
from vfs.formats.description.sources import DescribedFolder
from vfs.formats.description.tables import place, read_table
from vfs.model.codecs import CodecDecoder
from vfs.model.decode import BlockDecoder, Decoder, Encoding, PlainDecoder
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.stored import Absence, StoredArray

BLOCKS = Keys(codec=None, stored_shape=None, encodings=None)
BLOCK = Keys("file", "offset", "origin", "shape", codec=None, byte_order=None, nbytes=None)
_ENCODING = Keys(codec=None, byte_order=None)


@dataclass(frozen=True, eq=False)
class MixedDecoder:
    """Decodes blocks of several kinds, each with the decoder of its kind.

    Attributes:
        decoders: one for each kind of block; their dtypes differ at most in byte order.
        which: int64[n], index of the decoder of block n.
    """

    decoders: tuple[CodecDecoder, ...]
    which: np.ndarray
    word_bytes: int = 0
    decode_run = None

    @property
    def dtype(self) -> np.dtype:
        return self.decoders[0].dtype

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        return self.decoders[int(self.which[block])].decode_block(data, block, shape)

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        self.decoders[int(self.which[block])].decode_into(data, block, out)

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """See `vfs.model.encoding.SaysEncoding`."""
        kinds = np.unique(self.which[blocks])
        if len(kinds) == 1:
            return self.decoders[int(kinds[0])].encoding(nbytes, blocks)
        raise NotReferenceableError("its blocks differ in their codecs or byte order")


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Holds blocks as columns, with their names for messages.

    Attributes:
        file, offset, nbytes, encoding: int64[n]; nbytes is -1 if not given.
        origin, shape: int64[n, ndim].
        source: the list, or the name of the table, in the description.
        table: path of the table, or None.
        decoders: decoders; `encoding` is an index into them.
    """

    file: np.ndarray
    offset: np.ndarray
    nbytes: np.ndarray
    encoding: np.ndarray
    origin: np.ndarray
    shape: np.ndarray
    source: Value
    table: str | None
    decoders: tuple[CodecDecoder, ...]

    def __len__(self) -> int:
        return len(self.file)

    def refuse(self, bad: np.ndarray, column: str, message: str) -> None:
        """Raise an error for the first block where `bad` (bool[n] or bool[n, ndim]) is True.

        `{name}` in the message is replaced by that column of the block.
        """
        if bad.any():
            raise FormatError(self.line(bad, column, message))

    def line(self, bad: np.ndarray, column: str, message: str) -> str:
        """Return a message about the first block where `bad` is True."""
        rows = bad.any(axis=1) if bad.ndim == 2 else bad
        i = int(np.argmax(rows))
        axis = f"_{int(np.argmax(bad[i]))}" if bad.ndim == 2 and self.table else ""
        values = {
            name: getattr(self, name)[i].tolist()
            for name in ("file", "offset", "nbytes", "encoding", "origin", "shape")
        }
        where = (
            f"{self.table}: {place(self.table, i, column + axis)}"
            if self.table
            else f"{self.source.place}[{i}].{column}"
        )
        return f"{self.source.file}: {where}: {message.format(**values)}"

    def selected(self, keep: np.ndarray) -> _Blocks:
        """Return only some of the blocks."""
        columns = {
            name: getattr(self, name)[keep] for name in ("file", "offset", "nbytes", "encoding", "origin", "shape")
        }
        return replace(self, **columns)


def blocks_array(common: Common, members: Members, folder: DescribedFolder) -> StoredArray:
    """Make the array of a description with `blocks` or a `table`.

    Raises:
        FormatError: a block is not valid, lies outside of the array, or overlaps another one.
        TruncatedSourceError: files end before all of the blocks do.
        SourceError: a table cannot be read.
    """
    pitch = _pitch(members, common)
    blocks = _from_list(members, common) if "blocks" in members else _from_table(members, common, folder)
    found, cut = _check_blocks(blocks, common, pitch)
    used = np.unique(found.encoding)
    plain = all(
        not found.decoders[k].codec and found.decoders[k].stored == found.decoders[used[0]].stored
        for k in used.tolist()
    )
    try:
        layout = BlockLayout.of(
            common.shape,
            BlockTable(found.origin, found.shape, found.file, found.offset, found.nbytes),
            word_bytes=common.dtype.itemsize if plain else 0,
            pitch=pitch,
        )
        layout.check_apart()
    except FormatError as error:
        raise FormatError(f"{found.source.file}: {found.table or found.source.place}: {error}") from None
    if plain:
        stored = found.decoders[used[0]].stored if len(used) else common.dtype
        return common.dataset(layout, PlainDecoder(stored), common.lost + cut)
    decoder: Decoder | BlockDecoder = (
        found.decoders[used[0]] if len(used) == 1 else MixedDecoder(found.decoders, found.encoding)
    )
    typical = pitch or tuple(int(n) for n in np.median(found.shape, axis=0))
    return common.dataset(layout, decoder, common.lost + cut, typical)


def _pitch(members: Members, common: Common) -> tuple[int, ...]:
    if "stored_shape" not in members:
        return ()
    value = members["stored_shape"]
    pitch = tuple(value.integers(1, len(common.shape)).tolist())
    if math.prod(pitch) * common.dtype.itemsize >= 1 << 63:
        value.fail(f"a block of {list(pitch)} {common.dtype} has more than 2^63 bytes")
    return pitch


def _check_blocks(blocks: _Blocks, common: Common, pitch: tuple[int, ...]) -> tuple[_Blocks, tuple[Absence, ...]]:
    """Check blocks and fill in `nbytes`.

    Returns: (the blocks that exist, the absence of blocks that lie beyond the ends of their files).
        Blocks of missing files are left out silently, since `lost` reports them.
    """
    files = common.files
    _refuse_impossible(blocks, common, len(files), pitch)
    size = np.full(len(blocks), math.prod(pitch), np.int64) if pitch else blocks.shape.prod(axis=1)
    size = size * common.dtype.itemsize
    coded = np.array([bool(decoder.codec) for decoder in blocks.decoders], bool)[blocks.encoding]
    given = blocks.nbytes
    gone = files.sizes[blocks.file] < 0
    held = files.sizes[blocks.file] - blocks.offset
    beyond = ~gone & (held < 0)
    stored = str(list(pitch)) if pitch else "{shape}"
    blocks.refuse(
        ~coded & (given >= 0) & (given != size),
        "nbytes",
        f"found {{nbytes}}, another size than plain {common.dtype} of shape {stored} has",
    )
    nbytes = np.where(given >= 0, given, np.where(coded, held, size))
    full = replace(blocks, nbytes=nbytes)
    full.refuse(~gone & ~beyond & (nbytes < 1), "nbytes", "expected a number of bytes, 1 or more, found {nbytes}")
    cut = ~gone & (beyond | (nbytes > held))
    if not (gone | cut).any():
        return full, ()
    there = full.selected(~(gone | cut))
    if not cut.any():
        return there, ()
    first = (
        "the file ends before byte {offset}"
        if beyond[np.argmax(cut)]
        else "a block of {nbytes} bytes at byte {offset} reaches beyond the end of the file"
    )
    said = full.line(cut, "offset", f"{first}; it looks truncated") + f", and {int(cut.sum()) - 1:,} more" * int(
        cut.sum() > 1
    )
    if not len(there):
        raise TruncatedSourceError(said)
    return there, (
        Absence(
            said, TruncatedSourceError, "shows blocks that are not whole as blank", {"blocks_missing": int(cut.sum())}
        ),
    )


def _refuse_impossible(blocks: _Blocks, common: Common, files: int, pitch: tuple[int, ...]) -> None:
    """Refuse blocks that cannot be: of a file beyond the so many there are, or with a place outside of the array."""
    blocks.refuse(
        (blocks.file < 0) | (blocks.file >= files),
        "file",
        f"there are {files} files, counted from 0; found {{file}}",
    )
    blocks.refuse(blocks.offset < 0, "offset", "expected a number of bytes, 0 or more, found {offset}")
    blocks.refuse(
        blocks.origin < 0, "origin", "expected elements from the start of the array, 0 or more, found {origin}"
    )
    blocks.refuse(blocks.shape < 1, "shape", "expected 1 element or more along every axis, found {shape}")
    room = np.array(common.shape) - blocks.origin
    blocks.refuse(
        blocks.shape > room,
        "shape",
        f"a block at {{origin}} of shape {{shape}} does not fit into an array of {list(common.shape)}",
    )
    if pitch:
        blocks.refuse(
            blocks.shape > np.array(pitch),
            "shape",
            f"a block of shape {{shape}} is larger than stored_shape {list(pitch)}",
        )


def _from_list(members: Members, common: Common) -> _Blocks:
    """Read the blocks from the list in the description."""
    source = members["blocks"]
    given = source.value
    if not isinstance(given, list):
        source.expected("a list of blocks")
    ndim = len(common.shape)
    numbers = _numbers(given, ndim)
    if numbers is None:  # a block is not valid: check them one by one to name it
        numbers = np.array([_one(block, ndim) for block in source.items()], np.int64).reshape(-1, 3 + 2 * ndim)
    if "encodings" in members:
        members["encodings"].fail("encodings belong to a table; blocks in a list have their own codec and byte_order")
    default = _codec(members.get("codec"))
    kinds: dict[str, int] = {}
    decoders: list[CodecDecoder] = []
    encoding = np.zeros(len(given), np.int64)
    for i, block in enumerate(given):
        key = ""
        if "codec" in block or "byte_order" in block:
            key = json.dumps([block.get("codec", 0), block.get("byte_order")], sort_keys=True)
        if key not in kinds:
            at = source.inside(i, block).members(BLOCK)
            kinds[key] = len(decoders)
            decoders.append(_decoder(at, common.dtype, default))
        encoding[i] = kinds[key]
    columns = numbers.T
    return _Blocks(
        columns[0],
        columns[1],
        columns[2],
        encoding,
        numbers[:, 3 : 3 + ndim],
        numbers[:, 3 + ndim :],
        source,
        None,
        tuple(decoders),
    )


def _numbers(blocks: list[Any], ndim: int) -> np.ndarray | None:
    """Return (file, offset, nbytes, origin, shape) of blocks, int64[n, 3 + 2 * ndim].

    Returns None if a block is not valid.
    """
    keys = {*BLOCK.required, *BLOCK.optional}
    try:
        if not all(
            type(b) is dict
            and keys.issuperset(b)
            and len(b["origin"]) == ndim == len(b["shape"])
            and b.get("nbytes", 0) >= 0
            for b in blocks
        ):
            return None
        flat = [n for b in blocks for n in (b["file"], b["offset"], b.get("nbytes", -1), *b["origin"], *b["shape"])]
        return np.array(flat, np.int64).reshape(-1, 3 + 2 * ndim) if set(map(type, flat)) <= {int} else None
    except (KeyError, TypeError, OverflowError):
        return None


def _one(block: Value, ndim: int) -> list[int]:
    members = block.members(BLOCK)
    nbytes = members["nbytes"].integer() if "nbytes" in members else -1
    places = members["origin"].integers(0, ndim).tolist() + members["shape"].integers(1, ndim).tolist()
    return [members["file"].integer(), members["offset"].integer(), nbytes, *places]


def _from_table(members: Members, common: Common, folder: DescribedFolder) -> _Blocks:
    """Read the blocks from a table."""
    source = members["table"]
    path = folder.existing(source)
    ndim = len(common.shape)
    try:
        table = read_table(folder.sources, path, ndim)
    except FormatError as error:
        raise FormatError(f"{source.file}: {source.place}: {error}") from None
    default = _codec(members.get("codec"))
    kinds = (
        [kind.members(_ENCODING) for kind in members["encodings"].items()]
        if "encodings" in members
        else [Members({}, _ENCODING)]
    )
    decoders = tuple(_decoder(kind, common.dtype, default) for kind in kinds)
    n = len(table["file"])
    encoding = table.get("encoding", np.zeros(n, np.int64))
    if not decoders or ("encodings" in members and "encoding" not in table):
        members["encodings"].fail(
            "expected a column `encoding` in the table that says which one a block has, and at least one encoding"
        )
    origin, shape = (np.stack([table[f"{name}_{k}"] for k in range(ndim)], axis=1) for name in ("origin", "shape"))
    made = _Blocks(
        table["file"],
        table["offset"],
        table.get("nbytes", np.full(n, -1)),
        encoding,
        origin,
        shape,
        source,
        path,
        decoders,
    )
    made.refuse(
        (encoding < 0) | (encoding >= len(decoders)),
        "encoding",
        f"there are {len(decoders)} encodings, counted from 0; found {{encoding}}",
    )
    if "nbytes" in table:
        made.refuse(made.nbytes < 0, "nbytes", "expected a number of bytes, 1 or more, found {nbytes}")
    return made


def _decoder(members: Members, dtype: np.dtype, default: tuple[Any, ...]) -> CodecDecoder:
    """Return the decoder of blocks that may name a `codec` and a `byte_order`."""
    if "byte_order" in members:
        order = members["byte_order"]
        if order.value not in ("little", "big", "<", ">"):
            order.expected("little or big")
        dtype = dtype.newbyteorder("<" if order.value in ("little", "<") else ">")
    return CodecDecoder(dtype, _codec(members["codec"]) if "codec" in members else default)


def _codec(value: Value | None) -> tuple[Any, ...]:
    """Check numcodecs configurations and return them in the order of encoding.

    Args:
        value: one object, a list of them, or null for plain bytes.
    """
    if value is None or value.value is None:
        return ()
    given = value.items() if isinstance(value.value, list) else [value]
    for codec in given:
        if not isinstance(codec.metadata().get("id"), str):
            codec.fail('expected a codec of numcodecs such as {"id": "zlib"}')
        try:
            CodecDecoder(np.dtype("u1"), (codec.value,))
        except OptionError as error:
            codec.fail(str(error))
    return tuple(codec.value for codec in given)
