"""Asks what changing a field of a header must do that decides what is shown.

A number is shown only for what a file declares *and* the reader understood. So a field that decides meaning (type of
pixels, byte order, colours, counts, sizes, where the pixels are) is never skipped: if it changes in a valid file,
what is shown changes, a warning says what does not fit, or the set is an error. `check_field` asks exactly this, and
a format made elsewhere can ask it of its own fields, which `fields` has functions for:

    check_field(DecidedSet("lantern", write, (binary("width", 8, "<I", 5),)), field, folder)
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vfs.api.opening import open_group
from vfs.errors import IncompleteWarning, VfsError
from vfs.testing.deciding_fields.fields import DecidedSet, DecidingField

_TOLD = ("calibration", "channels", "axes", "rows", "photometric", "orientation")
"""Attributes that tell what numbers mean."""


def shown(paths: Any, format_name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return all that is shown of a set: shapes, types, axes, steps, colours, elements, and what is said of it.

    Returns: the message, where the set or an element of it is an error.
    """
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", IncompleteWarning)
        try:
            group = open_group(paths, format=format_name, **(options or {}))
            for path, array in group.items():
                digest = hashlib.sha256(np.ascontiguousarray(array[...]).tobytes()).hexdigest()
                told = {key: array.attrs.get(key) for key in _TOLD} | {"metadata": dict(array.metadata)}
                told_text = json.dumps(told, default=str, sort_keys=True)
                found[path] = (array.shape, array.dtype.str, array.dims, digest, told_text)
        except VfsError as error:
            return str(error)
    return found, [str(one.message) for one in said]


def check_field(decided: DecidedSet, field: DecidingField, folder: Path) -> None:
    """Write a set, change a field in it, and fail where exactly the same is shown as before."""
    paths = decided.write(folder)
    before = shown(paths, decided.format, decided.options)
    assert not isinstance(before, str), f"the set as it was written is an error: {before}"
    file = next(path for path in sorted(folder.rglob(field.file)) if path.is_file())
    content = file.read_bytes()
    field.change(file)
    assert file.read_bytes() != content, f"{field.name}: the change changed nothing"
    after = shown(paths, decided.format, decided.options)
    assert after != before, f"{decided.format}: {field.name} was changed, and the same is shown as before"
    assert not isinstance(after, str) or "\n" not in after, after
