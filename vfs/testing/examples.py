"""Writes example data for the tutorials: a scan of particles and a map of spectra, as instruments write them.

    vfs demo --examples examples

- `examples/particles/scan001.mib` to `scan004.mib`: 64 x 96 diffraction patterns of 64 x 64 pixels of a Merlin, 50 MB.
  There is no .hdr, so nothing says that the frames are a scan. Their time stamps do: behind each row of 96 frames
  the beam needs 20 ms to fly back.
- `examples/eels/map.rpl`, `map.raw`: 32 x 48 energy-loss spectra of 400 channels, 1.2 MB: carbon everywhere, oxygen
  where the particles are.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from vfs.testing.writers import write_mib, write_ripple

SCAN = (64, 96)
SIZE = 64
SPECTRA = (32, 48, 400)
FIRST, STEP = 220.0, 1.0  # eV: energy of the first channel, and from one to the next
EDGES = {"C": 284.0, "O": 532.0}  # eV, of the K shell


def thickness(scan: tuple[int, int], count: int = 9) -> np.ndarray:
    """Make the thickness of so many round particles, each at a place of its own.

    Returns: float64[particle, scan_y, scan_x], between 0 and 1.
    """
    rng = np.random.default_rng(11)
    y, x = np.mgrid[: scan[0], : scan[1]] / scan[0]
    made = np.zeros((count, *scan))
    for one in made:
        cy, cx, r = rng.uniform(0.12, 0.88), rng.uniform(0.12, 1.38), rng.uniform(0.08, 0.17)
        one[:] = np.sqrt(np.clip(1 - ((y - cy) ** 2 + (x - cx) ** 2) / r**2, 0, None))
    return made


def patterns(scan: tuple[int, int] = SCAN, size: int = SIZE) -> np.ndarray:
    """Make diffraction patterns of crystalline particles on a thin amorphous film, with counting noise.

    Each particle has its own lattice; the bright disk moves aside at the edges of particles, as it does in a field.

    Returns: uint16[scan_y, scan_x, size, size], the same in every call.
    """
    rng = np.random.default_rng(5)
    each = thickness(scan)
    total = each.max(0)
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    radius = np.hypot(y, x)
    disk = size / 14
    film = 4 * np.exp(-(((radius - size / 4.2) / (size / 16)) ** 2)) + 8 * np.exp(-radius / (size / 7))
    made = np.broadcast_to(film, (*scan, size, size)).copy()
    at_y, at_x = (4 * slope for slope in np.gradient(total))
    for row in range(scan[0]):  # a row at a time: the memory of a scan would be needed several times
        distance = np.hypot(y - at_y[row][:, None, None], x - at_x[row][:, None, None])
        made[row] += 120 * (1 - 0.6 * total[row])[:, None, None] / (1 + np.exp((distance - disk) * 2.5))
    for depth in each:
        angle, spacing = rng.uniform(0, np.pi / 3), size / 4.2 * rng.uniform(0.95, 1.05)
        spots = np.zeros((size, size))
        for h in range(-2, 3):
            for k in range(-2, 3):
                if (h, k) != (0, 0):
                    a, b = (h + k / 2) * spacing, k * 0.866 * spacing
                    spot = np.hypot(
                        x - a * np.cos(angle) + b * np.sin(angle), y - a * np.sin(angle) - b * np.cos(angle)
                    )
                    strength = 60 * np.exp(-((a**2 + b**2) / (0.9 * spacing) ** 2) / 2) * rng.uniform(0.2, 1)
                    spots += strength / (1 + np.exp((spot - disk) * 2.5))
        inside = depth > 0
        made[inside] += depth[inside][:, None, None] * spots
    frames: np.ndarray = rng.poisson(made).astype(np.uint16)
    return frames


def spectra(shape: tuple[int, int, int] = SPECTRA) -> np.ndarray:
    """Make energy-loss spectra: a background that falls as a power, the edges of carbon and of oxygen, counting noise.

    Returns: uint16[scan_y, scan_x, energy], the same in every call.
    """
    total = thickness(shape[:2]).max(0)[..., None]
    energy = FIRST + STEP * np.arange(shape[2])
    made = (900 * (1 + 0.5 * total)) * (energy / FIRST) ** -2.8
    for element, strength in (("C", 260 * (1 - 0.5 * total)), ("O", 150 * total)):
        rise = 1 / (1 + np.exp(-(energy - EDGES[element] - 4) / 2))
        made = made + strength * rise * (energy / EDGES[element]) ** -3.2
    counts: np.ndarray = np.random.default_rng(3).poisson(made).astype(np.uint16)
    return counts


def write(folder: str | os.PathLike[str]) -> list[Path]:
    """Write all of it into a new or empty folder.

    Returns: what names each set: `scan001.mib`, `map.rpl`.
    """
    top = Path(folder)
    for name in ("particles", "eels"):
        (top / name).mkdir(parents=True)
    dwell, back = 1_000_000, 20_000_000  # ns
    times = [n * dwell + n // SCAN[1] * back for n in range(SCAN[0] * SCAN[1])]
    frames = patterns().reshape(-1, SIZE, SIZE)
    first = write_mib(top / "particles", frames, frames_per_file=1600, hdr=False, times_ns=times)
    maps = write_ripple(
        top / "eels",
        spectra(),
        name="map",
        record="vector",
        depth_origin=FIRST,
        depth_scale=STEP,
        depth_units="eV",
        height_scale=2.0,
        height_units="nm",
        width_scale=2.0,
        width_units="nm",
    )
    return [first, maps]
