"""Arrays that somebody hides are gone by every way in, and are there again where nobody says so. One that somebody
takes as the main one opens first by every way in, and hides none.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.cli.app import main
from vfs.folder_tree.plans import folder_tree

META = ["entry/meta/times", "entry/meta/volts"]


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A set of a stack, a preview, settings in a group of their own, and a companion."""
    (tmp_path / "a.bin").write_bytes(np.arange(200, dtype="u1").tobytes())
    arrays = {path: {"dtype": "u1", "shape": [3], "frames": {"first": 9}} for path in META}
    arrays |= {
        "entry/data": {"dtype": "u1", "shape": [4, 5, 6], "frames": {}},
        "entry/preview": {"dtype": "u1", "shape": [5, 6], "main": False, "frames": {"first": 120}},
        "dark": {"dtype": "u1", "shape": [5, 6], "companion": True, "frames": {"first": 1}},
    }
    path = tmp_path / "set.vfs.json"
    path.write_text(json.dumps({"vfs": 1, "files": ["a.bin"], "arrays": arrays}))
    return path


def test_hidden_arrays_are_gone_by_every_way(several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = {"entry/data", "entry/preview", "dark"}
    assert set(vfs.open_group(several)) == {*others, *META}
    hidden = vfs.open_group(several, hide=["entry/meta"])
    assert set(hidden) == others
    assert {path for path, _ in hidden.zarr().members(max_depth=None)} == {*others, "entry"}
    assert main(["info", "--describe", "--hide", "entry/meta", "--hide", "dark", str(several)]) == 0
    kept = several.parent / "kept.vfs.json"
    kept.write_text(capsys.readouterr().out)
    assert json.loads(kept.read_text())["options"] == {"hide": ["entry/meta", "dark"]}
    assert set(vfs.open_group(kept)) == {"entry/data", "entry/preview"}
    assert set(folder_tree(several.parent).at("kept.zarr/entry").children()) == {"data", "preview", "zarr.json"}
    assert set(vfs.open_group(kept, hide=["dark"])) == {*others, *META} - {"dark"}  # what is asked for comes first
    assert set(vfs.open_group(kept, hide=[])) == {*others, *META}
    assert main(["info", str(kept)]) == 0
    assert "hidden: entry/meta, dark" in capsys.readouterr().out


def test_what_is_left_opens_first(several: Path) -> None:
    assert vfs.open(several).shape == (4, 5, 6)
    assert vfs.open(several, hide=["entry/data", "entry/meta"]).shape == (5, 6)  # although it is never main by itself
    corrected = vfs.open_group(several, hide=["dark"], dark="dark")
    np.testing.assert_array_equal(corrected["entry/data"][0], np.full((5, 6), -1))
    assert "dark" not in corrected
    assert "entry/data" in vfs.open_group(several, hide=["entry/data"], array="entry/data")
    with pytest.raises(vfs.UnknownArrayError, match=r"hide='entry/met': no array or group 'entry/met'; there are: "):
        vfs.open(several, hide=["entry/met"])
    with pytest.raises(vfs.OptionError, match=r"hide=\['entry'\] leaves no array to show"):
        vfs.open_group(several, hide=["entry"])


def test_another_array_is_the_main_one_by_every_way(several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = set(vfs.open_group(several))
    kept = several.parent / "kept.vfs.json"
    for form in ([], ["--explicit"]):
        assert main(["info", "--describe", *form, "--main", "entry/preview", str(several)]) == 0
        kept.write_text(capsys.readouterr().out)
        group = vfs.open_group(kept)
        assert (set(group), group.main.shape, vfs.open(kept).shape) == (every, (5, 6), (5, 6))
    assert main(["info", "--describe", "--main", "entry/preview", str(several)]) == 0
    kept.write_text(capsys.readouterr().out)
    tree = folder_tree(several.parent)
    assert {"kept.npy", "kept.entry.data.npy"} < {*tree.at("").children()}
    assert "kept.entry.preview.npy" not in tree.at("").children()
    assert main(["info", str(kept)]) == 0
    said = capsys.readouterr().out
    assert "main array, as asked: entry/preview" in said
    assert said.index("entry/preview") < said.index("entry/data")
    turned = vfs.open_group(several, main="entry/preview", axes="-y,x")
    np.testing.assert_array_equal(turned.main[...], vfs.open_group(several)["entry/preview"][::-1])
    assert vfs.open(kept, main="entry/data").shape == (4, 5, 6)  # what is asked for comes first
    assert set(vfs.open_group(kept, array="entry/data")) == {"entry/data", "dark"}


def test_arrays_are_found_by_the_names_that_programs_gave_them(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.loads(several.read_text())
    names = {"entry/preview": "Quick  look", "dark": "entry/data", **dict.fromkeys(META, "same")}
    for path, name in names.items():
        said["arrays"][path]["attributes"] = {"name": name}
    several.write_text(json.dumps(said))
    assert vfs.open(several, main="Quick look").shape == vfs.open(several, array="Quick look").shape == (5, 6)
    assert vfs.open(several, main="entry/data").shape == (4, 5, 6), "a path wins over a name"
    assert "entry/preview" not in vfs.open_group(several, hide=["Quick look"])
    assert main(["info", "--describe", "--main", "Quick look", str(several)]) == 0
    kept = several.parent / "kept.vfs.json"
    kept.write_text(capsys.readouterr().out)
    assert json.loads(kept.read_text())["options"] == {"main": "entry/preview"}
    assert vfs.open(kept).shape == vfs.open(kept, array="Quick look").shape == (5, 6)
    for option in ({"main": "same"}, {"array": "same"}, {"hide": ["same"]}):
        with pytest.raises(vfs.UnknownArrayError, match=f"{len(META)} arrays are named 'same'; give a path: {META[0]}"):
            vfs.open_group(several, **option)  # type: ignore[arg-type]
    with pytest.raises(vfs.UnknownArrayError, match=r"no array 'Quick lok'; there are: entry/preview \(Quick look\), "):
        vfs.open_group(several, main="Quick lok")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"main": "entry/dat"}, "no array 'entry/dat'; there are: entry/data, "),
        ({"main": "entry/data", "hide": ["entry/data"]}, r"main='entry/data' is hidden by hide=\['entry/data'\]"),
        ({"main": "entry/data", "array": "dark"}, "main='entry/data' has no effect with array='dark', the only array"),
        ({"main": 3}, "main=3: expected text"),
    ],
)
def test_an_array_that_cannot_be_the_main_one(several: Path, said: dict[str, object], why: str) -> None:
    with pytest.raises(vfs.VfsError, match=why):
        vfs.open(several, **said)  # type: ignore[arg-type]
