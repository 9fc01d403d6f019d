"""What a reduction made: numbers that know where they hold. `vfs.reduce.result` adds how they are drawn and saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vfs.model import coverage


@dataclass(frozen=True, eq=False)
class ResultValues:
    """The numbers of a result, and what is known of them. `vfs.reduce.result.Result` says what its attributes are."""

    name: str
    kind: str
    selected: np.ndarray
    dims: tuple[str, ...]
    units: str
    calibration: Mapping[str, Mapping[str, Any]]
    scan: tuple[int, ...] = field(repr=False)
    positions: np.ndarray | None = field(repr=False)
    filled: np.ndarray = field(repr=False)
    upward: bool = field(default=False, repr=False)
    reduction: str = field(default="", repr=False)
    of: str = field(default="", repr=False)

    @cached_property
    def data(self) -> np.ndarray:
        """The result, in the scan's shape if it is of kind "nav".

        Where nothing was selected, or nothing is stored, it holds NaN, NaT, False, 0 or ''.
        """
        if self.kind != "nav":
            return self.selected
        if self.positions is None:
            return self.selected.reshape(self.scan + self.selected.shape[1:])
        return coverage.put_back(self.selected, self.positions, self.scan)

    @cached_property
    def valid(self) -> np.ndarray:
        """bool of the shape of the scan (kind "nav") or of the result: True where the result holds."""
        if self.kind != "nav":
            return np.broadcast_to(self.filled, self.selected.shape)
        if self.positions is None:
            return self.filled.reshape(self.scan)
        return coverage.put_back(self.filled, self.positions, self.scan)

    @property
    def masked(self) -> np.ma.MaskedArray[Any, Any]:
        """`data`, masked where it is not `valid`."""
        blank = ~self.valid
        more = self.data.ndim - blank.ndim
        return np.ma.MaskedArray(self.data, np.broadcast_to(blank.reshape(blank.shape + (1,) * more), self.data.shape))

    @property
    def bounding(self) -> tuple[slice, ...]:
        """The smallest box that holds all that is valid; empty slices where nothing is."""
        return coverage.bounding(self.valid)

    @property
    def inner(self) -> tuple[slice, ...]:
        """The longest run of steps along the slowest axis that are valid as a whole; empty slices
        where there is none.
        """
        return coverage.inner(self.valid)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of `data`."""
        return self.scan + self.selected.shape[1:] if self.kind == "nav" else self.selected.shape

    @property
    def dtype(self) -> np.dtype:
        """Of `data`."""
        return self.selected.dtype

    @property
    def ndim(self) -> int:
        """Of `data`."""
        return len(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        made = self.data if dtype is None else self.data.astype(dtype, copy=False)
        if copy is False and made is not self.data:
            raise ValueError(f"{self.name} is {self.dtype}: it cannot become {made.dtype} without a copy")
        return made.copy() if copy else made

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:  # Python asks here for what is not there
            public = not name.startswith("_") and hasattr(np.ndarray, name)
            hint = f": .data.{name} is that of its numbers, of numpy" if public else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        axes = ", ".join(f"{dim}: {n}" for dim, n in zip(self.dims, self.shape, strict=True))
        return f"<vfs.Result {self.name} ({self.kind}) ({axes}) {self.dtype}>"
