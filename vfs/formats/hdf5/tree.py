"""Makes a tree of all that an HDF5 file says: groups, their attributes, texts and small numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vfs.errors import FormatError
from vfs.formats.hdf5.program import json_object
from vfs.h5.survey import ask, told
from vfs.helper.process import Outcome
from vfs.model.files import Files
from vfs.model.sources import Sources

_ATTRS = "attrs"


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return what a file says, as a tree of its groups; masters are asked, not their data.

    A group has its attributes under `attrs`, and what is in it. Text and small numbers are values; where a data set
    has attributes too, {"value": …, "attrs": …}. Of arrays it says {"shape": …, "dtype": …}, of a further name of
    something {"same as": path}. Text that holds a JSON object is this object.

    Raises: what opening the file raises.
    """
    found = Files.stat(sources, paths).paths
    path = next((one for one in found if "master" in one.rpartition("/")[2]), found[0])
    return ask(sources, path, lambda answer: _tree(path, answer), tree=True)


def _tree(path: str, answer: Outcome) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    left: list[str] = []
    at, ended = "", False
    try:
        for said, _ in told(path, answer):
            at, ended = said.get("at", at), "end" in said
            if "left_out" in said:
                left.append(f"{said['name']}: {said['left_out']}")
            else:
                _add(tree, said)
    except FormatError as error:  # libhdf5 gave up within the file
        if not tree:
            raise
        return tree | {"left_out": [*left, str(error)]}
    if not ended:
        left.append(f"what follows {at or 'the beginning'}: libhdf5, which parses the file, {answer.ended} there")
    return tree | ({"left_out": left} if left else {})


def _add(tree: dict[str, Any], said: Mapping[str, Any]) -> None:
    """Add what a message says."""
    if "group" in said:
        attrs = _texts(said["attrs"])
        if attrs or said["group"]:
            _inside(tree, said["group"]).update({_ATTRS: attrs} if attrs else {})
    elif "name" in said:
        above, _, own = said["name"].rpartition("/")
        _inside(tree, above)[own] = _data_set(said)


def _inside(tree: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the entry of a group, made where it is not there."""
    for name in filter(None, path.split("/")):
        inner = tree.setdefault(name, {})
        tree = inner if isinstance(inner, dict) else tree.setdefault(f"{name}/", {})
    return tree


def _data_set(said: Mapping[str, Any]) -> Any:
    if "same" in said:
        return {"same as": said["same"]}
    attrs = _texts(said.get("attrs", {}))
    value = {name: said[name] for name in ("shape", "dtype") if name in said} or {"value": _text(said.get("value"))}
    return {**value, _ATTRS: attrs} if attrs else value if "shape" in value else value["value"]


def _texts(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in attrs.items()}


def _text(value: Any) -> Any:
    """Return the object in a text, or in a list of one text, that holds one; else the value."""
    one = value[0] if isinstance(value, list) and len(value) == 1 else value
    return (json_object(one.encode()) or value) if isinstance(one, str) and one.lstrip()[:1] == "{" else value
