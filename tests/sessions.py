"""Types the sessions of README.md and of `vfs/docs` into a shell and a Python, as a reader of the page would.

The README's sessions start in an empty folder; those of a page in one with `demo`, which `vfs demo
--keep demo` leaves. VFS_WRITE_DOCS=1 puts what the sessions print into the pages instead of comparing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from vfs.cli.demo import SCAN, SIZE, diffraction
from vfs.testing.writers import write_mib

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "vfs" / "docs"
PAGES = {page.stem: page for page in (README, *sorted(DOCS.glob("*.md")))}
WRITE = bool(os.environ.get("VFS_WRITE_DOCS"))
SESSION = re.compile(r"(?<=^```)(console|python)\n((?:\$|>>>) .*?)(?=^```$)", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(r"127\.0\.0\.1:\d+(/t/[\w-]{22}/)?")  # where a server of a session is
SECONDS = re.compile(r" in 0:00:\d\d$", re.MULTILINE)  # that a mount of a session lasted
HOME = "/home/you"  # what pages call the folder in which sessions run
PROMPTS = {"console": ("$ ", "> "), "python": (">>> ", "... ")}
PYTHON = """
import contextlib, io, json, sys
for line in sys.stdin:
    scope, shown = {"__name__": "__main__"}, []
    for source in json.loads(line):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(source, "<page>", "single"), scope)
        shown.append(out.getvalue())
    print(json.dumps(shown), flush=True)
"""
WITH_SESSIONS = [name for name, page in PAGES.items() if SESSION.search(page.read_text())]
IN_DOORS = ("hyperspy", "napari", "virtualizarr")  # pages whose sessions need a tool that only tests/doors has


def parse(kind: str, text: str) -> Iterator[tuple[str, str]]:
    """(what is typed, what is shown for it) of a session."""
    first, more = PROMPTS[kind]
    typed, shown = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith(first) and typed:
            yield typed, shown
            typed, shown = "", ""
        if line.startswith((first, more) if not shown else first):
            typed += line[len(first) :]
        elif typed and line.rstrip() == more.rstrip():
            typed += "\n"
        else:
            shown += line
    yield typed, shown


def write(kind: str, steps: list[tuple[str, str]]) -> str:
    """The session as it stands in the README."""
    first, more = PROMPTS[kind]
    text = ""
    for typed, shown in steps:
        lines = typed.splitlines(keepends=True)
        text += first + lines[0] + "".join((more + line).rstrip(" \n") + "\n" for line in lines[1:]) + shown
    return text


class Shell:
    """A shell that is typed into line by line."""

    def __init__(self, folder: Path) -> None:
        bin_ = folder / "bin"
        bin_.mkdir()
        for name, command in (("vfs", f"{sys.executable} -P -m vfs"), ("python3", f"{sys.executable} -P")):
            (bin_ / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (bin_ / name).chmod(0o755)
        self.folder = folder / "home"
        self.folder.mkdir()
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        temporary = folder / "tmp"  # servers of others may be known in the usual one: `vfs mounts` would list them
        temporary.mkdir()
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SSH_CONNECTION"},
            "XDG_RUNTIME_DIR": str(runtime),
            "TMPDIR": str(temporary),
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "80",
        }
        self.process = subprocess.Popen(
            ["bash"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, text: str) -> str:
        """What is printed for some lines; for a command in the background, up to its first line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # What served a mount says its last words after `vfs unmount` has returned
        wait = "wait; " if text.startswith("vfs unmount") else ""
        end = "" if text.rstrip().endswith("&") else f"{wait}echo @@end\n"
        self.process.stdin.write(text + end)
        self.process.stdin.flush()
        shown = ""
        while line := self.process.stdout.readline():
            if line.endswith("@@end\n"):
                return shown + line.removesuffix("@@end\n")
            shown += line
            if not end:
                return shown
        raise AssertionError(f"the shell ended at {text!r} after {shown!r}")

    def close(self) -> None:
        with open("/proc/self/mountinfo") as mounted:
            left = [line.split()[4] for line in mounted if line.split()[4].startswith(f"{self.folder}/")]
        for point in left:  # of a session that failed
            subprocess.run(["umount", "-l", point], check=False, timeout=250)
        self.process.kill()
        self.process.communicate()


class Python:
    """A Python that runs sessions one after the other, each with names of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-P", "-W", "ignore", "-c", PYTHON]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def type(self, sources: list[str]) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(sources) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError(self.process.communicate()[1])
        return list(json.loads(answer))

    def close(self) -> None:
        self.process.communicate(timeout=250)


class Reader:
    """Somebody who types the sessions of a page into a shell, and into a Python that ends before the shell goes on."""

    def __init__(self, folder: Path) -> None:
        self.shell = Shell(folder)
        self.python: Python | None = None

    def rerun(self, found: re.Match[str]) -> str:
        """The session with what is really printed."""
        kind, steps = found[1], list(parse(found[1], found[2]))
        sources = [typed for typed, _ in steps]
        if kind == "python":
            self.python = self.python or Python(self.shell.folder)
            shown = self.python.type(sources)
        else:
            self.leave_python()  # a mount does not end as long as a program runs that read there
            shown = [self.shell.type(typed) for typed in sources]
        shown = [TOKEN.sub(lambda at: "127.0.0.1:8765" + ("/t/TOKEN/" if at[1] else ""), one) for one in shown]
        shown = [SECONDS.sub(" in 0:00:01", one).replace(str(self.shell.folder), HOME) for one in shown]
        return f"{kind}\n" + write(kind, list(zip(sources, shown, strict=True)))

    def leave_python(self) -> None:
        if self.python is not None:
            self.python.close()
            self.python = None

    def close(self) -> None:
        self.leave_python()
        self.shell.close()


def compare(page: Path, made: str, text: str) -> None:
    if WRITE:
        page.write_text(made)
    else:
        assert made == text, f"{page.name} is not what it should be; VFS_WRITE_DOCS=1 writes it"


def check_sessions(page: Path, folder: Path) -> None:
    """Type all sessions of a page, and compare what is printed with what it shows."""
    text = page.read_text()
    reader = Reader(folder)
    if page != README:
        (reader.shell.folder / "demo").mkdir()
        write_mib(reader.shell.folder / "demo", diffraction().reshape(-1, SIZE, SIZE), frames_per_file=50, scan=SCAN)
    try:
        made = SESSION.sub(reader.rerun, text)
    finally:
        reader.close()
    compare(page, made, text)
