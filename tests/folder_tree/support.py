"""What the tests of folder trees share."""

from __future__ import annotations

from vfs.folder_tree import FolderTree
from vfs.folder_tree.records import Rules
from vfs.formats import formats
from vfs.sources.local import LocalSources


def names(folder_tree: FolderTree, path: str = "") -> list[str]:
    return sorted(name for name in folder_tree.at(path).children() if name != "/")


def refused(path: str) -> None:
    raise AssertionError(f"{path} was opened")


RULES = Rules(LocalSources(), refused, list(formats().values()))  # type: ignore[arg-type]
