"""What a format says about its files: frozen, picklable values. Nothing is read through them.

`Files` are the files of a set with the size and time they had when it was opened; a `Dataset` is one array of it: where its
elements are (`layout`), what they are (`decoder`), what its axes are called. A format's `open` returns its datasets in
order, the main one first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

import numpy as np

from vfs.boundary import ANYWHERE, Boundary, absolute, current, look_at
from vfs.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.errors import MissingSourceError, OptionError
from vfs.headers import nav_dims
from vfs.layout import BlockLayout, FrameLayout, altered, whole_frame


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a set, in the order that `FILE` of a read range counts.

    Attributes:
        paths: absolute paths.
        sizes: int64[n] bytes at opening; -1 where a file was missing.
        times: int64[n] modification time at opening, nanoseconds since 1970; 0 where a file was missing.
        boundary: where they may lie when they are read.
    """

    paths: tuple[str, ...]
    sizes: np.ndarray
    times: np.ndarray
    boundary: Boundary = ANYWHERE

    @classmethod
    def stat(cls, paths: Sequence[str | os.PathLike[str]], missing_ok: bool = False) -> Files:
        """Look at every file once.

        Args:
            missing_ok: accept that files are missing; reading what they hold is then an error, opening is not.

        Raises:
            MissingSourceError: a file is not there and `missing_ok` is False.
            OutsideError: it lies outside of the boundary of the set.
            SourceError: it cannot be looked at, or is not a file.
        """
        sizes: list[int] = []
        times: list[int] = []
        names: list[str] = []
        for path in paths:
            name = absolute(path)
            names.append(name)
            try:
                found = look_at(name)
            except MissingSourceError:
                if not missing_ok:
                    raise
                sizes.append(-1)
                times.append(0)
                continue
            sizes.append(found.st_size)
            times.append(found.st_mtime_ns)
        return cls(tuple(names), np.array(sizes, np.int64), np.array(times, np.int64), current())

    def unremembered(self) -> Files:
        """The same files, to be read whatever became of them since they were looked at."""
        return altered(self, sizes=np.full_like(self.sizes, -1), times=np.zeros_like(self.times))

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True, eq=False)
class Dataset:
    """One array of a set of files.

    Attributes:
        path: where it sits in the zarr tree; "data" for the array of a single-array set, else the container's own path
            ("entry/data", "image_0/data"), companions under their own names ("timestamp").
        files: the files that `layout` counts.
        layout: where the elements are.
        decoder: what they are.
        shape: elements per axis.
        dims: a name per axis.
        nav_ndim: how many of the axes are navigation axes (they come first).
        fill: what blank places read as.
        block: elements per axis of the block that is cheapest to read whole (a frame, a tile), or () where it does not matter.
        attrs: JSON-able metadata of the format, shown as the attribute `vfs` of the array (of the root, for the main array).
        conventions: attributes that other tools look for at the top level (`units`, `ome`), rarely any.
        group_attrs: the same at the root group (`ome` of an OME-TIFF).
        scan, chosen: shape of the scan, and the flat positions of it that are shown (int64[m]), where `arranged` selected some.
        companion: True for what stands beside an array (time stamps), False for an array of its own right.
    """

    path: str
    files: Files
    layout: FrameLayout | BlockLayout
    decoder: Decoder | BlockDecoder
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    nav_ndim: int
    fill: int | float = 0
    block: tuple[int, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    group_attrs: Mapping[str, Any] = field(default_factory=dict)
    companion: bool = False
    scan: tuple[int, ...] | None = None
    chosen: np.ndarray | None = None

    @property
    def dtype(self) -> np.dtype:
        """Element type as decoded, in native byte order."""
        return self.decoder.dtype

    def arranged(self, nav_shape: tuple[int, ...] | None = None, sync_offset: int = 0, roi: np.ndarray | None = None) -> Dataset:
        """The same frames as another scan.

        Args:
            nav_shape: scan shape, slowest axis first. Fewer positions than frames: the rest is left out; more: blank at the end.
            sync_offset: frames to skip at the start (blank frames at the end); negative: so many blank frames first.
            roi: bool[nav_shape], or int64[m] flat scan positions: one flat navigation axis of these, in C order of the mask. Of an
                array that already shows a selection it selects again.

        Raises:
            OptionError: the data set has no navigation axes, or the mask or the positions do not fit the scan.
        """
        if nav_shape is None and sync_offset == 0 and roi is None:
            return self
        if self.nav_ndim == 0:
            raise OptionError(f"nav_shape, sync_offset and roi do not apply: {self.path} has no navigation axes (shape {self.shape})")
        nav = self.shape[: self.nav_ndim] if nav_shape is None else nav_shape
        if math.prod(nav + self.shape[self.nav_ndim :]) * self.dtype.itemsize >= 1 << 63:
            raise OptionError(f"nav_shape {nav}: an array of {nav + self.shape[self.nav_ndim :]} has more bytes than can be counted")
        try:
            sync_offset = max(-(1 << 60), min(1 << 60, index(sync_offset)))  # beyond any number of frames all is blank
        except TypeError:
            raise OptionError(f"sync_offset={sync_offset!r}: expected a number of frames") from None
        chosen = None
        if roi is not None:
            mask = np.asarray(roi)
            if mask.dtype == bool:
                if mask.shape != nav and mask.shape != (math.prod(nav),):
                    raise OptionError(f"roi has shape {mask.shape}, the scan has {nav}")
                mask = np.flatnonzero(mask)
            if mask.dtype.kind not in "iu" or mask.ndim != 1:
                raise OptionError(f"roi is {mask.dtype}{list(mask.shape)}: expected a mask of bool or a list of flat scan positions")
            chosen = mask.astype(np.int64)
            if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= math.prod(nav):
                found = f"{len(chosen)} positions from {chosen.min()} to {chosen.max()}" if len(chosen) else "no position"
                raise OptionError(f"roi selects {found}; expected at least one, all from 0 to {math.prod(nav) - 1}")
        if self.chosen is not None and (nav_shape is not None or sync_offset):
            raise OptionError("nav_shape and sync_offset do not apply to an array that was opened with roi=")
        shape = (nav if chosen is None else (len(chosen),)) + self.shape[self.nav_ndim :]
        scan, total = (None, None) if chosen is None else (nav, chosen)
        if self.chosen is not None and chosen is not None:
            scan, total = self.scan, self.chosen[chosen]
        if isinstance(self.layout, FrameLayout):
            layout: FrameLayout | BlockLayout = self.layout.arranged(nav if self.chosen is None else None, sync_offset, total)
        else:
            layout = self.layout.arranged(nav, sync_offset, chosen, self.nav_ndim)
        nav_ndim = len(shape) - len(self.shape) + self.nav_ndim
        names = self.dims[: self.nav_ndim] if nav_ndim == self.nav_ndim and chosen is None else nav_dims(nav_ndim)
        block = (1,) * nav_ndim + self.block[self.nav_ndim :] if self.block else ()
        return altered(self, layout=layout, shape=shape, dims=names + self.dims[self.nav_ndim :], nav_ndim=nav_ndim, block=block, scan=scan, chosen=total)


def per_frame(
    main: Dataset, path: str, stored: Any, at: int, *, sig_shape: tuple[int, ...] = (), dims: tuple[str, ...] = (), attrs: Mapping[str, Any] | None = None
) -> Dataset:
    """A companion that holds a field of every frame's record (a time stamp of its header, rows behind its pixels), in the scan of `main`.

    Args:
        main: array whose layout is a FrameLayout.
        stored: dtype of the field in the file.
        at: byte of the record where the field starts.
        sig_shape, dims: shape of the field and names of its axes.
    """
    dtype = np.dtype(stored)
    assert isinstance(main.layout, FrameLayout)
    layout = altered(main.layout, sig_shape=sig_shape, header=at, word_bytes=dtype.itemsize, word_pixels=1, pieces=whole_frame(sig_shape))
    nav = main.nav_ndim
    shape, names = main.shape[:nav] + sig_shape, main.dims[:nav] + dims
    return Dataset(path, main.files, layout, PlainDecoder(dtype), shape, names, nav, attrs=attrs or {}, companion=True)


@dataclass(frozen=True)
class Saved:
    """How another set is opened: what a format answers with where its files only say that.

    Attributes:
        paths: absolute paths.
        format: name of the format.
        options: what `vfs.open` takes besides, for every format and for this one.
    """

    paths: tuple[str, ...]
    format: str
    options: Mapping[str, Any]
