"""Gives the process that reads HDF5 the bytes of files that are not on this machine.

That process has no way to such files. It asks the one that started it, through a socket: `Answering` answers there with
the sources through which the set is opened, `AskedFiles` asks. A question is a JSON text, its answer `HEAD` and bytes.
Only files to which a question of the kind "join" has led can be read, and `Sources.join` keeps these within the set.
"""

from __future__ import annotations

import io
import json
import os
import socket
import struct
from typing import Any

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.model.sources import Sources
from vfs.sources.names import dirname

MAX_QUESTION_BYTES = 1 << 16  # bytes of a question
BLOCK = 1 << 16  # bytes that are asked for at once: libhdf5 reads structures in many small pieces
KEPT = 64  # blocks of a file that are kept
HEAD = struct.Struct("=iQ")  # number of the kind of the error or 0, bytes that follow
_ERRORS: tuple[type[SourceError], ...] = (SourceError, MissingSourceError, OutsideError)


class Answering:
    """Answers the questions of a process that reads an HDF5 file.

    Args:
        path: the file that is read.
    """

    def __init__(self, sources: Sources, path: str) -> None:
        self.sources = sources
        self.allowed = {path}
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def answer(self) -> bool:
        """Answer the next question. Returns False if there will be no more."""
        question = self.socket.recv(MAX_QUESTION_BYTES)
        if not question:
            return False
        try:
            kind, said = 0, self._said(*json.loads(question))
        except SourceError as error:
            kind, said = next(k for k in (2, 1, 0) if isinstance(error, _ERRORS[k])) + 1, str(error).encode()
        self.socket.send(HEAD.pack(kind, len(said)))
        for first in range(0, len(said), MAX_QUESTION_BYTES):
            self.socket.send(said[first : first + MAX_QUESTION_BYTES])
        return True

    def _said(self, verb: str, name: str, start: int = 0, size: int = 0) -> bytes:
        if verb == "join":
            folder, _, link = name.partition("\0")
            found = self.sources.join(folder, link)
            self.allowed.add(found)
            return found.encode()
        if name not in self.allowed:
            raise OutsideError(f"{name}: was not named by the file")
        if verb == "state":
            return json.dumps(self.sources.state(name)[:2]).encode()
        return self.sources.read(name, start, min(size, BLOCK))

    def close(self) -> None:
        self.socket.close()
        self.theirs.close()


class AskedFiles:
    """Asks for files, in the process that reads HDF5.

    Args:
        asked: descriptor of the other end of the socket of `Answering`.
    """

    def __init__(self, asked: int) -> None:
        self.socket = socket.socket(fileno=asked)

    def join(self, path: str, name: str) -> str:
        """Return the name of a file that the file `path` calls `name`."""
        return self._ask("join", f"{dirname(path)}\0{name}").decode()

    def state(self, name: str) -> tuple[int, int]:
        """Return (size, time of writing) of a file."""
        size, written = json.loads(self._ask("state", name))
        return size, written

    def read(self, name: str, start: int, size: int) -> bytes:
        return self._ask("read", name, start, size)

    def _ask(self, *question: Any) -> bytes:
        self.socket.send(json.dumps(question).encode())
        return self.said()

    def said(self) -> bytes:
        """Return the answer to the last question.

        Raises:
            SourceError: what the sources raise.
        """
        kind, left = HEAD.unpack(self.socket.recv(HEAD.size))
        said = b""
        while len(said) < left:
            said += self.socket.recv(MAX_QUESTION_BYTES)
        if kind:
            raise _ERRORS[kind - 1](said.decode())
        return said


class AskedFile(io.RawIOBase):
    """A file for h5py. Its bytes are asked for in blocks, of which the last ones are kept."""

    def __init__(self, files: AskedFiles, name: str, size: int) -> None:
        self.files, self.name, self.size = files, name, size
        self.at = 0
        self.blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        number, skip = divmod(self.at, BLOCK)
        block = self.blocks.pop(number, None)
        if block is None:
            block = self.files.read(self.name, number * BLOCK, BLOCK)
            while len(self.blocks) >= KEPT:
                self.blocks.pop(next(iter(self.blocks)))
        self.blocks[number] = block
        some = block[skip : skip + len(view)]
        view[: len(some)] = some
        self.at += len(some)
        return len(some)
