"""Describes the arrays that a format finds in files, with frozen values that can be pickled.

A `StoredArray` is one array of a set of files: it knows where the elements lie (`layout`), how they
decode (`decoder`), and the names of its axes. A format's `open` returns its arrays, and marks which
of them may be the main one (`StoredArray.main`, `main_of`). Nothing here reads elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from vfs.errors import NotYetError, VfsError
from vfs.model import calibration
from vfs.model.channels import Channel
from vfs.model.checksums import ByteSum
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, Layout, altered, whole_frame
from vfs.model.metadata import Said, Term, Told, said
from vfs.model.region import Region
from vfs.model.units import LENGTHS
from vfs.model.written import UNTOLD, Written

T = TypeVar("T")

POSITION = "position"
"""Name of the axis along which a stage moves from place to place."""

BOTTOM_FIRST, TOP_FIRST = "bottom first", "top first"
"""What the attribute `rows` says of frames whose format defines which way is up: which row comes first."""


def nav_dims(ndim: int) -> tuple[str, ...]:
    """Return names of navigation axes: frame; scan_y, scan_x; t, scan_y, scan_x; …"""
    if ndim < 2:
        return ("frame",) * ndim
    return tuple(f"nav_{k}" for k in range(ndim - 3)) + ("t",) * (ndim > 2) + ("scan_y", "scan_x")


def scan_dims(units: Sequence[str]) -> tuple[str, ...]:
    """Return names of navigation axes with these units; a single one is a line of a scan if its unit is a length."""
    return ("scan_x",) if len(units) == 1 and units[0] in LENGTHS else nav_dims(len(units))


@dataclass(frozen=True)
class Absence:
    """Reports something that a set should hold and does not, or that it holds and vfs does not show.

    A format reports it and opens everything else. `vfs.sets.incomplete` decides whether it is an
    error or a warning, by one rule for all formats.

    Attributes:
        said: one line that names the file, what was expected and what was found.
        refused: class of the error that opening raises without `allow_incomplete`. None if all
            numbers that are shown are right, so that a warning is enough.
        allowed: what `allow_incomplete` shows instead, as the end of a sentence: "shows their frames as blank".
        counts: how much is absent, for the attribute `incomplete`: "files_missing", "frames_missing",
            "blocks_missing" (where they are no frames), "frames_left_out", "bytes_left_over".
        files: paths of files that are missing, as far as their names are known.
        main: True where the main array is absent: `vfs.open` fails, `vfs.open_group` shows the others
            with a warning.
        arrangement: True if all frames are shown and only their places in a scan are in doubt.
        to_come: True if it is what a file lacks that is still being written: frames at the end of the set,
            a part of one behind the last whole one. With `follow` nobody is told.
        scattered: True if what is to come may lie between frames that are there.
    """

    said: str
    refused: type[VfsError] | None = None
    allowed: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    main: bool = False
    arrangement: bool = False
    to_come: bool = False
    scattered: bool = False

    @property
    def of_scan(self) -> bool:
        """True if it only says that the stored frames do not fill the scan that the files describe.

        Another `nav_shape` may mend that.
        """
        counted = bool(self.counts) and self.counts.keys() <= {"frames_missing", "frames_left_out"}
        return self.refused is None and (counted or self.arrangement)


NEXUS_BITS = 0xFFFF
"""Bits of a `pixel_mask` of NeXus that say a pixel holds no measurement: 0 a gap, 1 dead, 2 under- and 3
over-responding, 4 noisy, 6 in a cluster of such, 8 masked by the user. Those above tell other things: 31 an
interpolated pixel. See
https://manual.nexusformat.org/classes/base_classes/NXdetector.html"""


def marked_by(mask: np.ndarray, bits: int) -> np.ndarray:
    """Return bool, True where a mask of bool, or of integers with `bits` of which one is set, marks a pixel."""
    return mask if mask.dtype == bool else mask.astype(np.int64) & bits != 0


@dataclass(frozen=True, eq=False)
class FrameImage:
    """An image of the same set that has a number for each pixel of the frames of an array.

    Attributes:
        array: the image, with a pixel for each of a frame as it is stored (perhaps with axes of one element first).
        axes, flipped: which axis of the frame as it is stored each axis of the frame as it is shown is, and if it is
            turned over.
    """

    array: StoredArray
    axes: tuple[int, ...]
    flipped: tuple[bool, ...]

    def frame(self, numbers: np.ndarray) -> np.ndarray:
        """Return what is in the array, with the axes of a frame as it is shown."""
        sig = numbers.shape[numbers.ndim - len(self.axes) :]
        ends = tuple(slice(None, None, -1 if over else 1) for over in self.flipped)
        turned: np.ndarray = numbers.reshape(sig).transpose(self.axes)[ends]
        return np.ascontiguousarray(turned)

    def among(self: Image, frame: Sequence[int], flipped: Sequence[bool] | None = None) -> Image | None:
        """Return the image for frames whose axes are these ones of the frames before; None where others are a frame.

        Args:
            flipped: which of them are turned over; None: none.
        """
        if sorted(frame) != [*range(len(self.axes))]:
            return None
        over = [self.flipped[k] != (flipped is not None and flipped[n]) for n, k in enumerate(frame)]
        return type(self)(self.array, tuple(self.axes[k] for k in frame), tuple(over))


class PixelMask(FrameImage):
    """Says which pixels of the frames of an array hold no measurement, as a mask of the same set does."""

    def pixels(self, mask: np.ndarray) -> np.ndarray:
        """Return bool[*frame], True for pixels without a measurement.

        Args:
            mask: what is in the array.
        """
        return self.frame(marked_by(mask, self.array.mask_bits))


Image = TypeVar("Image", bound=FrameImage)


@dataclass(frozen=True, eq=False)
class StoredArray:
    """Describes one array of a set of files: where its elements lie and how they decode.

    Attributes:
        path: place of the array in the zarr hierarchy. It is "data" for the array of a single-array
            set, else the container's own path ("entry/data", "image_0/data"). Companions have their
            own names ("timestamp").
        files: the files that the file numbers of `layout` stand for.
        layout: says where the elements lie in the files.
        decoder: turns stored bytes into elements.
        shape: elements per axis.
        dims: a name per axis.
        nav_ndim: how many of the axes are navigation axes (they come first).
        fill: value of elements that no file holds.
        block: elements per axis of the block that is cheapest to read whole (a frame, a tile), or
            () where it does not matter.
        attrs: JSON-able metadata of the format, shown as the attribute `vfs` of the array (of the
            root, for the main array).
        conventions: attributes that other tools look for at the top level (`units`, `ome`, those of netCDF).
            Numbers may have a dtype of numpy, which xarray decodes by.
        group_attrs: the same for the root group.
        written: how far the array is written, if its files may still grow.
        scan, chosen: if frames were selected (`vfs.model.as_scan`), the shape of the scan and the flat positions in
            it that are shown (int64[m]); else None.
        absent: parts of this array that the files should hold, but do not.
        companion: True for an array that belongs to another one (time stamps of its frames).
        coordinate: True for a companion that says where or when each frame was taken: a coordinate in xarray.
        main: True for the array that the writing program shows first; several arrays may be equals. False for
            arrays that are never shown first: metadata, tables, masks, thumbnails, encoded streams. None if the files
            do not say. See `main_of`.
        mask_bits: for a mask of pixels, the bits one of which is set if a pixel holds no measurement (bool: any
            number); 0 for other arrays.
        pixel_mask: the set's mask of the pixels of this array's frames (found by `vfs.sets.pixel_masks`); None if there
            is none, or the user replaces pixels (`dead`).
        background: the set's static background of these frames, of backscatter patterns; None if there is none.
        sums: checksums in the files that decoding does not compare, also of parts that are not shown. `vfs check` does.
        computed: True if reading a little may go through all of another array: vfs reads it only on request.
        terms: `attrs` and `told` in the vocabulary of `vfs.model.metadata`.
        told: what the files say besides `attrs`, read on request; None: nothing.
    """

    path: str
    files: Files
    layout: Layout
    decoder: Decoder | BlockDecoder
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    nav_ndim: int
    fill: int | float = 0
    block: tuple[int, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    group_attrs: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[Absence, ...] = ()
    companion: bool = False
    coordinate: bool = False
    main: bool | None = None
    sums: tuple[ByteSum, ...] = ()
    mask_bits: int = 0
    pixel_mask: PixelMask | None = None
    background: FrameImage | None = None
    computed: bool = False
    written: Written = UNTOLD
    scan: tuple[int, ...] | None = None
    chosen: np.ndarray | None = None
    terms: tuple[Term, ...] = ()
    told: Told | None = None

    @property
    def recorded(self) -> dict[str, Said]:
        """What the files say of the acquisition, by names of the vocabulary."""
        return {} if self.companion else self._said(self.terms)

    def _said(self, terms: Sequence[Term]) -> dict[str, Said]:
        return said(terms, self.attrs if self.told is None else {**self.attrs, **self.told()})

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What the files say of each channel: `recorded["channels"]`; () if they say nothing."""
        terms = [term for term in self.terms if term.name == "channels"]
        found = self._said(terms).get("channels") if terms and not self.companion else None
        return () if found is None else found.value

    @property
    def positions(self) -> tuple[str, ...]:
        """What the files call each position of a stage along the axis `POSITION`; () if they say nothing."""
        axes = self.attrs.get("axes")
        names = axes.get(POSITION) if isinstance(axes, Mapping) else None
        if not isinstance(names, list) or (POSITION, len(names)) not in zip(self.dims, self.shape, strict=True):
            return ()
        return tuple(" ".join(str(name).split()) for name in names)

    @property
    def dtype(self) -> np.dtype:
        """Element type as decoded, in native byte order."""
        return self.decoder.dtype

    @property
    def label(self) -> str:
        """The name that the program that wrote the array gave it (attribute `name`: "HAADF"), or "".

        An array that is alone has none: the name of its set is enough.
        """
        name = self.attrs.get("name")
        return " ".join(name.split()) if isinstance(name, str) and self.path != "data" else ""

    @property
    def title(self) -> str:
        """The path, and the name in brackets where there is another one: "Data/Image/5066/Data (HAADF)"."""
        return f"{self.path} ({self.label})" if self.label not in ("", self.path) else self.path

    @property
    def valid(self) -> np.ndarray:
        """Scan positions at which anything is stored: bool, in the shape of the navigation axes.

        That is a whole frame, or, of an array stored in blocks, at least one block.
        """
        return self.layout.valid(self.nav_ndim)

    @property
    def held(self) -> np.ndarray:
        """The same positions in runs, which takes no byte for each where frames follow one another.

        Returns: int64[r, 2], flat: the first of each, and the one behind its last. A run may go on in the next one.
        """
        frames = self.layout.frames
        if frames is not None and frames.in_order:
            return frames.held_in_order(math.prod(self.shape[: self.nav_ndim]))
        return np.flatnonzero(np.diff(self.valid.reshape(-1).view(np.int8), prepend=0, append=0)).reshape(-1, 2)

    @property
    def there(self) -> np.ndarray:
        """Scan positions at which all is stored that will be: bool, in the shape of the navigation axes.

        It differs from `valid` where parts of frames are to come, and where nothing is that was never recorded. Other
        places that no block covers stay blank.
        """
        blocks = self.layout.blocks
        to_come = any(absence.to_come for absence in self.absent)
        found = self.valid if blocks is None or not to_come else blocks.whole_frames(self.nav_ndim)
        if self.written.over:
            found = found.copy()
            found.reshape(-1)[: self.written.over] = True
        return found

    @property
    def blanks(self) -> int:
        """Number of frames that no file holds; 0 for an array that is not stored in frames.

        It is counted without memory for each frame.
        """
        return self.layout.blanks(self.nav_ndim)

    def blank(self, box: Region) -> np.ndarray:
        """Find the elements of a box that no file holds.

        Returns: bool, in the shape of the box or in one that broadcasts to it.
        """
        return self.layout.blank(box, self.nav_ndim)

    def holds(self, box: Region) -> bool:
        """Say whether the files hold any element of a box."""
        return self.layout.holds(box, self.nav_ndim)

    def to_come(self, box: Region) -> int | None:
        """Return the number of a frame that a box touches and that is not there yet; None if there is none.

        Of an array stored in blocks it is the flat scan position.
        """
        head = self.written.head
        if head is None or not self.nav_ndim:
            return None
        if self.layout.frames is None:
            there, nav = self.there, box.slices[: self.nav_ndim]
            lacking = np.flatnonzero(~there[nav])
            numbers = np.arange(there.size).reshape(there.shape)
            return int(numbers[nav].reshape(-1)[lacking[0]]) if len(lacking) else None
        last = self.layout.last_frame(box, self.nav_ndim)
        return last if last >= head else None

    def there_at(self, positions: np.ndarray | None) -> np.ndarray:
        """Find the scan positions whose frames are there, or will never be.

        Args:
            positions: int64[m] flat positions; None: all.

        Returns: bool[m].
        """
        nav, head = self.shape[: self.nav_ndim], self.written.head
        if head is None or not nav:
            return np.ones(math.prod(nav) if positions is None else len(positions), bool)
        if self.layout.frames is None:
            return self.there.reshape(-1)[slice(None) if positions is None else positions]
        return self.layout.frame_numbers(positions, self.nav_ndim) < head

    def check_head(self, box: Region) -> None:
        """Check that all frames that a box touches are there.

        Raises:
            NotYetError: some are not there yet.
        """
        frame = self.to_come(box)
        if frame is not None:
            head, declared = self.written.head, self.written.declared
            assert head is not None
            of = f" of {declared:,}" if declared else ""
            raise NotYetError(f"{self.named}: frame {frame:,}{of} is not written yet: {head:,} are there", head=head)

    def with_written(self, **said: Any) -> StoredArray:
        """Return the array with other fields of `written`."""
        return altered(self, written=altered(self.written, **said))

    def along_one_axis(self) -> StoredArray:
        """Return an array of frames with all scan positions along one axis, in their order."""
        assert self.layout.frames is not None
        layout, sig = self.layout.frames.along_one_axis(), self.nav_ndim
        dims, block = nav_dims(1) + self.dims[sig:], (1, *self.block[sig:]) if self.block else ()
        return altered(self, layout=layout, shape=layout.shape, dims=dims, nav_ndim=1, block=block)

    def calibrated(self) -> StoredArray:
        """Return the array with an attribute `calibration` in which every axis has the same entries.

        See `vfs.model.calibration.of_axes`. Without a calibrated axis there is no such attribute.
        """
        said = self.attrs.get("calibration")
        if not isinstance(said, Mapping):  # none, or metadata of a file that happens to have this name
            return self
        known = calibration.of_axes(said, self.dims)
        attrs = {name: known if name == "calibration" else value for name, value in self.attrs.items()}
        if not known:
            del attrs["calibration"]
        return altered(self, attrs=attrs)

    @property
    def named(self) -> str:
        """Name of the array in messages: its first file, and its path in the set if that is not "data"."""
        file = self.files.paths[0] if len(self.files) else ""
        return file if self.path == "data" else f"{file}: {self.path}"


def scan_array(
    files: Files,
    layout: FrameLayout,
    decoder: Decoder,
    *,
    dims: tuple[str, ...] = ("y", "x"),
    attrs: Mapping[str, Any] | None = None,
    absent: tuple[Absence, ...] = (),
    written: Written = UNTOLD,
) -> StoredArray:
    """Make the array `data` of a set whose frames are a scan.

    Args:
        layout: where the frames lie, in the shape of the scan.
        dims: names of the axes of a frame; those of the scan are `nav_dims`.
        written: see `StoredArray`.
    """
    nav = len(layout.shape) - len(layout.sig_shape)
    names = nav_dims(nav) + dims
    more: dict[str, Any] = {"attrs": attrs or {}, "absent": absent, "written": written}
    return StoredArray("data", files, layout, decoder, layout.shape, names, nav, **more)


def per_frame(
    main: StoredArray,
    path: str,
    stored: Any,
    at: int,
    *,
    dims: tuple[str, ...] = (),
    attrs: Mapping[str, Any] | None = None,
    coordinate: bool = False,
) -> StoredArray:
    """Make a companion array of a field that every frame's record has.

    The field may be a time stamp in the header, or rows behind the pixels.

    Args:
        main: array of these frames, stored in frames; the companion gets the same scan.
        path: path of the companion.
        stored: dtype of the field in the file; ("<f4", shape) for a field with axes of its own.
        at: byte of the record where the field starts.
        dims: names of the axes of the field.
        coordinate: see `StoredArray`.
    """
    dtype, sig_shape = np.dtype(stored).base, np.dtype(stored).shape
    frames = main.layout.frames
    assert frames is not None
    layout = altered(
        frames,
        sig_shape=sig_shape,
        header=at,
        word_bytes=dtype.itemsize,
        word_pixels=1,
        pieces=whole_frame(sig_shape),
    )
    nav = main.nav_ndim
    shape, names = main.shape[:nav] + sig_shape, main.dims[:nav] + dims
    return StoredArray(
        path,
        main.files,
        layout,
        PlainDecoder(dtype),
        shape,
        names,
        nav,
        attrs=attrs or {},
        companion=True,
        coordinate=coordinate,
        written=Written(main.written.declared, main.written.proof),
    )


def main_of(arrays: Sequence[StoredArray]) -> StoredArray | None:
    """Return the main array of a set: the largest in bytes of those marked `main=True`, of equals the first.

    Where none is marked so, it is the largest of those that are not marked at all. Companions never are.

    Returns None if there is no such array: all are companions or marked `main=False`.
    """
    own = [array for array in arrays if not array.companion]
    for mark in (True, None):
        if marked := [array for array in own if array.main is mark]:
            if len(marked) == 1:
                return marked[0]
            return max(marked, key=lambda array: math.prod(array.shape) * array.dtype.itemsize)
    return None


@dataclass(frozen=True)
class Saved:
    """Says how to open another set. A format returns it for a file that only names other files.

    Attributes:
        paths: absolute paths of the files of that set.
        format: name of its format.
        options: options for `vfs.open`, for every format and for this one.
    """

    paths: tuple[str, ...]
    format: str
    options: Mapping[str, Any]
