"""Shows a folder and its subfolders, and every data set in them as its faces.

`vfs mount --tree` mounts such a folder tree.

    folder_tree = FolderTree("/data", open_set)  reads nothing
    folder_tree.children("2024")                 names in /data/2024, as they become known
    folder_tree.get("2024/scan.npy", 0, 128)     opens the files behind that name, and only these

- `listing` finds out which data sets are in one folder. It has the rules for names, sets and links.
- `candidates` reads the names in a folder and finds the files that may be data sets.
- `entries` keeps names in the order in which listings show them.
- `folder_tree` finds paths in the folders, keeps the data sets open that were used last, and opens
  files before a listing gets to them.
- `records` remembers the state of files, so that they are opened again only if they changed.
- `plans` makes mounts of folder trees and of data sets.

Changes are noticed within a second or so: files that appear or vanish, and data sets whose files
changed, which are opened again under the same name. A program that had a file of such a set open
gets errors from then on (`MountSource.stamp`).

A file that cannot be opened is not shown, and the log `vfs.folder_tree` says why in one line. But
if it was shown before, its names are errors (EIO) until it can be opened again: if they were
absent, tools would take their data for blank. The same holds for names that were read from: if
their file, or a folder above it, is deleted or renamed, they are errors until it is back (`seen`
remembers the 65,536 faces that were read from last). Listings show only files that are there now.
"""

from vfs.folder_tree.folder_tree import FolderTree
from vfs.folder_tree.records import MemberSet

__all__ = ["FolderTree", "MemberSet"]
