"""Finds out which graphics the terminal of our output can show.

It asks the terminal itself, because environment variables outlive the terminal that set them, and
pass through ssh, sudo and tmux. Every terminal answers the question for its attributes (DA1);
attribute 4 is sixel graphics. Kitty's own question comes before that one; terminals that do not
know it stay silent.

It asks nothing if the output does not go to a terminal, or if this process is in the background of
the terminal, where another program would receive the answer.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import termios
import time
from dataclasses import dataclass
from fcntl import ioctl
from struct import unpack

import numpy as np

from vfs.errors import OptionError
from vfs.pictures.picture import enlarged, half_blocks, kitty, letters, sixel

WAYS = ("kitty", "sixel", "truecolor", "256", "plain")
_GRAPHICS = WAYS[:2]
_WAIT = 1.0  # seconds that a terminal has for its answer, which may come over a slow network
_ANSWERED = re.compile(rb"\x1b\[\?[\d;]*c")
_CELL = (8, 16)  # pixels of a character, (width, height), if the terminal does not say
_LARGEST = 720  # pixels along a side of a picture, at most
_ELSEWHERE = (80, 40)  # (columns, rows) of text if the size of the terminal is unknown


@dataclass(frozen=True)
class Screen:
    """Draws pictures as text for a terminal.

    Attributes:
        way: the way of drawing, one of `WAYS`.
        blocks: True if block characters (█) can be written.
        columns, rows: size of the terminal in characters.
        cell: width and height of a character in pixels.
    """

    way: str
    blocks: bool = True
    columns: int = _ELSEWHERE[0]
    rows: int = _ELSEWHERE[1]
    cell: tuple[int, int] = _CELL

    @property
    def room(self) -> tuple[int, int]:
        """Return (rows, columns), in pixels, of the largest picture that leaves room for some lines of text."""
        columns, rows = max(16, self.columns - 1), max(16, self.rows - 9)
        if self.way in _GRAPHICS:
            return min(_LARGEST, rows * self.cell[1]), min(_LARGEST, columns * self.cell[0])
        return 2 * rows, columns

    def shown(self, pixels: np.ndarray) -> str:
        """Turn a picture, uint8[rows, columns, 3], into the text that draws it on the terminal."""
        pixels = enlarged(pixels, *self.room, most=64 if self.way in _GRAPHICS else 8)
        if self.way == "kitty":
            return kitty(pixels)
        if self.way == "sixel":
            return sixel(pixels)
        return letters(pixels) if self.way == "plain" else half_blocks(pixels, self.way == "truecolor")


def screen(way: str = "auto") -> Screen:
    """Return the `Screen` that draws pictures on stdout.

    Args:
        way: one of `WAYS`, whether or not the terminal knows it; or "auto", the best that the
            terminal knows.

    Raises:
        OptionError: `way` has another value.
    """
    if way not in (*WAYS, "auto"):
        raise OptionError(f"--graphics {way}: expected auto, {', '.join(WAYS)}")
    blocks = "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()
    if not sys.stdout.isatty():
        return Screen("plain" if way == "auto" else way, blocks)
    columns, rows = shutil.get_terminal_size(_ELSEWHERE)
    return Screen(_way(blocks) if way == "auto" else way, blocks, columns, rows, _cell())


def _way(blocks: bool) -> str:
    """Choose the way of drawing on the terminal, one of `WAYS`."""
    term, colours = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "")
    if os.environ.get("NO_COLOR") or term in ("", "dumb", "unknown"):
        return "plain"
    if graphics := _graphics(term):
        return graphics
    if not blocks:
        return "plain"
    if colours in ("truecolor", "24bit") or term.endswith("-direct"):
        return "truecolor"
    return "256" if "256" in term else "plain"


def _graphics(term: str) -> str:
    """Ask the terminal for its graphics, and return "kitty", "sixel" or ""."""
    inside = bool(os.environ.get("TMUX")) or term.startswith(("screen", "tmux"))
    kitty = "" if inside else "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # tmux would show it as a title
    answer = b"" if term.startswith(("linux", "vt")) else _ask(f"{kitty}\x1b[c".encode())
    if b"\x1b_Gi=31;OK" in answer:
        return "kitty"
    said = _ANSWERED.search(answer)
    return "sixel" if said and b"4" in re.findall(rb"\d+", said[0])[1:] else ""


def _ask(question: bytes) -> bytes:
    """Ask the terminal, and return its answer; b"" if it does not answer or cannot be asked.

    Args:
        question: bytes to write to the terminal. They end with DA1, which every terminal answers, so
            the end of the answer is known.
    """
    try:
        fd = os.open(os.ttyname(sys.stdout.fileno()), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if os.tcgetpgrp(fd) != os.getpgrp() or select.select([fd], [], [], 0)[0]:
            return b""  # this process is in the background, or the user has typed ahead: that is not ours to read
        return _talk(fd, question)
    except (OSError, termios.error):
        return b""
    finally:
        os.close(fd)


def _talk(fd: int, question: bytes) -> bytes:
    """Write a question to a terminal, and return what it answers within `_WAIT` seconds."""
    before = termios.tcgetattr(fd)
    quiet = [*before]
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    answer, end = b"", time.monotonic() + _WAIT
    try:
        termios.tcsetattr(fd, termios.TCSANOW, quiet)
        os.write(fd, question)
        while not _ANSWERED.search(answer) and (left := end - time.monotonic()) > 0:
            if select.select([fd], [], [], left)[0]:
                answer += os.read(fd, 1024) or b"\x1b[?c"  # the terminal was closed: end the loop
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)  # FLUSH drops a late answer, which would look like typing
    return answer


def _cell() -> tuple[int, int]:
    """Return (width, height) of a character in pixels; a usual size if the terminal does not say it."""
    try:
        rows, columns, wide, high = unpack("HHHH", ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return _CELL
    return (wide // columns or _CELL[0], high // rows or _CELL[1]) if columns and rows else _CELL
