"""The program that reads mounts: `python mount_client.py` with tasks in JSON on standard input,
best seconds of each in JSON on standard output.

A mount is never read by the process that asked for it, and what is compared is read in turns by one
process: {"rounds": n, "tasks": [{"kind": name of a function below, "paths": [one a candidate],
"more": {…}}]} gives [[seconds of each candidate], …]. It imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import random as dice
import sys
import threading
import time
from collections.abc import Callable

PIECE = 1 << 20


def _open(path: str, cold: bool) -> int:
    fd = os.open(path, os.O_RDONLY)
    if cold:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd


def _read(fd: int, first: int, last: int) -> None:
    buffer = memoryview(bytearray(PIECE))
    while first < last:
        got = os.preadv(fd, [buffer[: min(PIECE, last - first)]], first)
        if got == 0:
            raise EOFError(f"ends at {first:,}, expected {last:,} bytes")
        first += got


def cold(path: str, drop: bool = True) -> float:
    """One reader from front to back; the kernel has no pages of the file, if they are dropped."""
    fd = _open(path, drop)
    began = time.perf_counter()
    _read(fd, 0, os.fstat(fd).st_size)
    took = time.perf_counter() - began
    os.close(fd)
    return took


def two(path: str, drop: bool = True) -> float:
    """The same by two readers, half the file each."""
    fd = _open(path, drop)
    size = os.fstat(fd).st_size
    halves = [threading.Thread(target=_read, args=(fd, a, b)) for a, b in ((0, size // 2), (size // 2, size))]
    began = time.perf_counter()
    for thread in halves:
        thread.start()
    for thread in halves:
        thread.join()
    took = time.perf_counter() - began
    os.close(fd)
    return took


def reread(path: str) -> float:
    """Once more from an open file."""
    fd = _open(path, False)
    size = os.fstat(fd).st_size
    _read(fd, 0, size)
    began = time.perf_counter()
    _read(fd, 0, size)
    took = time.perf_counter() - began
    os.close(fd)
    return took


def reopen(path: str) -> float:
    """Once more after closing and opening."""
    fd = _open(path, False)
    _read(fd, 0, os.fstat(fd).st_size)
    os.close(fd)
    began = time.perf_counter()
    fd = _open(path, False)
    _read(fd, 0, os.fstat(fd).st_size)
    os.close(fd)
    return time.perf_counter() - began


def random(path: str, drop: bool = True, count: int = 2000) -> float:
    """4 KiB here and there; the kernel has no pages of the file, if they are dropped."""
    fd = _open(path, drop)
    pages = os.fstat(fd).st_size // 4096
    places = dice.Random(3).sample(range(pages), min(count, pages))
    began = time.perf_counter()
    for page in places:
        os.pread(fd, 4096, page * 4096)
    took = time.perf_counter() - began
    os.close(fd)
    return took


def chunks(folder: str, count: int = 16, below: str = "") -> float:
    """Chunk files one after the other, each whole; the kernel has no pages of them."""
    names = [f"{folder}/{n}{below}" for n in range(count)]
    for name in names:
        os.close(_open(name, True))
    began = time.perf_counter()
    for name in names:
        fd = os.open(name, os.O_RDONLY)
        _read(fd, 0, os.fstat(fd).st_size)
        os.close(fd)
    return time.perf_counter() - began


def small(folder: str, count: int = 500, below: str = "") -> float:
    """open, read, close and stat of small files."""
    names = [f"{folder}/{n}{below}" for n in range(count)]
    began = time.perf_counter()
    for name in names:
        fd = os.open(name, os.O_RDONLY)
        os.read(fd, 1 << 16)
        os.close(fd)
        os.stat(name)
    return time.perf_counter() - began


def find(folder: str) -> float:
    """Every name below a folder with its size, as `find -size` asks for it."""
    began = time.perf_counter()
    todo = [folder]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
    return time.perf_counter() - began


KINDS: dict[str, Callable[..., float]] = {
    call.__name__: call for call in (cold, two, reread, reopen, random, chunks, small, find)
}


def main() -> None:
    asked = json.load(sys.stdin)
    best = [[float("inf")] * len(task["paths"]) for task in asked["tasks"]]
    for turn in range(asked["rounds"]):
        for found, task in zip(best, asked["tasks"], strict=True):
            for n in range(len(found)):
                k = (turn + n) % len(found)  # nobody always comes after the same one
                found[k] = min(
                    found[k], KINDS[task["kind"]](task["paths"][k], **(task.get("more") or [{}] * len(found))[k])
                )
    json.dump(best, sys.stdout)


if __name__ == "__main__":
    main()
