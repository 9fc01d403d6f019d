"""Plays an instrument that is still writing: a finished set is written again, a few bytes at a time.

    recording = Recording(["scan.hdr", "scan001.mib"], "out")
    while recording.write(4096):
        ...                                # open out/scan.hdr with follow=True, read what is there

`python -m vfs.testing.recording FOLDER SET... --rate 20MB` does the same from a shell, at a steady rate.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from vfs.engine.chunking import as_bytes

SMALL = 1 << 14  # bytes: a file with fewer is written at once, as programs do with text and headers


class Recording:
    """Writes copies of files, one after the other.

    Args:
        files: the files, in the order in which an instrument writes them.
        folder: where the copies are written.
        preallocate: give each file its full size at once, of zeros, before it is written.
        at_once: bytes of a file that is written in one piece.

    Attributes:
        paths: the copies.
        left: bytes that are yet to be written.
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        folder: str | os.PathLike[str],
        preallocate: bool = False,
        at_once: int = SMALL,
    ) -> None:
        self._files = [Path(file) for file in files]
        self._preallocate, self._at_once = preallocate, at_once
        self.paths = [Path(folder) / file.name for file in self._files]
        self._sizes = [file.stat().st_size for file in self._files]
        self.left = sum(self._sizes)
        self._at = (0, 0)  # number of a file, byte of it

    def write(self, nbytes: int) -> bool:
        """Write so many bytes more, perhaps of several files. Returns False if nothing is left."""
        while nbytes > 0 and self._at[0] < len(self._files):
            number, byte = self._at
            size = self._sizes[number]
            count = size if size <= self._at_once else min(nbytes, size - byte)
            with self._files[number].open("rb") as source:
                source.seek(byte)
                data = source.read(count)
            self._put(number, byte, data)
            nbytes -= count
            self.left -= count
            self._at = (number, byte + count) if byte + count < size else (number + 1, 0)
        return self._at[0] < len(self._files)

    def _put(self, number: int, byte: int, data: bytes) -> None:
        path = self.paths[number]
        if byte == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as made:
                if self._preallocate:
                    made.truncate(self._sizes[number])
        with path.open("r+b") as file:
            file.seek(byte)
            file.write(data)

    def finish(self) -> None:
        """Write all that is left."""
        self.write(self.left)

    def begin_anew(self) -> None:
        """Begin again at the first file, as if the same names were used for another acquisition."""
        for path in self.paths:
            path.unlink(missing_ok=True)
        self.left, self._at = sum(self._sizes), (0, 0)


def main(given: Sequence[str] | None = None) -> None:
    """Write the files of a set again at a steady rate."""
    parser = argparse.ArgumentParser(prog="python -m vfs.testing.recording", description=main.__doc__)
    parser.add_argument("folder", help="where the copies are written")
    parser.add_argument("files", nargs="+", help="the files of a set, in the order in which they are written")
    parser.add_argument("--rate", default="20MB", help="bytes per second, such as 20MB (the default)")
    parser.add_argument("--preallocate", action="store_true", help="give each file its full size at once")
    how = parser.parse_args(given)
    recording = Recording(how.files, how.folder, how.preallocate)
    rate, pause = as_bytes(how.rate, "rate"), 0.05
    began, done = time.monotonic(), 0
    while recording.left:
        wanted = int((time.monotonic() - began + pause) * rate)
        recording.write(max(0, wanted - done))
        done = wanted
        time.sleep(pause)


if __name__ == "__main__":
    main()
