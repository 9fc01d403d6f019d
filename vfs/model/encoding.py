"""Says in words of zarr how the elements of a block are stored, for programs that read the bytes of files themselves.

Most decoders do what codecs of zarr do, too: plain numbers in either byte order, bytes that were compressed by a
known method. A decoder whose blocks are so says it (`SaysEncoding`); elements that decode a word at a time say it by
`Decoder.lies_as`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from vfs.errors import NotReferenceableError
from vfs.model.decode import BlockDecoder, Decoder, Encoding


@runtime_checkable
class SaysEncoding(Protocol):
    """A decoder of whole blocks that can say how these were encoded."""

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """Return how blocks were encoded.

        Args:
            nbytes: bytes of a block when it is decoded.
            blocks: int64[n], numbers of the blocks.

        Raises:
            NotReferenceableError: not every block went through the same codecs, or zarr has none of that kind.
        """


def encoding_of(decoder: Decoder | BlockDecoder, nbytes: int, blocks: np.ndarray) -> Encoding:
    """Return how the elements of blocks are stored.

    Args:
        nbytes: bytes of a block when it is decoded.
        blocks: int64[n], numbers of the blocks; of elements that decode a word at a time, none.

    Raises:
        NotReferenceableError: no codecs of zarr do what the decoder does.
    """
    if isinstance(decoder, SaysEncoding):
        return decoder.encoding(nbytes, blocks)
    if not decoder.word_bytes:
        raise NotReferenceableError("its blocks are decoded in a way that zarr does not know")
    words: Decoder = decoder  # type: ignore[assignment]  # the others have no words
    lies = words.lies_as
    if lies is not None and lies.backwards == 1:
        return Encoding(lies.stored)
    if lies is not None:
        raise NotReferenceableError(f"its pixels lie backwards in the file, {lies.backwards} at a time")
    if words.word_pixels > 1:
        raise NotReferenceableError(f"{words.word_pixels} of its pixels are packed into {words.word_bytes} bytes")
    raise NotReferenceableError("its elements are not stored as plain numbers")
