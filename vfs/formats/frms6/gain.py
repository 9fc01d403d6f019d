"""Reads gain maps for FRMS6: tables of numbers in CSV files, or a variable in files of MATLAB."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vfs.errors import DecodeError, DependencyError, FormatError, OptionError, SourceError, extra
from vfs.formats.headers import read_side_file
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray
from vfs.model.wording import format_option
from vfs.sources.names import splitext


@dataclass(frozen=True)
class _Frms6Table(MadeBlocks):
    """Decodes a gain map in text, and transposes it.

    Lines of the text are rows, and semicolons separate columns.
    """

    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            lines = [
                [float(cell) for cell in line.split(b";") if cell.strip()]
                for line in data.tobytes().splitlines()
                if line.strip(b"; \t")
            ]
            table = np.array(lines, self.dtype).T
        except ValueError as error:
            raise DecodeError(f"expected rows of numbers with semicolons between them: {error}") from None
        if shape and table.shape != shape:
            raise DecodeError(
                f"expected {shape[1]} rows of {shape[0]} numbers, found an array of shape {table.T.shape}"
            )
        return np.ascontiguousarray(table)


@dataclass(frozen=True)
class _Matlab(MadeBlocks):
    """Decodes the variable GainMap of a MATLAB file (not of version 7.3, which is HDF5)."""

    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            found = np.ascontiguousarray(
                _scipy_io().loadmat(io.BytesIO(data.tobytes()), variable_names=["GainMap"])["GainMap"], self.dtype
            )
        except DependencyError:
            raise
        except Exception as error:  # a garbled file fails in any way
            raise DecodeError(f"the variable GainMap cannot be read: {error}".splitlines()[0][:300]) from None
        if found.shape != shape:
            raise DecodeError(f"expected a GainMap of shape {shape}, found {found.shape}")
        return found

    @staticmethod
    def shape(sources: Sources, path: str) -> tuple[int, ...]:
        """Return the shape of the variable without reading it.

        Raises:
            DecodeError: there is no such variable.
        """
        try:
            known = {
                name: tuple(shape)
                for name, shape, kind in _scipy_io().whosmat(io.BytesIO(read_side_file(sources, path)))
                if kind in ("double", "single")
            }
        except (DependencyError, SourceError):
            raise
        except Exception as error:  # a garbled file fails in any way
            raise DecodeError(
                f"expected a MATLAB file up to version 7 (save -v7): {error}".splitlines()[0][:300]
            ) from None
        if "GainMap" not in known:
            raise DecodeError(f"expected a variable GainMap of numbers, found {', '.join(known) or 'none'}"[:300])
        return known["GainMap"]


def _scipy_io() -> Any:
    try:
        import scipy.io
    except ImportError:
        raise DependencyError(f"gain maps of MATLAB need scipy: {extra('frms6')}") from None
    return scipy.io


def gain_array(sources: Sources, path: str, images: Sequence[tuple[int, ...]]) -> StoredArray:
    """Make the array of a gain map.

    Args:
        images: shapes that a map in a MATLAB file may have.
    """
    ending = splitext(path)[1].lower()
    if ending not in (".csv", ".mat"):
        raise OptionError(f"{format_option(gain_map=path)}: expected a .csv or a .mat file")
    files = Files.stat(sources, [path])
    decoder: _Frms6Table | _Matlab = _Frms6Table() if ending == ".csv" else _Matlab()
    try:
        shape = (
            decoder.shape(sources, path)
            if isinstance(decoder, _Matlab)
            else decoder.decode_block(np.frombuffer(read_side_file(sources, path), np.uint8), 0, ()).shape
        )
    except DecodeError as error:
        raise FormatError(f"{path}: {error}") from None
    if ending == ".mat" and shape not in images:
        raise FormatError(
            f"{path}: expected a GainMap of shape {' or '.join(map(str, dict.fromkeys(images)))}, found"
            f" {str(shape)[:60]}"
        )
    if len(shape) != 2 or 0 in shape:
        raise FormatError(
            f"{path}: expected rows of numbers with semicolons between them, found an array of shape {shape}"
        )
    layout = BlockLayout.of_file(shape, files.sizes)
    return StoredArray("gain", files, layout, decoder, shape, ("gain_y", "gain_x"), 0, block=shape, companion=True)
