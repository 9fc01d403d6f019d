"""Checks that references lead to the bytes of chunks. Part of `FormatTests`.

References are read here as any reader does: a run of bytes of a file, codecs of numcodecs in reverse order, elements in
the byte order that is said. No part of the engine takes part in that.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numcodecs import get_codec

from vfs.engine.array import ArrayReader
from vfs.errors import NotReferenceableError
from vfs.faces.references import References, references
from vfs.testing.inside import reader_of
from vfs.zarr.references.shown import chunk_coordinates

if TYPE_CHECKING:
    from vfs.testing.rows import WrittenSet


class ReferenceTests:
    """Checks references to every array of a set."""

    def test_references_lead_to_the_elements(self, found: WrittenSet) -> None:
        array = found.open()
        if not found.row.referenceable:
            with pytest.raises(NotReferenceableError):
                references(reader_of(array), blank=True)
        else:
            np.testing.assert_array_equal(_read(references(reader_of(array), blank=True)), found.twin)
        for path, other in array.group.items():
            if (made := _found(reader_of(other))) is not None:
                np.testing.assert_array_equal(_read(made), other[...], err_msg=path)


def _found(array: ArrayReader) -> References | None:
    try:
        return references(array, blank=True)
    except NotReferenceableError:
        return None


def _read(one: References) -> np.ndarray:
    """Read all chunks of an array, which must not be shorter than zarr wants them."""
    array = one.array
    whole = np.full([n * c for n, c in zip(one.counts, one.chunks, strict=True)], array.fill, array.dtype)
    contents = [Path(path).read_bytes() if Path(path).is_file() else b"" for path in array.dataset.files.paths]
    for places in chunk_coordinates(one):
        for position, file, offset, nbytes in zip(*(column.tolist() for column in places), strict=True):
            data = contents[file][offset : offset + nbytes]
            assert len(data) == nbytes
            for codec in reversed(one.encoding.codecs):
                data = get_codec(codec).decode(data)
            elements = np.frombuffer(data, one.encoding.dtype)
            assert elements.size == math.prod(one.chunks)
            cut = tuple(slice(p * c, (p + 1) * c) for p, c in zip(position, one.chunks, strict=True))
            whole[cut] = elements.reshape(one.chunks)
    return whole[tuple(slice(0, n) for n in array.shape)]
