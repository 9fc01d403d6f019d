"""Runs `vfs demo`, which shows vfs at work on a small scan.

The demo writes a scan as an instrument would, in several files with a header before every frame,
and mounts it. A second process, which knows nothing of vfs, reads it through zarr; the demo
compares every pixel. It prints the mounted folders and one frame, and leaves nothing behind. If
FUSE is missing, it says so and reads through the store in this process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from shlex import quote
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.tree import Tree

from vfs.api.opening import open
from vfs.api.showing import mount
from vfs.cli.look import picture
from vfs.cli.screen import screen
from vfs.errors import MountError, OptionError, VfsError
from vfs.model.open_options import OpenOptions
from vfs.sets.opening import open_set
from vfs.testing.writers import write_mib

SCAN = (12, 16)
SIZE = 64
CHUNKS = (1, -1, -1, -1)  # one line of the scan per chunk; files end within a line, so some chunks cross files
READER = """
import sys, numpy, zarr
store, answer = sys.stdin.read().split("\\0")
numpy.save(answer, zarr.open_group(store, mode="r")["data"][:])
"""


def diffraction(scan: tuple[int, int] = SCAN, size: int = SIZE) -> np.ndarray:
    """Make diffraction patterns of a crystal, with counting noise.

    The lattice of the crystal turns and stretches over the scan.

    Returns: uint16[scan_y, scan_x, size, size], the same in every call.
    """
    v, u = np.mgrid[-1 : 1 : scan[0] * 1j, -1 : 1 : scan[1] * 1j][..., None, None]
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    angle, stretch = 0.3 + 0.12 * u, size / 5.2 * (1 + 0.06 * v)
    image = 2.0 + 30 * np.exp(-(x**2 + y**2) / (0.12 * size**2)) + 0 * (u + v)
    for h in range(-2, 3):
        for k in range(-2, 3):
            a, b = h + k / 2, k * 0.866  # hexagonal
            at_x, at_y = (
                stretch * (a * np.cos(angle) - b * np.sin(angle)),
                stretch * (a * np.sin(angle) + b * np.cos(angle)),
            )
            distance = np.hypot(x - at_x, y - at_y)
            image += 900 * np.exp(-0.5 * (a * a + b * b)) / (1 + np.exp((distance - size / 22) * 3))
    frames: np.ndarray = np.random.default_rng(7).poisson(image).astype(np.uint16)
    return frames


def demo(keep: str | None = None, console: Console | None = None, then: Callable[[str], None] | None = None) -> None:
    """Run the demo.

    Args:
        keep: a folder, new or empty, where the files of the scan stay.
        console: where to print; None: stdout.
        then: called with the name of the scan, before its files are removed.

    Raises:
        OptionError: `keep` is no folder, or not empty.
        VfsError: the pixels that were read differ from those that were written.
    """
    # A path is never broken, so that lines can be typed as they are printed
    out = Console(highlight=False, soft_wrap=True) if console is None else console
    with tempfile.TemporaryDirectory(prefix="vfs-demo-") as temporary, _SecondProcess() as second:
        folder = _new_folder("--keep", keep) if keep else temporary
        written = diffraction()
        naming = write_mib(folder, written.reshape(-1, SIZE, SIZE), frames_per_file=50, scan=SCAN)
        # Known, so that no process imports the other formats: a quarter of a second each
        found = open_set(naming, OpenOptions(chunks=CHUNKS, format="mib"), {})
        array = found.main
        out.print(
            f"[bold]written[/]  a scan of {SCAN[0]} x {SCAN[1]} frames in {len(array.files)} files, with a header"
            " before every frame"
        )
        _list(out, folder)
        mountpoint = os.path.join(temporary, "mount")
        os.mkdir(mountpoint)
        try:
            with mount([naming], mountpoint, chunks=CHUNKS, format="mib"):
                out.print(f"[bold]mounted[/]  at {escape(mountpoint)}, until this demo ends")
                out.print("         nothing is converted: what these files hold is computed when it is read")
                out.print(Padding(_tree(mountpoint), (0, 0, 0, 9)))
                read = second.read(os.path.join(mountpoint, f"{found.name}.zarr"), os.path.join(temporary, "read.npy"))
                reader = "a second process, zarr-python through the mount"
        except MountError as error:
            out.print(f"[bold]not mounted[/]  {escape(str(error))}")
            read = np.asarray(open(naming, chunks=CHUNKS, format="mib").zarr())
            reader = "this process, zarr-python through vfs's store"
        if not np.array_equal(read, written):
            raise VfsError(
                f"demo: read {read.dtype}{list(read.shape)} that is not what was written,"
                f" {written.dtype}{list(written.shape)}"
            )
        axes = ", ".join(f"{dim}: {n}" for dim, n in zip(array.dims, read.shape, strict=True))
        out.print(f"[bold]read[/]     by {reader}\n         {read.dtype} ({axes})")
        out.print(f"         all {read.size:,} pixels are what was written; this is the frame at [6, 8]")
        out.file.write(picture(found, (6, 8), screen()) + "\n")
        if then is not None:
            then(str(naming))
    for line in _ending(keep, escape(quote(str(naming)))):
        out.print(line)


def _ending(keep: str | None, naming: str) -> Iterator[str]:
    """Yield what was left behind, and what to type next."""
    if keep:
        yield f"[bold]kept[/]     the files in {escape(keep)}; mount them yourself:"
        yield f"         mkdir mnt; vfs mount {naming} mnt --background; ls mnt; vfs unmount mnt"
    else:
        yield "[bold]removed[/]  everything; `vfs demo --keep DIR` leaves the files, for a mount of your own"
    yield "[bold]next[/]     a file of yours, such as ~/data/scan.hdr:"
    yield "         vfs ~/data/scan.hdr        its page, in a browser"
    yield "         vfs info ~/data/scan.hdr   what it is; ~/data lists what is there"
    yield "         vfs mount ~/data/scan.hdr mnt"


def write_examples(path: str) -> list[str]:
    """Write the files of the tutorials into a folder.

    Returns: what names each set.

    Raises:
        OptionError: `path` is no folder, or not empty.
    """
    from vfs.testing import examples

    return [str(name) for name in examples.write(_new_folder("--examples", path))]


def _new_folder(option: str, path: str) -> str:
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise OptionError(f"{option} {path}: is not empty; give a new folder")
    except OSError as error:
        raise OptionError(f"{option} {path}: cannot be used: {error.strerror}") from None
    return path


def _list(out: Console, folder: str) -> None:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            out.print(f"         {escape(name):<14}{os.path.getsize(path):>10,} bytes")


def _tree(mountpoint: str) -> Tree:
    """Draw the mounted folders; of many numbered entries (chunks), only the first one."""
    tree = Tree("mount", guide_style="dim")
    _branch(tree, mountpoint)
    return tree


def _branch(tree: Tree, folder: str) -> None:
    names = sorted(os.listdir(folder))
    numbers = [name for name in names if name.isdecimal()]
    for name in [name for name in names if name not in numbers] + numbers[:1]:
        path = os.path.join(folder, name)
        label = name
        while os.path.isdir(path) and len(below := os.listdir(path)) == 1:
            label, path = f"{label}/{below[0]}", os.path.join(path, below[0])
        more = f", and {len(numbers) - 1} more" if name in numbers and len(numbers) > 1 else ""
        if os.path.isdir(path):
            _branch(tree.add(escape(label)), path)
        else:
            tree.add(f"{escape(label)}  [dim]{os.path.getsize(path):,} bytes{more}[/]")


class _SecondProcess:
    """Reads the array of a mounted store with zarr, in a process that loads zarr while the scan is made."""

    def __init__(self) -> None:
        pipe: Any = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", READER], stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:  # nobody read
            self._process.kill()
            self._process.communicate()

    def read(self, store: str, answer: str) -> np.ndarray:
        """Return the elements of the array.

        Args:
            answer: file that the process writes.

        Raises:
            VfsError: zarr could not read it.
        """
        _, said = self._process.communicate(f"{store}\0{answer}")
        if self._process.returncode:
            raise VfsError(f"demo: zarr could not read {store}: {said.strip().splitlines()[-1:]}")
        return np.asarray(np.load(answer))
