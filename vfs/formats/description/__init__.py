"""Reads descriptions, `*.vfs.json`, in which a person writes where the elements of arrays are.

This docstring is their only specification. A description is one JSON object. It names its version
(`"vfs": 1`) and is of one of five kinds::

    {"vfs": 1, "dtype": "<u2", "shape": [40, 300, 600], "dims": ["t", "y", "x"], "files": ["part0.bin", "part1.bin"],
     "blocks": [{"file": 0, "offset": 4096, "origin": [0, 0, 0], "shape": [1, 100, 200]}, …]}
    {…, "table": "blocks.npz"}                                      the same blocks as columns: see `tables`
    {…, "frames": {"header": 256, "first": 4096}}                   equal frames one after the other
    {"vfs": 1, "format": "mib", "files": ["scan.hdr"], "options": {"nav_shape": [256, 256]}}     how a set is opened
    {"vfs": 1, "files": […], "arrays": {"data": {"dtype": …, "frames": …}, "time": {…, "companion": true}}}

Every array (of the first three kinds, and each of `arrays`) has:

- `dtype`, with its byte order; `shape`, slowest axis first, navigation axes before those of a
  frame; `files`, counted from 0.
- `dims`: a name per axis. `sig_ndim`: the number of last axes that are a frame (by default two, or
  all if there are fewer).
- `fill_value`: the value of places without data, 0 by default ("NaN", "Infinity", "-Infinity";
  [real, imaginary]).
- `attributes`: any metadata, shown as the attribute `vfs`; `conventions`: attributes that are shown
  beside it (`units`).
- `companion`: true for an array that accompanies another one, such as time stamps; `main`: true for
  what opens first, false for what never does; only within `arrays`. Among equals the largest opens first.

`blocks`: boxes of elements in C order, each with `file`, `offset` (bytes), `origin` and `shape`
(elements). They may have any shape and place and need not form a grid, but may not overlap. A block
may have a `byte_order` ("little", "big") of its own, a `codec` (a numcodecs configuration such as
`{"id": "zlib"}`, a list of them in the order of encoding, or null), and `nbytes`, its length in the
file (with a codec, by default everything up to the end of the file). For all blocks of an array:
`codec`; `stored_shape`, if all are stored in this shape and blocks at the edges reach beyond the
array; `encodings`, see `tables`.

`frames`: each is `header` bytes, the elements of the last `sig_ndim` axes in C order, `footer`
bytes; the first one begins at byte `first` of its file. `per_file`: the number of frames in a file
(by default as many as it has room for); `first_frame`: the number of each file's first frame, if
frames are missing between files; `file`: the file of each entry, if there is not one entry per
file. `first` and `per_file` are one number, or a list with one number per entry. `stored`: the
number of all frames, if it is smaller than in `shape` (the others are blank). `running_on`: frames
run on across the borders of files. `sync_offset`: frames to skip; if negative, blank ones come
first. `payload`: bytes of a frame, if it has more than its elements; `pieces`: boxes of the frame
with `origin`, `shape`, `strides` and `first` (elements), if it is not stored in C order.

`format`: `options` are options of the format, and those that `vfs.open` takes for every format.
Options given when the description is opened take precedence over these.

A file that is missing or ends too early is an error. With `allow_incomplete` its part is blank, if
`per_file`, `first_frame`, files of one size, or the places of blocks say where the rest belongs.

Names of files are relative to the folder of the description and may not leave it, unless it is
opened with `follow_outside`. Messages name the file and the place in it: `x.vfs.json:
blocks[17].shape: …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vfs.errors import OptionError
from vfs.formats import Format
from vfs.formats.description import arrays
from vfs.formats.description.arrays import ARRAY, RANK
from vfs.formats.description.blocks import BLOCKS, blocks_array
from vfs.formats.description.frames import frames_array
from vfs.formats.description.saved import SAVED, saved
from vfs.formats.description.schema import Keys, Members, Value, load
from vfs.formats.description.sources import DescribedFolder
from vfs.model.files import Files
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import Absence, Saved, StoredArray
from vfs.sources.names import dirname

VERSION = 1

_KINDS = ("blocks", "table", "frames", "format", "arrays")
_OWN = {"blocks": Keys("blocks") | BLOCKS, "table": Keys("table") | BLOCKS, "frames": Keys("frames")}
ALONE = Keys("vfs", "files", group_attributes={})
ARRAYS = Keys("vfs", "arrays", files=None, group_attributes={})
_RESERVED = ("zarr.json", "c")


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return first_bytes.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") and (
        path.lower().endswith(".vfs.json") or re.search(rb'"vfs"\s*:', first_bytes) is not None
    )


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray] | Saved:
    """Open a description.

    Raises:
        FormatError: it is not a valid description; the message names the place.
        OutsideError: it names a file outside of its folder.
        SourceError: it or a file that it names is missing or cannot be read.
        OptionError: several descriptions at once.
    """
    if len(paths) != 1:
        raise OptionError(f"{paths[0]}: expected one description, found {len(paths)}")
    whole = load(sources, paths[0])
    folder = DescribedFolder(sources, dirname(paths[0]))
    kind = _kind(whole, _KINDS)
    if kind == "format":
        return saved(whole.members(SAVED), folder)
    if kind == "arrays":
        return [_with_recorded_absence(array, paths[0]) for array in _several(whole.members(ARRAYS), folder)]
    members = whole.members(Keys("vfs") | ARRAY | _OWN[kind] | ALONE)
    group = members.read("group_attributes", Value.metadata)
    common = arrays.common("data", group, *folder.files(members["files"]), members)
    return [_with_recorded_absence(_array(kind, common, members, folder), paths[0])]


def _with_recorded_absence(array: StoredArray, path: str) -> StoredArray:
    """Report the data that the set lacked when its description was written.

    The description records that in the attribute `incomplete`.
    """
    counts = array.attrs.get("incomplete")
    if not isinstance(counts, dict) or not counts or not all(type(n) is int and n > 0 for n in counts.values()):
        return array
    told = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in counts.items())
    found = Absence(f"{path}: was written of a set that is incomplete: {told}", counts=counts)
    attrs = {name: value for name, value in array.attrs.items() if name != "incomplete"}
    return replace(array, attrs=attrs, absent=(*array.absent, found))


def _kind(value: Value, kinds: Sequence[str]) -> str:
    """Return the kind, one of `kinds`, of a description or an array. Checks the version if it has one."""
    if not isinstance(value.value, dict):
        value.expected("an object {…}")
    if "vfs" in value.value and kinds is _KINDS:
        number = value.inside("vfs", value.value["vfs"]).integer(1)
        if number != VERSION:
            value.inside("vfs", number).fail(
                f"version {number} of descriptions is not known, only {VERSION}; a newer vfs may know it"
            )
    found = [name for name in kinds if name in value.value]
    if len(found) != 1:
        value.fail(f"expected one of {', '.join(kinds)}; found {' and '.join(found) or 'none'}")
    return found[0]


def _several(members: Members, folder: DescribedFolder) -> list[StoredArray]:
    """Make the arrays of `arrays`."""
    group = members.read("group_attributes", Value.metadata)
    shared = folder.files(members["files"]) if "files" in members else None
    if not members["arrays"].metadata():
        members["arrays"].expected("at least one array")
    found = []
    for path, array in members["arrays"].value.items():
        value = members["arrays"].inside(path, array)
        _check_path(value, path, members["arrays"].value)
        kind = _kind(value, tuple(_OWN))
        files_key = Keys("files") if shared is None else Keys(files=None)
        own = value.members(ARRAY | RANK | _OWN[kind] | files_key)
        files = folder.files(own["files"]) if "files" in own else shared
        assert files is not None
        found.append(_array(kind, arrays.common(path, group, *files, own), own, folder))
    if all(dataset.companion for dataset in found):
        members["arrays"].fail("expected at least one array that is no companion")
    absent = tuple({one.said: one for dataset in found for one in dataset.absent}.values())
    return [replace(dataset, absent=absent) for dataset in found]


def _check_path(value: Value, path: str, others: Mapping[str, Any]) -> None:
    for part in path.split("/"):
        if (
            not part
            or part.startswith((".", "__"))
            or part in _RESERVED
            or not part.isprintable()
            or len(part.encode()) > 200
        ):
            value.fail(f"expected a path such as data or entry/data, found {path[:60]!r}")
    above = next((other for other in others if path.startswith(f"{other}/")), None)
    if above is not None:
        value.fail(f"an array cannot lie within an array ({above})")


def _array(kind: str, common: arrays.Common, members: Members, folder: DescribedFolder) -> StoredArray:
    """Make an array."""
    made = frames_array(common, members) if kind == "frames" else blocks_array(common, members, folder)
    names = [members["dtype"].file, *([folder.resolve(members["table"])] if kind == "table" else [])]
    said = Files.stat(folder.sources, names)  # if the description or its table changes, so do the data
    return replace(made, files=common.files.joined(said))


FORMAT = Format(
    "description",
    (".vfs.json",),
    "",
    "written by a person: the places of blocks or frames, or the options that open a set",
    sniff,
    open,
    (".vfs.json",),
    terms=(Term("channels", "channels"),),
)
