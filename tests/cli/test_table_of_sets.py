"""`vfs info --csv`: a row for each data set, as a lab keeps them by hand. `vfs info -vv`: all that files say."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vfs.cli import rows
from vfs.cli.app import main
from vfs.sets import opening
from vfs.testing.gatan_writers import write_dm
from vfs.testing.writers import write_mib

TAGS = {
    "Microscope Info": {"Voltage": 300000.0, "Stage Position": {"Stage Alpha": -24.0}, "Specimen": '=HYPERLINK("x")'},
    "Session Info": {"Microscope": "Titan, of the third floor"},
    "DigiScan": {"Sample Time": 10.0},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dm(tmp_path, np.ones((4, 6), np.float32), tags=TAGS, name="image")
    write_mib(tmp_path, np.ones((6, 8, 8), "u2"), scan=(2, 3))
    broken = write_dm(tmp_path, np.ones((4, 6), np.float32), name="broken")
    broken.write_bytes(broken.read_bytes()[:300])
    (tmp_path / "notes.txt").write_text("others")
    return tmp_path


def table(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, dict[str, str]]:
    assert main(["info", "--csv", *map(str, arguments)]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    return {row["name"]: row for row in found}


def test_each_set_has_a_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = table(capsys, folder)
    assert found.keys() == {"image", "scan", "broken.dm3"}
    image = found["image"]
    assert tuple(image) == rows.COLUMNS
    assert (image["format"], image["shape"], image["axes"], image["dtype"]) == ("dm", "4 x 6", "y x", "float32")
    assert (image["beam_energy (keV)"], image["tilt (deg)"], image["dwell_time (s)"]) == ("300.0", "-24.0", "1e-05")
    assert image["microscope"] == "Titan, of the third floor"
    assert (image["step"], image["step_unit"]) == ("0.5", "nm")
    assert image["sample"] == '\'=HYPERLINK("x")', "a spreadsheet must not compute what a file says"
    assert (image["path"], image["files"]) == (str(folder / "image.dm3"), "1")
    assert int(image["size (bytes)"]) == (folder / "image.dm3").stat().st_size
    assert found["scan"]["shape"] == "2 x 3 x 8 x 8"
    assert found["scan"]["error"] == ""
    assert found["broken.dm3"]["path"] == str(folder / "broken.dm3")
    assert "looks truncated" in found["broken.dm3"]["error"]


def test_json_has_the_same_cells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = table(capsys, folder)
    assert main(["info", "--csv", "--json", str(folder)]) == 0
    objects = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in objects] == [*found]
    for one in objects:
        assert {name: str(value) for name, value in one.items() if name != "sample"} == {
            name: value for name, value in found[one["name"]].items() if value and name != "sample"
        }
    assert next(one for one in objects if one["name"] == "image")["sample"] == '=HYPERLINK("x")'


def test_files_and_folders_below(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "below").mkdir()
    write_dm(folder / "below", np.ones((4, 6), np.float32), name="deep")
    assert table(capsys, "-r", folder).keys() == {"image", "scan", "broken.dm3", "deep"}
    assert table(capsys, folder / "image.dm3", folder / "below").keys() == {"image", "deep"}
    assert main(["info", "--csv", str(folder / "image.dm3"), str(folder / "broken.dm3")]) == 2
    out, err = capsys.readouterr()
    assert [row["name"] for row in csv.DictReader(io.StringIO(out))] == ["image", ""]
    assert "looks truncated" in err
    (folder / "none").mkdir()
    assert main(["info", "--csv", "--json", str(folder / "none")]) == 2
    assert json.loads(capsys.readouterr().out) == []


def test_rows_are_printed_as_sets_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a folder of any size takes the memory of one set, and people see how far it is."""
    for name in ("a", "b", "c"):
        write_dm(tmp_path, np.ones((4, 6), np.float32), name=name)
    seen: list[str] = []
    usual = opening.open_set

    def opened(file: Any, *given: Any, **how: Any) -> Any:
        seen.append(f"open {Path(file).stem}")
        return usual(file, *given, **how)

    monkeypatch.setattr(opening, "open_set", opened)
    monkeypatch.setattr(rows, "put", lambda text, end="": seen.append(f"row {text[0]}"))
    assert main(["info", "--csv", str(tmp_path)]) == 0
    assert seen == ["row n", *(f"{what} {name}" for name in "abc" for what in ("open", "row"))]


@pytest.mark.parametrize("more", [["-v"], ["--describe"], ["--zarr-format", "3"]])
def test_what_goes_with_no_table_is_refused(more: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--csv", *more, str(folder / "image.dm3")]) == 2
    assert "has no effect with --csv" in capsys.readouterr().err


def test_twice_verbose_prints_the_files_own_tree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-v", str(folder / "image.dm3")]) == 0
    assert "Stage Alpha: -24.0" not in capsys.readouterr().out
    assert main(["info", "-vv", str(folder / "image.dm3")]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("            Stage Position:")
    assert lines[at + 1] == "              Stage Alpha: -24.0"
    assert max(map(len, lines[lines.index("  all that the files say:") :])) <= 80
    assert any("left_out" in line for line in lines)
