"""Says what an array is: shape, type, names of axes, chunks, metadata, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.pixel_masks import masked_pixels
from vfs.model.metadata import Said


class ArrayFacts:
    """Says what an array is."""

    __slots__ = ()

    _reader: ArrayReader  # reads the array; of an array that was unpickled, its set is opened now

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return self._reader.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._reader.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._reader.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, in native byte order."""
        return self._reader.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._reader.nbytes

    @property
    def dims(self) -> tuple[str, ...]:
        """A name per axis."""
        return self._reader.dims

    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements per axis of a chunk."""
        return self._reader.chunks

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The format's metadata."""
        return self._reader.attrs

    @property
    def metadata(self) -> Mapping[str, Said]:
        """What the files say of the acquisition, in one vocabulary for all formats: name -> (value, unit, source).

        `vfs docs metadata` lists the names and their units. A name is there only if the file says it; the source is
        the entry of `attrs` that does.
        """
        return MappingProxyType(self._reader.dataset.recorded)

    @property
    def files(self) -> Sequence[str]:
        """Paths of the files that the elements are read from."""
        return self._reader.files

    @property
    def calibration(self) -> dict[str, dict[str, Any]]:
        """Positions of the elements along each axis: axis name -> {"scale": …, "offset": …, "unit": …}.

        Element k is at `offset + k * scale`, in `unit` ("" where the file names none; `vfs docs formats` lists the
        units). Of an axis with uneven steps scale and offset are None, and "values" is the path of the array of the
        set that holds the positions. Axes that the file says nothing of are not there, nor are those of a scan that
        `nav_shape` or `roi` arranged so that the steps in the file do not hold any more.
        """
        return self._reader.calibration

    @property
    def masked_pixels(self) -> np.ndarray | None:
        """bool[*frame], the pixels that the set's own mask marks. None: it marks none, or `dead` replaces them."""
        found = masked_pixels(self._reader)
        return None if found is None else found.copy()

    @property
    def valid(self) -> np.ndarray:
        """bool[navigation shape]: where a frame is stored; elsewhere the array is blank."""
        return self._reader.valid
