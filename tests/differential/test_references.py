"""References under the tools that people make them for: VirtualiZarr, kerchunk and xarray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import vfs
from tests.conformance.rows import ROWS
from tests.conftest import SHARED
from tests.sessions import PAGES, check_sessions
from tests.zarr.reference_readers import by_fsspec, by_icechunk, same, sets_below
from vfs.errors import IncompleteWarning, NotReferenceableError
from vfs.faces.references import referenceable
from vfs.testing.inside import reader_of, set_of
from vfs.testing.rows import WrittenSet
from vfs.testing.writers import write_mib, write_raw

pytest.importorskip("virtualizarr")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
    pytest.mark.filterwarnings("ignore::vfs.errors.IncompleteWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the tools among each other
]

FRAMES = np.random.default_rng(3).integers(0, 4000, (24, 8, 16)).astype(np.uint16)


@pytest.fixture
def registry() -> Any:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    return ObjectStoreRegistry({"file://": LocalStore()})


def check(group: vfs.VirtualGroup, named: Path | str, registry: Any) -> None:
    """Check that what VirtualiZarr reads of a set is what vfs reads."""
    found = zarr.open_group(vfs.virtualizarr.Parser(blank=True)(str(named), registry), mode="r", zarr_format=3)
    for path, array in group.items():
        if referenceable(reader_of(array))[0]:
            same(found[path], array)


@pytest.mark.parametrize("row", [row for row in ROWS if row.referenceable], ids=lambda row: row.name)
def test_virtualizarr_reads_every_format(row: Any, tmp_path: Path, registry: Any) -> None:
    found = WrittenSet(row, tmp_path, *row.write(tmp_path))
    named = found.first
    if row.format != "description":  # a URL is one file; a description names others
        files = [path.name for path in found.named]
        named = tmp_path / "one.vfs.json"
        said = {"vfs": 1, "format": row.format, "files": files, "options": dict(found.options)}
        named.write_text(json.dumps(said))
    check(vfs.open_group(named), named, registry)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real files here")
def test_virtualizarr_reads_real_files(registry: Any) -> None:
    for group in sets_below(SHARED):
        if referenceable(reader_of(group.main))[0]:
            check(group, set_of(group).opening.paths[0], registry)


def test_a_virtual_dataset_is_written_for_others(tmp_path: Path, registry: Any) -> None:
    import virtualizarr

    (path,) = write_raw(tmp_path, FRAMES, frame_header=32)
    parser = vfs.virtualizarr.Parser(
        format="raw", stored_dtype="<u2", sig_shape=(8, 16), frame_header=32, nav_shape=(4, 6)
    )
    found = virtualizarr.open_virtual_dataset(f"file://{path}", registry=registry, parser=parser)
    assert dict(found.sizes) == {"scan_y": 4, "scan_x": 6, "y": 8, "x": 16}
    found.virtualize.to_kerchunk(str(tmp_path / "theirs.json"), format="json")
    np.testing.assert_array_equal(by_fsspec(tmp_path / "theirs.json")["data"][:].reshape(FRAMES.shape), FRAMES)  # type: ignore[index]
    theirs = xr.open_dataset(str(tmp_path / "theirs.json"), engine="kerchunk", mask_and_scale=False)
    np.testing.assert_array_equal(theirs["data"].values.reshape(FRAMES.shape), FRAMES)  # with masks, zeros are nan
    both = xr.concat([found, found], "scan_y", coords="minimal", compat="override")
    import icechunk

    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(f"file://{tmp_path}/", icechunk.local_filesystem_store(str(tmp_path)))
    )
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "both")), config)
    repository.save_config()
    session = repository.writable_session("main")
    both.virtualize.to_icechunk(session.store)
    session.commit("both")
    joined = by_icechunk(tmp_path / "both")["data"]
    np.testing.assert_array_equal(np.asarray(joined[...]).reshape(48, 8, 16), np.concatenate([FRAMES] * 2))  # type: ignore[index]


def test_what_no_manifest_can_hold_is_left_out_with_a_warning(tmp_path: Path, registry: Any) -> None:
    path = write_mib(tmp_path, FRAMES, scan=(4, 6))
    with pytest.warns(IncompleteWarning, match="timestamp is omitted: its elements are not stored as plain numbers"):
        store = vfs.virtualizarr.Parser()(f"file://{path}", registry)
    assert sorted(store._group.arrays) == ["data"]


def test_a_name_that_virtualizarr_cuts_off_is_refused(tmp_path: Path, registry: Any) -> None:
    folder = tmp_path / "run #1"
    folder.mkdir()
    path = write_mib(folder, FRAMES, scan=(4, 6))
    with pytest.raises(NotReferenceableError, match="rename"):
        vfs.virtualizarr.Parser()(str(path), registry)


def test_xarray_opens_references_with_kerchunk(tmp_path: Path) -> None:
    pytest.importorskip("kerchunk")
    path = write_mib(tmp_path, FRAMES, scan=(4, 6))
    for name in ("refs.json", "refs.parquet"):
        vfs.export(path, tmp_path / name, to="kerchunk")
        found = xr.open_dataset(str(tmp_path / name), engine="kerchunk")
        np.testing.assert_array_equal(found["data"].values.reshape(FRAMES.shape), FRAMES)
        assert found["data"].dims == ("scan_y", "scan_x", "y", "x")
        np.testing.assert_array_equal(found["exposure"], vfs.open_group(path)["exposure"][...])


def test_virtualizarr_parses_the_references(tmp_path: Path, registry: Any) -> None:
    from virtualizarr.parsers import KerchunkJSONParser

    path = write_mib(tmp_path, FRAMES, scan=(4, 6))
    vfs.export(path, tmp_path / "refs.json", to="kerchunk")
    assert json.loads((tmp_path / "refs.json").read_text())["version"] == 1
    parser = KerchunkJSONParser(skip_variables=["timestamp", "exposure"])  # it takes no numbers that are copied
    store = parser(f"file://{tmp_path / 'refs.json'}", registry)
    found = zarr.open_group(store, mode="r", zarr_format=3)["data"]
    np.testing.assert_array_equal(np.asarray(found[...]).reshape(FRAMES.shape), FRAMES)  # type: ignore[index]


def test_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    check_sessions(PAGES["virtualizarr"], tmp_path)
