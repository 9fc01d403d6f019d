"""What the terminal that our output goes to can show.

It is asked itself (environment variables outlive the terminal that set them, and pass through ssh, sudo and tmux): every terminal answers
the question for its attributes (DA1), of which 4 is sixel graphics, and before that kitty's question, if it knows it. Nothing is
written or asked where output does not go to a terminal, or where we are not in its foreground: others would get the answer.
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
from vfs.picture import grown, half_blocks, kitty, letters, sixel

WAYS = ("kitty", "sixel", "truecolor", "256", "plain")
_GRAPHICS = WAYS[:2]
_WAIT = 1.0  # seconds that a terminal has to answer, at the other end of a slow line
_ANSWERED = re.compile(rb"\x1b\[\?[\d;]*c")
_CELL = (8, 16)  # pixels of a character, width and height, where the terminal does not say
_LARGEST = 720  # pixels of a picture's side
_ELSEWHERE = (80, 40)  # columns and rows where there is no terminal


@dataclass(frozen=True)
class Screen:
    """How pictures are shown, and how much room there is.

    Attributes:
        way: one of `WAYS`. blocks: block characters can be written.
        columns, rows: characters. cell: pixels of a character, width and height.
    """

    way: str
    blocks: bool = True
    columns: int = _ELSEWHERE[0]
    rows: int = _ELSEWHERE[1]
    cell: tuple[int, int] = _CELL

    @property
    def room(self) -> tuple[int, int]:
        """The most pixels that a picture may have, rows and columns, beside some lines of text."""
        columns, rows = max(16, self.columns - 1), max(16, self.rows - 9)
        if self.way in _GRAPHICS:
            return min(_LARGEST, rows * self.cell[1]), min(_LARGEST, columns * self.cell[0])
        return 2 * rows, columns

    def shown(self, pixels: np.ndarray) -> str:
        """A picture, uint8[rows, columns, 3], as what shows it when it is written to the terminal."""
        pixels = grown(pixels, *self.room, most=64 if self.way in _GRAPHICS else 8)
        if self.way == "kitty":
            return kitty(pixels)
        if self.way == "sixel":
            return sixel(pixels)
        return letters(pixels) if self.way == "plain" else half_blocks(pixels, self.way == "truecolor")


def screen(way: str = "auto") -> Screen:
    """Find out what our output goes to.

    Args:
        way: one of `WAYS` that is taken whatever there is, or "auto".

    Raises:
        OptionError: `way` is none of them.
    """
    if way not in (*WAYS, "auto"):
        raise OptionError(f"--graphics {way}: expected auto, {', '.join(WAYS)}")
    blocks = "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()
    if not sys.stdout.isatty():
        return Screen("plain" if way == "auto" else way, blocks)
    columns, rows = shutil.get_terminal_size(_ELSEWHERE)
    return Screen(_way(blocks) if way == "auto" else way, blocks, columns, rows, _cell())


def _way(blocks: bool) -> str:
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
    """The graphics that the terminal says it has, or ""."""
    inside = bool(os.environ.get("TMUX")) or term.startswith(("screen", "tmux"))
    kitty = "" if inside else "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # tmux would take it for a title
    answer = b"" if term.startswith(("linux", "vt")) else _ask(f"{kitty}\x1b[c".encode())
    if b"\x1b_Gi=31;OK" in answer:
        return "kitty"
    said = _ANSWERED.search(answer)
    return "sixel" if said and b"4" in re.findall(rb"\d+", said[0])[1:] else ""


def _ask(question: bytes) -> bytes:
    """What the terminal answers to a question that DA1 ends; nothing where it does not answer, or cannot be asked."""
    try:
        fd = os.open(os.ttyname(sys.stdout.fileno()), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if os.tcgetpgrp(fd) != os.getpgrp() or select.select([fd], [], [], 0)[0]:
            return b""  # in the background; or somebody has typed ahead, which is not ours to read
        return _talk(fd, question)
    except (OSError, termios.error):
        return b""
    finally:
        os.close(fd)


def _talk(fd: int, question: bytes) -> bytes:
    before = termios.tcgetattr(fd)
    quiet = [*before]
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    answer, end = b"", time.monotonic() + _WAIT
    try:
        termios.tcsetattr(fd, termios.TCSANOW, quiet)
        os.write(fd, question)
        while not _ANSWERED.search(answer) and (left := end - time.monotonic()) > 0:
            if select.select([fd], [], [], left)[0]:
                answer += os.read(fd, 1024) or b"\x1b[?c"  # it has hung up
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)  # whatever comes of an answer now is not taken for what somebody types
    return answer


def _cell() -> tuple[int, int]:
    """Pixels of a character, as far as the terminal says."""
    try:
        rows, columns, wide, high = unpack("HHHH", ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return _CELL
    return (wide // columns or _CELL[0], high // rows or _CELL[1]) if columns and rows else _CELL
