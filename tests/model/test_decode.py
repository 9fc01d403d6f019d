"""Chains of codecs: what numcodecs encoded decodes to the same, whatever the order, and never
through more memory than the block may take.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numcodecs
import numpy as np
import pytest

from vfs.model.codecs import CodecDecoder

TWIN = np.arange(60, dtype="<i4").reshape(3, 4, 5) % 7
PACK: list[dict[str, Any]] = [
    {"id": "zlib"},
    {"id": "gzip"},
    {"id": "bz2"},
    {"id": "lzma"},
    {"id": "blosc"},
    {"id": "lz4"},
    {"id": "zstd"},
    {"id": "base64"},
    {"id": "crc32"},
    {"id": "adler32"},
    {"id": "fletcher32"},
]
FIRST: list[dict[str, Any]] = [
    {"id": "astype", "encode_dtype": "i1", "decode_dtype": "<i4"},
    {"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<i4"},
    {"id": "delta", "dtype": "<i4", "astype": "i1"},
    {"id": "shuffle", "elementsize": 4},
    {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<i4", "astype": "u1"},
]


@pytest.mark.parametrize("first", [None, *FIRST], ids=lambda codec: codec["id"] if codec else "-")
def test_chains_of_codecs(first: dict[str, Any] | None) -> None:
    for more in [(), *itertools.product(PACK), *itertools.product(PACK, PACK)]:
        chain = [*([first] if first else []), *more]
        stored: Any = TWIN
        for codec in chain:
            stored = numcodecs.get_codec(codec).encode(
                np.ascontiguousarray(stored).reshape(-1) if isinstance(stored, np.ndarray) else stored
            )
        data = np.frombuffer(stored, np.uint8)
        got = CodecDecoder(TWIN.dtype, chain).decode_block(data, 0, TWIN.shape)
        assert np.array_equal(got, TWIN), json.dumps(chain)


def test_bits() -> None:
    twin = np.arange(21).reshape(3, 7) % 3 == 0
    for chain in (
        [{"id": "packbits"}],
        [{"id": "packbits"}, {"id": "zstd"}],
        [{"id": "packbits"}, {"id": "base64"}, {"id": "lz4"}],
    ):
        stored: Any = twin
        for codec in chain:
            stored = numcodecs.get_codec(codec).encode(stored)
        assert np.array_equal(
            CodecDecoder(twin.dtype, chain).decode_block(np.frombuffer(stored, np.uint8), 0, twin.shape), twin
        )


def test_zstd_that_does_not_say_its_size() -> None:
    """Written as a stream: it is told by what comes after it."""
    frame = b"\x28\xb5\x2f\xfd\0\x48" + ((1 | 1 << 1 | 240 << 3).to_bytes(3, "little")) + b"\7"  # 240 times the byte 7
    data = np.frombuffer(frame, np.uint8)
    got = CodecDecoder(np.dtype("<i4"), [{"id": "shuffle", "elementsize": 4}, {"id": "zstd"}]).decode_block(
        data, 0, TWIN.shape
    )
    assert np.array_equal(got, np.full(TWIN.shape, 0x07070707))
