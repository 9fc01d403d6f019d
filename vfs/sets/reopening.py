"""Opens a set anew with other options, which somebody who looks at it asks for.

Whoever asks may be a stranger: so options come as JSON, none of them names a file, and all are checked as those of a
description are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, VfsError
from vfs.formats import Format, by_name, detect
from vfs.model.name_order import in_order
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import known
from vfs.model.options import fitting, from_text, kinds, named
from vfs.model.wording import option, shown
from vfs.sets.opening import OpenedSet, Opening
from vfs.sets.pixel_masks import WORD
from vfs.sources.names import split

SETTABLE = {name: option.about.group for name, option in known(OpenOptions).items() if option.about.asked}
"""Options for every format that may be asked for, with their groups (`vfs.model.option_fields.SCAN`, …)."""
MAX_CHARACTERS = 4000  # most characters of a text
MAX_NUMBERS = 32  # most numbers of a list, and most options
MAX_NAMES = 1000  # of arrays that are hidden
NUMBER = re.compile(r"[0-9]+")
"""A number in a name."""


def reopened(opening: Opening, changes: Mapping[str, Any], cache: ChunkCache) -> OpenedSet:
    """Open a set with some options changed.

    Args:
        opening: how it is opened.
        changes: option -> value; None: as if it was not given. `format` says another format, and then the options of
            the other one do not count. `stack`: true, with the files of `alike` as one set; a number, which of the
            files of a stack, by itself.
        cache: keeps decoded chunks.

    Raises:
        OptionError: an option may not be asked for, or does not fit.
        VfsError: the set cannot be opened so.
    """
    if not isinstance(changes, Mapping) or len(changes) > MAX_NUMBERS:
        raise OptionError(f"options={shown(changes)}: expected at most {MAX_NUMBERS} names and values")
    opening = _resolved(opening, cache)
    if (stack := changes.get("stack")) is not None:
        opening = stacked(opening) if stack is True else _alone(opening, stack)
    kind = _format(opening, changes)
    same = kind is None or opening.options.format in (None, kind.name)
    own = dict(opening.format_options) if same else {}
    common: dict[str, Any] = {} if kind is None else {"format": kind.name}
    for name, value in changes.items():
        if name in ("format", "stack"):
            continue
        if name in SETTABLE and not (name == "dtype" and kind is not None and "stored_dtype" in kind.options):
            common[name] = _common(name, value)
        elif value is None:
            own.pop(name, None)
        else:
            own[name] = _own(kind, name, value)
    return opening.changed(replace(opening.options, **common), own, cache)


def _alone(opening: Opening, number: Any) -> Opening:
    """Return how one of the files of a set is opened by itself."""
    if type(number) is not int or not 0 <= number < len(opening.paths):
        raise OptionError(f"stack={shown(number)}: expected true, or the number of one of {len(opening.paths):,} files")
    return replace(opening, paths=opening.paths[number : number + 1])


def stacked(opening: Opening) -> Opening:
    """Return how the file of a set and those in its folder whose names differ from it only in numbers are one set.

    Raises:
        OptionError: the set was opened by several files, or there is no other file like it.
    """
    found = alike(opening)
    if len(found) < 2:
        raise OptionError(f"{opening.paths[0]}: no other file in its folder has a name that differs only in numbers")
    return replace(opening, paths=found)


def alike(opening: Opening) -> tuple[str, ...]:
    """Return the file of a set, and those in its folder whose names differ from it only in numbers, in their order."""
    folder, name = split(opening.paths[0])
    if len(opening.paths) > 1 or not NUMBER.search(name):
        return opening.paths
    pattern = re.compile(NUMBER.sub("[0-9]+", re.escape(name)))
    with opening.sources.opening() as sources:
        return tuple(in_order([f"{folder}/{one}" for one in sources.names(folder) if pattern.fullmatch(one)]))


def _resolved(opening: Opening, cache: ChunkCache) -> Opening:
    """Return how the set is opened that a description names, so that each of its options can be changed."""
    if opening.states or not opening.paths[0].endswith(".vfs.json"):
        return opening
    return opening.changed(opening.options, opening.format_options, cache).opening


def _format(opening: Opening, changes: Mapping[str, Any]) -> Format | None:
    """Return the format that is asked for, else the one that the files have; None where nobody knows it."""
    name = changes.get("format") or opening.options.format
    if name is None:
        with suppress(VfsError), opening.sources.opening() as sources:
            return detect(sources, opening.paths[0])
        return None
    if not isinstance(name, str) or len(name) > MAX_CHARACTERS:
        raise OptionError(f"{option(format=name)}: expected the name of a format")
    if name == "description":
        raise OptionError(f"{option(format=name)}: a description cannot be opened as something else")
    return by_name(name)


def _common(name: str, value: Any) -> Any:
    """Check an option for every format; `OpenOptions` checks the rest."""
    option = known(OpenOptions)[name]
    if value is None:
        return option.default
    if option.about.saved == "names":
        if not isinstance(value, list) or len(value) > MAX_NAMES or not all(isinstance(one, str) for one in value):
            raise OptionError(f"{name}={shown(value)}: expected a list of at most {MAX_NAMES} names")
    elif name == "dead":
        if value != WORD:  # an image that somebody else names would be a file
            raise OptionError(f"{name}={shown(value)}: expected {WORD}, the mask of the set")
    elif name != "calibration" and not _is_plain(value):
        raise OptionError(f"{name}={shown(value)}: expected text, a number, or a few numbers")
    return fitting(name, value, option.annotation) if option.annotation is not Any else value


def _own(kind: Format | None, name: str, value: Any) -> Any:
    """Check an option of a format."""
    if kind is None:
        raise OptionError(f"{shown(name)}: is no option of every format; say of which format")
    kind.check_options({name: value})
    annotation = kind.options[name].annotation
    if not _is_plain(value) or os.PathLike in [getattr(one, "__origin__", one) for one in kinds(annotation)]:
        raise OptionError(f"{name}: cannot be changed here: only text, numbers and true or false can")
    if isinstance(value, str) and os.path.lexists(value):
        raise OptionError(f"{name}={shown(value)}: the name of a file is not taken here")
    if not isinstance(value, str):
        return value
    try:
        return from_text(value, annotation)
    except ValueError:
        raise OptionError(f"{name}={shown(value)}: expected {named(annotation)}") from None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= MAX_NUMBERS and all(type(one) in (int, float) for one in value)
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= MAX_CHARACTERS)


def options_of(kind: Format, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the options of a format that may be asked for, with the values that they have.

    Returns: for each `name`, `takes` ("true or false", "a whole number", …), `help`, `default`, and `value`, where it
        is given.
    """
    found = []
    for name, parameter in kind.options.items():
        own = kinds(parameter.annotation)
        if os.PathLike in [getattr(one, "__origin__", one) for one in own]:
            continue
        value = given.get(name)
        found.append(
            {
                "name": name,
                "takes": "a dtype" if own == (Any,) else named(parameter.annotation),
                "help": kind.help(name),
                "default": _said(parameter.default),
                "value": _said(value),
            }
        )
    return found


def _said(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers of a shape as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def said_options(opening: Opening) -> dict[str, Any]:
    """Return the options for every format that may be asked for and are given, as JSON can hold them."""
    said = {name: value for name, value in opening.options.said().items() if name in SETTABLE}
    if not (isinstance(said.get("dead", WORD), str) and said.get("dead", WORD) == WORD):
        del said["dead"]  # an image, which nobody can ask for
    return {name: value if name in ("calibration", "hide") else _said(value) for name, value in said.items()}


def everything(opening: Opening, cache: ChunkCache) -> OpenedSet:
    """Open a set as its files hold it: without a choice of arrays, another scan, and what is made of its numbers.

    Raises:
        VfsError: it cannot be opened so.
    """
    options = known(OpenOptions)
    usual = {name: option.default for name, option in options.items() if option.about.scope == "one set"}
    return opening.changed(replace(opening.options, **usual), opening.format_options, cache)
