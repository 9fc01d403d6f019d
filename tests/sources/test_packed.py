"""Files that are packed as a whole are, for any format, what is packed in them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.faces.references import referenceable
from vfs.sets.describing import describe
from vfs.sources import packed
from vfs.sources.local import LocalSources
from vfs.testing.detector_writers import write_cbf
from vfs.testing.inside import reader_of, set_of
from vfs.testing.memory_sources import MemorySources

FRAMES = np.random.default_rng(1).poisson(3, (6, 64, 80)).astype("u2")
zstd = packed.zstd_of_python()
CHECKED = {zstd.CompressionParameter.checksum_flag: 1}  # as the program zstd writes
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "members.gz": lambda raw: gzip.compress(raw[:5000]) + gzip.compress(raw[5000:]) + bytes(700),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "streams.bz2": lambda raw: b"".join(bz2.compress(raw[at : at + 9000]) for at in range(0, len(raw), 9000)),
    "zst": lambda raw: zstd.compress(raw, options=CHECKED),
    "frames.zst": lambda raw: (
        struct.pack("<II", 0x184D2A50, 4)
        + bytes(4)
        + b"".join(zstd.compress(raw[at : at + 9000], options=CHECKED) for at in range(0, len(raw), 9000))
    ),
}


def packed_npy(folder: Path, packing: str, frames: np.ndarray = FRAMES) -> Path:
    np.save(folder / "a.npy", frames)
    path = folder / f"a.npy.{packing.rpartition('.')[2]}"
    path.write_bytes(PACKINGS[packing]((folder / "a.npy").read_bytes()))
    (folder / "a.npy").unlink()
    return path


@pytest.mark.parametrize("packing", PACKINGS)
def test_any_format(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with few points to begin at again, and little that is kept of what was unpacked last."""
    monkeypatch.setattr(packed, "_PIECE", 1000)
    monkeypatch.setattr(packed, "_STEP", 700)
    monkeypatch.setattr(packed, "_WINDOW", 3000)
    monkeypatch.setattr(packed, "_APART", 2000)
    monkeypatch.setattr(packed, "MAX_POINTS", 5)
    path = packed_npy(tmp_path, packing)
    array = vfs.open(path)
    assert (array.group.name, array.shape) == ("a", FRAMES.shape)
    for k in (5, 0, 3, 4, 1):
        np.testing.assert_array_equal(array[k], FRAMES[k])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], FRAMES)
    inner = MemorySources.of(tmp_path)
    sources, name = packed.unpacking(inner, f"memory://set/{path.name}"), f"memory://set/{path.name}"
    raw = sources.read(name, 0, 1 << 20)
    assert len(raw) == sources.state(name).size == FRAMES.nbytes + 128
    rng = random.Random(1)
    for _ in range(30):
        start, size = rng.randrange(len(raw)), rng.randrange(9000)
        assert sources.read(name, start, size) == raw[start : start + size]
    with sources.stream(name) as stream:
        assert stream.read() == raw


@pytest.mark.parametrize("packing", PACKINGS)
def test_damage_is_one_line(tmp_path: Path, packing: str) -> None:
    path = packed_npy(tmp_path, packing)
    whole = path.read_bytes().rstrip(b"\0")
    for cut in (1, 7, 100, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(vfs.VfsError, match=rf"a\.npy\.{packing.rpartition('.')[2]}") as told:
            vfs.open(path)
        assert "\n" not in str(told.value)
    path.write_bytes(whole[:300] + bytes([whole[300] ^ 255]) + whole[301:])
    with pytest.raises(vfs.VfsError, match=r"a\.npy\..*does not unpack|a\.npy\..*truncated"):
        vfs.open(path)[...]


def test_what_holds_far_more_than_measurements_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MAX_RATIO", 5)
    with pytest.raises(vfs.DecodeError, match="as no measurement does"):
        vfs.open(packed_npy(tmp_path, "xz", np.zeros((1 << 20,), "u1")))


def test_a_changed_file(tmp_path: Path) -> None:
    path = packed_npy(tmp_path, "gz")
    array = vfs.open(path)
    packed_npy(tmp_path, "gz", FRAMES[:, ::-1])
    with pytest.raises(vfs.SourceChangedError):
        array[0]
    np.testing.assert_array_equal(vfs.open(path)[...], FRAMES[:, ::-1])


def test_one_of_equal_size_and_time_is_unpacked_anew(tmp_path: Path) -> None:
    path, twin = tmp_path / "a.raw.gz", FRAMES[::-1].copy()
    path.write_bytes(gzip.compress(FRAMES.tobytes(), 0))  # not compressed: both have one size
    sources = packed.PackedSources(LocalSources())
    assert sources.read(str(path), 0, FRAMES.nbytes) == FRAMES.tobytes()
    before = path.stat()
    (tmp_path / "new").write_bytes(gzip.compress(twin.tobytes(), 0))
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "new", path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert sources.read(str(path), 0, FRAMES.nbytes) == twin.tobytes()


def test_a_series_and_a_folder(tmp_path: Path) -> None:
    frames = FRAMES.astype("i4")
    for k, frame in enumerate(frames):
        path = write_cbf(tmp_path / f"a_{k}.cbf", frame)
        (tmp_path / f"a_{k}.cbf.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed_npy(tmp_path, "gz")
    np.testing.assert_array_equal(vfs.open(str(tmp_path / "a_*.cbf.gz"))[...], frames)
    with vfs.serve([tmp_path / "a.npy.gz"], port=0) as server:
        import zarr

        np.testing.assert_array_equal(zarr.open(f"{server.url}a.zarr", mode="r")["data"][...], FRAMES)
    group = vfs.open_group(tmp_path / "a.npy.gz")
    with pytest.raises(vfs.OptionError, match="packed as a whole"):
        describe(set_of(group), explicit=True)
    assert referenceable(reader_of(group.main)) == (False, "its file is packed as a whole")
    assert packed.bare("x/a_0.CBF.GZ") == "x/a_0.CBF"
    assert packed.unpacking(LocalSources(), "a.cbf") == LocalSources()
