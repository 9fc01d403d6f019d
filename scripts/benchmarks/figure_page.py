"""What `figures.py` writes: the tables of `vfs/docs/figures.md` and the pictures in it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scripts.benchmarks.figure_samples import FULL_SHAPES, Shapes
from scripts.benchmarks.figure_tools import WRONG
from scripts.benchmarks.figures import BUSY, Figure, Row, Table
from scripts.benchmarks.peers import PEERS, missing

DOCS = Path(__file__).parents[2] / "vfs" / "docs"
NAMES = {
    "open": "opening",
    "frame": "one frame",
    "bright": "bright field",
    "everything": "all pixels",
    "screen": "whole screening",
    "none": "not compressed",
    "zstd": "zstd",
    "sharded": "zstd in shards",
}
"""Step -> the head of its column."""

TITLES = {
    "sparse": "A 60 GB-shaped MRC",
    "mrc": "An MRC of 2 GiB: virtual image",
    "mrc, cold": "The MRC of 2 GiB, not in the page cache",
    "arina": "ARINA, bitshuffle and LZ4",
    "http": "HDF5 over HTTP",
    "export": "An export of 2 GiB",
    "mib": "A Merlin scan (MIB)",
    "tiff": "A TIFF stack",
}
PUBLISHED = {
    "sparse": "[SpyDE](https://github.com/directelectron/spyde/blob/main/benchmarks.md) publishes 5.6 s for opening and"
    " 40 to 60 ms for a frame, on 48 logical cores, warm. Here 64 of the frames are on the disk.",
    "mrc": "SpyDE publishes 2.9 to 3.0 GB/s for the virtual image on 48 logical cores, 0.06 GB/s a core.",
    "arina": "[quantem.gpu](https://github.com/bobleesj/quantem.gpu/blob/main/docs/dashboard.md) publishes, for a scan"
    " 16 times as large, decoded into memory, warm: 34.37 s on the CPU of an Apple M5 Max, 0.386 s on an NVIDIA RTX PRO"
    " 6000. *Whole screening* is bright field, annular dark field, centre of mass and mean pattern, from the file.",
    "http": "[tiled #907](https://github.com/bluesky/tiled/issues/907) reports, on an Apple M1, 3.4 s for a frame and"
    " 44 s for all. Here chunks are of a frame (bitshuffle, LZ4), server and client on this machine.",
    "export": "Chunks of 256³, inner chunks of shards 64³, from a .npy that is not in the page cache. vfs flushes to"
    " the disk, zarr-python does not. [zarr_benchmarks](https://github.com/zarrs/zarr_benchmarks) publishes, on 8"
    " cores and from zarr: zarrs 0.59, 0.46 and 1.37 s, tensorstore 2.04, 2.04 and 1.46 s, zarr-python 4.03, 3.81 and"
    " 7.23 s.",
}
BEGIN, END = "<!-- published: scripts/bench --publish writes this part -->", "<!-- /published -->"


def write(docs: Path, found: dict[str, Table], shapes: Shapes, seconds: float) -> Path:
    """Write the measured part of the page, and its pictures, into a folder.

    What stands around the part in a page that is there already stays.

    Args:
        found: what was measured; seconds: how long that took.

    Returns: the page.
    """
    pictures = docs / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("figures-*.svg"):
        old.unlink()
    lines = [*_head(found, shapes, seconds)]
    for kind, table in found.items():
        lines += _section(kind, table)
        if any(row.figures for row in table.rows) and len(table.rows) > 1:
            drawn = pictures / f"figures-{kind}.svg"
            draw(drawn, table)
            lines += ["", f"![{TITLES[kind]}: seconds](pictures/{drawn.name})"]
    page = docs / "figures.md"
    around = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, after = around.partition(BEGIN)[0], around.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}", encoding="utf-8")
    return page


def _head(found: dict[str, Table], shapes: Shapes, seconds: float) -> Iterator[str]:
    most = max((table.busy for table in found.values()), default=0.0)
    if most > BUSY:
        yield (
            f"**Measured while the machine was loaded**: others took up to {most:.0%} of the cores. Take these figures"
            " for nothing but an example of the page.\n"
        )
    if shapes != FULL_SHAPES:
        yield "**Measured with tiny files**, to see that it runs.\n"
    yield (
        f"Cells are milliseconds, the median of {shapes.rounds} rounds, the fastest in bold; the pictures have the"
        " least and the most."
        " Memory is the most MiB that a process and its children had beyond what they had before; mapped files do not"
        f" count. It took {seconds / 60:.0f} minutes, once the other tools were installed."
    )
    yield (
        "Results equal numpy's on the same file (of compressed files: the frames that were written), except where"
        " `≈ 3e-08` says the largest difference as a share of the largest value, or `≠` something else."
    )
    yield (
        "Every tool reads in a process of its own with all cores, imported and compiled before; each round opens the"
        " file anew. Files are in the page cache, except where the title says otherwise. The bright field is a disk of"
        " 8 % of the frame, made as the tool's manual shows, or by what the name adds (numpy, dask)."
    )
    yield f"\n{_machine()}"
    absent = missing()
    here = [f"{name} {_version(PEERS[name])}" for name in PEERS if name not in absent]
    packages = ("vfs", "numpy", "zarr", "dask", "hdf5plugin")
    yield f"Versions: {', '.join([*(f'{one} {_version(one)}' for one in packages), *here])}."
    if absent:
        yield "Not here: " + "; ".join(f"{name} ({reason})" for name, reason in absent.items()) + "."


def _machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.+)$", info, re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model[1].strip() if model else platform.machine()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"
        f" of memory, Linux {platform.release()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}."
    )


def _version(package: str) -> str:
    return importlib.metadata.version(package)


def _section(kind: str, table: Table) -> Iterator[str]:
    sample = table.sample
    yield f"\n### {TITLES[kind]}\n"
    shape = " × ".join(map(str, (*sample.scan, *sample.sig)))
    size = f"{sample.nbytes / 2**30:.2f} GiB" if sample.nbytes >= 2**28 else f"{sample.nbytes / 2**20:.1f} MiB"
    yield f"{shape}, {np.dtype(sample.dtype).name}, {size}." + (f" {PUBLISHED[kind]}" if kind in PUBLISHED else "")
    steps = list(dict.fromkeys(step for row in table.rows for step in row.figures))
    yield ""
    yield f"| tool | {' | '.join(NAMES[step] for step in steps)} | memory |"
    yield "|---" * (len(steps) + 2) + "|"
    right = [row.figures for row in table.rows]
    best = {
        step: min((one[step].median for one in right if step in one and one[step].off <= WRONG), default=0)
        for step in steps
    }
    for row in table.rows:
        if row.figures:
            cells = [_cell(row.figures[step], step, best[step]) if step in row.figures else "" for step in steps]
            yield f"| {row.tool} | {' | '.join(cells)} | {_memory(row)} |"
    for row in table.rows:
        if row.failed:
            yield f"\n{row.tool} did not read it: `{row.failed}`."
    bright = [
        (row.tool, sample.nbytes / row.figures["bright"].median / 1e9) for row in table.rows if "bright" in row.figures
    ]
    if kind.startswith("mrc"):
        cores = len(os.sched_getaffinity(0))
        said = ", ".join(f"{tool} {rate:.2f} GB/s, {rate / cores:.2f} a core" for tool, rate in bright[:1])
        yield f"\nThe virtual image: {said} of {cores}."


def _cell(figure: Figure, step: str, best: float) -> str:
    # What was opened is compared by the steps that follow
    differs = "" if figure.off == 0 or step == "open" else " ≠" if figure.off > WRONG else f" ≈ {figure.off:.0e}"
    written = _three(figure.median * 1e3)
    return (f"**{written}**" if figure.median == best else written) + differs


def _three(number: float) -> str:
    """Write a number with three digits that count, never as a power of ten."""
    return f"{number:.3g}" if number < 1000 else f"{float(f'{number:.3g}'):,.0f}"


def _memory(row: Row) -> str:
    return f"{max(sorted(one.memory)[len(one.memory) // 2] for one in row.figures.values()) / 2**20:,.0f}"


def draw(path: Path, table: Table) -> None:
    """Draw a table: a panel for each step, a bar for each tool, in seconds, with the least and the most."""
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    rows = [row for row in table.rows if row.figures][::-1]
    steps = list(dict.fromkeys(step for row in table.rows for step in row.figures))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "vfs", "font.size": 8}):
        drawing = Drawing((2.2 * len(steps) + 1, 0.22 * len(rows) + 0.7), layout="constrained")
        panels = drawing.subplots(1, len(steps), sharey=True, squeeze=False)[0]
        for panel, step in zip(panels, steps, strict=True):
            for y, row in enumerate(rows):
                if figure := row.figures.get(step):
                    error = [[figure.median - min(figure.seconds)], [max(figure.seconds) - figure.median]]
                    colour = "#2b6cb0" if row.tool.startswith("vfs") else "#b0b7c3"
                    panel.barh(y, figure.median, xerr=error, color=colour, error_kw={"lw": 0.8})
            panel.set_xscale("log")
            panel.set_title(f"{NAMES[step]}, s", fontsize=8)
            panel.set_yticks(range(len(rows)), [row.tool for row in rows])
            panel.spines[["top", "right"]].set_visible(False)
        drawing.savefig(path, metadata={"Date": None})
