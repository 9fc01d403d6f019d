"""Shows a folder and its subfolders, and every data set in them as its faces.

`vfs mount --tree` mounts such a folder tree.

    folder_tree = FolderTree("/data", rules, …)  reads nothing
    folder_tree.at("2024").children()            names in /data/2024, as they become known
    folder_tree.at("2024/scan.npy").get(0, 128)  opens the files behind that name, and only these

- `listing` lists one folder: it opens one file after the other and gives names as it goes. It puts together
  `watched_folder`, which knows the names in the folder and reads them again when they changed,
  `folder_records`, which opens files and remembers what they are, `set_names`, which holds the names
  of the sets, and `naming`, which has the rules for names, sets and links.
- `candidates` reads the names in a folder and says which files may be data sets; `entries` keeps the order of listings.
- `folder_tree` goes down the folders and keeps the data sets open that were used last; `look_ahead`
  opens files before a listing gets to them.
- `records` has what is remembered of a file, so that it is opened again only when it changed;
  `trust` says for how long it is not even looked at.

Changes are noticed within a second or so: files that appear or vanish, and data sets whose files
changed, which are opened again under the same name. A program that had a file of such a set open
gets errors from then on (`Shown.stamp`). A set that is still being written, of a tree that is followed, is
shown by a `LiveFolder` of its own as it grows, and what is open of it goes on.

A file that cannot be opened is not shown, and the log `vfs.folder_tree` says why in one line. But
if it was shown before, its names are errors (EIO) until it can be opened again: if they were
absent, tools would take their data for blank. The same holds for names that were read from: if
their file, or a folder above it, is deleted or renamed, they are errors until it is back (`seen`
remembers the 65,536 faces that were read from last). Listings show only files that are there now.
"""

from vfs.folder_tree.folder_tree import FolderTree
from vfs.folder_tree.records import MemberSet

__all__ = ["FolderTree", "MemberSet"]
