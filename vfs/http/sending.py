"""Sends large bodies in a thread beside the event loop, without copying them.

The kernel copies what is sent to memory of its own: 512 KiB take as long as all that the event loop has to do for the
request. `Sender` has that done by a thread that never needs the interpreter (`vfs.kernels.sending`), so that a second
processor takes part. A `SendingTransport` keeps what one connection sends in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np

from vfs import kernels

BESIDE = 128 << 10
"""Bytes of a body that is worth a job if other connections are asking, too. The way to the thread takes some 15 µs."""
ALONE = 1 << 20
"""Bytes of a body that is always worth a job."""
AHEAD = 8 << 20
"""Bytes of jobs that wait at most, unless they are always worth one: more of them leave the processor's cache before
they are sent. Of 512 KiB over 32 connections a request took 225 µs without this limit, 175 with it, 195 with 3 MiB.
"""
LATELY = 0.001
"""Seconds in which another connection must have sent something for a connection not to be alone."""
PATIENCE = 5.0  # seconds that the thread has to end
_JOB = struct.Struct("=6q")
_DONE = struct.Struct("=2q")
_MANY = 64  # jobs whose ends are read at once
_NOTHING = np.empty(0, np.uint8)


class Sender:
    """Runs the thread that sends. All methods are called in the thread of the event loop.

    Attributes:
        loop: the event loop.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._numbers = count()
        self._jobs: dict[int, tuple[Sequence[np.ndarray], Callable[[int], None]]] = {}  # memory, and who is told
        self._ahead = 0  # bytes of jobs that wait
        self._last: tuple[object, float] = None, 0.0  # who sent last, and when
        self._ready = False
        self._jobs_out, self._jobs_in = os.pipe2(os.O_CLOEXEC)
        self._done_out, self._done_in = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._jobs_in, False)
        os.set_blocking(self._done_out, False)
        self._thread = threading.Thread(target=self._run, name="vfs-send", daemon=True)

    def begin(self) -> None:
        """Start the thread. It loads its kernel; until then nobody is told that it is `wanted`."""
        self.loop.add_reader(self._done_out, self._end)
        self._thread.start()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they would interrupt what waits here
        kernels.sending.send(-1, -1)
        self._ready = True
        kernels.sending.send(self._jobs_out, self._done_in)

    def wanted(self, who: object, nbytes: int) -> bool:
        """Return True if a connection gains if its next bytes are sent by the thread."""
        if nbytes < BESIDE or not self._ready:
            return False
        other, at = self._last
        now = self.loop.time()
        self._last = who, now
        return nbytes >= ALONE or (other is not who and now - at < LATELY and self._ahead < AHEAD)

    def start(self, fd: int, parts: Sequence[memoryview], told: Callable[[int], None]) -> bool:
        """Have bytes sent to a socket that does not block. Their memory is kept until it is over.

        Args:
            fd: descriptor of the socket.
            parts: one or two, none of them empty.
            told: called with the number of bytes that the socket took.

        Returns: False if too many jobs wait.
        """
        memory = [np.frombuffer(part, np.uint8) for part in parts]
        body, head = memory[-1], memory[0] if len(memory) > 1 else _NOTHING
        number = next(self._numbers)
        try:
            os.write(self._jobs_in, _JOB.pack(number, fd, head.ctypes.data, head.size, body.ctypes.data, body.size))
        except OSError:  # the pipe is full, or closed
            return False
        self._jobs[number] = memory, told
        self._ahead += sum(part.nbytes for part in parts)
        return True

    def _end(self) -> None:
        with suppress(BlockingIOError):
            for number, sent in _DONE.iter_unpack(os.read(self._done_out, _MANY * _DONE.size)):
                memory, told = self._jobs.pop(number)
                self._ahead -= sum(part.nbytes for part in memory)
                told(sent)

    def close(self) -> None:
        """End the thread. What it is sending has some seconds to end."""
        os.close(self._jobs_in)
        if self._thread.ident is not None:
            self.loop.remove_reader(self._done_out)
            self._thread.join(PATIENCE)
        if not self._thread.is_alive():
            for pipe in (self._jobs_out, self._done_in, self._done_out):
                os.close(pipe)


class SendingTransport(asyncio.Transport):
    """Writes to the socket of a transport: large bodies by a `Sender`, everything in its order, nothing copied.

    asyncio's own transport copies what the socket does not take at once (before Python 3.12).

    Args:
        transport: the transport of a socket, without TLS.
        flow: its protocol, which is told while something waits for room in the socket.
        sender: sends large bodies.
    """

    def __init__(self, transport: asyncio.Transport, flow: asyncio.Protocol, sender: Sender) -> None:
        super().__init__()
        self._transport = transport
        self._flow = flow
        self._sender = sender
        self._socket = transport.get_extra_info("socket")
        self._own: socket.socket | None = None  # the same, once something waits
        self._parts: deque[memoryview] = deque()  # what is left to send
        self._sending = False  # the thread is at it
        self._lent = False  # others have the connection
        self._closing = False  # once all of it is sent
        self._lost = False  # the connection has ended; what was written before is still sent

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing:
            self._transport.resume_reading()

    def lend(self) -> int | None:
        """Leave the connection to others, until it is `taken_back`. Nothing is written meanwhile.

        Returns: its descriptor; None if it cannot be left just now.
        """
        if self._parts or self._closing or self._lost:
            return None
        try:
            fd = self._kept().fileno()
        except OSError:
            return None
        self._transport.pause_reading()
        self._lent = True
        return fd

    def taken_back(self) -> None:
        """Go on with a connection that was lent."""
        self._lent = False
        if self._lost:
            self._let_go()
        elif self._closing:
            self._transport.close()
        else:
            self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.send(b"", memoryview(data))

    def send(self, head: bytes, body: memoryview) -> None:
        """Write two parts together. The memory of the second one must not be used again."""
        if self._lost or self._closing:
            return
        waits = bool(self._parts)
        self._parts.extend(part for part in (memoryview(head), body) if part.nbytes)
        if not waits and self._parts:
            self._go()
            if self._parts:
                self._flow.pause_writing()

    def _go(self, beside: bool = True) -> None:
        """Send what is left, or as much of it as the socket takes.

        Args:
            beside: the thread may do it.
        """
        parts = [self._parts[k] for k in range(min(2, len(self._parts)))]
        try:
            if beside and self._sender.wanted(self, parts[-1].nbytes):
                self._sending = self._sender.start(self._kept().fileno(), parts, self._told)
                if self._sending:
                    return
            self._take_out(os.writev((self._own or self._socket).fileno(), parts))
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # the client has gone
            self.abort()
        self._wait(beside)

    def _kept(self) -> socket.socket:
        """Return the socket with a descriptor of its own.

        It must not become another file's while the thread writes to it, and asyncio lets nobody wait for that of a
        transport.

        Raises:
            OSError: there is none left.
        """
        if self._own is None:
            like = self._socket
            self._own = socket.socket(like.family, like.type, like.proto, fileno=os.dup(like.fileno()))
        return self._own

    def _wait(self, beside: bool) -> None:
        """Go on when the socket has room, if anything is left."""
        if self._parts:
            try:
                self._sender.loop.add_writer(self._kept(), self._again, beside)
            except OSError:
                self.abort()

    def _again(self, beside: bool) -> None:
        self._sender.loop.remove_writer(self._kept())
        self._go(beside)
        self._end()

    def _told(self, sent: int) -> None:
        """Go on when the thread has sent some bytes."""
        self._sending = False
        self._take_out(sent)
        self._wait(sent > 0)  # the thread cannot say why nothing was sent: writing here is an error then
        self._end()

    def _take_out(self, sent: int) -> None:
        while self._parts and sent >= self._parts[0].nbytes:
            sent -= self._parts.popleft().nbytes
        if self._parts and sent:
            self._parts[0] = self._parts[0][sent:]

    def _end(self) -> None:
        """Go on with what waits until all is sent."""
        if self._parts or self._sending:
            return
        if self._lost:
            self._let_go()
        else:
            self._flow.resume_writing()
            if self._closing:
                self._transport.close()

    def close(self) -> None:
        """Close the connection when all is sent."""
        if self._lent and self._own is not None:
            self._closing = True
            with suppress(OSError):  # it may have ended by itself
                self._own.shutdown(socket.SHUT_RD)  # those who have it take this for the end of the client's requests
        elif self._parts and not self._lost:
            self._closing = True
            self._transport.pause_reading()
        else:
            self._transport.close()

    def abort(self) -> None:
        self._closing = True
        self._drop()
        self._transport.abort()

    def lost(self, error: Exception | None) -> None:
        """Say that the connection has ended. A client that has all it asked for under way may have said so itself."""
        self._lost = True
        if error is not None:
            self._drop()
        elif not self._parts:
            self._let_go()

    def _drop(self) -> None:
        """Send nothing more."""
        if self._own is not None and (self._sending or self._lent):
            with suppress(OSError):  # it may have ended by itself
                self._own.shutdown(socket.SHUT_RDWR)
        elif self._own is not None:
            self._sender.loop.remove_writer(self._own)
        self._parts.clear()
        if self._lost:
            self._let_go()

    def _let_go(self) -> None:
        """Close the descriptor, unless somebody uses it: then this is called again."""
        if self._own is not None and not (self._sending or self._lent):
            self._own.close()
            self._own = None
