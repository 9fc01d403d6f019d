"""Defines `OpenOptions`, the options with which data of every format is opened, one field each.

All code that has to know these options asks for the fields (`known`):

- the signatures and docstrings of `vfs.open`, `vfs.open_group`, `vfs.mount` and `vfs.serve`
  (`vfs.model.signatures`);
- the flags of the command line (`vfs.cli.flags`), and which of them go together or with a folder;
- descriptions: options that `--describe` writes and that a `*.vfs.json` may have;
- pickles of arrays, groups and stores, and folder trees, which open data sets with these options.

So a new option is a new field. Nothing else changes but the place where it takes effect.

The module imports only the standard library and modules that load as fast, because `vfs --help`
needs the fields and must come at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from vfs.errors import OptionError
from vfs.model import wording
from vfs.model.option_fields import FILES, GROWING, PIXELS, READING, SCAN, known, option
from vfs.model.options import fitting, kinds


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """Holds the options for opening data of any format. Options of one format are in a mapping of their own.

    Raises:
        OptionError: an option does not take values of that type, or it is a negative time.
    """

    format: str | None = option(
        None,
        "Format of the files. Without it, vfs finds it by their first bytes.",
        "NAME",
        saved="never",
        group=FILES,
    )
    array: str | None = option(
        None,
        "Show only this array of a file that has several.",
        "NAME",
        more="It is its path, or the name that a program gave it, if one array has it.",
        scope="one set",
        group=FILES,
        asked=True,
    )
    main: str | None = option(
        None,
        "Take this array of a set as its main one, which opens first. All others stay beside it.",
        "NAME",
        more="Named as by `array`. `nav_shape` and other options about frames are about this one.",
        scope="one set",
        group=FILES,
        asked=True,
    )
    hide: Sequence[str] | None = option(
        None,
        "Skip this array of a set, or all arrays of this group. May be repeated.",
        "NAME",
        more="`dark`, `gain` and `dead` may name an array that is hidden.",
        saved="names",
        scope="one set",
        several=True,
        group=FILES,
        asked=True,
    )
    nav_shape: int | str | Sequence[int] | None = option(
        None,
        "Shape of the scan, slowest axis first, such as 256,256.",
        "A,B",
        more="With fewer positions than frames, the other frames are not shown; with more, blank frames follow.",
        saved="numbers",
        scope="one set",
        group=SCAN,
        asked=True,
    )
    sync_offset: int = option(
        0,
        "Skip N frames at the start; if negative, put -N blank frames first.",
        "N",
        scope="one set",
        group=SCAN,
        asked=True,
    )
    line_skip: int = option(
        0,
        "Skip the N frames after each line of the scan that were recorded while the beam returned.",
        "N",
        more=(
            "`nav_shape` is the scan without them. Frames that the files themselves say to skip are not shown without"
            " it."
        ),
        scope="one set",
        group=SCAN,
        asked=True,
    )
    roi: Any = option(
        None,
        "Show only these frames, given as a mask over the scan or a list of positions.",
        "FILE.npy",
        more=(
            "A bool array in the scan's shape, flat positions, or the name of a .npy file of either. The navigation "
            "axes become one flat axis of the selected frames."
        ),
        saved="positions",
        scope="one set",
        group=SCAN,
    )
    axes: str | None = option(
        None,
        "Show the axes in this order, the scan before |: 'scan_x,scan_y|-y,x' ('-' turns an axis over).",
        "A,B|C,D",
        more=(
            "Every axis is named once; `new=old` gives an axis another name. It is the order after `nav_shape`, and"
            " `dark`, `gain` and `dead` are as the files store frames. Arrays beside it that have the axes of the scan"
            " are turned with it."
        ),
        scope="one set",
        group=SCAN,
        asked=True,
    )
    calibration: Any = option(
        None,
        "Step and unit along an axis, in place of what the files say: 'scan_x=5.3nm', 'energy=0.5eV from -20'.",
        "AXIS=STEP",
        more='A mapping of names of axes to `{"scale": 5.3, "unit": "nm", "offset": 0}` or such texts; or texts.',
        saved="calibration",
        scope="one set",
        several=True,
        group=SCAN,
        asked=True,
    )
    dtype: Any = option(
        None,
        "Convert pixels to this dtype, such as f4 or u2.",
        "T",
        more="For data without headers this is the dtype of the stored pixels, unless `stored_dtype` is given.",
        saved="dtype",
        group=PIXELS,
        asked=True,
    )
    dark: Any = option(
        None,
        "Subtract this image from every frame: a file, or an array of the set.",
        "F",
        more=(
            "Also a numpy array in the frame's shape, or of several frames, whose mean is taken. Pixels become float32"
            " (float64 where the files have pixels of eight bytes) unless `dtype` says otherwise. float64 and integers"
            " of four bytes or more are calculated in float64."
        ),
        saved="image",
        scope="one set",
        group=PIXELS,
    )
    gain: Any = option(
        None,
        "Multiply every frame with this image: a file, or an array of the set.",
        "F",
        more=(
            "Takes what `dark` takes. A `.gain` file of a Falcon camera is divided by instead: frames are multiplied"
            " with its mean over it, and are 0 where it is 0."
        ),
        saved="image",
        scope="one set",
        group=PIXELS,
    )
    dead: Any = option(
        None,
        "Replace dead pixels by their good neighbours: a mask, coordinates, or mask for what the set's own mask marks.",
        "F|mask",
        more=(
            "A bool mask in the frame's shape, integer coordinates [n, 2], a file of either, the name of an array of"
            ' the set, or "mask": what the files themselves say of their detector (`formats` says which do). Each such'
            " pixel becomes the mean of its good neighbours. Pixels become floats as with `dark`,"
            " and integers of four bytes float64, which holds them exactly. Where `dtype` is an integer, the good"
            " pixels stay as they are stored and the means are rounded."
        ),
        saved="image",
        scope="one set",
        group=PIXELS,
        asked=True,
    )
    derive: Any = option(
        None,
        "Also show this result of the frames, computed when it is read: 'bf=disk(cy=128, cx=128, r=20)'.",
        "NAME=KIND(...)",
        more=(
            "A mapping of names to reductions, or to their texts; or texts `NAME=KIND(...)`. In the tree they are"
            " `derived/NAME`; `vfs docs reductions` says more."
        ),
        saved="reductions",
        scope="one set",
        several=True,
        group=PIXELS,
    )
    chunks: int | str | Sequence[int] = option(
        "auto",
        "Shape of chunks: auto, frames, scan, balanced, a size (4MiB), or elements per axis (1,16,-1,-1).",
        "SPEC",
        saved="numbers",
        scope="reading",
        group=READING,
    )
    backend: str = option(
        "auto",
        "Read files in this way: auto, mmap, buffered (pread) or direct (past the page cache).",
        "NAME",
        more=(
            '"auto" is "mmap" for one\'s own process and "buffered" in a mount: a source that shrinks kills the process'
            " that reads its map."
        ),
        scope="reading",
        group=READING,
    )
    cache_dir: str | os.PathLike[str] | None = option(
        None,
        "Keep what is read from servers in this folder, and read it there the next time.",
        "DIR",
        more="Blocks are kept by URL and ETag, so that a file that was replaced is read again.",
        saved="never",
        scope="reading",
        group=READING,
    )
    cache_dir_size: int | str = option(
        "10GiB",
        "Most bytes in the folder of what is read from servers; what was not used for longest is removed.",
        "BYTES",
        saved="never",
        scope="reading",
        group=READING,
    )
    requests: int = option(
        32,
        "Requests to servers under way at once, at most: 1 to 128. More help where each takes long.",
        "N",
        saved="never",
        scope="reading",
        group=READING,
    )
    ngff: str = option(
        "0.5",
        "Version of OME-Zarr that images have in zarr 3: 0.5, or 0.6, which few programs read yet.",
        "0.5|0.6",
        more="In zarr 2 it is 0.4.",
        saved="never",
        scope="reading",
        group=READING,
    )
    pyramid_cache: str | os.PathLike[str] | None = option(
        None,
        "Keep computed levels of images in this folder, and read them there the next time.",
        "DIR",
        more=(
            "Levels are kept by the files, their sizes and times, and the options that decide which numbers there are,"
            " so that they are computed again of files that changed. The folder cannot be one that data lies in."
        ),
        saved="never",
        scope="reading",
        group=READING,
    )
    pyramid_cache_size: int | str = option(
        "10GiB",
        "Most bytes in the folder of computed levels; what was not used for longest is removed.",
        "BYTES",
        saved="never",
        scope="reading",
        group=READING,
    )
    accept_changes: bool = option(
        False,
        "Keep reading files that change after they were opened. Without it, that is an error.",
        more=(
            "They are read as they are then, by the headers that were read at opening. Chunks that were decoded before"
            " and are still in the cache do not change. Results of several reads may be of files before and after one."
        ),
        scope="reading",
        group=READING,
    )
    follow: bool = option(
        False,
        "Open a set that is still being written, as far as it is recorded, and go on as frames come.",
        more=(
            "Frames that are not written yet are a `NotYetError`, not a fill value. The page `live` says by what a"
            " frame counts as written, for each format."
        ),
        saved="never",
        scope="reading",
        group=GROWING,
    )
    follow_blank: bool = option(
        False,
        "With `follow`: show frames that are not written yet as blank, for viewers that stop at an error.",
        more="`valid` says which frames are there.",
        saved="never",
        scope="reading",
        group=GROWING,
    )
    settle: float = option(
        2.0,
        "With `follow`: seconds without a write after which the last frame of a file counts as written.",
        "SECONDS",
        saved="never",
        scope="reading",
        group=GROWING,
    )
    give_up: float = option(
        600.0,
        "With `follow`: seconds without a write after which a set counts as stopped. What is there stays.",
        "SECONDS",
        saved="never",
        scope="reading",
        group=GROWING,
    )
    allow_incomplete: bool = option(
        False,
        "Open a set although files or frames are missing. Missing frames are blank or not shown.",
        more="Otherwise, where numbers would be wrong or absent, that is an error that says which files and frames.",
        group=FILES,
        asked=True,
    )
    holes_missing: bool = option(
        False,
        "Take frames for which the disk holds no bytes (holes of a sparse file) as missing, not as dark.",
        more=(
            "They read as the fill value either way; `valid` and reductions leave them out. Only file systems of this"
            " machine tell holes. A set that was followed and stopped before it was whole is taken so."
        ),
        saved="never",
        group=FILES,
    )
    follow_outside: bool = option(
        False,
        "Also read files outside of the set's folder, if the set or a symbolic link names them.",
        more=(
            "Without it, a file of the set that lies outside of the folder of the named files, or a symbolic link that"
            " leads out of it, is an error (in HDF5 the array is absent). See `vfs.sources.boundary`."
        ),
        saved="never",
        group=FILES,
    )

    def __post_init__(self) -> None:
        values = vars(self)
        for name, (default, annotation, _) in known(type(self)).items():
            value = values[name]
            if value is default or annotation is Any:
                continue
            if type(value) not in (types := kinds(annotation)) and not _PARSED.issubset(types):
                object.__setattr__(self, name, fitting(name, value, annotation))
            if annotation is float and not values[name] >= 0:  # all such options are times; nan is none either
                raise OptionError(f"{wording.option(**{name: value})}: expected a number of seconds, 0 or more")

    @property
    def may_change(self) -> bool:
        """True if files may change after they were opened."""
        return self.accept_changes or self.follow

    @property
    def first(self) -> str | None:
        """Name of the array that opens first, where somebody says it: `array`, the only one then, or `main`."""
        return self.main if self.array is None else self.array

    def common(self, **changes: Any) -> OpenOptions:
        """Return these options as `OpenOptions`, without the options that a subclass adds.

        Args:
            changes: options that get another value, which must be of the right type.
        """
        values, made = vars(self) | changes, object.__new__(OpenOptions)
        # Not `OpenOptions(...)`: the values are checked already, and checking takes 25 us of each opening
        vars(made).update({name: values[name] for name in known(OpenOptions)})
        return made

    def said(self) -> dict[str, Any]:
        """Return the options whose values differ from their defaults, by name."""
        usual = {name: option.default for name, option in known(type(self)).items()}
        return {name: value for name, value in vars(self).items() if not _same(value, usual[name])}

    def __reduce__(self) -> tuple[Any, ...]:
        # Only options that differ: pickles are small, and still open after an option was added
        return _made, (type(self), self.said())


_PARSED = {int, str}
"""Types of an option that takes numbers or text of them. Its own parser checks the value, with a better message."""


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


Options = TypeVar("Options", bound=OpenOptions)


def _made(kind: type[OpenOptions], said: Mapping[str, Any]) -> OpenOptions:
    return kind(**said)


def split(kind: type[Options], given: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Split keyword arguments into the options that are fields of `kind`, and those of the format.

    Raises:
        OptionError: an option does not take values of that type.
    """
    names = known(kind).keys()
    own = {name: value for name, value in given.items() if name not in names}
    if len(own) == len(given):  # no option is given, as mostly: one object serves all, which saves 5 µs of an opening
        return cast(Options, _USUAL.get(kind) or _USUAL.setdefault(kind, kind())), own
    return kind(**{name: given[name] for name in names & given.keys()}), own


_USUAL: dict[type[OpenOptions], OpenOptions] = {}
