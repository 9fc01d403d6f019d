"""Answers what the page asks to correct a set: what can be changed, guesses, the set opened anew, its description.

`vfs serve` stays read-only, but for one file: with `--allow-describe` the page may save the description of a set as
`NAME.vfs.json` beside its data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, VfsError, printable
from vfs.faces.documents import plain_json
from vfs.formats import by_name, formats
from vfs.http.guard import RefusedError
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import SCAN, known
from vfs.new_files import create
from vfs.outputs.outputs import whole
from vfs.page.listing import WARNINGS, SetListing
from vfs.page.reopened import Reopened
from vfs.sets.describing import describe
from vfs.sets.guessing import MANY, guesses
from vfs.sets.opening import OpenedSet, Opening
from vfs.sets.recipe import SERVING
from vfs.sets.reopening import MAX_NAMES, SETTABLE, alike, everything, options_of, reopened, said_options
from vfs.sources.names import is_url

ARRAYS = 200
"""Arrays of a set that come with it."""
MAX_DESCRIPTION_BYTES = 1 << 20  # most bytes of a description that is looked at before it is replaced


class Describing:
    """Opens sets anew and describes them. Its methods may look at files: they are called in threads.

    Args:
        contents: what is served.
        listing: says what is in a set.
        allowed: descriptions may be saved beside the data.
    """

    def __init__(self, contents: Reopened, listing: SetListing, allowed: bool) -> None:
        self._contents, self._listing, self._allowed = contents, listing, allowed

    def known(self, key: str) -> dict[str, Any]:
        """Say what can be changed of a set: its format and the options of it, options that are given, other formats.

        Raises:
            RefusedError: there is none.
        """
        opening = self._opening(key)
        found = None
        with suppress(VfsError):  # a file that cannot be opened as it is
            found = reopened(opening, {}, self._contents.cache)
        if found is not None:
            opening = found.opening
        kind = by_name(opening.format) if opening.options.format else None
        return {
            "name": printable(os.path.basename(opening.paths[0])),
            "files": len(opening.paths),
            "stack": 0 if found is None else self._stack(found),
            "stacked": len(opening.paths) > 1,
            "format": kind.name if kind else None,
            "formats": [one.name for one in formats().values() if one.name != "description"],
            "given": plain_json(said_options(opening)),
            "options": plain_json(options_of(kind, opening.format_options)) if kind else [],
            "raw": plain_json(options_of(by_name("raw"), {})),
            **self._all_arrays(found),
            "allowed": self._allowed,
        }

    def _all_arrays(self, found: OpenedSet | None) -> dict[str, Any]:
        """Say which `arrays` the files of a set hold, those that are hidden too: `count` of them."""
        arrays: Mapping[str, ArrayReader] = {}
        with suppress(VfsError):
            arrays = {} if found is None else everything(found.opening, self._contents.cache).arrays
        first = islice(arrays.items(), MAX_NAMES)
        said = [
            {
                "path": path,
                "label": printable(one.dataset.label),
                "shape": list(one.shape),
                "dtype": str(one.dtype),
            }
            for path, one in first
        ]
        return {"arrays": said, "count": len(arrays)}

    def _stack(self, found: OpenedSet) -> int:
        """Return how many files would be one stack with that of a set; 0 if there are no others, or they cannot be."""
        opening = found.opening
        if len(opening.paths) > 1 and found.frames == len(opening.paths):
            return len(opening.paths)
        with suppress(VfsError):
            paths = alike(opening) if len(found.main.files) == 1 else ()
            if len(paths) > 1:
                replace(opening, paths=paths[:2]).changed(opening.options, opening.format_options, self._contents.cache)
                return len(paths)
        return 0

    def guesses(self, key: str) -> list[dict[str, Any]]:
        """Guess which scan the frames of a set are: see `vfs.guess_nav_shape`. Best first; none where nobody can.

        Raises:
            RefusedError: there is no set.
            SourceError: its files cannot be read.
        """
        opening = self._opening(key)
        scan = [name for name, group in SETTABLE.items() if group == SCAN]
        found = reopened(opening, dict.fromkeys([*scan, "hide"]), self._contents.cache)
        main = found.tree.arrays[found.tree.main]
        if not main.dataset.nav_ndim or main.dataset.chosen is not None:
            return []
        made = guesses(main, found.tree.arrays, most=MANY, alike=True)
        return [asdict(one) | {"nav_shape": list(one.nav_shape)} for one in made]

    def open(self, key: str, wanted: Any) -> dict[str, Any]:
        """Open a set anew, and describe it as `SetListing.dataset` does.

        Args:
            wanted: {"options": {…}}, see `vfs.sets.reopening.reopened`.

        Returns: the set; where it cannot be opened so, `error`, a line that says why.

        Raises:
            RefusedError: there is no such set, or this is nothing that one can ask for.
        """
        if not isinstance(wanted, Mapping) or wanted.keys() != {"options"}:
            raise RefusedError(400, 'expected {"options": {"nav_shape": "12,16"}}')
        try:
            path, found = self._contents.reopen(key, wanted["options"])
        except VfsError as error:  # while somebody types, this is no failure of anybody
            return {"error": printable(str(error))}
        said = [printable(absence.said) for absence in found.absent[:WARNINGS]]
        return self._listing.dataset(path, 0, ARRAYS) | {"warnings": said}

    def description(self, key: str) -> dict[str, Any]:
        """Describe how a set is opened: `name` of the file that would hold it, its `text`, if one may `save` it here.

        Raises:
            RefusedError: there is no set.
            VfsError: it has no description.
        """
        _, name, text = self._described(key)
        return {"name": printable(name), "text": text, "save": self._allowed}

    def save(self, key: str) -> dict[str, Any]:
        """Save the description of a set beside its data, in place of an older one that says how a set is opened.

        Returns: `name` of the file.

        Raises:
            RefusedError: descriptions may not be saved, or there is no set.
            OptionError: it cannot be written, or another file has its name.
        """
        if not self._allowed:
            raise RefusedError(403, "expected a server that may write descriptions: vfs serve --allow-describe")
        folder, name, text = self._described(key)
        path = os.path.join(folder, name)
        if os.path.lexists(path) and not _is_replaceable(path):
            raise OptionError(f"{path}: exists already, and is no description of how a set is opened; remove it first")
        with whole(path, replace=True) as partial, open(create(partial), "w", encoding="utf-8") as file:
            file.write(text)
        return {"name": printable(name)}

    def _described(self, key: str) -> tuple[str, str, str]:
        """Return folder, name and text of the description of a set."""
        found = reopened(self._opening(key), {}, self._contents.cache)
        usual = {name: known(OpenOptions)[name].default for name in SERVING}
        found = replace(found, opening=replace(found.opening, options=replace(found.opening.options, **usual)))
        if is_url(found.opening.paths[0]):
            raise OptionError(f"{found.opening.paths[0]}: is on a server, where nothing can be written")
        first = os.path.abspath(found.opening.paths[0])
        folder = os.path.dirname(first)
        made = describe(found, folder, follow_outside=found.opening.options.follow_outside)
        name = f"{by_name(found.opening.format).label(first)}.vfs.json"
        return folder, name, json.dumps(made, indent=1, ensure_ascii=False) + "\n"

    def _opening(self, key: str) -> Opening:
        opening = self._contents.at(key).opening
        if opening is None:
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        return opening


def _is_replaceable(path: str) -> bool:
    """Return True for a file that says how a set is opened, and nothing else."""
    if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_DESCRIPTION_BYTES:
        return False
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and {"vfs", "format", "files"} <= said.keys()
