"""Leaves out arrays of a set that somebody does not want to see: previews, metadata, empty spectra."""

from __future__ import annotations

from collections.abc import Sequence

from vfs.errors import OptionError, UnknownArrayError
from vfs.model.naming import first_names, nearest
from vfs.model.stored import StoredArray
from vfs.model.wording import option


def without(
    datasets: Sequence[StoredArray], hidden: Sequence[str], wanted: str | None, file: str
) -> Sequence[StoredArray]:
    """Return the arrays of a set without those that are hidden.

    Args:
        hidden: paths of arrays, and of groups, which stand for all arrays below them.
        wanted: the array that was asked for, which is not hidden; None: none was.
        file: names the set.

    Raises:
        UnknownArrayError: there is nothing of such a name.
        OptionError: nothing would be left but what stands beside arrays.
    """
    paths = [dataset.path for dataset in datasets]
    for name in hidden:
        if not any(_is_within(path, name) for path in paths):
            raise UnknownArrayError(
                f"{file}: {option(hide=name)}: no array or group {name!r}; there are:"
                f" {first_names(nearest(name, paths))}"
            )
    left = [one for one in datasets if one.path == wanted or not any(_is_within(one.path, name) for name in hidden)]
    if all(one.companion for one in left):
        raise OptionError(f"{file}: {option(hide=list(hidden))} leaves no array to show")
    return left


def _is_within(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")
