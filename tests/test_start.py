"""What a fresh process has to do before it shows something: which kernels it compiles, and what it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import vfs
from vfs.testing.writers import write_mib

_COMPILED = """
import json, sys
from numba.core import event
import vfs

with event.install_recorder("numba:compile") as record:
    vfs.open(sys.argv[1], format="raw", dtype="<u2", sig_shape=(16, 16), backend=sys.argv[2])[3]
functions = [e.data["dispatcher"].py_func for _, e in record.buffer if e.is_start]
print(json.dumps(sorted(f"{function.__module__}.{function.__qualname__}" for function in functions)))
"""


def ran(code: str, *arguments: str, **environment: str) -> object:
    """What a fresh process prints as JSON."""
    env = os.environ | {"PYTHONPATH": str(Path(vfs.__file__).parents[1])} | environment
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_first_frame_compiles_what_plans_it_and_nothing_of_numba(tmp_path: Path) -> None:
    """Each once: another specialisation, an array made or sliced in a kernel, or `min` costs a
    fifth of a second; and no kernel for one range.
    """
    path = tmp_path / "scan.raw"
    np.zeros((8, 16, 16), "<u2").tofile(path)
    planning = [
        f"vfs.kernels.{name}"
        for name in (
            "locate.locate",
            "locate.row_of",
            "locate.stored_frame",
            "locate.tables",
            "planning.box_rows",
            "planning.frame_rows",
            "planning.plan_frames",
        )
    ]
    assert ran(_COMPILED, str(path), "buffered", NUMBA_CACHE_DIR=str(tmp_path / "kernels")) == planning
    assert ran(_COMPILED, str(path), "mmap", NUMBA_CACHE_DIR=str(tmp_path / "kernels")) == []  # on disk


_SHOWN = """
import json, sys
import vfs

options = json.loads(sys.argv[2])
array = vfs.open(sys.argv[1], **options)
shown = [array[k].tolist() for k in range(3)]
import vfs.zarr.references  # what writes those of kerchunk needs none of them, either
heavy = [name for name in ("numba", "llvmlite", "zarr", "scipy", "numpy.ma") if name in sys.modules]
print(json.dumps([shown, heavy, [name for name in sys.modules if name.startswith("vfs.formats.")]]))
"""


@pytest.mark.parametrize("backend", ["mmap", "buffered", "direct"])
@pytest.mark.parametrize("kind", ["raw", "swapped", "mib"])
def test_first_frames_need_no_kernel(tmp_path: Path, kind: str, backend: str) -> None:
    """To load them takes longer than everything else together."""
    frames = np.arange(3 * 256 * 256, dtype="u2").reshape(3, 256, 256)
    path, options = tmp_path / "scan.raw", {"backend": backend}
    if kind == "mib":
        path = write_mib(tmp_path, frames)
    else:
        dtype = "<u2" if kind == "raw" else ">u2"
        frames.astype(dtype).tofile(path)
        options |= {"format": "raw", "dtype": dtype, "sig_shape": "256,256"}
    shown, heavy, formats = ran(_SHOWN, str(path), json.dumps(options))  # type: ignore[misc]
    assert shown == frames.tolist()
    assert heavy == []
    named = {"mib"} if kind == "mib" else set()  # nor other formats, whether or not this one is to be detected
    assert {name for name in ("mib", "tiff", "hdf5", "ome_tiff", "dm") if f"vfs.formats.{name}" in formats} == named


def test_info_of_a_scan_and_of_chunks_needs_no_kernel(tmp_path: Path) -> None:
    """Whatever numbers it shows: where none is compiled yet, people would wait for seconds."""
    scan = write_mib(tmp_path, np.ones((6, 16, 16), "u2"), scan=(2, 3))
    with h5py.File(tmp_path / "chunked.h5", "w") as file:
        file.create_dataset("data", data=np.ones((40, 16, 16), "u2"), chunks=(1, 16, 16), compression="gzip")
    code = """
import json, sys
from contextlib import redirect_stdout
from vfs.cli.app import main
with redirect_stdout(sys.stderr):
    status = [main(["info", path]) for path in sys.argv[1:]]
print(json.dumps([*status, "numba" in sys.modules]))
"""
    assert ran(code, str(scan), str(tmp_path / "chunked.h5")) == [0, 0, False]


_IMPORTED = """
import json, os, sys
from contextlib import redirect_stdout
before = set(sys.modules)
if sys.argv[1] == "open":
    import vfs
    vfs.open(sys.argv[2])[0]
else:
    from vfs.cli.app import main
    with redirect_stdout(sys.stderr):
        main(sys.argv[1:])
files = [sys.modules[name].__file__ for name in set(sys.modules) - before if name.partition(".")[0] == "vfs"]
heavy = [name for name in ("numpy", "numba", "zarr", "pydantic", "asyncio") if name in sys.modules]
print(json.dumps([len(files), sum(map(os.path.getsize, files)) >> 10, heavy]))
"""


@pytest.mark.parametrize(
    ("words", "modules", "kilobytes", "heavy"),
    [
        (["--help"], 45, 320, []),
        (["mounts"], 65, 420, []),
        (["info", "a.npy"], 150, 1050, ["numpy"]),
        (["info", "a.mib"], 165, 1150, ["numpy"]),
        (["open", "a.npy"], 165, 1100, ["numpy"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_few_modules_are_imported(
    words: list[str], modules: int, kilobytes: int, heavy: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number is most of the time of a command on a small file."""
    np.save(tmp_path / "a.npy", np.zeros((3, 4, 5), "u2"))
    write_mib(tmp_path, np.zeros((3, 16, 16), "u2"), prefix="a", hdr=False, frames_per_file=3)
    (path,) = tmp_path.glob("a*.mib")
    path.rename(tmp_path / "a.mib")
    monkeypatch.chdir(tmp_path)
    count, size, found = ran(_IMPORTED, *words)  # type: ignore[misc]
    assert (count <= modules, size <= kilobytes, found) == (True, True, heavy), (count, size, found)
    assert count > modules // 2


def test_many_frames_load_the_kernels(tmp_path: Path) -> None:
    np.zeros((3, 16, 16), "u2").tofile(tmp_path / "scan.raw")
    code = """
import json, sys, vfs
from vfs import kernels
kernels.PATIENCE = 0
array = vfs.open(sys.argv[1], format="raw", dtype="u2", sig_shape="16,16")
print(json.dumps([(array[k].tolist(), "numba" in sys.modules)[1] for k in range(3)]))
"""
    assert ran(code, str(tmp_path / "scan.raw")) == [False, True, True]


def test_a_first_result_loads_kernels_without_the_compiler(tmp_path: Path) -> None:
    """Nor does it load what makes arrays in kernels, which takes numba long."""
    path = write_mib(tmp_path, np.ones((3, 16, 16), "u2"))
    code = """
import json, sys, vfs
made = vfs.open(sys.argv[1]).reduce(bf=vfs.Disk(cy=8, cx=8, r=1.5))["bf"].data.tolist()
print(json.dumps([made, [name for name in ("numba.np.arraymath", "numba.np.arrayobj") if name in sys.modules]]))
"""
    ran(code, str(path))  # compiles them, if nobody did
    assert ran(code, str(path)) == [[9, 9, 9], []]


_HEAVY = (
    "print(json.dumps([name for name in ('numpy', 'numba', 'llvmlite', 'zarr', 'fuse', 'mfusepy')"
    " if name in sys.modules]))"
)


def test_listing_and_ending_mounts_needs_no_arrays_and_no_compiler() -> None:
    assert ran(f"import json, sys; from vfs.fuse import Mount, mounts, start_in_background, unmount; {_HEAVY}") == []
    assert ran(f"import json, sys; from vfs.cli import console; {_HEAVY}") == []


def test_who_starts_a_server_loads_no_callbacks_for_it(tmp_path: Path) -> None:
    """The process of `vfs mount --background` and of `vfs.mount()`: native callbacks are loaded
    from disk as they are imported, for the server only.
    """
    np.save(tmp_path / "scan.npy", np.zeros((2, 3), "u1"))
    code = (
        "import json, sys, vfs, vfs.fuse; vfs.open(sys.argv[1]); print(json.dumps([name for name in sys.modules if"
        " name.startswith('vfs.fuse.')]))"
    )
    loaded = ran(code, str(tmp_path / "scan.npy"))
    assert isinstance(loaded, list)
    assert not {"vfs.fuse.server", "vfs.fuse.view", "vfs.fuse.fast"} & set(loaded)
