"""Plants faults in vfs, one at a time, and says which test finds each: python -m scripts.mutation, by scripts/mutants.

A fault is a comparison that is off by one or the wrong way round, a sum that is a difference, two arguments or axes
that changed places, an `and` that is an `or`, a warning that is not given, or a handle that is not closed. Which are
planted follows from the seed and the code alone: as many in each room as it has lines, one at least. The tests of the
room run first, then, if they miss the fault and that is asked for, the suite.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

SWAPPED: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Add: "-",
    ast.Sub: "+",
    ast.And: "or",
    ast.Or: "and",
}
SILENT = {"warn", "incomplete", "close", "release", "unlink", "shutdown", "clear"}
"""Calls whose result nobody uses, and which a fault leaves out."""

BESIDE = {
    "api": ["tests/test_api.py", "tests/api", "tests/integrations"],
    "backends": ["tests/backends", "tests/engine", "tests/sources"],
    "contents": ["tests/faces", "tests/folder_tree", "tests/http/test_tree.py", "tests/fuse/test_shown.py"],
    "formats": ["tests/formats", "tests/conformance"],
    "kernels": ["tests/kernels", "tests/model", "tests/engine", "tests/reduce"],
    "model": ["tests/model", "tests/engine", "tests/formats", "tests/test_incomplete.py"],
    "outputs": ["tests/zarr", "tests/reduce"],
    "page": ["tests/http", "tests/page"],
    "pictures": ["tests/pictures", "tests/http", "tests/cli"],
    "server": ["tests/http"],
    "serving": ["tests/serving", "tests/fuse", "tests/http"],
    "sets": ["tests/sets", "tests/test_api.py", "tests/test_incomplete.py", "tests/cli"],
}
"""Room -> tests that run first, where they are not those of the folder of its name."""


class Fault(NamedTuple):
    """Text of a file that stands for other text.

    Attributes:
        path: of the file, from the top of the checkout.
        line: counted from 1.
        start, stop: bytes of the line, half-open.
        new: what stands there instead.
    """

    path: str
    line: int
    start: int
    stop: int
    new: str

    def planted(self, text: bytes) -> bytes:
        """Return the text of the file with the fault."""
        lines = text.splitlines(keepends=True)
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: self.start] + self.new.encode() + old[self.stop :]
        return b"".join(lines)

    def __str__(self) -> str:
        old = (ROOT / self.path).read_bytes().splitlines()[self.line - 1]
        return f"{self.path}:{self.line}: {old[self.start : self.stop].decode()} -> {self.new}"


def faults(path: Path) -> Iterator[Fault]:
    """Yield the faults that can be planted in a module."""
    text = path.read_bytes()
    lines, name = text.splitlines(), path.relative_to(ROOT).as_posix()

    def fault(node: ast.AST, new: str) -> Iterator[Fault]:
        if node.lineno == node.end_lineno:  # type: ignore[attr-defined]
            yield Fault(name, node.lineno, node.col_offset, node.end_col_offset, new)  # type: ignore[attr-defined]

    def between(left: ast.expr, right: ast.expr, new: str) -> Iterator[Fault]:
        if left.end_lineno == right.lineno and left.end_col_offset is not None:
            gap = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
            found = re.search(rb"[-<>=!+]+|\band\b|\bor\b", gap)
            if found and b"(" not in gap and b")" not in gap:
                at = left.end_col_offset
                yield Fault(name, right.lineno, at + found.start(), at + found.end(), new)

    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in SWAPPED:
                yield from between(left, right, SWAPPED[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPPED and _number(left, right):
                yield from between(left, right, SWAPPED[type(op)])
            case ast.BoolOp(op=op, values=[left, right]):
                yield from between(left, right, SWAPPED[type(op)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from fault(node, ast.unparse(operand))
            case ast.Tuple(elts=[ast.Name(id=a), ast.Name(id=b)], ctx=ast.Load()) if not _types(a, b):
                whole = lines[node.lineno - 1][node.col_offset :].startswith(b"(")
                yield from fault(node, f"({b}, {a})" if whole else f"{b}, {a}")
            case ast.Call(func=func, args=[ast.Name(id=a), ast.Name(id=b)], keywords=[]) if not _checks(func):
                yield from fault(node, f"{ast.unparse(func)}({b}, {a})")
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name_) | ast.Name(id=name_))) if name_ in SILENT:
                yield from fault(node, "pass")


def _number(left: ast.expr, right: ast.expr) -> bool:
    return (
        isinstance(left, ast.Constant | ast.Name)
        and isinstance(right, ast.Constant | ast.Name)
        and not any(isinstance(side, ast.Constant) and not isinstance(side.value, int) for side in (left, right))
    )


def _types(*names: str) -> bool:
    return any(not name.islower() or hasattr(builtins, name) for name in names)


def _checks(func: ast.expr) -> bool:
    return isinstance(func, ast.Name) and func.id in ("isinstance", "issubclass", "min", "max")


def chosen(count: int, seed: int) -> list[Fault]:
    """Choose faults: of each room as many as it has lines, one at least."""
    draw = random.Random(seed)
    rooms: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "vfs").rglob("*.py")):
        room = path.relative_to(ROOT / "vfs").parts[0]
        if room not in ("testing", "integrations") and len(path.relative_to(ROOT / "vfs").parts) > 1:
            rooms.setdefault(room, []).append(path)
    lines = {room: sum(len(path.read_bytes().splitlines()) for path in paths) for room, paths in rooms.items()}
    found = []
    for room, paths in rooms.items():
        all_ = [fault for path in paths for fault in faults(path)]
        found += draw.sample(all_, min(len(all_), max(1, round(count * lines[room] / sum(lines.values())))))
    return found


def first_tests(fault: Fault) -> list[str]:
    """Return the tests that are run first for a fault."""
    _, room, *_ = fault.path.split("/")
    if room == "formats":
        name = fault.path.split("/")[2].removesuffix(".py")
        own = [str(path.relative_to(ROOT)) for path in (ROOT / "tests/formats").glob(f"test_*{name}*.py")]
        return [*own, *BESIDE[room]]
    return [path for path in BESIDE.get(room, [f"tests/{room}"]) if (ROOT / path).exists()]


def finding(folder: Path, tests: list[str], options: list[str], patience: float) -> str:
    """Return the first test that fails in a checkout, `timed out`, or "" where all pass."""
    place = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", *options, *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=place, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return "timed out"
    if done.returncode in (0, 5):
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return failed[1] if failed else f"status {done.returncode}: {done.stdout.strip().splitlines()[-1:]}"


def main() -> int:
    """Plant faults and print a line for each. Returns the number of faults that no test found."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutants", description="Plants faults, and says which test finds each."
    )
    parser.add_argument("count", nargs="?", type=int, default=60)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    parser.add_argument(
        "--whole", action="store_true", help="run the suite for a fault that the tests of its room miss"
    )
    parser.add_argument("--patience", type=float, default=1200, help="seconds for a run of tests, default 1200")
    parser.add_argument("--only", default="", help="faults whose line has this text")
    asked, options = parser.parse_known_args()
    missed = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "checkout"
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
        for name in filter(None, names):
            target = folder / os.fsdecode(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / os.fsdecode(name), target)
        for fault in [fault for fault in chosen(asked.count, asked.seed) if asked.only in str(fault)]:
            if asked.list:
                print(fault)
                continue
            begin = time.monotonic()
            path = folder / fault.path
            text = path.read_bytes()
            path.write_bytes(fault.planted(text))
            try:
                found = finding(folder, first_tests(fault), options, asked.patience)
                if not found and asked.whole:
                    found = finding(folder, ["tests"], options, asked.patience)
            finally:
                path.write_bytes(text)
            missed += not found
            print(f"{'found ' if found else 'MISSED'} {time.monotonic() - begin:4.0f} s  {fault}  {found}", flush=True)
    return min(missed, 99)


if __name__ == "__main__":
    sys.exit(main())
