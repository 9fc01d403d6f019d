"""The usual detectors of a scan, around its bright-field disk, which is looked for in a few frames.

`vfs.BrightField()` and its like know no place. Before a pass begins, `placed` makes a disk or a ring of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vfs.engine.array import ArrayReader
from vfs.engine.pixel_masks import masked_pixels
from vfs.errors import OptionError
from vfs.reduce.bright_field import central_disk, middle, tidy
from vfs.reduce.in_frames import CenterOfMass
from vfs.reduce.radial import RadialMean
from vfs.reduce.reduction import FrameType, Reduction
from vfs.reduce.shapes import Disk, Ring

MIN_WIDTH = 0.8
"""Pixels that a radius, or the width of a ring, has at least."""


def usual_detectors(cy: float, cx: float, r: float, height: int, width: int) -> dict[str, Disk | Ring]:
    """Make the usual detectors around a bright-field disk, with tenths of pixels, as the page does (`detectors.js`).

    Args:
        cy, cx, r: centre and radius of the disk, pixels.
        height, width: of a frame.

    Returns: bf (the disk), abf (its outer half), adf (from its edge to twice its radius, or half way to the edge of
        the frame), haadf (from there to the edge of the frame).
    """
    edge = max(1.0, min(cy, cx, height - 1 - cy, width - 1 - cx) + 0.5)
    inner = min(r, edge * 0.6)
    outer = min(2 * inner, (inner + edge) / 2)
    y, x = tidy(cy), tidy(cx)

    def ring(r0: float, r1: float) -> Ring:
        return Ring(y, x, tidy(r0), max(tidy(r1), tidy(r0 + MIN_WIDTH)))

    return {
        "bf": Disk(y, x, max(MIN_WIDTH, tidy(r))),
        "abf": ring(r / 2, r),
        "adf": ring(inner, outer),
        "haadf": ring(outer, max(edge, outer + 1)),
    }


@dataclass(frozen=True)
class UsualDetector(Reduction):
    """A detector around the bright-field disk of the scan, without the pixels that the set's own mask marks as dead."""

    dtype: Any = None
    word: ClassVar[str]

    def bound(self, frames: FrameType) -> Reduction:
        raise OptionError(f"{type(self).__name__} must see frames first, to find the bright-field disk")

    def at(self, array: ArrayReader) -> Disk | Ring:
        """Find the place of the detector.

        Raises:
            OptionError: no frame shows a disk, or the array is no scan of frames with two axes of real numbers.
            SourceError: no frame can be read.
        """
        found = central_disk(array, middle(array))
        if not found.found:
            raise OptionError("found no bright-field disk in frames of the scan; say where it is, by a disk or a ring")
        detector = usual_detectors(*found[:3], *array.shape[array.dataset.nav_ndim :])[self.word]
        return replace(detector, dtype=self.dtype, masked=masked_pixels(array) is not None)


class BrightField(UsualDetector):
    """Sum of the pixels of every frame in the bright-field disk, [*scan].

    The disk is the brightest spot of the middle frame of the scan and four around; the page begins with the same one.
    Where they show none, that is an OptionError. `Result.reduction` says where it is. Pixels that the set's own mask
    marks as dead do not count; then it says `masked=True`.

    Args:
        dtype: see `FrameSum`.
    """

    word = "bf"


class AnnularBrightField(UsualDetector):
    """Sum of the pixels of every frame in the outer half of the radius of the bright-field disk, [*scan].

    Else as `BrightField`.
    """

    word = "abf"


class AnnularDarkField(UsualDetector):
    """Sum of the pixels of every frame in a ring around the bright-field disk, [*scan].

    The ring ends at twice the radius of the disk, or half way to the edge of the frame. Else as `BrightField`.
    """

    word = "adf"


class HighAngleDarkField(UsualDetector):
    """Sum of the pixels of every frame from the ring of `AnnularDarkField` to the nearest edge of the frame, [*scan].

    Else as `BrightField`.
    """

    word = "haadf"


def placed(array: ArrayReader, reductions: Mapping[str, Any]) -> dict[str, Any]:
    """Give detectors that look for the bright-field disk their place. Everything else stays as it is.

    Of centres of mass it is said if pixels are left out that the set's own mask marks.

    Raises:
        OptionError, SourceError: see `UsualDetector.at`.
    """
    return {name: _placed(name, one, array) for name, one in reductions.items()}


def leaving_out(array: ArrayReader, reductions: Mapping[str, Any]) -> dict[str, Any]:
    """Have reductions leave out the pixels that the set's own mask marks as dead, if there are some: those of frames.

    Raises:
        SourceError: the mask cannot be read.
    """
    if masked_pixels(array) is None:
        return dict(reductions)
    return {name: replace(one, masked=True) if hasattr(one, "masked") else one for name, one in reductions.items()}


def _placed(name: str, one: Any, array: ArrayReader) -> Any:
    if isinstance(one, CenterOfMass) and one.masked is None and masked_pixels(array) is not None:
        return replace(one, masked=True)
    if isinstance(one, RadialMean) and one.cy is None and one.cx is None:
        found = central_disk(array, middle(array))
        if not found.found:
            raise OptionError(f"{name}: found no bright-field disk in frames of the scan; say the centre, by cy and cx")
        return replace(one, cy=tidy(found.cy), cx=tidy(found.cx))
    if not isinstance(one, UsualDetector):
        return one
    try:
        return one.at(array)
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from None
