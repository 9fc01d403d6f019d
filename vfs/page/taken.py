"""Writes numbers that the page shows as a signal of HyperSpy, or a spectrum as EMSA/MAS, as `vfs reduce` does.

The page sends the numbers, since what it shows may be no result: backgrounds are taken away, centres of mass turned,
parts of complex numbers chosen. What their axes mean, the array says.
"""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import Any, NoReturn

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.http.guard import RefusedError
from vfs.model.result_values import ResultValues
from vfs.pictures.frames import FrameView
from vfs.reduce.saving import SAVERS

MAX_NUMBERS_BYTES = 64 << 20
"""Most bytes of numbers that become a file, with what is said of them."""
ENDINGS = (".hspy", ".msa")
"""Files that are written; the first one where a record names none."""

_DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
_KINDS = ("nav", "sig")
_MAX_CHARACTERS = 4000  # most characters of a text


def written(array: ArrayReader, body: bytes) -> bytes:
    """Return the file of a signal or spectrum.

    Args:
        array: what the numbers were made of.
        body: a record (`vfs.page.records`) with `name`, `kind` ("nav" or "sig"), `dtype`, `shape`, `axes` (the axis of
            the array that each axis of the numbers is; null for another one behind these), `bin` (elements of the array
            that each number is the mean of, along all axes) and `reduction`, a text that says what they are; perhaps
            `ending` of the file, and of numbers along one axis `first`: the element of it that they begin with.

    Raises:
        RefusedError: it is something else.
        DependencyError: h5py is not installed.
    """
    head, numbers = _read(body)
    if not {"name", "kind", "dtype", "shape", "axes", "bin", "reduction"} <= head.keys() or head["kind"] not in _KINDS:
        _refuse()
    texts, axes, side = (head["name"], head["reduction"]), head["axes"], head["bin"]
    ending, first = head.get("ending", ENDINGS[0]), head.get("first", 0)
    if ending not in ENDINGS or type(first) is not int or not 0 <= first <= max(array.shape, default=1):
        _refuse()
    if numbers.ndim > 1 and (first or ending == ".msa"):
        _refuse()
    if (
        not all(isinstance(one, str) and one.isprintable() and len(one) <= _MAX_CHARACTERS for one in texts)
        or type(side) is not int
        or not 0 < side <= max(array.shape, default=1)
    ):
        _refuse()
    own = [axis for axis in axes if axis is not None] if isinstance(axes, list) else []
    if not all(type(axis) is int and 0 <= axis < array.ndim for axis in own) or len({*own}) < len(own):
        _refuse()
    if not own or axes != own + [None] * (len(axes) - len(own)):
        _refuse()
    shown = [-(-array.shape[axis] // side) for axis in own]
    fits = first + numbers.shape[0] <= shown[0] if "first" in head else shown == list(numbers.shape[: len(own)])
    if len(axes) != numbers.ndim or not fits:
        _refuse()
    scan = numbers.shape[: len(own)] if head["kind"] == "nav" else ()
    dims = [array.dims[axis] for axis in own]
    result = ResultValues(
        name=head["name"].replace("/", "_").strip(".") or "data",
        kind=head["kind"],
        selected=numbers.reshape(-1, *numbers.shape[len(own) :]) if scan else numbers,
        dims=(*dims, *("axis" for _ in axes[len(own) :])),
        units=str(array.dataset.conventions.get("units", "")),
        calibration={dim: _binned(array.calibration[dim], side, first) for dim in dims if dim in array.calibration},
        scan=scan,
        positions=None,
        filled=np.ones(math.prod(scan), bool),
        upward=FrameView.of(array).upward,
        reduction=head["reduction"],
        of=array.dataset.path,
    )
    chosen = SAVERS[ending]
    chosen.requires()
    file = BytesIO()
    chosen.write({result.name: result}, file)
    return file.getvalue()


def _read(body: bytes) -> tuple[dict[str, Any], np.ndarray]:
    """Read a record with numbers.

    Raises:
        RefusedError: it is none.
    """
    size = int.from_bytes(body[:4], "little")
    try:
        head = json.loads(body[4 : 4 + size])
    except (ValueError, RecursionError):
        _refuse()
    shape = head.get("shape") if isinstance(head, dict) else None
    if not isinstance(shape, list) or not 0 < len(shape) <= 3 or not all(type(n) is int and n > 0 for n in shape):
        _refuse()
    if head.get("dtype") not in _DTYPES or math.prod(shape) * np.dtype(head["dtype"]).itemsize != len(body) - 4 - size:
        _refuse()
    return head, np.frombuffer(body, np.dtype(head["dtype"]).newbyteorder("<"), offset=4 + size).reshape(shape)


def _binned(axis: Any, side: int, first: int) -> dict[str, Any]:
    """Return the calibration of an axis along which each number is the mean of `side`: it lies in their middle.

    Args:
        first: the number that it begins with.
    """
    if axis.get("scale") is None:
        return dict(axis)
    scale = axis["scale"] * side
    return {**axis, "scale": scale, "offset": (axis.get("offset") or 0.0) + (scale - axis["scale"]) / 2 + first * scale}


def _refuse() -> NoReturn:
    raise RefusedError(400, "expected a record of numbers along axes of the array, see `vfs docs protocol`")
