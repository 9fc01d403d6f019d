"""Results of reductions: numbers that know where they hold, how to draw themselves, and how to be saved."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from vfs.errors import DependencyError, UnknownArrayError, extra
from vfs.model.result_values import ResultValues

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Result(ResultValues):
    """Result of a reduction. numpy takes it for its `data`.

    Attributes:
        name: what it was called in `reduce`.
        kind: "nav" (for each position of the scan), "sig" (for each pixel of a frame) or "single".
        selected: of kind "nav" [m, …], for the m positions that were selected, flat and in their
            order; else the result itself.
        dims: a name for each axis of `data`. units: of its values, "" where nobody says.
        calibration: where the elements along each axis are, as `VirtualArray.calibration` says it.
        scan: shape of the scan; positions: int64[m], flat positions in it that were selected, None for all.
        filled: of kind "nav" bool[m], the selected positions that are stored, and done; else whether there is any.
        upward: the bottom row of a frame comes first: frames, and directions in them, are drawn upwards.
        reduction: what it is, as the command line writes it: "disk(cy=128, cx=128, r=20)"; of: path of the array
            that it was made of.
    """

    def _repr_html_(self) -> str:
        from vfs.pictures.results import html

        return html({self.name: self})

    def plot(self, ax: Axes | None = None, **how: Any) -> Axes:
        """Draw the result with matplotlib, with the units of its axes and values.

        A result for each position is the image of the scan, one for each pixel a frame; of further axes
        the middle is drawn. Centres of mass are colours: the direction is the hue. A result along one
        axis is a line.

        Args:
            ax: where to draw; None: in a new figure.
            how: more arguments for `Axes.imshow` or `Axes.plot`.

        Raises:
            DependencyError: matplotlib is not installed.
        """
        from vfs.pictures.results import plot

        return plot(self, ax, **how)

    def xarray(self) -> xarray.DataArray:
        """Return the result as an `xarray.DataArray`, with its axes, units and where it is from as attributes.

        Calibrated axes have coordinates, with `units`. Where nothing was selected, or nothing is stored, it holds NaN
        or 0, as `data`.

        Raises:
            DependencyError: xarray is not installed.
        """
        try:
            import xarray
        except ImportError:
            raise DependencyError(f"xarray is not installed: {extra('xarray')}") from None
        coordinates = {}
        for dim, length in zip(self.dims, self.shape, strict=True):
            known = self.calibration.get(dim, {})
            if known.get("scale") is not None:
                unit = {"units": known["unit"]} if known.get("unit") else {}
                places = (known.get("offset") or 0.0) + known["scale"] * np.arange(length)
                coordinates[dim] = xarray.Variable((dim,), places, {"long_name": dim.replace("_", " "), **unit})
        attributes = {"units": self.units, "reduction": self.reduction, "of": self.of}
        said = {name: text for name, text in attributes.items() if text}
        return xarray.DataArray(self.data, coordinates, self.dims, self.name, said)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a new file, as the end of its name says.

        .npy: the numbers. .tif: an image with its calibration, for ImageJ and DigitalMicrograph. .hspy: a signal of
        HyperSpy. .csv: numbers along an axis. .msa: a spectrum as EMSA/MAS. .png, .svg, .pdf: a drawing, as by `plot`.
        .zarr: a store. The file has its name only when it is complete.

        Raises:
            OptionError: there is something of this name, the name says none of these ways, or the result does not fit
                into such a file.
            DependencyError: a library is missing; the message says which extra has it.
        """
        from vfs.reduce.saving import save

        save({self.name: self}, path)


class Results(dict[str, Result]):
    """Results of one pass: name -> `Result`. A notebook shows a picture of each."""

    def __missing__(self, name: object) -> Result:
        raise UnknownArrayError(f"no result {name!r}; there are: {', '.join(self)}")

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:  # Python asks here for what is not there
            hint = f": results stand by their names, [{name!r}]" if name in self else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def _repr_html_(self) -> str:
        from vfs.pictures.results import html

        return html(self)

    def plot(self, **how: Any) -> Figure:
        """Draw all results with matplotlib, side by side in a new figure; see `Result.plot`.

        Raises:
            DependencyError: matplotlib is not installed.
            OptionError: there are none.
        """
        from vfs.pictures.results import plot_all

        return plot_all(self, **how)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all results to a new store (.zarr), or draw them side by side (.png, .svg, .pdf); see `Result.save`."""
        from vfs.reduce.saving import save

        save(self, path)
