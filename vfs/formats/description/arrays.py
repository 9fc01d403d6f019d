"""Checks the members that every array of a description has: dtype, shape, names, fill value, metadata."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.formats.description.schema import MAX_INTEGER, Keys, Members, Value
from vfs.model.decode import BlockDecoder, Decoder
from vfs.model.files import Files
from vfs.model.layout import Layout
from vfs.model.stored import Absence, StoredArray, nav_dims

ARRAY = Keys("dtype", "shape", dims=None, sig_ndim=None, fill_value=0, attributes={}, conventions={})
RANK = Keys(companion=False, main=None)  # of an array beside others
MAX_AXES = 32  # the limit of the oldest numpy that vfs supports
_OURS = ("vfs", "_ARRAY_DIMENSIONS")  # attributes that the hierarchy writes itself


@dataclass(frozen=True)
class Common:
    """Holds what all kinds of arrays share: checked members, and where the array is.

    Attributes:
        path: of the array; group: attributes of the root group.
        files: its files; lost: those that are missing.
        dtype: dtype in the files, with byte order.
        shape: elements per axis.
        dims: a name per axis.
        sig_ndim: number of last axes that are a frame.
        fill: value of places without data, a Python number that `dtype` can hold.
        attributes, conventions, companion, main: see `vfs.model.stored.StoredArray`.
    """

    path: str
    group: Mapping[str, Any]
    files: Files
    lost: tuple[Absence, ...]
    dtype: np.dtype
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    sig_ndim: int
    fill: Any
    attributes: Mapping[str, Any]
    conventions: Mapping[str, Any]
    companion: bool
    main: bool | None

    def dataset(
        self, layout: Layout, decoder: Decoder | BlockDecoder, absent: tuple[Absence, ...], block: tuple[int, ...] = ()
    ) -> StoredArray:
        """Make the array for the engine."""
        return StoredArray(
            self.path,
            self.files,
            layout,
            decoder,
            self.shape,
            self.dims,
            len(self.shape) - self.sig_ndim,
            fill=self.fill,
            block=block,
            attrs=self.attributes,
            conventions=self.conventions,
            group_attrs=self.group,
            absent=absent,
            companion=self.companion,
            main=self.main,
        )


def common(path: str, group: Mapping[str, Any], files: Files, lost: tuple[Absence, ...], members: Members) -> Common:
    """Check the members that all kinds of arrays share.

    Args:
        path, group, files, lost: see `Common`.

    Raises:
        FormatError: a member is not valid.
    """
    stored = dtype(members["dtype"])
    sizes = members["shape"].integers()
    shape = tuple(sizes.tolist())
    if len(shape) > MAX_AXES:
        members["shape"].fail(f"expected at most {MAX_AXES} axes, found {len(shape)}")
    if math.prod(max(1, n) for n in shape) * stored.itemsize > MAX_INTEGER:
        members["shape"].fail(f"an array of {list(shape)} {stored} has more than 2^63 bytes")
    sig_ndim = members["sig_ndim"].integer(0, len(shape)) if "sig_ndim" in members else min(2, len(shape))
    conventions = members.read("conventions", Value.metadata)
    for name in _OURS:
        if name in conventions:
            members["conventions"].fail(f"the attribute {name!r} is written by vfs")
    return Common(
        path,
        group,
        files,
        lost,
        stored,
        shape,
        _dims(members, len(shape), sig_ndim),
        sig_ndim,
        members.read("fill_value", lambda value: _fill(value, stored)),
        members.read("attributes", Value.metadata),
        conventions,
        "companion" in members and members["companion"].flag(),
        members["main"].flag() if "main" in members else None,
    )


def dtype(value: Value) -> np.dtype:
    """Parse the name of a dtype of numbers: "<u2", ">f4", "uint16", …"""
    name = value.text()
    if (
        re.fullmatch(
            r"[<>=|]?(b1|[iu][1248]|f[248]|c8|c16)|bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)", name
        )
        is None
    ):
        value.expected("a dtype such as <u2, >i4, <f4, uint8, bool or complex64")
    return np.dtype(name)


def _dims(members: Members, ndim: int, sig_ndim: int) -> tuple[str, ...]:
    if "dims" not in members:
        sig = ("y", "x")[2 - sig_ndim :] if sig_ndim <= 2 else tuple(f"sig_{k}" for k in range(sig_ndim))
        return nav_dims(ndim - sig_ndim) + sig
    given = members["dims"].items()
    names = tuple(name.text() for name in given)
    if len(names) != ndim:
        members["dims"].fail(f"expected {ndim} names, as many as `shape` has axes, found {len(names)}")
    for k, name in enumerate(names):
        if name in names[:k]:
            given[k].fail(f"two axes are called {name!r}")
    return names


def _fill(value: Value, stored: np.dtype) -> Any:
    """Parse a fill value, a number that the dtype can hold.

    Floats may also be "NaN", "Infinity" and "-Infinity", complex numbers are [real, imaginary].
    """
    if stored.kind == "c":
        parts = value.items() if isinstance(value.value, list) else [value, value.inside("imaginary", 0)]
        if len(parts) != 2:
            value.expected("a number or [real, imaginary]")
        return complex(_float(parts[0], stored), _float(parts[1], stored))
    if stored.kind == "f":
        return _float(value, stored)
    if stored.kind == "b":
        return value.flag()
    limits = np.iinfo(stored)
    return value.integer(int(limits.min), int(limits.max))


def _float(value: Value, stored: np.dtype) -> float:
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if isinstance(value.value, str) and value.value in special:
        return special[value.value]
    if type(value.value) is not float and not (type(value.value) is int and abs(value.value) <= MAX_INTEGER):
        value.expected('a number, "NaN", "Infinity" or "-Infinity"')
    if math.isfinite(value.value) and abs(value.value) > float(np.finfo(stored).max):
        value.expected(f"a number that {stored} can hold")
    return float(value.value)
