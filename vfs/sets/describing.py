"""Writes descriptions (`*.vfs.json`, see `vfs.formats.description`) of open sets.

There are two forms. The short one records how the set was opened: format, files, options. The
explicit one says where every element is, so that the set can be read without knowing its format. It
can be written only for sets whose elements are plain numbers or blocks encoded by numcodecs.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.faces.documents import json_number, plain_json
from vfs.formats.description import ALONE, ARRAYS, VERSION
from vfs.formats.description.arrays import ARRAY, RANK
from vfs.formats.description.blocks import BLOCK, BLOCKS, MixedDecoder
from vfs.formats.description.frames import FRAMES, PIECE
from vfs.formats.description.saved import MASKS, SAVED
from vfs.formats.description.schema import Keys
from vfs.formats.description.sources import leads_out
from vfs.model import calibration
from vfs.model.codecs import CodecDecoder
from vfs.model.decode import PlainDecoder
from vfs.model.layout import BlockLayout, FrameLayout, whole_frame
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import Saved, known
from vfs.model.stored import StoredArray
from vfs.model.wording import option
from vfs.sets.opening import OpenedSet, Opening
from vfs.sources.archive_names import SCHEME
from vfs.sources.boundary import Boundary
from vfs.sources.names import is_url

MAX_ENTRIES = 50_000  # blocks or runs of frames in a description; more of them belong in a table
MAX_NUMBERS = 1 << 16  # elements of an array that was given as an option, such as a gain image


def describe(
    group: OpenedSet,
    folder: str | os.PathLike[str] | None = None,
    *,
    explicit: bool = False,
    follow_outside: bool = False,
) -> dict[str, Any]:
    """Describe a set.

    Saved as JSON in a file `NAME.vfs.json` in `folder`, the description opens as the same arrays.

    Args:
        folder: the folder where the description will be saved; None: the deepest folder that holds
            all files of the set.
        explicit: write the explicit form. It leaves out companions that it cannot describe.
        follow_outside: allow files outside of `folder`; the description then opens only with
            `follow_outside=True`.

    Returns: the description, in a form that JSON can hold.

    Raises:
        OptionError: a file lies outside of `folder`, or the set cannot be described in this form.
    """
    names = [name for array in group.arrays.values() for name in array.files] if explicit else list(group.opening.paths)
    if names[0].startswith(SCHEME):
        raise OptionError(f"{names[0]}: lies in an archive, where no description can be saved; unpack the archive")
    here = os.path.abspath(folder) if folder is not None and not is_url(names[0]) else common_folder(names)
    within = _RelativeNames(here, follow_outside)
    return _explicit(group, within) if explicit else _short(group.opening, within)


def common_folder(names: Sequence[str]) -> str:
    """Return the deepest folder that holds some files, all of which have paths, or all of which have URLs."""
    if not is_url(names[0]):
        return os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names])
    folders = [name.split("/")[:-1] for name in names]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    return "/".join(parts[0] for parts in same)


class _RelativeNames:
    """Turns paths of files into names relative to `folder`, for a description there."""

    def __init__(self, folder: str, follow_outside: bool) -> None:
        self.folder = folder
        self.inside = Boundary.around([os.path.join(folder, "x")]) if not is_url(folder) else None
        self.follow_outside = follow_outside

    def of(self, path: str) -> str:
        """Return the name of a file, relative to the folder.

        Raises:
            OptionError: the file lies outside of the folder, or its name cannot be written as JSON.
        """
        inside = self.inside
        name = path.removeprefix(f"{self.folder}/") if inside is None else os.path.relpath(path, self.folder)
        out = leads_out(name) or (inside is not None and not inside.covers(os.path.join(self.folder, name)))
        if not self.follow_outside and out:
            raise OptionError(
                f"{path} lies outside of {self.folder}: write the description beside its files, or with"
                f" {option(follow_outside=True)}"
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise OptionError(f"{path!r}: a name that is no UTF-8 cannot stand in a description") from None
        return name


def _short(opening: Opening, names: _RelativeNames) -> dict[str, Any]:
    ways = {name: option.about.saved for name, option in known(OpenOptions).items()}
    kept = {
        name: _option(name, value, ways[name], names)
        for name, value in opening.options.said().items()
        if ways[name] != "never"
    }
    for name, value in opening.format_options.items():
        if value is not None:
            kept[name] = _option(name, value, "dtype" if name == "stored_dtype" else "as it is", names)
    files = [names.of(path) for path in opening.paths]
    return SAVED.written(vfs=VERSION, format=opening.format, files=files, options=kept)


def _option(name: str, value: Any, saved: Saved, names: _RelativeNames) -> Any:
    """Return the value of an option in the form that a description holds.

    Raises:
        OptionError: it has too many numbers, or names a file outside of the folder.
    """
    if saved == "dtype":
        return np.dtype(value).str if np.dtype(value).itemsize > 1 else np.dtype(value).name
    if saved == "reductions":
        return {one: _reduction(one, reduction, names) for one, reduction in value.items()}
    if saved == "calibration":
        return calibration.asked(value)
    if saved == "image" and isinstance(value, str | os.PathLike):
        return names.of(os.fspath(value)) if os.path.isabs(value) else os.fspath(value)  # else an array of the set
    if saved == "positions":
        mask = np.asarray(value)
        return (np.flatnonzero(mask) if mask.dtype == bool else mask).tolist()
    if isinstance(value, np.ndarray | np.generic | list | tuple) and np.size(value) > MAX_NUMBERS:
        raise OptionError(
            f"{name}: {np.size(value):,} numbers are too many for a description; save them beside the files"
            " (numpy.save) and open with the file's name"
        )
    return plain_json(value)


def _reduction(name: str, reduction: Any, names: _RelativeNames) -> Any:
    """Write a reduction as text, and masks as the name of their file.

    Raises:
        OptionError: it holds an array, names a file outside of the folder, or is of a class that vfs does not know.
    """
    from vfs.reduce.in_frames import Masks
    from vfs.reduce.reduction import dtype_of
    from vfs.reduce.spelling import KINDS, spelled

    if type(reduction) is Masks and isinstance(reduction.array, str):
        dtype = None if reduction.dtype is None else str(dtype_of(reduction.dtype))
        return MASKS.written(masks=names.of(reduction.array), dtype=dtype)
    if type(reduction) is Masks:
        raise OptionError(
            f"derive: {name}: masks in memory have no description; save them beside the files (numpy.save), and open"
            " with the file's name"
        )
    if getattr(reduction, "background", None) is not None:
        raise OptionError(f"derive: {name}: a background in memory has no description; that of the set has one")
    if type(reduction) not in KINDS.values():
        raise OptionError(f"derive: {name}={spelled(reduction)}: classes of your own have no description")
    return spelled(reduction)


def _explicit(group: OpenedSet, names: _RelativeNames) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for path, array in group.arrays.items():
        try:
            found[path] = _array(array, names) | _rank(path, group)
        except OptionError:
            if not array.dataset.companion:
                raise
    # Missing data is recorded, since places of elements do not tell it. How frames fit the scan, they do tell.
    lacks = Counter[str]()
    for absence in group.absent:
        lacks.update({} if absence.of_scan else absence.counts)
    if lacks:
        main = found[group.main.dataset.path]
        main["attributes"] = {**main.get("attributes", {}), "incomplete": dict(lacks)}
    attributes = plain_json(group.main.dataset.group_attrs)
    if list(found) == ["data"]:
        return (ALONE | ARRAY).written(vfs=VERSION, group_attributes=attributes) | found["data"]
    files = next(iter(found.values()))["files"]
    shared = all(made["files"] == files for made in found.values())
    if shared:
        for made in found.values():
            del made["files"]
    return ARRAYS.written(vfs=VERSION, files=files if shared else None, group_attributes=attributes, arrays=found)


def _array(array: ArrayReader, names: _RelativeNames) -> dict[str, Any]:
    """Describe an array and where its elements lie in the files.

    Raises:
        OptionError: the array is converted or corrected, its elements are not plain numbers, or it
            has too many blocks or runs of frames.
    """
    dataset = array.dataset
    if array.dtype != dataset.dtype or array.corrections is not None:
        raise OptionError(
            f"{dataset.path}: an array that is converted (dtype) or corrected while reading has no explicit"
            " description; open it without these options"
        )
    if not dataset.files.sources.as_stored:
        raise OptionError(f"{dataset.path}: its file is packed as a whole; only the short description can be written")
    frames, blocks, decoder = dataset.layout.frames, dataset.layout.blocks, dataset.decoder
    if frames is not None and isinstance(decoder, PlainDecoder):
        stored, place, used = decoder.stored, *_frames(dataset, frames)
    elif blocks is not None and isinstance(decoder, PlainDecoder | CodecDecoder | MixedDecoder):
        stored = decoder.decoders[0].stored if isinstance(decoder, MixedDecoder) else decoder.stored
        place, used = _blocks(dataset, blocks, _encodings(decoder, stored))
    else:
        raise OptionError(
            f"{dataset.path}: its elements are not plain numbers ({type(decoder).__name__}); only the short description"
            " can be written"
        )
    made = (ARRAY | Keys("files")).written(
        dtype=stored.str if stored.itemsize > 1 else stored.name,
        shape=list(dataset.shape),
        dims=list(dataset.dims),
        sig_ndim=len(dataset.shape) - dataset.nav_ndim,
        fill_value=_fill(dataset, stored),
        attributes=plain_json(dataset.attrs),
        conventions=plain_json(dataset.conventions),
        files=[names.of(dataset.files.paths[k]) for k in used],
    )
    return made | place


def _rank(path: str, group: OpenedSet) -> dict[str, Any]:
    """Describe which array opens first. Nothing says that of an array that was asked for, or that is alone."""
    dataset, options = group.arrays[path].dataset, group.opening.options
    if dataset.companion and path != group.tree.main:
        return RANK.written(companion=True)
    main = dataset.main
    if options.main is not None:  # no other one may be as good
        main = path == options.main or (None if main is None else False)
    asked, alone = options.array is not None, len(group.arrays) == 1
    return RANK.written(main=None if asked or alone else main)


def _fill(dataset: StoredArray, stored: np.dtype) -> Any:
    fill = np.asarray(dataset.fill).astype(stored)[()].item()
    if isinstance(fill, complex):
        return [json_number(fill.real), json_number(fill.imag)] if fill else 0
    return json_number(fill)


def _frames(dataset: StoredArray, layout: FrameLayout) -> tuple[dict[str, Any], list[int]]:
    """Describe equal frames.

    Returns: ({"frames": …}, indices of the files with these frames among the files of the data set).
    """
    stream, stride = layout.stream, layout.stride
    size = math.prod(layout.sig_shape) * layout.word_bytes
    if _reach(layout) * layout.word_bytes > stride - layout.header:
        raise OptionError(
            f"{dataset.path}: frames whose pixels lie between pixels of other frames have no explicit description; only"
            " the short one can be written"
        )
    payload = min(max(size, _reach(layout) * layout.word_bytes), stride - layout.header)
    made: dict[str, Any] = {"header": layout.header, "footer": stride - layout.header - payload}
    if payload != size:
        made["payload"] = payload
    if not np.array_equal(layout.pieces, whole_frame(layout.sig_shape)):
        made["pieces"] = [_piece(row.tolist(), len(layout.sig_shape)) for row in layout.pieces]
    whole = not (stream[:, :2] % stride).any()
    if layout.in_order and not whole:
        if "pieces" in made or "payload" in made or not _runs_on(dataset, stream):
            raise OptionError(
                f"{dataset.path}: frames that run across files in this way have no explicit description; only the short"
                " one can be written"
            )
        made |= {"first": int(stream[0, 2]), "running_on": True, "sync_offset": layout.offset}
        return {"frames": FRAMES.written(**made, stored=_stored(layout, layout.stored))}, stream[:, 3].tolist()

    entries = np.stack(
        [stream[:, 3], stream[:, 2], (stream[:, 1] - stream[:, 0]) // stride, stream[:, 0] // stride], axis=1
    )
    if not layout.in_order:
        entries = _one_by_one(dataset, layout)
    if len(entries) > MAX_ENTRIES:
        raise OptionError(
            f"{dataset.path}: frames in {len(entries):,} places are too many for an explicit description; only the"
            " short one can be written"
        )
    if len(entries) == 0:  # all blank
        entries = np.zeros((1, 4), np.int64)
    used, which = np.unique(entries[:, 0], return_inverse=True)
    counts = entries[:, 2]
    made |= {
        "first": _one_or_all(entries[:, 1]),
        "per_file": counts.tolist(),
        "sync_offset": layout.offset if layout.in_order else 0,
    }
    if not np.array_equal(entries[:, 3], np.cumsum(counts) - counts):
        made["first_frame"] = entries[:, 3].tolist()
    if not np.array_equal(which, np.arange(len(used))):
        made["file"] = which.tolist()
    stored = _stored(layout, int((entries[:, 3] + counts).max()))
    return {"frames": FRAMES.written(**made, stored=stored)}, used.tolist()


def _runs_on(dataset: StoredArray, stream: np.ndarray) -> bool:
    """Return True if the frames run on from the end of each file to the same byte of the next one."""
    ends = stream[:, 1]
    return (
        len(stream) > 0
        and stream[0, 0] == 0
        and np.array_equal(stream[1:, 0], ends[:-1])
        and len(set(stream[:, 2].tolist())) == 1
        and np.array_equal(dataset.files.sizes[stream[:, 3]], stream[:, 2] + ends - stream[:, 0])
    )


def _stored(layout: FrameLayout, stored: int) -> int | None:
    """Return the number of all frames, where the shape does not tell it."""
    shown = math.prod(layout.shape[: len(layout.shape) - len(layout.sig_shape)])
    return stored if stored < shown else None


def _reach(layout: FrameLayout) -> int:
    """Return the number of elements in the file from the first to the last one of a frame."""
    k = len(layout.sig_shape)
    shape, strides = layout.pieces[:, k : 2 * k], layout.pieces[:, 2 * k : 3 * k]
    return int((layout.pieces[:, 3 * k] + np.maximum((shape - 1) * strides, 0).sum(axis=1)).max(initial=0)) + 1


def _piece(row: Sequence[int], k: int) -> dict[str, Any]:
    return PIECE.written(origin=row[:k], shape=row[k : 2 * k], strides=row[2 * k : 3 * k], first=row[3 * k])


def _one_by_one(dataset: StoredArray, layout: FrameLayout) -> np.ndarray:
    """Return an entry for each position of a layout that shows a stored frame.

    Returns: int64[n, 4], (file, first byte, 1, position).
    """
    places = layout.locate(np.arange(math.prod(layout.shape[: len(layout.shape) - len(layout.sig_shape)])))
    position = np.flatnonzero(places[:, 0] >= 0)
    file, byte, left = places[position].T
    if (left < layout.stride - layout.header).any() or (byte < layout.header).any():
        raise OptionError(
            f"{dataset.path}: frames in an order of their own that run across files have no explicit description; only"
            " the short one can be written"
        )
    return np.stack([file, byte - layout.header, np.ones_like(byte), position], axis=1)


def _one_or_all(values: np.ndarray) -> int | list[int]:
    return int(values[0]) if len(values) and (values == values[0]).all() else values.tolist()


def _encodings(
    decoder: PlainDecoder | CodecDecoder | MixedDecoder, stored: np.dtype
) -> Callable[[int], dict[str, Any]]:
    """Return a function that maps the number of a block to entries about its codec and byte order."""
    if isinstance(decoder, PlainDecoder):
        return lambda number: {}
    kinds = decoder.decoders if isinstance(decoder, MixedDecoder) else (decoder,)
    said = []
    for kind in kinds:
        entries: dict[str, Any] = {"codec": list(kind.codec)} if kind.codec else {}
        if kind.stored != stored:
            entries["byte_order"] = "big" if kind.stored.newbyteorder(">") == kind.stored else "little"
        said.append(entries)
    if isinstance(decoder, MixedDecoder):
        which = decoder.which
        return lambda number: said[int(which[number])]
    return lambda number: said[0]


def _blocks(
    dataset: StoredArray, layout: BlockLayout, encoding: Callable[[int], dict[str, Any]]
) -> tuple[dict[str, Any], list[int]]:
    """Describe blocks.

    Returns: ({"blocks": …}, indices of the files with these blocks among the files of the data set).
    """
    n = int(layout.levels[1])
    if n > MAX_ENTRIES:
        raise OptionError(
            f"{dataset.path}: {n:,} blocks are too many for an explicit description; only the short one can be written"
        )
    used, which = np.unique(layout.place[:, 0], return_inverse=True)
    nd = len(layout.shape)
    made = []
    for i in np.argsort(layout.place[:, 3], kind="stable").tolist():
        low, high = layout.tree[i, :nd], layout.tree[i, nd:]
        _, offset, nbytes, number = layout.place[i].tolist()
        made.append(
            BLOCK.written(
                file=int(which[i]),
                offset=offset,
                origin=low.tolist(),
                shape=(high - low).tolist(),
                **encoding(number),
                nbytes=nbytes if layout.whole else None,
            )
        )
    pitch = list(layout.pitch) if layout.pitch else None
    return (Keys("blocks") | BLOCKS).written(stored_shape=pitch, blocks=made), used.tolist() or [0]
