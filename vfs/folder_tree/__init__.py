"""Shows a folder and its subfolders as they are, and every data set in them as its faces. This is
what `vfs mount --tree` mounts.

    folder_tree = FolderTree("/data", open_set)      nothing is read
    folder_tree.children("2024")                 names of /data/2024, as they become known
    folder_tree.get("2024/scan.npy", 0, 128)     opens the files behind that name, and only these

- `listing` finds out which data sets are in one folder, and says the rules for names, sets and links.
- `candidates` reads the names in a folder and says which files may be data sets; `entries` keeps the order of listings.
- `folder_tree` goes down the folders, keeps the data sets open that were used last, and opens files
  before a listing gets to them.
- `records` remembers what files were, so that they are opened again only when they changed.

Changes are noticed within a second or so: files that appear or vanish, and data sets whose files
changed, which are opened again under the same name. A program that had a file of such a set open
gets errors from then on (`Shown.stamp`).

A file that cannot be opened is not shown, and the log `vfs.folder_tree` says why in one line. But
if it was shown before, its names are errors (EIO) until it can be opened again: if they were
absent, tools would take their data for blank. The same holds for names that were read from when
their file, or a folder above it, is deleted or renamed, until it is back (`seen` remembers the
65,536 faces that were read from last). Listings show what is there now.
"""

from vfs.folder_tree.folder_tree import FolderTree
from vfs.folder_tree.records import MemberSet

__all__ = ["FolderTree", "MemberSet"]
