"""Chooses among the arrays that a format found: which one is the main one, and which are shown beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vfs.errors import OptionError, UnknownArrayError
from vfs.model.naming import first_names, nearest
from vfs.model.open_options import OpenOptions
from vfs.model.stored import StoredArray, main_of
from vfs.model.wording import option
from vfs.sets.hiding import without
from vfs.sets.incomplete import largest_of, standing_in

_ORDER = {True: 0, None: 1, False: 2}


@dataclass(frozen=True)
class StoredSet:
    """The arrays of a data set as they are stored.

    Attributes:
        datasets: all arrays: the main one, its equals, others, and last those that are never main.
        main: the array that was asked for (`OpenOptions.first`), else the one that `main_of` returns.
        all: `datasets`, and what is hidden.
    """

    datasets: Sequence[StoredArray]
    main: StoredArray
    all: Sequence[StoredArray]

    def with_main(self, main: StoredArray) -> StoredSet:
        """Return the same arrays, with another one in the place of the main one."""
        again = [[main if one is self.main else one for one in arrays] for arrays in (self.datasets, self.all)]
        return StoredSet(again[0], main, again[1])


def without_first(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a description without those that say which array comes first."""
    return {name: value for name, value in options.items() if name not in ("array", "main")}


def path_named(name: str, found: Iterable[StoredArray], file: str) -> str:
    """Return the path of the array to which its program gave a name; "" if it gave it to none.

    What is never shown first, as encoded events beside their spectra, has the name only where nothing else has it.

    Raises:
        UnknownArrayError: several arrays have the name.
    """
    label = " ".join(name.split())
    named = [dataset for dataset in found if label and dataset.label == label]
    paths = [dataset.path for dataset in named if dataset.main is not False] or [dataset.path for dataset in named]
    if len(paths) > 1:
        raise UnknownArrayError(f"{file}: {len(paths)} arrays are named {name!r}; give a path: {first_names(paths)}")
    return paths[0] if paths else ""


def by_path(found: Sequence[StoredArray], options: OpenOptions, file: str) -> OpenOptions:
    """Return the options with the paths of `array`, `main` and `hide` where these are names that programs gave arrays.

    A path, for `hide` also that of a group, is taken first.

    Raises:
        UnknownArrayError: several arrays have the name.
    """
    paths = {dataset.path for dataset in found}
    groups = {path[:at] for path in paths for at, char in enumerate(path) if char == "/"}

    def path_of(name: str, known: Collection[str]) -> str:
        return name if name in known else path_named(name, found, file) or name

    changes: dict[str, Any] = {
        option: path_of(name, paths)
        for option, name in (("array", options.array), ("main", options.main))
        if name is not None
    }
    if options.hide:
        changes["hide"] = [path_of(name, paths | groups) for name in options.hide]
    said = {option: value for option, value in changes.items() if value != getattr(options, option)}
    return options.common(**said) if said else options


def stored_set(found: Sequence[StoredArray], options: OpenOptions, file: str) -> StoredSet:
    """Return the arrays that a format found, or the wanted one with its companions, without those that are hidden.

    Raises:
        UnknownArrayError: there is no array of such a name.
        OptionError: all are hidden, or the one that is to be the main one; or this one is not the only one wanted.
    """
    datasets = [dataset.calibrated() if "calibration" in dataset.attrs else dataset for dataset in found]
    wanted, hidden = options.array, options.hide
    first = options.main if wanted is None else wanted
    seen = without(datasets, hidden, wanted, file) if hidden else datasets
    if first is not None:
        paths = [dataset.path for dataset in datasets]
        if first not in paths:
            by_name = {name: one.title for one in datasets for name in (one.path, one.label) if name}
            near = dict.fromkeys(by_name[name] for name in nearest(first, list(by_name)))
            raise UnknownArrayError(f"{file}: no array {first!r}; there are: {first_names(list(near))}")
        main = datasets[paths.index(first)]
        if wanted is not None:
            if options.main not in (None, wanted):
                raise OptionError(
                    f"{file}: {option(main=options.main)} has no effect with {option(array=wanted)}, the only array"
                )
            seen = [dataset for dataset in seen if dataset is main or dataset.companion]
        elif main not in seen:
            raise OptionError(f"{file}: {option(main=first)} is hidden by {option(hide=list(hidden or ()))}")
    else:
        main = main_of(seen) or (largest_of(seen) if main_of(datasets) else standing_in(seen, file))
    others = sorted((one for one in seen if one.path != main.path), key=lambda one: _ORDER[one.main])
    shown = [main, *others]
    if not hidden:
        return StoredSet(shown, main, shown)
    left = {one.path for one in shown}
    beside = [one for one in datasets if one.path not in left and (wanted is None or one.companion)]
    return StoredSet(shown, main, [*shown, *beside])
