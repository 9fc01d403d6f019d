"""Pictures as arithmetic: what is drawn is what was given, read back from every way in which it can be shown."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from contextvars import copy_context
from importlib.resources import files

import numpy as np
import pytest

from vfs.errors import OptionError
from vfs.pictures.colour_maps import ANCHORS, choose
from vfs.pictures.picture import bars, contrast, enlarged, half_blocks, kitty, letters, png, shaded, shares, sixel

# Numbers that percent can say
PIXELS = np.random.default_rng(3).choice(np.array([0, 51, 102, 153, 204, 255], np.uint8), (13, 9, 3))


def read_png(data: bytes) -> np.ndarray:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = {}, 8
    while at < len(data):
        (length,), kind = struct.unpack_from(">I", data, at), data[at + 4 : at + 8]
        parts[kind] = data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + parts[kind]),)
        at += 12 + length
    columns, rows, *how = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert how == [8, 2, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(rows, -1)
    assert not lines[:, 0].any()
    assert parts[b"IEND"] == b""
    return lines[:, 1:].reshape(rows, columns, 3)


def read_sixel(text: str) -> np.ndarray:
    found = re.fullmatch(r'\x1bP0;1q"1;1;(\d+);(\d+)((?:#\d+;2;\d+;\d+;\d+)*)([^\x1b]*)\x1b\\', text)
    assert found
    columns, rows = int(found[1]), int(found[2])
    palette = {
        int(n): [round(int(v) * 2.55) for v in rest.split(";")]
        for n, rest in re.findall(r"#(\d+);2;([\d;]+)", found[3])
    }
    pixels = np.full((rows + 6, columns, 3), -1)
    for band, line in enumerate(found[4].split("-")):
        for layer in line.split("$"):
            colour = re.match(r"#(\d+)", layer)
            assert colour
            at = 0
            for count, mark in re.findall(r"(?:!(\d+))?([?-~])", layer[colour.end() :]):
                for _ in range(int(count or 1)):
                    for k in range(6):
                        if (ord(mark) - 63) >> k & 1:
                            pixels[6 * band + k, at] = palette[int(colour[1])]
                    at += 1
    assert (pixels[rows:] == -1).all()
    return pixels[:rows]


def test_graphics_hold_every_pixel() -> None:
    np.testing.assert_array_equal(read_png(png(PIXELS)), PIXELS)
    np.testing.assert_array_equal(read_sixel(sixel(PIXELS)), PIXELS)
    large = np.random.default_rng(4).integers(0, 256, (60, 50, 3)).astype(np.uint8)  # of more colours than sixel has
    assert np.abs(read_sixel(sixel(large)) - large).max() <= 28
    shown = kitty(large)
    parts = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", shown)
    assert "".join(f"\x1b_G{keys};{data}\x1b\\" for keys, data in parts) == shown
    assert [keys for keys, _ in parts] == ["a=T,f=100,q=2,m=1", *["m=1"] * (len(parts) - 2), "m=0"]
    assert max(len(data) for _, data in parts) == 4096
    np.testing.assert_array_equal(read_png(base64.b64decode("".join(data for _, data in parts))), large)


def test_half_blocks() -> None:
    lines = half_blocks(PIXELS, True).split("\n")
    assert len(lines) == 7
    for row, line in enumerate(lines):
        assert line.endswith("\x1b[0m")
        cells, now = [], None
        for codes, marks in re.findall(r"(?:\x1b\[38;2;([\d;]+)m)?(▀+)", line.removesuffix("\x1b[0m")):
            now = [int(n) for n in codes.replace(";48;2;", ";").split(";")] if codes else now
            cells += [now] * len(marks)
        below = PIXELS[2 * row + 1] if 2 * row + 1 < len(PIXELS) else np.zeros((9, 3))
        np.testing.assert_array_equal(cells, np.concatenate([PIXELS[2 * row], below], axis=1))
    few = half_blocks(np.array([[[255, 0, 0], [8, 8, 8]], [[255, 255, 255], [0, 0, 0]]], np.uint8), False)
    assert few == "\x1b[38;5;196;48;5;231m▀\x1b[38;5;232;48;5;232m▀\x1b[0m"


def test_letters_and_bars() -> None:
    dark, light = np.zeros((1, 4, 3), np.uint8), np.full((1, 4, 3), 255, np.uint8)
    assert letters(np.concatenate([light, light, dark, dark, light, dark, light])) == "@@@@\n\n====\n@@@@".replace(
        "====", letters(np.concatenate([light, dark]))
    )
    assert bars(np.array([0, 1e-9, 0.5, 0.75, 1.0]), 2, True) == ["   ▄█", " ▁███"]
    assert bars(np.array([0, 1e-9, 0.5, 1.0]), 2, False) == ["   #", " ###"]
    assert enlarged(PIXELS, 30, 100, 8).shape == (26, 18, 3)
    assert enlarged(PIXELS, 3, 3, 8).shape == PIXELS.shape


def test_contrast_shows_faint_spots_and_leaves_images_as_they_are() -> None:
    y, x = np.mgrid[:64, :64]
    noise = np.random.default_rng(1).poisson(1.0, (64, 64))
    pattern = noise + np.where(np.hypot(y - 32, x - 32) < 5, 60_000, 0) + np.where(np.hypot(y - 10, x - 10) < 3, 400, 0)
    shown = shaded(pattern.astype(float), *contrast(pattern.astype(float)))
    assert shown[32, 32].tolist() == [255, 255, 255]
    assert shown[10, 10, 0] > 40 > 4 * np.median(shown)  # a spot of less than 1 % of the brightest
    assert contrast(np.linspace(0, 1, 1000))[2] == 1.0
    hot = np.zeros((100, 100))
    hot[5, 5] = 3
    assert contrast(hot)[:2] == (0, 3)


MARKED = {
    "all bits": (np.uint32, 2**32 - 1),
    "16 bits": (np.uint16, 2**16 - 1),
    "negative": (np.int32, -1),
}


@pytest.mark.parametrize(("dtype", "mark"), MARKED.values(), ids=MARKED)
def test_marks_of_pixels_leave_the_contrast_alone(dtype: type, mark: int) -> None:
    plain = np.random.default_rng(0).poisson(40, (60, 80)).astype(dtype)
    marked = plain.copy()
    marked[26:33] = mark
    low, high, _ = contrast(marked)
    assert (low, high) == pytest.approx(contrast(np.delete(plain, np.s_[26:33], axis=0))[:2], abs=1)
    if mark > 0:  # means of a smaller picture lie between a mark and numbers
        means = marked.reshape(20, 3, 16, 5).mean(axis=(1, 3))
        assert contrast(means)[1] < 70
    labels = np.where(marked == mark, mark, 0).astype(dtype)
    assert contrast(labels)[:2] == (min(0, mark), max(0, mark))  # these are no counts


@pytest.mark.parametrize(
    ("picture", "shown"),
    [
        (np.full((1, 2), 7.0), [[[128] * 3] * 2]),
        (np.array([[0.0, np.nan, 1.0]]), [[[0, 0, 0], [40, 60, 120], [255, 255, 255]]]),
        (np.array([[np.nan, np.inf]]), [[[40, 60, 120]] * 2]),
        (np.array([[-1e308, 1e308]]), [[[0, 0, 0], [255, 255, 255]]]),
    ],
)
def test_odd_numbers_have_a_colour(picture: np.ndarray, shown: list[list[list[int]]]) -> None:
    assert shaded(picture, *contrast(picture)).tolist() == shown


def test_shares_of_numbers_whose_difference_is_none() -> None:
    assert shares(np.array([-1.7e308, 0.0, 1.7e308]), -1.7e308, 1.7e308).tolist() == [0, 0.5, 1]
    assert shares(np.array([2.0, 3.0]), 2.0, 2.0).tolist() == [0.5, 0.5]


def test_colours_are_those_of_the_page() -> None:
    text = files("vfs.page").joinpath("site", "colours.js").read_text()
    said = {name: re.findall(r"[0-9a-f]{6}", row) for name, row in re.findall(r"^  (\w+): \[(.*)\],$", text, re.M)}
    assert said == {name: row.split() for name, row in ANCHORS.items()}
    picture = np.linspace(0, 1, 9)[None]
    grey = shaded(picture, 0, 1, 1)
    assert (grey == grey[..., :1]).all()
    copy_context().run(choose, "viridis")
    assert (shaded(picture, 0, 1, 1) == grey).all()  # elsewhere nothing was chosen

    def chosen() -> np.ndarray:
        choose("viridis")
        return shaded(picture, 0, 1, 1)

    assert copy_context().run(chosen)[0, [0, -1]].tolist() == [[0x44, 0x01, 0x54], [0xFD, 0xE7, 0x25]]
    with pytest.raises(OptionError, match="expected grey, viridis"):
        choose("jet")
