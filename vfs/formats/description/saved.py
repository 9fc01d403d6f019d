"""Reads descriptions that record how a set is opened: `"format"`, `"files"`, `"options"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.formats import Format, by_name
from vfs.formats.description.schema import MAX_INTEGER, Keys, Members, Value, load
from vfs.formats.description.sources import DescribedFolder
from vfs.formats.headers import exists
from vfs.model import calibration
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import Known, Saved, known
from vfs.model.options import fitting, kinds, named
from vfs.model.stored import Saved as SavedSet

SAVED = Keys("vfs", "format", "files", options={})
MASKS = Keys("masks", dtype=None)
_MAX_IMAGE = 1 << 20  # most numbers of a correction that is written in the description itself


def saved(members: Members, folder: DescribedFolder) -> SavedSet:
    """Read a description with a `format`.

    Raises:
        FormatError: a member is not valid.
        OutsideError: a file leaves the folder.
        MissingSourceError: a file does not exist.
    """
    name = members["format"]
    try:
        kind = by_name(name.text()[:60])
    except OptionError as error:
        name.fail(str(error))
    names = members["files"].items()
    if not names:
        members["files"].expected("at least one file")
    paths = tuple(folder.existing(file) for file in names)
    if kind.name == "description":  # may name a description, but not one with a format: so there are no circles
        inner = load(folder.sources, paths[0]).value
        if isinstance(inner, dict) and "format" in inner:
            names[0].fail(f"{paths[0]} is itself a description with a format; name what that one names")
    options: dict[str, Any] = {}
    for key, value in members.read("options", Value.metadata).items():
        at = members["options"].inside(key, value)
        if key in _SETTINGS:
            options[key] = _SETTINGS[key](at, folder)
        else:
            options[key] = _option(at, key, kind)
    if "stored_dtype" in kind.options and "dtype" in options:  # for headerless data, dtype means the stored one
        options.setdefault("stored_dtype", options.pop("dtype"))
    return SavedSet(paths, kind.name, options)


def _option(value: Value, name: str, kind: Format) -> Any:
    """Convert an option of the format to the type that the format declares."""
    try:
        kind.check_options({name[:60]: None})
    except OptionError as error:
        value.fail(f"{error}; for every format: {', '.join(_SETTINGS)}")
    declared = kind.options[name].annotation
    try:
        return fitting(name, value.value, declared)
    except OptionError:
        value.expected(f"what the option takes ({named(declared)})")


def _numbers(value: Value, folder: DescribedFolder) -> Any:
    if isinstance(value.value, list):
        return [item.integer(-1) for item in value.items()]
    return value.text() if isinstance(value.value, str) else value.integer(1)


def _text(value: Value, folder: DescribedFolder) -> str:
    return value.text()


def _flag(value: Value, folder: DescribedFolder) -> bool:
    return value.flag()


def _whole(value: Value, folder: DescribedFolder) -> int:
    return value.integer(-MAX_INTEGER)


def _number(value: Value, folder: DescribedFolder) -> float:
    return float(fitting("", value.value, float))


def _image(value: Value, folder: DescribedFolder) -> Any:
    """Read numbers, or the name of a file beside the description."""
    if isinstance(value.value, str):
        return folder.existing(value)
    if not isinstance(value.value, list):
        value.expected("a list of numbers or the name of a file")
    try:
        array = np.array(value.value)
    except (ValueError, OverflowError):  # rows of different lengths
        value.expected("numbers in rows of equal length")
    if array.dtype.kind not in "biuf" or array.size > _MAX_IMAGE:
        value.expected(f"a list of at most {_MAX_IMAGE:,} numbers or the name of a file")
    return array


def _image_or_array(value: Value, folder: DescribedFolder) -> Any:
    """Read numbers, the name of a file, or the name of an array of the set."""
    if isinstance(value.value, str):
        path = folder.resolve(value)
        return folder.existing(value) if exists(folder.sources, path) else value.text()
    return _image(value, folder)


def _reductions(value: Value, folder: DescribedFolder) -> dict[str, str]:
    """Read reductions by name, as their texts. Masks are an object that names the file beside the description."""
    return {name: _reduction(value.inside(name, given), folder) for name, given in value.metadata().items()}


def _reduction(value: Value, folder: DescribedFolder) -> str:
    if isinstance(value.value, dict):
        members = value.members(MASKS)
        dtype = f", dtype={members['dtype'].text()!r}" if "dtype" in members else ""
        return f"masks({folder.existing(members['masks'])!r}{dtype})"
    text = value.value
    if not isinstance(text, str) or "mask" in text.replace("_", "").lower():
        value.expected('the text of a reduction, as disk(cy=128, cx=128, r=20), or {"masks": "FILE.npy"}')
    return text


def _calibration(value: Value, folder: DescribedFolder) -> dict[str, dict[str, Any]]:
    """Read steps and units of axes."""
    try:
        return calibration.asked(value.metadata())
    except OptionError as error:
        value.fail(str(error))


def _names(value: Value, folder: DescribedFolder) -> list[str]:
    return [item.text() for item in value.items()]


_WAYS: dict[Saved, Callable[[Value, DescribedFolder], Any]] = {
    "dtype": _text,
    "numbers": _numbers,
    "positions": _image,
    "image": _image_or_array,
    "reductions": _reductions,
    "calibration": _calibration,
    "names": _names,
}
_PLAIN: dict[Any, Callable[[Value, DescribedFolder], Any]] = {bool: _flag, int: _whole, float: _number, str: _text}


def _way(option: Known) -> Callable[[Value, DescribedFolder], Any]:
    """Return the function that reads the value of an option."""
    return _PLAIN[kinds(option.annotation)[0]] if option.about.saved == "as it is" else _WAYS[option.about.saved]


_SETTINGS = {name: _way(option) for name, option in known(OpenOptions).items() if option.about.saved != "never"}
"""Options that `vfs.open` takes for every format: name -> function that reads the value."""
