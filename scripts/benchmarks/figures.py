"""Writes the tables and pictures of `vfs/docs/figures.md`: `scripts/bench --publish [--small] [FOLDER]`.

The tables that others publish, with files of the same shapes, and vfs beside other tools on the same files. Each tool
reads each file in a process of its own (`figure_tools.py`), one after the other, with all cores of the machine; this
process meanwhile looks at how much memory that one and its children have. The words are in `figure_page.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from scripts.benchmarks import figure_samples as samples
from scripts.benchmarks.figure_samples import FULL_SHAPES, SMALL_SHAPES, Sample, Shapes
from scripts.benchmarks.figure_tools import TOOLS

LONGEST = 150
"""Seconds after which a tool is given up."""
LOOKS = 0.01
"""Seconds from one look at the memory of a process to the next."""
BUSY = 0.1
"""Share of the cores that others may take before the page says that the machine was loaded."""


class Figure(NamedTuple):
    """What a tool took for a step, each number as often as there were rounds.

    Attributes:
        seconds: by the clock.
        memory: bytes at the most, beyond what the process had before it opened the file.
        off: largest difference from numpy, as a share of the largest value; 0: the same numbers.
        stored: bytes of the store that was written.
    """

    seconds: tuple[float, ...]
    memory: tuple[int, ...]
    off: float
    stored: int = 0

    @property
    def median(self) -> float:
        """Of the seconds."""
        return statistics.median(self.seconds)


class Row(NamedTuple):
    """What a tool did with a file, or why it did not.

    Attributes:
        figures: step -> what it took.
        failed: what the tool said; "" where it went well.
    """

    tool: str
    figures: dict[str, Figure]
    failed: str = ""


class Table(NamedTuple):
    """All tools that read one file.

    Attributes:
        busy: share of the cores that other processes took just before.
        cold: the file was not in the page cache.
    """

    sample: Sample
    rows: list[Row]
    busy: float
    cold: bool = False


def busy(seconds: float) -> float:
    """Share of the cores' time that goes to anybody while this process waits."""

    def now() -> tuple[int, int]:
        ticks = [int(k) for k in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]

    before = now()
    time.sleep(seconds)
    after = now()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


class Memory:
    """Looks at the memory of a process and of those that it started, until it ends.

    What a process has for itself counts, and what it shares with others that is no file; mapped files do not.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.seen: list[tuple[float, int]] = []
        self._process = process
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while self._process.poll() is None:
            self.seen.append((time.monotonic(), sum(map(_own, _family(self._process.pid)))))
            time.sleep(LOOKS)

    def before(self, when: float) -> int:
        """Bytes when somebody last looked before a time."""
        return next((nbytes for at, nbytes in reversed(self.seen) if at <= when), 0)

    def most(self, began: float, ended: float) -> int:
        """Bytes at the most within a time; what was seen last before, where nobody looked then."""
        return max((nbytes for at, nbytes in self.seen if began <= at <= ended), default=self.before(ended))

    def end(self) -> None:
        self._thread.join()


def _family(pid: int) -> list[int]:
    """A process and its children, and theirs."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:  # it has just ended
            continue
    return found


def _own(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))


def run(job: dict[str, Any], folder: Path) -> Row:
    """Have a tool do a job in a process of its own: see `figure_tools.main`."""
    name = folder / "job.json"
    name.write_text(json.dumps(job))
    command = [sys.executable, "-m", "scripts.benchmarks.figure_tools", str(name)]
    with (folder / "said").open("wb") as said, (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdout=said, stderr=errors, start_new_session=True)
        memory = Memory(process)
        try:
            process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            return Row(job["tool"], {}, f"was given up after {LONGEST} s")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            memory.end()
    text = (folder / "said").read_text()
    if not text:
        lines = (folder / "errors").read_text(errors="replace").strip().splitlines()
        return Row(job["tool"], {}, f"ended with status {process.returncode}: {lines[-1][:120] if lines else ''}")
    told = json.loads(text)
    return Row(job["tool"], _figures(told.get("found", []), memory), told.get("failed", ""))


def _figures(found: list[dict[str, Any]], memory: Memory) -> dict[str, Figure]:
    """Figures of all rounds, by step."""
    made: dict[str, Figure] = {}
    before = 0
    for one in found:
        if one["step"] == found[0]["step"]:  # a round begins
            before = memory.before(one["began"])
        took = one["ended"] - one["began"]
        rise = max(0, memory.most(one["began"], one["ended"]) - before)
        last = made.get(one["step"], Figure((), (), 0.0))
        made[one["step"]] = Figure(
            (*last.seconds, took), (*last.memory, rise), max(last.off, one["off"]), one.get("bytes", 0)
        )
    return made


def tables(folder: Path, shapes: Shapes, kinds: tuple[str, ...], tools: tuple[str, ...] = ()) -> dict[str, Table]:
    """Measure everything.

    Args:
        kinds: which files; tools: which tools, by the beginning of their names; all if there is none.

    Returns: kind -> table; "mrc, cold" is the MRC that is not in the page cache, by vfs alone.
    """
    made: dict[str, Table] = {}
    for kind in kinds:
        small = samples.samples(folder / "small", kind, SMALL_SHAPES)
        sample = samples.samples(folder / "full", kind, shapes)
        job = {"small": small, "sample": sample, "rounds": shapes.rounds, "cold": False}
        job |= {"chunks": (shapes.chunk, shapes.inner), "small_chunks": (SMALL_SHAPES.chunk, SMALL_SHAPES.inner)}
        names = ["vfs", "zarr-python"] if kind == "export" else list(TOOLS[kind])
        names = [name for name in names if not tools or name.startswith(tools)]
        others = busy(1.0)
        made[kind] = Table(sample, [_said(kind, run(job | {"tool": name}, folder)) for name in names], others)
        if kind == "mrc":
            cold = _said("mrc, not in the page cache", run(job | {"tool": "vfs", "cold": True}, folder))
            made["mrc, cold"] = Table(sample, [cold], others, True)
        for name in ("small", "full"):
            shutil.rmtree(folder / name)
    return made


def _said(kind: str, row: Row) -> Row:
    """Print a row as it is found."""
    took = ", ".join(f"{step} {figure.median:.4g} s" for step, figure in row.figures.items())
    print(f"{kind:8} {row.tool:22} {row.failed or took}", flush=True)
    return row


def main() -> None:
    """Measure, then write the page and its pictures."""
    from scripts.benchmarks import figure_page
    from scripts.benchmarks.rows import machine

    parser = argparse.ArgumentParser(prog="scripts/bench --publish", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=figure_page.DOCS, help="where the page is written")
    parser.add_argument("--small", action="store_true", help="tiny files: only to see that it runs")
    parser.add_argument("--kinds", default=",".join(samples.kinds()), help="which files, with commas between them")
    given = parser.parse_args()
    began = time.monotonic()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="vfs-figures-") as folder:
        shapes = SMALL_SHAPES._replace(rounds=3) if given.small else FULL_SHAPES
        found = tables(Path(folder), shapes, tuple(given.kinds.split(",")))
    page = figure_page.write(given.folder, found, shapes, time.monotonic() - began)
    print(f"{page}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
