"""What `figures.py` writes: `vfs/docs/figures.md` and the pictures in it."""

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
from scripts.benchmarks.figures import BUSY, LOOKS, Figure, Row, Table
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
    "sparse": "[SpyDE](https://github.com/directelectron/spyde/blob/main/benchmarks.md) publishes, for 256 x 256"
    " frames of"
    " 512 x 512 float32 on 48 logical cores, warm: opening 5.6 s, a frame 40 to 60 ms. Here the file has that shape,"
    " but only 64 of its frames have room on the disk; these are read.",
    "mrc": "SpyDE publishes for the virtual image 2.9 to 3.0 GB/s on 48 logical cores, 0.06 GB/s a core. Here it is"
    " that of"
    " a scan of 64 x 32 such frames, 2 GiB.",
    "arina": "[quantem.gpu](https://github.com/bobleesj/quantem.gpu/blob/main/docs/dashboard.md) publishes, for 512"
    " x 512"
    " frames of 192 x 192 uint16 decoded into memory, warm (2026-08-19): 34.37 s on the CPU of an Apple M5 Max, 0.386 s"
    " on an NVIDIA RTX PRO 6000. Here the scan is 128 x 128, a sixteenth. *Whole screening* is bright field, annular"
    " dark field, centre of mass and mean pattern, from the file.",
    "http": "[tiled #907](https://github.com/bluesky/tiled/issues/907) reports, for 60 x 1065 x 1030 on an Apple M1:"
    " a frame"
    " 3.4 s, all of it 44 s. Here pixels are uint32 in chunks of a frame (bitshuffle, LZ4), server and client on this"
    " machine; memory is that of both.",
    "export": "[zarr_benchmarks](https://github.com/zarrs/zarr_benchmarks) publishes the round trip of this cube, 1024³"
    " uint16 in chunks of 256³ (inner chunks of shards 64³), on 8 cores: zarrs in Rust 0.59, 0.46 and 1.37 s,"
    " tensorstore"
    " 2.04, 2.04 and 1.46 s, zarr-python 4.03, 3.81 and 7.23 s. It begins with a zarr store, this with a .npy, which is"
    " not in the page cache. vfs flushes what it wrote to the disk, zarr-python does not.",
}


def write(docs: Path, found: dict[str, Table], shapes: Shapes, seconds: float) -> Path:
    """Write the page and its pictures into a folder.

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
            lines += ["", f"![{TITLES[kind]}: seconds, less is better](pictures/{drawn.name})"]
    lines += _ahead(found)
    page = docs / "figures.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def _head(found: dict[str, Table], shapes: Shapes, seconds: float) -> Iterator[str]:
    yield "# Figures\n"
    yield "Seconds of vfs and other tools, on the same files.\n"
    most = max((table.busy for table in found.values()), default=0.0)
    if most > BUSY:
        yield (
            f"**Measured while the machine was loaded**: others took up to {most:.0%} of the cores. Take these"
            f" figures for"
            " nothing but an example of the page.\n"
        )
    if shapes != FULL_SHAPES:
        yield "**Measured with tiny files**, to see that it runs.\n"
    yield "`scripts/bench --publish` writes this page, words and pictures; it took"
    yield f"{seconds / 60:.0f} minutes, once the other tools were installed.\n"
    yield "## How to read it\n"
    yield f"- A number is the median of {shapes.rounds} rounds, with the least and the most of them."
    yield (
        "- Behind it stands how it compares with numpy on the same file (for compressed files: with the frames that"
        " were"
        " written): `=` the same numbers, all of them; `≈ 3e-08` the largest difference, as a share of the largest"
        " value; `≠`"
        " something else."
    )
    yield (
        "- Every tool reads a file in a process of its own, one after the other, with all cores. It has read a small"
        " file of"
        " the kind before: libraries are imported, kernels compiled. Each round opens the file anew."
    )
    yield (
        "- Files are in the page cache, where nothing else is said. So decoding and copying are compared, and no disks."
    )
    yield (
        f"- Memory is the most that the process and its children had for themselves in a step, beyond what they had"
        f" before"
        f" the file was opened, looked at every {LOOKS * 1000:.0f} ms. Mapped files do not count."
    )
    yield (
        "- The bright field is a disk of 8 % of the frame. Tools make it as their manuals show; where one has no such"
        " function, the name says what makes it (numpy, 128 frames at a time, or dask)."
    )
    yield ""
    yield "## The machine\n"
    yield _machine()
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
    yield f"\n## {TITLES[kind]}\n"
    shape = " x ".join(map(str, (*sample.scan, *sample.sig)))
    size = f"{sample.nbytes / 2**30:.2f} GiB" if sample.nbytes >= 2**28 else f"{sample.nbytes / 2**20:.1f} MiB"
    yield f"{shape}, {np.dtype(sample.dtype).name}, {size} of pixels." + (
        f" {PUBLISHED[kind]}" if kind in PUBLISHED else ""
    )
    steps = list(dict.fromkeys(step for row in table.rows for step in row.figures))
    yield ""
    yield f"| tool | {' | '.join(NAMES[step] for step in steps)} | most memory |"
    yield "|---" * (len(steps) + 2) + "|"
    for row in table.rows:
        if row.figures:
            cells = [_cell(row.figures[step], step) if step in row.figures else "" for step in steps]
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


def _cell(figure: Figure, step: str) -> str:
    least, most = min(figure.seconds), max(figure.seconds)
    off = " =" if figure.off == 0 else " ≠" if figure.off > WRONG else f" ≈ {figure.off:.0e}"
    if step == "open":  # what was opened is compared by the steps that follow
        off = ""
    unit, factor = ("s", 1.0) if figure.median >= 1 else ("ms", 1e3)
    return f"{figure.median * factor:.3g} {unit} ({least * factor:.3g}–{most * factor:.3g}){off}"


def _memory(row: Row) -> str:
    step, figure = max(row.figures.items(), key=lambda one: sorted(one[1].memory)[len(one[1].memory) // 2])
    middle = sorted(figure.memory)[len(figure.memory) // 2]
    least, most = min(figure.memory), max(figure.memory)
    return f"{middle / 2**20:,.0f} MiB ({least / 2**20:,.0f}–{most / 2**20:,.0f}), {NAMES[step]}"


def _ahead(found: dict[str, Table]) -> Iterator[str]:
    yield "\n## Where others are ahead\n"
    said = False
    for kind, table in found.items():
        ours = [row for row in table.rows if row.tool.startswith("vfs") and row.figures]
        for step in dict.fromkeys(step for row in ours for step in row.figures):
            best = min(row.figures[step].median for row in ours if step in row.figures)
            faster = [
                f"{row.tool} {best / row.figures[step].median:.1f} times as fast"
                for row in table.rows
                if not row.tool.startswith("vfs")
                and step in row.figures
                and row.figures[step].off <= WRONG
                and row.figures[step].median < best
            ]
            if faster:
                said = True
                yield f"- {TITLES[kind]}, {NAMES[step]}: {', '.join(faster)}."
    if not said:
        yield "Nowhere in these tables."


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
