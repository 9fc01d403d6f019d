"""Decides which names may be absent, and which are an error where nothing has them.

Clients of zarr turn an absent chunk into fill values. Below a face every chunk of an array's grid
exists. So a program that asks for a chunk that does not exist knows the array from before: from
another mount or server at the same place, with other chunks, other names or another data set. Such a key is
an error (`NoChunkError`). Only names that programs try without knowing that they exist may be absent.
"""

from __future__ import annotations

import re

from vfs.errors import NoChunkError
from vfs.model.naming import DOCUMENTS

FOLDER_ENDING = ".zarr"
"""Ending of the name of each face that is a folder."""
SHOWN = 200
"""Most characters of a key that a message shows."""

_CHUNK = re.compile(r"(c|\d+)(\.\d+)*")
# Endings of files that programs look for in any folder: GDAL (.gmac, .aux.xml), N5 (attributes.json),
# NGFF's clients (.json), file managers (desktop.ini, autorun.inf, Thumbs.db)
_TRIED_ENDINGS = (".json", ".gmac", ".xml", ".ini", ".inf", ".db")
_TRIED_GROUPS = frozenset({"labels", "OME"})  # groups that readers of NGFF look for
_OME = re.compile(r"\.ome(\.v2)?\.zarr/")  # the faces in which they look; arrays there have numbers for names


def may_be_absent(name: str) -> bool:
    """Return True if programs ask for a name without knowing that it exists.

    These are zarr's documents, hidden files, and files that programs look for in any folder. None of
    them is the key of a chunk.
    """
    return name in DOCUMENTS or name.startswith(".") or name.endswith(_TRIED_ENDINGS)


def looks_like_chunk(key: str) -> bool:
    """Return True if the last name of a key may belong to a chunk, in any encoding of keys of zarr: c, 7, 0.7, c.0."""
    return _CHUNK.fullmatch(key.rpartition("/")[2]) is not None


def may_lead_to_chunks(path: str) -> bool:
    """Return True if a path of a mount may have been a face, a group or an array: there may be chunks below it.

    A kernel looks up one name after the other. If one of them is absent, so is a chunk below it.
    """
    above, _, name = path.rpartition("/")
    if may_be_absent(name) or (name in _TRIED_GROUPS and _OME.search(path)):
        return False
    return name.endswith(FOLDER_ENDING) or f"{FOLDER_ENDING}/" in f"{above}/"


def check_no_chunk(path: str) -> None:
    """Refuse the path of a chunk in a face that does not exist.

    Raises:
        NoChunkError: the path looks like one.
    """
    if f"{FOLDER_ENDING}/" in path and looks_like_chunk(path):
        raise NoChunkError(f"{path[:SHOWN]}: no data set that is shown has this chunk; open the array again")
