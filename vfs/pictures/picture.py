"""Turns numbers into pictures, and pictures into something that shows them.

It chooses contrast and colours, and writes a picture as PNG, as graphics of a terminal (kitty,
sixel), as coloured half blocks, or as plain letters.

Pictures are uint8[rows, columns, 3]. Everything here is arithmetic on small arrays; nothing knows
of files or of a terminal.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib

import numpy as np

from vfs.pictures.colour_maps import colours

_MARK = 65535  # the least number that marks pixels without a measurement: one less than a power of two
_APART = 8  # times as large as all measured numbers
_SEVERAL = 8  # different numbers below a mark
_PLATEAU = 0.005  # of all numbers: so many are -1 or -2 in gaps between modules
_NO_NUMBER = (40, 60, 120)  # the colour of NaN and infinity
_LEVELS = 200  # number of different shades: sixel has 256 colours
_LETTERS = " .:-=+*#%@"
_BARS = " ▁▂▃▄▅▆▇█"


def contrast(picture: np.ndarray) -> tuple[float, float, float]:
    """Choose which numbers are black and which are white.

    Diffraction patterns are dark with a few spots a thousand times brighter; images are not. So the
    darkest 0.5 % are black, the brightest 0.2 % white, and the curve between them lifts the median
    to a quarter of the brightness, but no further than a cube root does.

    Returns: (black, white, exponent of the curve).
    """
    finite = measured(picture[np.isfinite(picture)])
    if not finite.size:
        return 0.0, 0.0, 1.0
    with np.errstate(all="ignore"):  # the difference of two numbers may be beyond float64
        low, middle, high = np.percentile(finite, (0.5, 50, 99.8)).tolist()
    if not high > low:  # all numbers but a few are the same
        low, high = float(finite.min()), float(finite.max())
    at = float(shares(np.array(middle), low, high)) if high > low else 1.0
    return low, high, float(np.clip(np.log(0.25) / np.log(min(max(at, 1e-9), 0.999)), 1 / 3, 1.0))


def measured(values: np.ndarray) -> np.ndarray:
    """Leave out what X-ray detectors write where they measure nothing.

    That is a number with all bits set, in gaps and for dead pixels (in a smaller picture also means of it and others),
    or -1 and -2. The page does the same (`contrast.js`).

    Args:
        values: [n], finite.

    Returns: the others, sorted where some were left out.
    """
    if not values.size or (values.max() < _MARK and values.min() not in (-1, -2)):
        return values
    ordered = np.sort(values)
    start, most = 0, float(ordered[-1])
    if most >= _MARK and any(n > 0 and math.frexp(n)[0] == 0.5 for n in (most, most + 1)):
        half = ordered[len(ordered) // 2 :].astype(np.float64)
        apart = half[1:] / np.maximum(1, half[:-1])
        at = int(apart.argmax()) if apart.size else 0
        gap = len(ordered) // 2 + at + 1
        if apart.size and apart[at] >= _APART and len(np.unique(ordered[:gap])) >= _SEVERAL:
            ordered = ordered[:gap]
    if ordered[0] in (-1, -2) and ordered[int(_PLATEAU * len(ordered))] in (-1, -2) and ordered[-1] >= _SEVERAL:
        start = int(np.searchsorted(ordered, 0))
    return ordered[start:]


def shaded(picture: np.ndarray, low: float, high: float, exponent: float) -> np.ndarray:
    """Colour the numbers of a picture.

    Numbers become the colours of the map that was chosen, grey at first; red, green and blue samples keep theirs.
    Numbers that are not finite become blue.

    Args:
        picture: float64[rows, columns], or [rows, columns, 3] for red, green and blue.
        low, high, exponent: the numbers shown black and white, and the curve between: see `contrast`.

    Returns: uint8[rows, columns, 3].
    """
    with np.errstate(all="ignore"):
        share = shares(picture, low, high) ** exponent
    bad = ~np.isfinite(picture)
    share = np.round(np.where(bad, 0.0, share) * _LEVELS) / _LEVELS
    pixels = np.round(255 * share).astype(np.uint8)
    if picture.ndim == 2:
        pixels, bad = colours()[pixels], bad[..., None]
    return np.where(bad, np.array(_NO_NUMBER, np.uint8), pixels)


def shares(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return how far each value lies from low (0) to high (1).

    All are half way where low and high are the same. Works also where `high - low` is beyond float64.
    """
    span = high / 2 - low / 2
    return np.clip((values / 2 - low / 2) / span, 0.0, 1.0) if span > 0 else np.full(values.shape, 0.5)


def enlarged(pixels: np.ndarray, rows: int, columns: int, most: int) -> np.ndarray:
    """Draw every pixel of a picture as a square, as large as fits.

    Args:
        rows, columns: pixels that there is room for.
        most: pixels that a square may have on a side.
    """
    times = max(1, min(most, rows // max(1, pixels.shape[0]), columns // max(1, pixels.shape[1])))
    return np.repeat(np.repeat(pixels, times, axis=0), times, axis=1)


def png(pixels: np.ndarray) -> bytes:
    """Encode a picture as a PNG file."""
    rows, columns, _ = pixels.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1)

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", header)
        + part(b"IDAT", zlib.compress(lines.tobytes()))
        + part(b"IEND", b"")
    )


def kitty(pixels: np.ndarray) -> str:
    """Encode a picture in kitty's graphics protocol.

    Specification: https://sw.kovidgoyal.net/kitty/graphics-protocol/.
    """
    text = base64.standard_b64encode(png(pixels)).decode()
    parts = [text[at : at + 4096] for at in range(0, len(text), 4096)]
    first = "a=T,f=100,q=2,"  # transmit and show a PNG, answer nothing
    return "".join(
        f"\x1b_G{first if k == 0 else ''}m={int(k + 1 < len(parts))};{part}\x1b\\" for k, part in enumerate(parts)
    )


def sixel(pixels: np.ndarray) -> str:
    """Encode a picture as DEC's sixels.

    A picture is cut into bands of six rows. A band is written once for each colour in it, one
    character for each column.
    """
    values, places = np.unique(_in_256_colours(pixels).reshape(-1, 3), axis=0, return_inverse=True)
    rows, columns, _ = pixels.shape
    index = np.full((-(-rows // 6) * 6, columns), -1)
    index[:rows] = places.reshape(rows, columns)
    palette = "".join(
        f"#{k};2;{';'.join(str(round(n / 2.55)) for n in colour)}" for k, colour in enumerate(values.tolist())
    )
    lines = []
    for band in index.reshape(-1, 6, columns):
        layers = []
        for k in np.unique(band[band >= 0]).tolist():
            bits = ((band == k) << np.arange(6)[:, None]).sum(axis=0)
            layers.append(f"#{k}" + _run_lengths(bytes((63 + bits).astype(np.uint8)).decode().rstrip("?")))
        lines.append("$".join(layers))
    return f'\x1bP0;1q"1;1;{columns};{rows}{palette}{"-".join(lines)}\x1b\\'


def _in_256_colours(pixels: np.ndarray) -> np.ndarray:
    """Reduce a picture to at most 256 colours; one that has no more stays as it is."""
    if len(np.unique(pixels.reshape(-1, 3), axis=0)) <= 256:
        return pixels
    steps = np.array([5, 6, 5])
    few: np.ndarray = np.round(np.round(pixels / 255 * steps) / steps * 255).astype(np.uint8)
    return few


def _run_lengths(text: str) -> str:
    """Shorten runs of four or more equal characters to `!`, their count and the character."""
    return re.sub(r"(.)\1{3,}", lambda run: f"!{len(run[0])}{run[1]}", text)


def half_blocks(pixels: np.ndarray, many: bool) -> str:
    """Draw a picture with half blocks, two rows a line, with the terminal's codes for colours.

    Args:
        many: use 24-bit colours; otherwise the 256 colours of xterm.
    """
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros((1, *pixels.shape[1:]), np.uint8)])
    codes = [[_code(pixel, many) for pixel in row] for row in pixels.tolist()]
    lines = []
    for top, bottom in zip(codes[::2], codes[1::2], strict=True):
        line, before = "", ("", "")
        for now in zip(top, bottom, strict=True):
            line += "▀" if now == before else f"\x1b[38;{now[0]};48;{now[1]}m▀"
            before = now
        lines.append(f"{line}\x1b[0m")
    return "\n".join(lines)


def _code(pixel: list[int], many: bool) -> str:
    red, green, blue = pixel
    if many:
        return f"2;{red};{green};{blue}"
    if red == green == blue:
        return f"5;{232 + min(23, red // 10) if red < 250 else 231}"
    at = [0 if n < 48 else 1 if n < 115 else (n - 35) // 40 for n in pixel]  # xterm's steps: 0, 95, 135, 175, 215, 255
    return f"5;{16 + 36 * at[0] + 6 * at[1] + at[2]}"


def letters(pixels: np.ndarray) -> str:
    """Draw a picture in black and white with letters: one for two rows, the brighter the denser."""
    light = pixels.mean(axis=2)
    if len(light) % 2:
        light = np.concatenate([light, light[-1:]])
    shades = np.round((light[::2] + light[1::2]) / 2 / 255 * (len(_LETTERS) - 1)).astype(int)
    return "\n".join("".join(_LETTERS[shade] for shade in row).rstrip() for row in shades.tolist())


def bars(heights: np.ndarray, rows: int, blocks: bool) -> list[str]:
    """Draw numbers between 0 and 1 as bars; return lines of text.

    A number above 0 has a visible bar, however short.

    Args:
        rows: lines that a bar of 1 takes.
        blocks: draw with characters of an eighth of a line; otherwise with `#`.
    """
    steps = len(_BARS) - 1 if blocks else 1
    tall = np.where(heights > 0, np.maximum(1, np.round(heights * rows * steps)), 0)
    marks = _BARS if blocks else " #"
    return [
        "".join(marks[int(n)] for n in np.clip(tall - row * steps, 0, steps)).rstrip()
        for row in range(rows - 1, -1, -1)
    ]
