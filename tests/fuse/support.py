"""What the tests of mounts share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.waiting import eventually
from vfs.contents.contents import Contents
from vfs.contents.shown import Shown
from vfs.engine.cache import ChunkCache
from vfs.faces.face import FOLDER, Node
from vfs.fuse import Mount
from vfs.fuse.points import detach, mounted
from vfs.testing.writers import write_raw

LIBRARIES = ["libfuse3", "libfuse2", "fusepy"]
HEADERS = {"file_header": 100, "frame_header": 37, "frame_footer": 5}
SHAPE = (6, 10, 64, 48)  # of the set that `Scan` writes
MOUNTING = """
    import os, sys, time, vfs
    mount = vfs.mount(sys.argv[1], sys.argv[2])
    print("mounted", os.listdir(mount) != [], flush=True)
"""


def use(name: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have servers that are started from now on use a library. `folder` is for what hides mfusepy from them."""
    if not find_library("fuse3" if name == "libfuse3" else "fuse"):
        pytest.skip(f"no {name} here")
    if name == "fusepy":
        hidden = folder / "hidden"
        hidden.mkdir()
        (hidden / "mfusepy.py").write_text("raise ImportError('hidden by a test')")
        patch.syspath_prepend(hidden)
        patch.setenv("PYTHONPATH", str(hidden), prepend=os.pathsep)
    else:
        patch.setenv("FUSE_LIBRARY_NAME", "fuse3" if name == "libfuse3" else "fuse")


def free(path: Path) -> None:
    """Unmount whatever is there."""
    while mounted(str(path)):
        assert detach(str(path), lazy=True) == (0, "")


def run(*command: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": 250, **options})


def python(code: str, *args: object, timeout: float = 250) -> str:
    """What another Python process prints."""
    done = run(sys.executable, "-c", textwrap.dedent(code), *map(str, args), timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def overwrite(path: Path, content: bytes) -> None:
    """Put other bytes into a file, in place, and set its time of writing back: only its time of change tells."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # which goes on in ticks
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


FAULTS = ("truncated", "overwritten", "touched", "deleted", "replaced", "a folder")
"""What `damage` does to a source file."""


def damage(path: Path, fault: str) -> Callable[[], None]:
    """Change a source file, which is to be noticed. Returns what puts it back as it was."""
    kept, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    if fault == "truncated":
        os.truncate(path, len(kept) // 2)
    elif fault == "overwritten":
        with path.open("r+b") as file:
            file.write(bytes(len(kept)))
    elif fault == "touched":
        os.utime(path, ns=(0, times[1] + 1))
    else:
        path.unlink()
        if fault == "replaced":
            path.write_bytes(bytes(len(kept)))
        elif fault == "a folder":
            path.mkdir()

    def mend() -> None:
        if path.is_dir():
            path.rmdir()
        path.write_bytes(kept)
        os.utime(path, ns=times)

    return mend


STAGES: dict[str, Callable[[int, Path], bool]] = {
    "Python begins": lambda pid, _: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(sys.executable.encode()),
    "numpy is loaded": lambda pid, _: b"/numpy/" in Path(f"/proc/{pid}/maps").read_bytes(),
    "it serves, or another process does": lambda pid, _: (
        b"/libfuse" in Path(f"/proc/{pid}/maps").read_bytes()
        or Path(f"/proc/{pid}/task/{pid}/children").read_bytes() != b""
    ),
    "it is mounted": lambda _, point: mounted(str(point)) is not None,
}
"""Stages of `vfs mount`, told from outside."""


def reach(stage: str, process: subprocess.Popen[Any], point: Path) -> None:
    """Wait until a process that mounts has come to a stage, or has ended."""
    assert eventually(lambda: process.poll() is not None or STAGES[stage](process.pid, point))


def server_of(mount: Mount) -> subprocess.Popen[bytes]:
    return mount._process


class Scan:
    """A raw set in four files with headers and footers of odd lengths, and what is in it."""

    def __init__(self, folder: Path, dtype: str = ">u2") -> None:
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(7)
        frames = rng.integers(0, 1 << 16, (60, 64, 48)).astype(dtype)
        self.files = write_raw(folder, frames, files=4, **HEADERS)
        self.twin = np.ascontiguousarray(frames.reshape(SHAPE).astype(np.dtype(dtype).newbyteorder("<")))
        self.options: dict[str, Any] = {
            "format": "raw",
            "dtype": dtype,
            "sig_shape": "64,48",
            "nav_shape": SHAPE[:2],
            "chunks": (2, 3, 64, 48),
            **HEADERS,
        }

    def mount(self, point: Path, **more: Any) -> Mount:
        return vfs.mount([self.files], point, **{**self.options, **more})

    def describe(self, chunks: tuple[int, ...]) -> Path:
        """Write a description beside the files, by which the set is found in a tree under the names it has alone."""
        options = {**{name: value for name, value in self.options.items() if name != "format"}, "chunks": chunks}
        made = self.files[0].parent / "part0.vfs.json"
        made.write_text(
            json.dumps(
                {
                    "vfs": 1,
                    "format": self.options["format"],
                    "files": [file.name for file in self.files],
                    "options": options,
                }
            )
        )
        return made


def restless_tree(root: Path, **how: Any) -> Contents:
    """A folder whose sets are looked at again after 0.05 seconds, in the process that makes it: the server."""
    from vfs.folder_tree import plans, records

    records.LOOKS.least, records.LOOKS.share = 0.05, 0.0
    return plans.folder_tree(root, **how)


class Foreground:
    """`serve` in a process of its own, as the command line runs it."""

    CODE = """
        import sys, vfs
        from vfs.fuse import MountHow, serve
        from vfs.contents.face_folder import FaceFolder
        from vfs.testing.inside import set_of
        folder = FaceFolder([set_of(vfs.open_group(name, backend="buffered")).tree for name in sys.argv[2:]])
        try:
            serve(folder, sys.argv[1], MountHow(), ready=lambda: print("ready", flush=True))
        except vfs.MountError as error:
            print(error)
            sys.exit(2)
        print("ended")
    """

    def __init__(self, point: Path, *files: Path, prefix: tuple[str, ...] = (), **options: Any) -> None:
        command = [*prefix, sys.executable, "-c", textwrap.dedent(self.CODE), str(point), *map(str, files)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        assert self.process.stdout
        self.first = self.process.stdout.readline().strip()

    def rest(self) -> tuple[int, str, str]:
        """Exit status, and what was printed on stdout and stderr, once it has ended."""
        out, err = self.process.communicate(timeout=250)
        return self.process.returncode, out.strip(), err.strip()

    def __enter__(self) -> Foreground:
        return self

    def __exit__(self, *args: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=250)


class Failing:
    """A folder in which everything goes wrong, in ways that are nobody's fault but ours."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.faces: dict[str, Any] = {}
        self.entry_timeout = self.attr_timeout = 0.0
        self.warnings: dict[str, Any] = {}
        self.cache = ChunkCache()

    def at(self, path: str) -> Shown:
        return _FailingFile(path, self.get) if path else _FailingFolder(path)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class _FailingFolder(Shown):
    def node(self) -> Node:
        return FOLDER


class _FailingFile(Shown):
    def __init__(self, path: str, get: Callable[..., Any]) -> None:
        super().__init__(path)
        self._get = get

    def node(self) -> Node:
        return Node(False, 100)

    def get(self, start: int = 0, stop: int | None = None) -> Any:
        return self._get(self.path, start, stop)
