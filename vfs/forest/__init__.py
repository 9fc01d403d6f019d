"""A tree of folders as a mount shows it: subfolders as they are, and every data set in them as its faces.

    forest = Forest("/data", open_set)      nothing is read
    forest.children("2024")                 names of /data/2024, as they become known
    forest.get("2024/scan.npy", 0, 128)     opens the files behind that name, and only these

- `listing` finds out what is in one folder, and says the rules for names, sets and links.
- `forest` goes down the folders, keeps the sets open that were used last, and opens files ahead of who lists them.

What changes in the folders is noticed within a second or so: files that appear or vanish, and sets whose files changed, which are opened
again under the same name. Who had a file of such a set open gets an error from then on (`Shown.stamp`). A file that cannot be opened is not shown,
with one line in the log `vfs.forest`; if it was shown before, its names are errors (EIO), not absent, until it can be opened
again: tools take what is absent for blank. So are names that were read from and whose file, or a folder above, was deleted or renamed
(`seen`: the 65,536 faces that were read from last), until they are back; listings show what is there now.
"""

from vfs.forest.forest import Forest
from vfs.forest.records import Opened

__all__ = ["Forest", "Opened"]
