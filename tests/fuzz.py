"""Damaged files of every format: `scripts/fuzz [MUTATIONS A SET, default 2500] [SEED]`.

`scripts/fuzz live [SECONDS] [SEED]` has sets written in no order, and reads them meanwhile (`tests.live.unordered`).

The sets are those that tests/formats/test_mutations.py changes a few dozen times, and the small
real files where they are at hand (see tests/conftest.py). Each runs in a process of its own, so
that a crash has a name; one that takes longer than a minute for a single file is ended with the
stack it hung in. Twice as many odd requests for the page's `api/` go to a server of arrays of every
kind. Prints what came of every set, and ends with status 1 if any was not only arrays
and one-line errors.
"""

from __future__ import annotations

import faulthandler
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import vfs
from tests.conformance.rows import ROWS
from tests.conftest import SHARED
from tests.formats import hdf5_sets, seq_sets, sets
from tests.formats.damage import fuzz
from tests.formats.frame_checks import frames_of
from tests.formats.sets import Opened
from tests.http import requests
from vfs.formats import detect
from vfs.sources.local import LocalSources
from vfs.testing.rows import Row
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib, write_npy, write_raw

WRITERS: dict[str, Callable[[Path], Opened]] = {
    "dm of two images": sets.dm_of_two_images,
    "dm of maps": sets.dm_of_maps,
    "dm swapped": sets.dm_swapped,
    "empad of two": sets.empad_of_two,
    "empad series": sets.empad_series,
    "frms6 binned": sets.frms6_binned,
    "k2is series": sets.k2is_series,
    "k2is scan": sets.k2is_scan,
    "mrc with fei records": sets.mrc_with_fei_records,
    "mrc of nibbles": sets.mrc_of_nibbles,
    "mrc packed": sets.mrc_packed,
    "ebsp": sets.ebsp_with_holes,
    "edax": sets.edax_map,
    "nordif": sets.nordif_with_bitmaps,
    "ripple": sets.ripple_of_spectra,
    "edf": sets.edf_series,
    "eer": sets.eer_of_sums,
    "sls": sets.sls_with_gaps,
    "cbf": sets.cbf_series,
    "nd2": sets.nd2_of_channels,
    "lif": sets.lif_of_two,
    "lof": sets.lof,
    "xlif": sets.xlif_of_pages,
    "dm of transforms": sets.dm_of_transforms,
    "empad of words": sets.empad_of_words,
    "czi": sets.czi_of_tiles,
    "fits": sets.fits_of_two,
    "ndtiff": sets.ndtiff_of_channels,
    "spd": sets.spd_map,
    "spe of regions": sets.spe_of_regions,
    "ser of a scan": sets.ser_of_a_scan,
    "ser by emi": sets.ser_by_emi,
    "tvips of a rotator": sets.tvips_of_a_rotator,
    "hdf5 zipped": hdf5_sets.zipped,
    "hdf5 events": hdf5_sets.events_of_velox,
    "hdf5 filtered": hdf5_sets.filtered,
    "hdf5 text": hdf5_sets.text,
    "hdf5 newer": hdf5_sets.newer,
    "hdf5 linked": hdf5_sets.linked,
    "seq with side files": seq_sets.with_side_files,
    "seq halves": seq_sets.halves,
}
LARGEST = 300_000  # bytes of a real set: every mutation writes a file anew
HEADS = {
    "dm": 2500,
    "tiff": 2500,
    "ome_tiff": 2500,
    "hdf5": 1 << 16,
    "frms6": 1100,
    "mib": 800,
    "description": 600,
    "lif": 3000,
    "czi": 3000,
    "nd2": 6000,
}
"""First bytes of the files of a format that are changed rather than those behind them; of others 640."""
PATIENCE = 60  # seconds for one file
REQUESTS = "requests"
"""What is fuzzed beside the sets."""


def writers() -> dict[str, Callable[[Path], Opened]]:
    """Name -> function that writes a set into an empty folder."""
    made = dict(WRITERS)
    for name, write in (("blo", sets.blo_set), ("frms6", sets.frms6_set), ("tvips", sets.tvips_set)):
        made[name] = lambda folder, name=name, write=write: (write(folder)[0], {"format": name})
    for kind, depth, quad in (
        ("U08", 6, False),
        ("U16", 12, True),
        ("U32", 24, False),
        ("R64", 1, False),
        ("R64", 12, True),
        ("R64", 24, False),
    ):
        made[f"mib-{kind}-{depth}"] = lambda folder, kind=kind, depth=depth, quad=quad: _mib(folder, kind, depth, quad)
    tiffs: dict[str, dict[str, Any]] = {
        "plain": {},
        "big-endian": {"strip": 2, "gap": 1, "order": ">", "big": True},
        "tiled-zlib": {"tile": (16, 16), "compression": 8, "encode": zlib.compress},
        "packed": {"bits": 12},
    }
    for name, how in tiffs.items():
        made[f"tiff-{name}"] = lambda folder, how=how: (
            write_tiff(folder / "a.tif", list(frames_of((2, 9, 21), "u2") & 4095), **how),
            {"format": "tiff"},
        )
    for describe in ("every", "companion"):
        made[f"ome_tiff-{describe}"] = lambda folder, how=describe: (
            write_ome_tiff(folder, frames_of((2, 1, 2, 9, 7), "u2"), files=2, describe=how),
            {"format": "ome_tiff"},
        )
    made["npy"] = lambda folder: (write_npy(folder, frames_of((4, 5, 6), "u2")), {"format": "npy"})
    made["raw"] = lambda folder: (
        write_raw(folder, frames_of((4, 5, 6), "u2"), frame_header=16, files=2),
        {"format": "raw", "dtype": "<u2", "sig_shape": (5, 6), "frame_header": 16},
    )
    made["description"] = _description
    known = {re.split("[ -]", name)[0] for name in made}
    made |= {row.name: lambda folder, row=row: _of_row(folder, row) for row in ROWS if row.format not in known}
    return made | {f"real {name}": lambda folder, entry=entry: _real(folder, entry) for name, entry in _small().items()}


def _of_row(folder: Path, row: Row) -> Opened:
    """The set of a row of the conformance table: those of formats that have no smaller one here."""
    paths, _, options = row.write(folder)
    return paths, {"format": row.format, **options}


def _mib(folder: Path, kind: str, depth: int, quad: bool) -> Opened:
    size = (512, 512) if quad and kind == "R64" else (64, 64)
    return write_mib(
        folder, frames_of((2, *size), "u4") & ((1 << depth) - 1), kind=kind, depth=depth, quad=quad, frames_per_file=1
    ), {"format": "mib"}


def _description(folder: Path) -> Opened:
    frames_of((4, 6, 8), "u2").tofile(folder / "a.bin")
    blocks = [{"file": 0, "offset": 96 * t, "origin": [t, 0, 0], "shape": [1, 6, 8]} for t in range(4)]
    text = json.dumps({"vfs": 1, "dtype": "<u2", "shape": [4, 6, 8], "files": ["a.bin"], "blocks": blocks})
    (folder / "set.vfs.json").write_text(text)
    return folder / "set.vfs.json", {"format": "description"}


def _small() -> dict[str, Any]:
    """The real sets that are small and lie in one folder: name -> entry."""
    if not (SHARED / "oracle.json").exists():
        return {}
    entries = json.loads((SHARED / "oracle.json").read_text())["datasets"]
    # Raw ones open with options only; they have no header
    headed = {name: entry for name, entry in entries.items() if entry["format"] != "raw"}
    flat = {name: entry for name, entry in headed.items() if len({Path(file).parent for file in entry["files"]}) == 1}
    return {
        name: entry
        for name, entry in flat.items()
        if sum((SHARED / file).stat().st_size for file in entry["files"]) <= LARGEST
    }


def _real(folder: Path, entry: Mapping[str, Any]) -> Opened:
    """A copy of a real set that opens by itself.

    Raises:
        vfs.VfsError: none of its files does.
    """
    for file in entry["files"]:
        shutil.copy(SHARED / file, folder)
    failed: Exception = AssertionError("no files")
    for path in sorted(folder.iterdir()):
        try:
            vfs.open_group(path)
            return path, {"format": detect(LocalSources(), str(path)).name}
        except vfs.VfsError as error:
            failed = error
    raise failed


def ask(count: int, seed: int) -> None:
    """Ask a server odd things; prints how often there was which status as JSON."""
    faulthandler.dump_traceback_later(PATIENCE + count, exit=True)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", vfs.IncompleteWarning)
        seen = requests.fuzz(requests.served(Path(place)), 2 * count, seed)
    print(json.dumps({"longest": 0, "memory": 0, **seen}), flush=True)


def one(name: str, count: int, seed: int) -> None:
    """Mutate one set; prints what came of it as JSON."""
    with tempfile.TemporaryDirectory() as place:
        try:
            paths, options = writers()[name](Path(place))
        except (
            vfs.VfsError,
            pytest.skip.Exception,
        ) as error:  # they need options, files or packages that are not there
            print(json.dumps({"left out": str(error)}), flush=True)
            return
        seen = Counter[str]()
        for part in range(0, count, 100):
            faulthandler.dump_traceback_later(100 * PATIENCE, exit=True)
            some = fuzz(
                Path(place),
                paths,
                min(100, count - part),
                seed=seed + part,
                head=HEADS.get(options["format"], 640),
                **options,
            )
            worst = {key: max(seen[key], some.pop(key)) for key in ("longest", "memory")}
            seen.update(some)
            seen |= Counter(worst)
        print(json.dumps(seen), flush=True)


def main(count: int, seed: int) -> int:
    """All sets, two at a time. Returns the exit status."""
    total, failed, worst = 0, [], Counter[str]()
    names = [REQUESTS, *writers()]
    random.Random(seed).shuffle(names)
    running: dict[str, subprocess.Popen[str]] = {}
    started = time.perf_counter()
    while names or running:
        while names and len(running) < 2:
            name = names.pop()
            running[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz", "--one", name, str(count), str(seed)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        for name, process in list(running.items()):
            if process.poll() is None and len(running) == 2:
                continue
            out, errors = process.communicate()
            del running[name]
            if process.returncode:
                failed.append(name)
                print(f"{name}: FAILED\n{errors[-3000:]}", flush=True)
                continue
            seen = json.loads(out)
            if "left out" in seen:
                print(f"{name}: left out: {seen['left out']}", flush=True)
                continue
            worst |= Counter({key: seen[key] for key in ("longest", "memory")})
            total += count
            print(f"{name}: {seen}", flush=True)
        time.sleep(0.05)
    print(
        f"{total:,} damaged files gave arrays or errors of one line, {len(failed)} sets failed:"
        f" {', '.join(failed) or 'none'}; the longest took {worst['longest']} ms of CPU, the most memory was"
        f" {worst['memory']} kB; {time.perf_counter() - started:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        if sys.argv[2] == REQUESTS:
            ask(int(sys.argv[3]), int(sys.argv[4]))
        else:
            one(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1:2] == ["states"]:
        from tests import states

        sys.exit(states.main(*map(int, [*sys.argv[2:4], *["600", "0"][len(sys.argv) - 2 :]])))
    elif sys.argv[1:2] == ["live"]:
        from tests.live import unordered

        sys.exit(unordered.main(*map(int, [*sys.argv[2:4], *["600", "0"][len(sys.argv) - 2 :]])))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2500, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
