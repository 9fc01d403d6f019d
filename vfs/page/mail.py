"""Writes a scan as one HTML file: the page, and in it the scan in coarse bins. It needs no server and no network.

A browser opens it from the disk, or from a mail. Detectors are dragged, and their images are computed in the browser,
of the bins; images of the usual detectors are in the file as vfs computes them, of all pixels.
"""

from __future__ import annotations

import base64
import gzip
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, printable, size
from vfs.model import spoken
from vfs.new_files import create
from vfs.outputs.outputs import whole
from vfs.page.centre import centre
from vfs.page.pages import embedded
from vfs.page.views import described, told
from vfs.reduce import spelling
from vfs.reduce.binned import Binned
from vfs.reduce.bright_field import tidy
from vfs.reduce.in_frames import CenterOfMass
from vfs.reduce.passes import OnProgress, reduce
from vfs.reduce.reduction import Reduction
from vfs.reduce.shapes import Disk, Ring
from vfs.reduce.usual import leaving_out, usual_detectors
from vfs.sets.opening import OpenedSet, Opening
from vfs.sets.recipe import Recipe

MAX_BINS_BYTES = 20_000_000
"""Most bytes of the bins in the file, as text."""
BINS = 64
"""Most bins along y and x of a pattern."""
CHANNELS = 256
"""Most bins of a spectrum."""
MIN_BINS = 4  # with less, nothing could be told from it
USUAL = 1.5  # radii of the bright-field disk, of the disk in which the centre of mass is found


def write(opened: OpenedSet, target: str, progress: OnProgress | None = None) -> int:
    """Write the main array of a set as a page that stands alone.

    Args:
        target: name of the file, with `vfs.model.command_options.PAGE_ENDING`. progress: see `VirtualArray.reduce`.

    Returns: bytes of the file.

    Raises:
        OptionError: it cannot be written, or the array is no scan that such a page can hold.
        SourceError: its frames cannot be read.
    """
    _check(opened.main)
    with whole(target) as partial, open(create(partial), "wb") as file:
        text = page(opened.opening, opened.main, progress)
        file.write(text)
    return len(text)


def page(opening: Opening, array: ArrayReader, progress: OnProgress | None = None) -> bytes:
    """Return an array of a set as a page that stands alone. Arguments and errors are those of `write`."""
    _check(array)
    return embedded(_known(opening, array, progress))


def _check(array: ArrayReader) -> None:
    """Raise OptionError unless an array is a scan of two axes, of real patterns or spectra."""
    nav = array.dataset.nav_ndim
    axes = f"{nav} {'axis' if nav == 1 else 'axes'}"
    if nav != 2 or array.ndim - nav not in (1, 2) or array.dtype.kind not in "biuf" or not math.prod(array.shape):
        raise OptionError(
            f"{array.dataset.path}: {array.dtype}{list(array.shape)} with {axes} of a scan: expected a scan of two"
            " axes, of patterns or spectra of real numbers, for a page"
        )


def _known(opening: Opening, array: ArrayReader, progress: OnProgress | None) -> dict[str, Any]:
    """Return what the page knows without asking: see `offline.js`."""
    path = array.dataset.path
    recipe = asdict(Recipe.of(opening.paths, opening.options, opening.format_options))
    recipe["words"] = None  # as its paths hold folders
    recipe["paths"] = [repr(os.path.basename(one)) for one in opening.paths]  # a mail says no folders
    key = f"{printable(recipe['name'])}.zarr"
    shown = described(path, array, True)
    disk = centre(array, (), array.cache)._asdict() if array.ndim == 4 else None
    images = leaving_out(array, _usual(disk, array.shape[2:]) | {"frame_sum()": spelling.read_call("frame_sum()")})
    bins, side, made = _computed(array, images, progress)
    return {
        "listing": {
            "path": "",
            "entries": [{"name": recipe["name"], "kind": "set", "key": key}],
            "more": False,
            "tree": False,
        },
        "offline": {
            "set": {
                "key": key,
                "name": printable(recipe["name"]),
                "sources": [printable(os.path.basename(one)) for one in opening.paths[:1]],
                "warnings": [
                    _warning(side, bins["rounded"], "of the usual detectors" if disk else "that are sums of all")
                ],
                "npy": None,
                "said": printable(spoken.line(array.dataset.recorded)),
                "count": 1,
                "arrays": [shown],
            },
            "array": shown | told(array) | {"files": len(array.files)},
            "centre": disk,
            "recipe": recipe,
            "bins": bins,
            "images": made,
        },
    }


def _warning(side: int, rounded: bool, exact: str) -> str:
    """Say what is in the file: frames in bins of so many pixels, perhaps with numbers of four bytes for longer ones."""
    if side == 1 and not rounded:
        return "Exported by vfs, with all pixels of all frames."
    held = f"frames are in bins of {side} pixels" if side > 1 else "all pixels are in it, rounded to seven digits"
    return f"Exported by vfs: {held}, of which images are made. Exact are those {exact}."


def _usual(disk: Mapping[str, Any] | None, shape: tuple[int, ...]) -> dict[str, Reduction]:
    """Return the usual detectors around a disk by the text that the page has for each: see `detectors.js`."""
    if disk is None:
        return {}
    cy, cx, r = disk["cy"], disk["cx"], disk["r"]
    about = tidy(cy), tidy(cx), tidy(min(USUAL * r, max(shape)))
    wanted = [*usual_detectors(cy, cx, r, shape[0], shape[1]).values(), CenterOfMass(*about)]
    return {_as_on_the_page(one): one for one in wanted}


def _as_on_the_page(detector: Disk | Ring | CenterOfMass) -> str:
    word = {Disk: "disk", Ring: "ring", CenterOfMass: "center_of_mass"}[type(detector)]
    numbers = [one for one in vars(detector).values() if one is not None and not isinstance(one, bool)]
    return f"{word}({', '.join(f'{number:g}' for number in numbers)})"


def _computed(
    array: ArrayReader, images: Mapping[str, Reduction], progress: OnProgress | None
) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Compute bins and images in one pass.

    Returns: bins, the side of a bin in pixels, and images by their text.

    Raises:
        OptionError: not even coarse bins fit.
    """
    positions, sig = math.prod(array.shape[:2]), array.shape[2:]
    room = MAX_BINS_BYTES * 3 // 4 // positions  # bytes for a position: text of base64 has four letters for three bytes
    names = {f"r{k}": text for k, text in enumerate(images)}
    for nbytes in (2, 4):  # of a sum, if that is enough; else all is done again, in fewer bins
        most = _most(room // nbytes, sig, array)
        wanted = {"bins": Binned(most)} | {name: images[text] for name, text in names.items()}
        results = reduce(array, wanted, progress=progress)
        exact = results["bins"].selected
        sums = _small(exact)
        if sums.itemsize <= nbytes:
            break
    if not all(one.filled.all() for one in results.values()):
        raise OptionError(f"{array.dataset.path}: frames are missing: expected a scan that is whole, for a page")
    side = Binned(most).factor((1, *sig)[-2:])
    rounded = side == 1 and not np.array_equal(sums, exact, equal_nan=exact.dtype.kind == "f")
    packed = {"shape": list(sums.shape[1:]), "most": most, "rounded": rounded, **_packed(sums)}
    found = {text: results[name].data.astype("<f8") for name, text in names.items()}
    return packed, side, {text: {"shape": list(one.shape), **_packed(one)} for text, one in found.items()}


def _most(count: int, sig: tuple[int, ...], array: ArrayReader) -> int:
    """Return the rows and columns of bins, at most, where there is room for so many bins in all.

    Raises:
        OptionError: not even coarse ones fit.
    """
    most = min(BINS, math.isqrt(count)) if len(sig) == 2 else min(CHANNELS, count)
    if most < min(MIN_BINS, max(sig)):
        raise OptionError(
            f"{array.dataset.path}: a scan of {list(array.shape[:2])} leaves less than {MIN_BINS} bins along each axis"
            f" of a frame in {size(MAX_BINS_BYTES)}: expected fewer positions"
        )
    return most


def _small(sums: np.ndarray) -> np.ndarray:
    """Return sums in the smallest type that holds them to the bit; others as float32."""
    if sums.min() >= 0 and np.all(sums == np.floor(sums)):
        for kind in ("u1", "<u2"):
            if sums.max() <= np.iinfo(kind).max:
                return sums.astype(kind)
    return sums.astype("<f4")


def _packed(values: np.ndarray) -> dict[str, str]:
    """Return numbers as text: gzip, base64."""
    text = base64.b64encode(gzip.compress(np.ascontiguousarray(values).tobytes(), 6, mtime=0)).decode()
    return {"dtype": values.dtype.name, "gzip": text}
