"""README.md and the pages of `vfs/docs` say what is so: their sessions print what they show, their
tables are complete, their links lead somewhere.

How sessions are typed is in `tests.sessions`; those that need another tool are typed in tests/doors.
VFS_WRITE_DOCS=1 puts what the sessions print, and what is generated of the formats, into the pages
instead of comparing.
"""

from __future__ import annotations

import ast
import errno
import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.sessions import IN_DOORS, PAGES, README, ROOT, SESSION, WITH_SESSIONS, check_sessions, compare
from vfs.cli import app
from vfs.errors import DependencyError
from vfs.formats import Format, formats
from vfs.model.options import named
from vfs.serving.status import MountStatus
from vfs.testing.writers import write_mib

NO_NAMES = ("vfs.desktop", "vfs.json", "vfs.hdf5", "vfs.live")  # files, a codec, an attribute
SECTION = re.compile(r"^### (\w+)\n(?:\n(?!#).*\n\nFiles: .*\n(?:\n(?:- `-o .*\n)+)?)?", re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in WITH_SESSIONS if name not in IN_DOORS])
def test_sessions_print_what_the_page_shows(name: str, tmp_path: Path) -> None:
    text = PAGES[name].read_text()
    typed = "".join(typed for _, typed in SESSION.findall(text))
    if re.search(r"vfs.mount", typed) and not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    if "from distributed" in typed:
        pytest.importorskip("distributed")
    check_sessions(PAGES[name], tmp_path)


def test_all_code_of_pages_is_run() -> None:
    """But for a package that tests/conformance/test_outside.py installs, and what other languages' sections show."""
    with_sessions = {"README", "commands", "dask", "folders", "formats", "how-it-works", "mount", "ome-zarr", "serve"}
    assert with_sessions | {"recipes", "reductions", "security", *IN_DOORS} <= {*WITH_SESSIONS}
    for name in {*PAGES} - {"adding-a-format"}:
        text = PAGES[name].read_text()
        assert len(re.findall(r"^```(?:console|python)$", text, re.M)) == len(SESSION.findall(text)), name


def format_section(one: Format) -> str:
    """What the page says of each format: what it is, its files, where it is specified, a line for each option."""
    files = " ".join(f"`{ending}`" for ending in one.extensions)
    made = f"### {one.name}\n\n{one.summary[0].upper()}{one.summary[1:]}.\n\nFiles: {files}."
    made += f" See <{one.url}>.\n" if one.url else "\n"
    for name, parameter in one.options.items():
        default = str(parameter.default).lower() if isinstance(parameter.default, bool) else parameter.default
        assert one.help(name), f"{one.name} says nothing of its option {name}"
        made += "\n" * (name == next(iter(one.options)))
        made += f"- `-o {name}=…` ({named(parameter.annotation)}"
        made += ")" if default in (None, "") else f"; default `{default}`)"
        made += f": {one.help(name)}\n"
    return made


def test_sections_of_formats_are_current() -> None:
    text = PAGES["formats"].read_text()
    before, heading, rest = text.partition("## All formats\n")
    sections, end, after = rest.partition("\n## ")
    names = [found[1] for found in SECTION.finditer(sections)]
    assert names == sorted({*formats()} & {*names}), (
        "sections are in the order of names; tests/test_places.py names the others"
    )
    made = SECTION.sub(lambda found: format_section(formats()[found[1]]), sections)
    compare(PAGES["formats"], before + heading + made + end + after, text)


def test_readme_is_short_and_begins_with_commands_and_sessions() -> None:
    text = README.read_text()
    first = text.partition("## Formats")[0]
    assert first.startswith("# vfs\n\n")
    for script in re.findall(r"^scripts/\w+", first, re.MULTILINE):
        assert os.access(ROOT / script, os.X_OK)
    assert [kind for kind, _ in SESSION.findall(first)] == ["console", "python"]
    assert len(first.splitlines()) < 70
    assert len(text.splitlines()) <= 130


def anchors(text: str) -> set[str]:
    """What `#…` of a link may name: the headings, as GitHub spells them."""
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)", text, re.M)
    }


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    links = [
        link.partition("#")[::2] for link in re.findall(r"\]\(([^)]+)\)", PAGES[name].read_text()) if "://" not in link
    ]
    for path, anchor in links:
        page = PAGES[name].parent / path if path else PAGES[name]
        assert page.exists(), path
        assert not anchor or anchor in anchors(page.read_text()), f"{path}#{anchor}"
    if name == "README":
        assert {Path(path).stem for path, _ in links} >= {*PAGES} - {"README"}, "a page that the README does not name"


def docstrings() -> Iterator[tuple[str, str]]:
    """Where it is and what it says, of each docstring in vfs."""
    for path in sorted((ROOT / "vfs").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", ast.get_docstring(node) or ""


def exists(name: str) -> bool:
    """Whether a dotted name is a module or what one has, or needs a package that is not here."""
    parts = name.split(".")
    found: Any = None
    try:
        for n in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:n]))
                break
            except ModuleNotFoundError:
                continue
        for part in parts[n:]:
            if part in getattr(found, "__annotations__", {}):
                return True
            found = getattr(found, part)
    except DependencyError:
        return True
    except AttributeError:
        return False
    return found is not None


def test_names_and_paths_that_are_mentioned_exist() -> None:
    texts = [(name, page.read_text()) for name, page in PAGES.items() if name != "changes"]  # what was stays there
    texts += [
        *docstrings(),
        *((name, (ROOT / ".github" / name).read_text()) for name in ("CONTRIBUTING.md", "SECURITY.md")),
    ]
    wrong = []
    for where, text in texts:
        for name in re.findall(r"`(vfs(?:\.\w+)+)[`(\[]", text):
            if name.count(".") and name not in NO_NAMES and not exists(name):
                wrong.append(f"{where}: {name}")
        for path in re.findall(r"`((?:vfs|tests|scripts|\.ci|\.docs)/[\w./*-]+)[` ]", text):
            if not any(ROOT.glob(path.rstrip("/"))):
                wrong.append(f"{where}: {path}")
    assert wrong == []


def test_messages_that_are_explained_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = PAGES["troubleshooting"].read_text().partition("| it says |")[2].partition("\n\n")[0]
    frames = np.zeros((6, 8, 8), np.uint16)
    (tmp_path / "plain.bin").write_bytes(b"\x93" * 4096)
    (tmp_path / "empty.mib").touch()
    np.save(tmp_path / "cut.npy", frames)
    os.truncate(tmp_path / "cut.npy", 300)
    (tmp_path / "full").mkdir()
    scan = write_mib(tmp_path, frames, frames_per_file=2, scan=(2, 3), missing=[1])
    away = tmp_path / "away"
    away.mkdir()
    for path in write_mib(tmp_path / "full", frames, frames_per_file=2, scan=(2, 3)).parent.iterdir():
        (away / path.name).symlink_to(path)
    for call in (
        ["info", f"{tmp_path}/plain.bin"],
        ["info", str(scan)],
        ["info", f"{tmp_path}/empty.mib"],
        ["info", f"{tmp_path}/cut.npy"],
        ["info", f"{away}/scan001.mib"],
        ["mount", f"{tmp_path}/full/scan.hdr", str(tmp_path / "full")],
    ):
        assert app.main(call) == 2
    said = capsys.readouterr().err
    changed = vfs.open(tmp_path / "full/scan.hdr")
    with (tmp_path / "full/scan001.mib").open("ab") as file:
        file.write(b"more")
    with pytest.raises(vfs.SourceChangedError) as error:
        changed.read()
    said += str(error.value) + os.strerror(errno.ENOTCONN) + os.strerror(errno.EIO)
    explained = [row.split("|")[1].strip(" `") for row in table.splitlines()[2:]]
    elsewhere = {"is not written yet", "pip install 'vfs["}  # tests/live, tests/test_start.py
    for message in {*explained} - elsewhere:
        assert all(piece.strip() in said for piece in message.split("…")), message


def test_docs_lists_the_pages_and_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["docs"]) == 0
    *listed, last = capsys.readouterr().out.splitlines()
    order = re.findall(r"\]\(vfs/docs/([\w-]+)\.md\)", PAGES["README"].read_text().partition("| page |")[2])
    assert [line.split()[0] for line in listed] == order, "a line for each, in the order of the README"
    assert {*order} == {*PAGES} - {"README"}
    assert last == "`vfs docs TOPIC` prints one"
    for name, page in PAGES.items():
        if name != "README":
            assert app.main(["docs", name]) == 0
            assert capsys.readouterr().out == page.read_text()


def test_docs_on_a_terminal_are_laid_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert app.main(["docs", "commands"]) == 0
    out = capsys.readouterr().out
    assert "Commands" in out
    assert not re.search(r"^#", out, re.M)
    assert "|---|" not in out


def test_docs_are_searched(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["docs", "--search", "UNMOUNT --lazy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    headings = [line for line in lines if not line.startswith("  ")]
    assert "commands: Commands" in headings
    assert len(headings) == len({*headings}), "a heading stands once above its paragraphs"
    found = " ".join(line.strip() for line in lines)
    assert "| `vfs unmount MOUNTPOINT` | ends a mount" in found
    assert "| `vfs mounts` |" not in found, "a row by itself"
    assert app.main(["docs", "--search", "UNMOUNT", "mountpoint"]) == 0
    assert "| `vfs unmount MOUNTPOINT` |" in capsys.readouterr().out, "words without quotes"
    assert app.main(["docs", "mount", "--search", "unmount"]) == 0
    assert {line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "} == {"mount"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["--search", "qzqzqz"], "no page has a paragraph with 'qzqzqz'"),
        (["mount", "--search", "qzqzqz"], "nothing in the page mount has a paragraph with 'qzqzqz'"),
        (["virtualizarr", "--search", "ew"], "nothing in the page virtualizarr has"),  # words begin so: newer
        (["--search", " "], "expected a word"),
        (["mount", "scale", "bar"], "--search mount scale bar looks for words"),
    ],
)
def test_what_no_page_has_is_one_line(call: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["docs", *call]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


@pytest.mark.parametrize(
    ("topic", "said"), [("moun", "did you mean mount?"), ("zzz", "there are install, tutorial-scan, ")]
)
def test_docs_of_a_wrong_topic_is_one_line(topic: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["docs", topic]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"no page '{topic}'" in err
    assert said in err


def test_fields_of_a_mounts_status_are_all_there() -> None:
    table = PAGES["mount"].read_text().partition("| field of `status.json` |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(names) == sorted(["vfs", *(field.name for field in fields(MountStatus))])


def test_fields_of_info_are_all_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_mib(tmp_path, np.zeros((1, 8, 8), np.uint16), frames_per_file=1, scan=(1, 1))
    assert app.main(["info", "--json", "--zarr-format", "3", str(path)]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    table = PAGES["commands"].read_text().partition("| field of `vfs info --json` |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert set(names) == {*entry, *entry["arrays"]["exposure"]}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_understands_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}

    def verified(text: str) -> tuple[int, str]:
        (tmp_path / "scan.service").write_text(text)
        command = [
            "systemd-analyze",
            "verify",
            "--user",
            "--man=no",
            "--recursive-errors=no",
            str(tmp_path / "scan.service"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=environment)
        return done.returncode, done.stderr

    _, said = verified("[Service]\nExecStart=/nonexistent\nKillMode=nonsense\n")
    if "nonsense" not in said:
        pytest.skip(f"systemd-analyze cannot verify here: {said}")
    odd = tmp_path / "100% of\\x"
    odd.mkdir()
    (odd / "mnt").mkdir()
    monkeypatch.chdir(odd)
    np.save("a $HOME;'\"\\.npy", np.zeros((2, 4, 4)))
    assert app.main(["mount", "--unit", "a $HOME;'\"\\.npy", "mnt"]) == 0
    assert verified(capsys.readouterr().out) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="no /dev/fuse")
def test_the_unit_starts_and_ends_a_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As systemd would do it, which is not running where tests run: the line itself, READY=1,
    SIGTERM to the main process.
    """
    data = tmp_path / "100% of data"
    data.mkdir()
    (tmp_path / "mnt").mkdir()
    (tmp_path / "runtime").mkdir(mode=0o700)
    write_mib(data, np.arange(2 * 6 * 64, dtype=np.uint16).reshape(12, 8, 8), frames_per_file=5, scan=(2, 6))
    monkeypatch.chdir(data)
    assert app.main(["mount", "scan.hdr", "--unit", "../mnt", "-o", "flip_y=false"]) == 0
    settings = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines() if "=" in line)
    assert settings["Type"] == "notify"
    assert settings["KillMode"] == "mixed"
    command = settings["ExecStart"].replace("%%", "%").split()
    assert command == [sys.executable, "-P", "-m", "vfs", "mount", "scan.hdr", "../mnt", "-o", "flip_y=false"]
    folder = settings["WorkingDirectory"].replace("%%", "%")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + str(tmp_path / "notify"))
        manager.settimeout(60)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SSH_CONNECTION"},
            "NOTIFY_SOCKET": "@" + str(tmp_path / "notify"),
            "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
        }
        with subprocess.Popen(
            command, env=environment, cwd=folder, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        ) as service:
            try:
                assert manager.recv(1000) == b"READY=1"
                assert manager.recv(1000).startswith(b"STATUS=0 B in 0 reads")
                assert (tmp_path / "mnt/scan.npy").stat().st_size == 128 + 2 * 6 * 64 * 2
            finally:
                service.terminate()
            _, said = service.communicate(timeout=250)
            assert service.returncode == 0
    assert "no errors" in said
    assert os.listdir(tmp_path / "mnt") == []
