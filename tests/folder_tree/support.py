"""What the tests of folder trees share."""

from __future__ import annotations

from vfs.folder_tree import FolderTree


def names(folder_tree: FolderTree, path: str = "") -> list[str]:
    return sorted(name for name in folder_tree.children(path) if name != "/")
