"""Validators of OME-Zarr accept every face: of generated sets, in all versions, through mounts."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib, write_npy

_NOISE = np.random.default_rng(0)
SETS: dict[str, Callable[[Path], Path]] = {
    "ome": lambda folder: write_ome_tiff(folder, _NOISE.integers(0, 900, (2, 3, 2, 700, 600)).astype("u2")),
    "colours": lambda folder: write_tiff(
        folder / "rgb.tif", [_NOISE.integers(0, 255, (600, 700, 3)).astype("u1")], compression=8, encode=zlib.compress
    ),
    "stack": lambda folder: write_tiff(folder / "stack.tif", [np.full((30, 20), k, "u2") for k in range(3)]),
    "floats": lambda folder: write_npy(folder, _NOISE.normal(size=(600, 700)).astype("f4")),
    "scan": lambda folder: write_mib(folder, _NOISE.integers(0, 4000, (12, 8, 16)).astype("u2"), scan=(3, 4)),
}


def yaozarrs(path: str) -> None:
    """Validate with yaozarrs, which looks at the arrays, too."""
    pytest.importorskip("yaozarrs").validate_zarr_store(path)


def ngff_zarr(path: str) -> None:
    """Validate with ngff-zarr, which has the schemas of the specification, and does not ask them of sets of images."""
    assert pytest.importorskip("ngff_zarr").from_ngff_zarr(path, validate=True).images
    attrs = dict(zarr.open_group(path, mode="r").attrs)
    about = attrs.get("ome", attrs)
    version = about.get("version", "0.4")
    import_module("ngff_zarr.validate").validate(attrs, version, "image")


def ome_zarr(path: str) -> None:
    """Read with ome-zarr-py."""
    pytest.importorskip("ome_zarr")
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    assert list(Reader(parse_url(path))())


@pytest.fixture(scope="module", params=SETS)
def images(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """The images of a set, in all versions, in two mounts: 0.5 and 0.4, and 0.6."""
    folder, point, new = (tmp_path_factory.mktemp(name) for name in ("in", "mnt", "new"))
    more: dict[str, Any] = {"derive": {"bf": vfs.Disk(4, 8, 3)}} if request.param == "scan" else {}
    path = SETS[request.param](folder)
    with vfs.mount(path, point, **more), vfs.mount(path, new, ngff="0.6", **more):
        roots = [*sorted(point.glob("*.ome.*")), *new.glob("*.ome.zarr")]
        assert len(roots) == 3
        yield roots


def refusals(validate: Callable[[str], None], roots: list[Path]) -> list[str]:
    """What a validator says against images."""
    found = []
    for root in roots:
        try:
            validate(str(root))
        except Exception as error:  # each has kinds of its own
            found.append(f"{root.name}: {error!r}")
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("validate", [yaozarrs, ngff_zarr, ome_zarr])
def test_a_validator_accepts_it(images: list[Path], validate: Callable[[str], None]) -> None:
    if validate is yaozarrs:
        images = images[:2]  # 0.3.4 knows no version 0.6
    several = [root for root in images if isinstance(zarr.open(str(root / "0"), mode="r"), zarr.Group)]
    shown = [root for root in images if root not in several or validate is yaozarrs]  # the others take images only
    shown += [root / name for root in several for name in ("0", "1")]
    assert refusals(validate, shown) == []
