"""Real files: RosettaSciIO and vfs say the same of the axes, up to how units are written.

Both calibrations pass through `of_axes`, which spells units and leaves out axes that nobody
calibrated, and are compared in SI units. `DIFFERENT` lists what differs, with the reason.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import vfs
from tests.conftest import SHARED
from vfs.model.calibration import of_axes
from vfs.testing.inside import reader_of

pytest.importorskip("rsciio", reason="RosettaSciIO is not installed")
pytestmark = [pytest.mark.filterwarnings("default")]  # theirs are not ours to mend

READERS = {
    "blockfile": ("blo/*/*.blo",),
    "digitalmicrograph": ("dm/*/*.dm[34]",),
    "emd": ("hdf5/*/*.emd", "hdf5/py4dstem_size2x3x4x5/*.h5"),
    "empad": ("empad/series_x10/*.xml",),
    "hspy": ("hdf5/hspy*/*.h*", "hdf5/pyxem_au_xgrating/*.hspy"),
    "mrc": ("mrc/*/*.mrc",),
    "nexus": ("hdf5/nexus_saved*/*.nxs", "hdf5/nexusformat*/*.nxs"),
    "ripple": ("raw/ripple*/*.rpl",),
    "quantumdetector": ("mib/nav4x2*/*.mib", "mib/merlin_Single_9*/*.mib"),
    "tia": ("ser_emi/*/*.emi", "ser_emi/*/*.ser"),
    "tiff": ("tiff/rsciio*/*.tif", "tiff/exampletiffs_mri*/*.tif", "tiff/dioptas*/*.tif"),
    "tvips": ("tvips/*/*.tvips",),
}
DIFFERENT = {
    "emd_Si100_1x1x3": "it stacks the depths of a simulation, which are arrays of their own in the file",
    "emd_Si100_2D_3D_DPC": "it stacks the depths of a simulation, which are arrays of their own in the file",
    "velox_Test SI 16x16 215 kx": "it makes a spectrum image of the stream of events, and leaves out the first frame",
    "series_x10": "it writes 1 ms, and pixels from -64, where the XML says nothing",
    "de_20241021_00405/20241021_00405_movie": "it takes 1 instead of the sizes in _info.txt: 0.1, 0.2",
    "de_20241021_00405/20241021_00405_": "it takes a cell of -10 Å, which means that the size is not known",
    "de_Custom": "it takes a cell of -10 Å, which means that the size is not known, and no time",
    "ncem_temp": "it gives sections the step of the cell, which has lengths, without a unit; they are frames",
    "nexus_saved_multi_signal": "it calibrates vectors of positions by themselves",
    "nexusformat_chopper": "it begins at the edge of the first bin, not at its centre",
    "nav4x2_001": "it works out a scan shape that no file says",
    "diffraction_preview_1.ser": "without the .emi it takes 1/m for m",
    "not_square": "it takes the offset for that of element 0, the file says that of element 5",
    "2_point-spectra": "it keeps steps of 1 m, which TIA writes for spectra at single points",
    "dioptas_CeO2_Pilatus1M": "it leaves out the size of a pixel, which the description of a PILATUS says",
    "tvips_2233": "it takes the size of a pixel of the detector for a step in the pattern, and time from 1970 on",
}
"""Part of the name of a file -> why what they say differs from what vfs says. The first that fits counts."""

_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "c": 1e-2, "": 1, "k": 1e3, "M": 1e6, "G": 1e9}
FACTORS = {
    f"{prefix}{base}": (factor, base) for prefix, factor in _PREFIXES.items() for base in ("m", "s", "eV", "rad")
}
FACTORS |= {"angstrom": (1e-10, "m"), "inch": (0.0254, "m"), "deg": (math.pi / 180, "rad")}


def in_si(axis: Mapping[str, Any]) -> tuple[float, float, str]:
    """(scale, offset, unit) of a calibrated axis."""
    over = axis["unit"].startswith("1/")
    factor, base = FACTORS.get(axis["unit"].removeprefix("1/"), (1.0, axis["unit"].removeprefix("1/")))
    factor = 1 / factor if over else factor
    return axis["scale"] * factor, axis["offset"] * factor, ("1/" if over else "") + base


def long_axes(calibration: object, names: Sequence[str], shape: Sequence[int]) -> list[Any]:
    """(length, scale, offset, unit) of every axis of more than one element; (length,) without a calibration."""
    known = of_axes(calibration, names)
    return [
        (n, *in_si(known[name])) if known.get(name, {}).get("scale") is not None else (n,)
        for name, n in zip(names, shape, strict=True)
        if n > 1
    ]


def ours(path: Path) -> Iterator[tuple[str, list[Any]]]:
    for name, array in vfs.open_group(path, allow_incomplete=True).items():
        if not reader_of(array).dataset.companion:
            shown = [k for k, dim in enumerate(array.dims) if dim not in ("s", "channel")]
            dims = [array.dims[k] for k in shown]
            yield name, long_axes(array.calibration, dims, [array.shape[k] for k in shown])


def theirs(module: str, path: Path) -> Iterator[list[Any]]:
    for signal in importlib.import_module(f"rsciio.{module}").file_reader(str(path)):
        axes = signal["axes"]
        names = [f"axis_{k}" for k in range(len(axes))]
        said = {
            name: {"scale": axis.get("scale"), "offset": axis.get("offset") or 0.0, "unit": str(axis.get("units"))}
            for name, axis in zip(names, axes, strict=True)
        }
        if module == "tia":  # it converts steps to nm or 1/nm, and leaves offsets in m or 1/m
            for axis in said.values():
                axis["offset"] *= {"nm": 1e9, "1 / nm": 1e-9}.get(axis["unit"], 1)
        yield long_axes(said, names, [int(axis.get("size", 0) or len(axis.get("axis", ()))) for axis in axes])


def same(mine: list[Any], other: list[Any]) -> bool:
    """Say whether axes are calibrated alike."""
    if [(axis[0], axis[3:]) for axis in mine] != [(axis[0], axis[3:]) for axis in other]:
        return False
    return all(
        math.isclose(a[1], b[1], rel_tol=1e-5) and abs(a[2] - b[2]) <= 1e-4 * abs(a[1])
        for a, b in zip(mine, other, strict=True)
        if len(a) > 1
    )


def files() -> Iterator[tuple[str, str]]:
    for module, patterns in READERS.items():
        for pattern in patterns:
            for path in sorted(SHARED.glob(pattern)):
                yield module, str(path.relative_to(SHARED))


@pytest.mark.parametrize(("module", "name"), [*files()])
def test_axes_of_real_files(module: str, name: str) -> None:
    mine = dict(ours(SHARED / name))
    reason = next((why for part, why in DIFFERENT.items() if part in name), None)
    apart = []
    for signal in theirs(module, SHARED / name):
        alike = [axes for axes in mine.values() if sorted(a[0] for a in axes) == sorted(a[0] for a in signal)]
        if not any(same(axes, signal) or same(axes[::-1], signal) for axes in alike):
            apart.append((signal, alike))
    assert bool(apart) == bool(reason), apart or f"not different any more: {reason}"
