"""The page says angles of X-ray detectors: 2θ, q and d at the pointer, and radial means over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.page.support import Browsed
from vfs.testing.detector_writers import write_cbf

PIXEL, DISTANCE, WAVELENGTH, CENTRE = 172e-6, 0.02, 1e-10, (30.0, 40.5)
HEADER = (
    f"# Pixel_size {PIXEL} m x {PIXEL} m\n# Detector_distance {DISTANCE} m\n# Beam_xy ({CENTRE[1]}, {CENTRE[0]}) pixels"
)


def angles() -> np.ndarray:
    """Return 2θ of each pixel, rad."""
    y, x = np.mgrid[:64, :80]
    return np.arctan2(np.hypot(y - CENTRE[0], x - CENTRE[1]) * PIXEL, DISTANCE)


@pytest.mark.parametrize("wavelength", [WAVELENGTH, None])
def test_angles_of_a_detector(browse: Callable[..., Browsed], tmp_path: Path, wavelength: float | None) -> None:
    rings = np.round(1000 * np.cos(8 * angles()) ** 2).astype("i4")
    path = write_cbf(tmp_path / "a.cbf", rings, HEADER + ("\n# Wavelength 1.0 A" if wavelength else ""))
    with vfs.serve(path, port=0) as server:
        page = browse(server.url, dark=False).open()
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        page.page.mouse.move(*page.at("frame", 30, 60))
        said = page.page.get_by_label("Frame: value under the pointer").inner_text().split(" · ")
        angle = angles()[30, 60]
        q, d = 4 * np.pi * np.sin(angle / 2) / WAVELENGTH / 1e9, WAVELENGTH / 2 / np.sin(angle / 2) * 1e9
        names = [f"q {q:.4g} 1/nm", f"2θ {np.rad2deg(angle):.4g} °", f"d {d:.4g} nm"]
        assert said == ["30, 60", *(names if wavelength else names[1:2]), str(rings[30, 60])]
        page.named("button", "Frame: measure a region").click()
        plot = page.named("combobox", "Frame region: plot")
        offered = plot.evaluate("field => [...field.options].filter((one) => !one.hidden).map((one) => one.value)")
        assert offered == ["histogram", "radial", *(["q"] if wavelength else []), "angle"]
        for name, over in {
            "q": 4 * np.pi * np.sin(angles() / 2) / WAVELENGTH / 1e9,
            "angle": np.rad2deg(angles()),
        }.items():
            if name not in offered:
                continue
            plot.select_option(name)
            with page.page.expect_download() as saved:
                page.named("button", "Frame region: numbers as CSV").click()
            lines = Path(saved.value.path()).read_text().splitlines()
            head = next(k for k, line in enumerate(lines) if not line.startswith("#"))
            rows = np.array([[float(one or "nan") for one in line.split(",")] for line in lines[head + 1 :]])
            step = rows[1, 0]
            ring = np.floor(over / step + 0.5).astype(int)
            means = [rings[ring == k].mean() if (ring == k).any() else np.nan for k in range(len(rows))]
            np.testing.assert_allclose(rows[:, 1], means, rtol=1e-12)
            assert lines[head] == {"q": "q (1/nm),mean", "angle": "2θ (°),mean"}[name]
        page.screenshot("angles")
        page.close()


def test_a_detector_that_is_turned_or_shown_in_another_order_has_no_angles(tmp_path: Path) -> None:
    from vfs.page.scattering import geometry

    path = write_cbf(tmp_path / "a.cbf", np.ones((64, 80), "i4"), f"{HEADER}\n# Wavelength 1.0 A")
    assert geometry(vfs.open(path)._reader) == {
        "centre": [*CENTRE],
        "pixel": [PIXEL, PIXEL],
        "distance": DISTANCE,
        "wavelength": WAVELENGTH,
    }
    assert geometry(vfs.open(path, axes="frame,y,-x")._reader) is None
    turned = write_cbf(tmp_path / "b.cbf", np.ones((64, 80), "i4"), f"{HEADER}\n# Detector_2theta 10.0 deg.")
    assert geometry(vfs.open(turned)._reader) is None
