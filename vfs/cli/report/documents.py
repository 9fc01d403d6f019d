"""Describes a set as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vfs.cli import guesses
from vfs.cli.report.facts import file_sizes, is_read, left_out, scale, single_value
from vfs.faces.documents import plain_json
from vfs.faces.references import referenceable
from vfs.sets.opening import OpenedSet


def as_json(group: OpenedSet) -> dict[str, Any]:
    """Return everything about a set in a form that JSON can hold.

    The fields are listed in vfs/docs/commands.md. Metadata that all arrays but companions share
    stands once, in `shared_attrs`: a set of hundreds of arrays would repeat it hundreds of times.
    """
    files = file_sizes(group)
    attrs = {path: plain_json({**array.attrs, **array.dataset.conventions}) for path, array in group.arrays.items()}
    shared = _shared([attrs[path] for path, array in group.arrays.items() if not array.dataset.companion])
    return {
        "name": group.name,
        "format": group.opening.format,
        "files": list(files),
        "missing": list(
            dict.fromkeys(
                [
                    *(path for path, nbytes in files.items() if nbytes < 0),
                    *(name for one in group.absent for name in one.files),
                ]
            )
        ),
        "incomplete": [one.said for one in group.absent],
        "absent": group.attrs["vfs"].get("incomplete", {}),
        "left_out": left_out(group),
        "hidden": list(group.opening.options.hide or ()),
        "bytes": sum(nbytes for nbytes in files.values() if nbytes > 0),
        "live": None if group.progress is None else group.progress.said(),
        "main": group.tree.main,
        "arrays": {path: _array_json(group, path, attrs[path], shared) for path in group.arrays},
        "shared_attrs": shared,
        "group_attrs": plain_json({key: value for key, value in group.attrs.items() if key != "vfs"}),
        "nav_shape_guesses": guesses.as_json(group),
    }


def _shared(attrs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that are equal in all arrays; none if there is only one array."""
    first, *others = attrs
    if not others:
        return {}
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _array_json(group: OpenedSet, path: str, attrs: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything about an array but the metadata in `shared`."""
    array = group.arrays[path]
    chunking = array.chunking
    return {
        "name": array.dataset.label,
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "dims": list(array.dims),
        "nbytes": array.nbytes,
        "chunks": list(array.chunks),
        "chunks_reason": chunking.reason,
        "read_amplification": {"one_chunk": round(chunking.one, 3), "all_chunks": round(chunking.full, 3)},
        **dict(zip(("referenceable", "referenceable_reason"), referenceable(array, group.chosen(path)), strict=True)),
        "files": len(array.files),
        "companion": array.dataset.companion,
        "scale": scale(array),
        **({"value": plain_json(single_value(array))} if is_read(array) else {}),
        "metadata": {name: one._asdict() for name, one in array.dataset.recorded.items()},
        "attrs": {key: value for key, value in attrs.items() if array.dataset.companion or key not in shared},
    }
