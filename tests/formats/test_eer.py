"""EER: what is peculiar to events. Bits of records, strips of one stream, sums, the final image, damage."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, refuses, same, unwarned
from vfs.testing.event_writers import write_eer
from vfs.testing.gatan_writers import write_dm
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff

EVENTS = frames_of((7, 9, 21), "u1") > 200
FRAMES = EVENTS.astype("u1")


@pytest.mark.parametrize(
    ("compression", "bits"),
    [(65000, (8, 2, 2)), (65001, (7, 2, 2)), (65002, (7, 2, 2)), (65002, (5, 3, 1)), (65002, (9, 2, 4))],
)
def test_records(tmp_path: Path, compression: int, bits: tuple[int, int, int]) -> None:
    few = EVENTS & (frames_of(EVENTS.shape, "u1", seed=4) > 250)  # skips that are longer than one record
    few[3] = False
    for k, events in enumerate((EVENTS, few, ~few)):
        path = write_eer(tmp_path / f"{k}.eer", list(events), compression=compression, bits=bits)
        check_boxes(path, events.astype("u1"), count=10)


@pytest.mark.parametrize("each", [1, 2, 3, 7])
def test_sums(tmp_path: Path, each: int) -> None:
    path = write_eer(tmp_path / "a.eer", list(EVENTS))
    count = 7 // each
    twin = FRAMES[: count * each].reshape(count, each, 9, 21).sum(1, dtype="u1")
    if 7 % each:
        array = opens_incomplete(
            path, f"7 frames are {count} sums", counts={"frames_left_out": 7 % each}, frames_per_sum=each
        ).main
    else:
        array = vfs.open(path, frames_per_sum=each)
    same(array[...], twin)
    assert array.dims == ("frame", "y", "x")
    assert array.calibration["frame"] == {"scale": 0.5 * each, "offset": 0.0, "unit": "s"}
    assert array.calibration["x"] == {"scale": 5e-11, "offset": 0.0, "unit": "m"}
    assert array.attrs["metadata"]["numberOfFrames"] == 7


def gains(folder: Path, image: np.ndarray) -> list[Path]:
    """Write a gain reference in several formats."""
    write_mrc(folder, image[None], 2, name="gain.mrc")
    write_dm(folder, image, version=4, name="gain")
    write_tiff(folder / "gain.tif", [image])
    return [folder / f"gain.{ending}" for ending in ("mrc", "dm4", "tif")]


def test_a_gain_multiplies_movies(tmp_path: Path) -> None:
    image = np.random.default_rng(2).uniform(0.8, 1.2, (8, 20)).astype("f4")
    counts = FRAMES[:, :8, :20]
    write_mrc(tmp_path, counts.astype("i1"), 0, name="movie.mrc")
    movies = [write_eer(tmp_path / "a.eer", list(EVENTS[:, :8, :20])), tmp_path / "movie.mrc"]
    for path in movies:
        for gain in gains(tmp_path, image):
            array = vfs.open(path, gain=gain)
            same(array[...], counts * image)
            same(array.reduce(sum=vfs.Sum())["sum"].data, (counts * image).sum(0, dtype="f8"))
        with pytest.raises(vfs.OptionError, match=r"wrong.tif: gain has shape \(7, 20\), a frame has \(8, 20\)$"):
            vfs.open(path, gain=write_tiff(tmp_path / "wrong.tif", [image[:7]]))


def test_a_gain_of_a_falcon_camera_divides(tmp_path: Path) -> None:
    image = np.random.default_rng(2).uniform(80, 120, (8, 20)).astype("f4")
    image[3, 4] = 0
    factors = np.divide(image.mean(dtype="f8"), image, out=np.zeros(image.shape), where=image > 0).astype("f4")
    movie = write_eer(tmp_path / "a.eer", list(EVENTS[:, :8, :20]))
    reference = write_tiff(tmp_path / "ref.gain", [image])
    same(vfs.open(movie, gain=reference)[...], FRAMES[:, :8, :20] * factors)
    fine = vfs.open(movie, super_resolution=2)[...]
    finer = factors.repeat(2, 0).repeat(2, 1)
    same(vfs.open(movie, gain=reference, super_resolution=2)[...], fine * finer)
    same(vfs.open(movie, gain=factors, super_resolution=2)[...], fine * finer)
    same(vfs.open(movie, gain=finer, super_resolution=2)[...], fine * finer)
    refuses(
        movie, "gain has shape (4, 20), a frame has (16, 40)", kind=vfs.OptionError, gain=image[:4], super_resolution=2
    )


@pytest.mark.parametrize("bits", [(7, 2, 2), (5, 3, 1)])
def test_places_in_pixels(tmp_path: Path, bits: tuple[int, int, int]) -> None:
    path = write_eer(tmp_path / "a.eer", list(EVENTS), compression=65002, bits=bits)
    refuses(path, "super_resolution=2", "multiple of", kind=vfs.OptionError, super_resolution=2)
    path = write_eer(tmp_path / "a.eer", list(EVENTS[:, :8, :20]), compression=65002, bits=bits)
    finest = 1 << min(bits[1:])
    for parts in (2, 4):
        if parts > finest:
            refuses(path, "super_resolution=4", "up to 2", kind=vfs.OptionError, super_resolution=4)
            continue
        array = vfs.open(path, super_resolution=parts)
        same(array[...].reshape(7, 8, parts, 20, parts).sum((2, 4), dtype="u1"), FRAMES[:, :8, :20])
        assert array.calibration["x"] == {
            "scale": 5e-11 / parts,
            "offset": -5e-11 / parts * (parts - 1) / 2,
            "unit": "m",
        }
        check_boxes(path, array[...], count=5, super_resolution=parts)
        seven = vfs.open(path, super_resolution=parts, frames_per_sum=7)
        same(seven[...], array[...].sum(0, dtype="u1")[None])
    for wrong in (0, 3, 16):
        refuses(path, f"super_resolution={wrong}", kind=vfs.OptionError, super_resolution=wrong)


def test_many_frames_are_counted_in_16_bits(tmp_path: Path) -> None:
    events = frames_of((300, 3, 4), "u1") > 10
    events[:, 1] = True
    path = write_eer(tmp_path / "a.eer", list(events))
    array = vfs.open(path, frames_per_sum=300)
    same(array[...], events.sum(0, dtype="u2")[None])
    assert array[0, 1, 2] == 300
    assert vfs.open(path, frames_per_sum=100).dtype == np.uint8


def split(path: Path) -> None:
    """Turn the only strip of the first page into two that do not follow on each other."""
    data = bytearray(path.read_bytes())
    (at,) = struct.unpack_from("<Q", data, 8)
    (count,) = struct.unpack_from("<Q", data, at)
    entries = {struct.unpack_from("<H", data, at + 8 + 20 * k)[0]: at + 8 + 20 * k for k in range(count)}
    (start,) = struct.unpack_from("<Q", data, entries[273] + 12)
    (size,) = struct.unpack_from("<Q", data, entries[279] + 12)
    moved = len(data)
    data += data[start + 5 : start + size]
    for tag, values in ((273, (start, moved)), (279, (5, size - 5))):
        struct.pack_into("<QQ", data, entries[tag] + 4, 2, len(data))
        data += struct.pack("<QQ", *values)
    path.write_bytes(data)


def test_strips_are_one_stream(tmp_path: Path) -> None:
    path = write_eer(tmp_path / "a.eer", list(EVENTS))
    split(path)
    check_boxes(path, FRAMES, count=10)
    same(vfs.open(path, frames_per_sum=7)[...], FRAMES.sum(0, dtype="u1")[None])


def test_the_final_image(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    total = frames_of((9, 21), "f4")
    path = write_eer(tmp_path / "a.tif", list(EVENTS))
    with tifffile.TiffWriter(path, append=True) as file:
        file.write(total, metadata=None)
    for name in ("a.tif", "a.eer"):
        path = path.rename(tmp_path / name)
        group = vfs.open_group(path)
        same(group.main[...], FRAMES)
        same(group["final_image"][...], total)
    image = tmp_path / "b.eer"
    tifffile.imwrite(image, total)
    refuses(image, "b.eer", "found none", "format='tiff'", kind=vfs.FormatError)


def test_truncated(tmp_path: Path) -> None:
    path = write_eer(tmp_path / "a.eer", list(EVENTS), metadata=False)
    whole = path.read_bytes()
    found = set()
    for size in range(len(whole) - 1, 8, -13):
        path.write_bytes(whole[:size])
        with pytest.raises(vfs.VfsError, match=r"a\.eer"):
            vfs.open(path)
        with unwarned(), suppress(vfs.VfsError):
            got = vfs.open(path, allow_incomplete=True)[...]
            found.add(len(got))
            for shown, twin in zip(got, FRAMES, strict=False):
                assert not shown.any() or (shown == twin).all()
    assert found == {1, 2, 3, 4, 5, 6, 7}


def test_garbled(tmp_path: Path) -> None:
    path = write_eer(tmp_path / "a.eer", list(EVENTS), compression=65002, bits=(3, 1, 1))
    refuses(path, "9 to 16 bits, found 3 + 1 + 1", kind=vfs.FormatError)
    path = write_eer(tmp_path / "a.eer", [*EVENTS, EVENTS[0, :5]])
    refuses(path, "frame 7 has 5 × 21", kind=vfs.FormatError)
    path = write_eer(tmp_path / "a.eer", list(EVENTS), tags={257: (4, [1 << 30], 1)})
    refuses(path, "1,073,741,824", kind=vfs.FormatError)
    path = write_eer(tmp_path / "a.eer", list(EVENTS), tags={257: (4, [8], 1)})  # more pixels than a frame has
    with pytest.raises(vfs.VfsError, match="the events of frame 2 do not decode"):
        vfs.open(path)[2]
    data = bytearray(write_eer(tmp_path / "a.eer", list(EVENTS)).read_bytes())
    first = struct.unpack_from("<Q", data, 8)
    data[-8:] = struct.pack("<Q", *first)
    path.write_bytes(data)
    refuses(path, "run in a circle", kind=vfs.FormatError)


def test_metadata_that_cannot_be_understood(tmp_path: Path) -> None:
    for text in (b"<metadata><item", b"<metadata><!ENTITY a 'b'></metadata>", b"<metadata></metadata>"):
        path = write_eer(tmp_path / "a.eer", list(EVENTS), metadata=False, tags={65001: (7, text, len(text))})
        array = vfs.open(path)
        same(array[...], FRAMES)
        assert array.attrs["metadata"] == {}


def test_refused(tmp_path: Path) -> None:
    path = write_eer(tmp_path / "a.eer", list(EVENTS))
    for wrong in (0, 8):
        refuses(path, f"frames_per_sum={wrong}", "1 to 7", kind=vfs.OptionError, frames_per_sum=wrong)
