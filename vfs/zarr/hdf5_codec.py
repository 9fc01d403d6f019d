"""Undoes filters of HDF5 for zarr: bitshuffle, LZ4, LZF, szip and Blosc2 as HDF5 frames them.

Zarr and numcodecs find the codec `vfs.hdf5` by entry points where vfs is installed, so references to chunks of HDF5
are read with nothing but zarr. It only decodes. Its configuration is {"filter": number, "values": parameters,
"nbytes": bytes that it makes}; the numbers are
https://support.hdfgroup.org/documentation/hdf5-docs/registered_filter_plugins.html. Bytes are not trusted: what does
not decode to exactly so many is an error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numcodecs.abc import Codec
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON

from vfs.errors import OptionError
from vfs.formats.hdf5.encoding import CODEC
from vfs.formats.hdf5.filters import undone


@dataclass(frozen=True)
class Hdf5Filter:
    """A filter of HDF5.

    Attributes:
        number: of the filter.
        values: its parameters.
        nbytes: bytes that it makes.
    """

    number: int
    values: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, config: Any) -> Hdf5Filter:
        """Read a configuration.

        Raises:
            OptionError: it is none.
        """
        try:
            number, values, nbytes = config["filter"], config["values"], config["nbytes"]
            if nbytes >= 0:
                return cls(int(number), tuple(int(value) for value in values), int(nbytes))
        except (TypeError, ValueError, KeyError):
            pass
        raise OptionError(f"codec {CODEC}: expected filter, values and nbytes, found {str(config)[:120]}")

    def config(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"filter": self.number, "values": list(self.values), "nbytes": self.nbytes}

    def decode(self, data: Any) -> np.ndarray:
        """Undo the filter.

        Raises:
            DecodeError: the bytes do not decode.
        """
        return undone(self.number, self.values, self.nbytes, np.frombuffer(data, np.uint8))


def _read_only() -> TypeError:
    return TypeError(f"codec {CODEC}: only reads what HDF5 wrote")


class NumcodecsHdf5(Codec):  # type: ignore[misc]  # numcodecs has no types
    """The codec for numcodecs, and so for zarr v2."""

    codec_id = CODEC

    def __init__(self, filter: int, values: Any, nbytes: int) -> None:
        self._filter = Hdf5Filter.of({"filter": filter, "values": values, "nbytes": nbytes})

    def encode(self, buf: Any) -> Any:
        raise _read_only()

    def decode(self, buf: Any, out: Any = None) -> Any:
        made = self._filter.decode(buf)
        if out is None:
            return made
        np.frombuffer(out, np.uint8)[:] = made
        return out

    def get_config(self) -> dict[str, Any]:
        return {"id": self.codec_id, **self._filter.config()}


@dataclass(frozen=True)
class ZarrHdf5(BytesBytesCodec):
    """The codec for zarr v3."""

    filter: Hdf5Filter
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        return cls(Hdf5Filter.of(data.get("configuration")))

    def to_dict(self) -> dict[str, JSON]:
        return {"name": CODEC, "configuration": self.filter.config()}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        made = await asyncio.to_thread(self.filter.decode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_array_like(made)

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        raise _read_only()
