"""What a report says of a set, as text and as JSON: its files, what is not shown, scales and single values."""

from __future__ import annotations

import re
from typing import Any

from vfs.engine.array import ArrayReader
from vfs.errors import VfsError
from vfs.faces.documents import plain_json
from vfs.sets.opening import OpenedSet

_SCALE = re.compile(r"scale|calibration|pixel_?size|physical_?size|resolution|spacing|units?$", re.IGNORECASE)


def file_sizes(group: OpenedSet) -> dict[str, int]:
    """Return path -> size in bytes of every file of the set; -1 for missing ones."""
    found: dict[str, int] = {}
    for array in group.arrays.values():
        files = array.dataset.files
        found.update(zip(files.paths, files.sizes.tolist(), strict=True))
    return found


def scale(array: ArrayReader) -> dict[str, Any]:
    """Return the metadata about sizes and units, recognised by the names of the entries (`_SCALE`)."""
    said = {key: plain_json(value) for key, value in {**array.attrs, **array.dataset.conventions}.items()}
    return {key: value for key, value in said.items() if _SCALE.search(key) and value not in (None, "", [], {})}


def left_out(group: OpenedSet) -> dict[str, str]:
    """Return the data sets of a container that cannot be shown: name -> reason. Only HDF5 has any."""
    root = plain_json(group.main.attrs.get("root", {}))
    said = root.get("left_out", {}) if isinstance(root, dict) else {}
    return {name: str(why) for name, why in said.items()} if isinstance(said, dict) else {}


def is_read(array: ArrayReader) -> bool:
    """Return True if an array's value is shown: it has one element, which is stored."""
    return array.size == 1 and not array.dataset.computed


def single_value(array: ArrayReader) -> Any:
    """Return the value of an array of one element, or the text "cannot be read"."""
    try:
        return array.read().reshape(-1)[0]
    except VfsError:
        return "cannot be read"
