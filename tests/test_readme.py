"""README.md says what is so: its sessions run on what `vfs demo --keep` writes and must print what it shows, its tables must be complete.

VFS_WRITE_README=1 puts what the sessions print, and the table of formats, into README.md instead of comparing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vfs import cli, report
from vfs.formats import formats
from vfs.mount.status import Status
from vfs.testing.writers import write_mib

README = Path(__file__).parents[1] / "README.md"
WRITE = bool(os.environ.get("VFS_WRITE_README"))
TABLE = re.compile(r"(<!-- formats: .*? -->\n).*?(<!-- /formats -->)", re.DOTALL)
SESSION = re.compile(r"(?<=^```)(console|python)\n(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r" in 0:00:\d\d$", re.MULTILINE)  # that a mount of a session lasted
PROMPTS = {"console": ("$ ", "> "), "python": (">>> ", "... ")}
PYTHON = """
import contextlib, io, json, sys
scope = {"__name__": "__main__"}
for source in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, "<README>", "single"), scope)
    print(json.dumps(out.getvalue()))
"""


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
        for name, command in (("vfs", f"{sys.executable} -P -m vfs.cli"), ("python3", f"{sys.executable} -P")):
            (bin_ / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (bin_ / name).chmod(0o755)
        self.folder = folder / "home"
        self.folder.mkdir()
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "PATH": f"{bin_}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
        self.process = subprocess.Popen(
            ["bash"], cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def type(self, text: str) -> str:
        """What is printed for some lines; for a command in the background, up to its first line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        end = "" if text.rstrip().endswith("&") else "echo @@end\n"
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
        if shutil.which("mountpoint"):  # a failed session may leave its mount behind
            subprocess.run(f"mountpoint -q '{self.folder}/mnt' && umount -l '{self.folder}/mnt'", shell=True, check=False, timeout=30)
        self.process.kill()
        self.process.communicate()


def run_python(sources: list[str], folder: Path) -> list[str]:
    command = [sys.executable, "-P", "-W", "ignore", "-c", PYTHON, json.dumps(sources)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="no /dev/fuse: the sessions of the README cannot be run here")
@pytest.mark.timeout(300)
def test_sessions_print_what_the_readme_shows(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    text = README.read_text()
    kinds = set()

    def rerun(found: re.Match[str]) -> str:
        kind, steps = found[1], list(parse(found[1], found[2]))
        kinds.add(kind)
        sources = [typed for typed, _ in steps]
        shown = [shell.type(typed) for typed in sources] if kind == "console" else run_python(sources, shell.folder)
        shown = [SECONDS.sub(" in 0:00:01", one) for one in shown]
        return f"{kind}\n" + write(kind, list(zip(sources, shown, strict=True)))

    try:
        made = SESSION.sub(rerun, text)
    finally:
        shell.close()
    assert kinds == {"console", "python"}
    if WRITE:
        README.write_text(made)
    else:
        assert made == text


def test_table_of_formats_is_current() -> None:
    text = README.read_text()
    table = "\n".join(report.formats_markdown(formats()))
    made = TABLE.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)
    assert made.count(table) == 1, "the marks of the table are gone"
    if WRITE:
        README.write_text(made)
    else:
        assert made == text, "run it again with VFS_WRITE_README=1"


def test_every_command_and_option_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text()
    cli.main(["--help"])
    listed = capsys.readouterr().out.partition("Commands:")[2].partition("\n\n")[0]
    commands = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert commands
    for command in commands:
        assert f"| `vfs {command}" in text
        cli.main([command, "--help"])
        for option in re.findall(r"(?<= )--[a-z][a-z-]+", capsys.readouterr().out):
            assert re.search(rf"`(-\w, )?{option}\b|{option}` \|", text) or option in ("--help", "--verbose", "--option"), f"{option} of {command}"


def test_first_screen_has_the_sentence_the_commands_and_both_sessions() -> None:
    first = README.read_text().partition("## ")[0]
    assert first.startswith("# vfs\n\n")
    for script in re.findall(r"^scripts/\w+", first, re.MULTILINE):
        assert os.access(README.parent / script, os.X_OK)
    assert [kind for kind, _ in SESSION.findall(first)] == ["console", "python"]
    assert len(first.splitlines()) < 70


def test_fields_of_a_mounts_status_are_all_there() -> None:
    table = README.read_text().partition("| field of `status.json` |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(names) == sorted(["vfs", *Status.__annotations__])


def test_fields_of_info_are_all_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_mib(tmp_path, np.zeros((1, 8, 8), np.uint16), frames_per_file=1, scan=(1, 1))
    assert cli.main(["info", "--json", "--zarr-format", "3", str(path)]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    table = README.read_text().partition("| field of `vfs info --json` |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert set(names) == {*entry, *entry["arrays"]["exposure"]}


def unit() -> str:
    """The systemd unit."""
    return re.findall(r"^```ini\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)[0]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    program = tmp_path / ".local/bin/vfs"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}

    def verified(text: str) -> tuple[int, str]:
        (tmp_path / "scan.service").write_text(text)
        command = ["systemd-analyze", "verify", "--user", "--man=no", "--recursive-errors=no", str(tmp_path / "scan.service")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
        return done.returncode, done.stderr

    _, said = verified("[Service]\nExecStart=/nonexistent\nKillMode=nonsense\n")
    if "nonsense" not in said:
        pytest.skip(f"systemd-analyze cannot verify here: {said}")
    assert verified(unit()) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="no /dev/fuse")
def test_the_unit_starts_and_ends_a_mount(tmp_path: Path) -> None:
    """As systemd would do it, which is not running where tests run: the line itself, READY=1, SIGTERM to the main process."""
    (tmp_path / "data").mkdir()
    (tmp_path / "mnt").mkdir()
    (tmp_path / "runtime").mkdir(mode=0o700)
    (tmp_path / ".local/bin").mkdir(parents=True)
    program = tmp_path / ".local/bin/vfs"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m vfs.cli "$@"\n')
    program.chmod(0o755)
    write_mib(tmp_path / "data", np.arange(2 * 6 * 64, dtype=np.uint16).reshape(12, 8, 8), frames_per_file=5, scan=(2, 6))
    settings = dict(line.split("=", 1) for line in unit().splitlines() if "=" in line)
    assert settings["Type"] == "notify"
    assert settings["KillMode"] == "mixed"
    command = settings["ExecStart"].replace("%h", str(tmp_path)).split()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + str(tmp_path / "notify"))
        manager.settimeout(60)
        environment = {**os.environ, "NOTIFY_SOCKET": "@" + str(tmp_path / "notify"), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
        with subprocess.Popen(command, env=environment, cwd="/", stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as service:
            try:
                assert manager.recv(1000) == b"READY=1"
                assert manager.recv(1000).startswith(b"STATUS=0 B in 0 reads")
                assert (tmp_path / "mnt/scan.npy").stat().st_size == 128 + 2 * 6 * 64 * 2
            finally:
                service.terminate()
            _, said = service.communicate(timeout=60)
            assert service.returncode == 0
    assert "no errors" in said
    assert os.listdir(tmp_path / "mnt") == []
