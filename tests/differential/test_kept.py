"""Files that RosettaSciIO reads: its numbers and axes are shown, and damage is one line."""

from __future__ import annotations

import importlib
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from vfs.formats import detect
from vfs.sources.local import LocalSources

pytest.importorskip("rsciio", "0.15")
pytestmark = [  # its readers leave files open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore"),
]
FOLDER = SHARED / "rsciio_kept"
LARGE = 100 << 20  # bytes of an array that is not read whole here

SPECTRUM = """#FORMAT      : EMSA/MAS Spectral Data File
#VERSION     : 1.0
#TITLE       : steps
#NPOINTS     : 4.
#NCOLUMNS    : 1.
#XUNITS      : eV
#YUNITS      : Counts
#DATATYPE    : Y
#XPERCHAN    : 2.5
#OFFSET      : 100.0
#SIGNALTYPE  : ELS
#BEAMKV   -kV: 120.0
#SPECTRUM    : Spectral Data Starts Here
1.0,
4.0,
9.0,
16.0,
#ENDOFDATA   :
"""


def real_files() -> list[Any]:
    found = []
    for path in sorted(FOLDER.rglob("*")) if FOLDER.is_dir() else ():
        kind = path.relative_to(FOLDER).parts[0]
        if path.is_file() and kind not in ("arina", "delmic", "image") and path.suffix not in (".md", ".zip", ".log"):
            few = len(found) % 4 == 0 and path.suffix != ".pts"  # which the library reads into 2 GiB
            marks = () if few else pytest.mark.thorough
            found.append(pytest.param(kind, path, id=str(path.relative_to(FOLDER)), marks=marks))
    return found


def test_a_spectrum(tmp_path: Path) -> None:
    path = tmp_path / "a.msa"
    path.write_text(SPECTRUM)
    assert detect(LocalSources(), str(path)).name == "rosettasciio"
    array = vfs.open(path)
    assert (array.dims, array[...].tolist()) == (("energy",), [1, 4, 9, 16])
    assert array.calibration == {"energy": {"scale": 2.5, "offset": 100.0, "unit": "eV"}}
    assert array.metadata["beam_energy"].value == pytest.approx(120e3)
    assert array.metadata["title"].value == "steps"
    assert array.original_metadata["data"]["NPOINTS"] == 4
    (signal,) = vfs.rsciio.file_reader(path)
    assert signal["metadata"]["Signal"]["signal_type"] == "EELS"


def test_forced_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6.0))
    assert "metadata" not in vfs.open(path).attrs
    np.testing.assert_array_equal(vfs.open(path, format="rosettasciio")[...], np.arange(6.0))
    with pytest.raises(vfs.OptionError, match="reader of RosettaSciIO"):
        vfs.open(path, format="rosettasciio", reader="os.path")
    with pytest.raises(vfs.FormatError, match=r"a\.h5: RosettaSciIO does not read it: .*readers of \.h5: "):
        vfs.open(path.rename(tmp_path / "a.h5"), format="rosettasciio")


def signals(kind: str, path: Path) -> list[dict[str, Any]]:
    """What the library makes of a file; [] if it refuses it."""
    try:
        return list(importlib.import_module(f"rsciio.{kind}").file_reader(str(path)))
    except Exception:
        return []


@pytest.mark.parametrize(("kind", "path"), real_files())
def test_real_files(kind: str, path: Path) -> None:
    """Each signal is an array, with the same numbers and steps; what the library refuses is one line here."""
    if theirs := signals(kind, path):
        check(path, theirs)
    else:
        with pytest.raises(vfs.FormatError, match=re.escape(path.name)):
            vfs.open(path)


def check(path: Path, theirs: list[dict[str, Any]]) -> None:
    group = vfs.open_group(path)
    own = {path: array for path, array in group.items() if not array._reader.dataset.companion}
    arrays = [own[path] for path in sorted(own, key=lambda path: int(path.partition("/")[0][7:] or 0))]
    assert len(arrays) == len(theirs)
    for array, signal in zip(arrays, theirs, strict=True):
        data = signal["data"]
        assert array.shape[: data.ndim] == data.shape
        part = (slice(0, 2),) if data.nbytes > LARGE else ()
        expected = data[part]
        if data.dtype.names:
            expected = np.stack([expected[name] for name in data.dtype.names], -1)
        np.testing.assert_array_equal(array[part], expected)
        for dim, axis in zip(array.dims, signal["axes"], strict=False):
            known = array.calibration.get(dim, {"scale": 1.0, "offset": 0.0})
            if axis.get("axis") is not None:
                np.testing.assert_array_equal(group[known["values"]][...], axis["axis"])
            elif axis.get("scale") is not None:
                found = [known["scale"], known["offset"]]
                np.testing.assert_allclose(found, [float(axis["scale"]), float(axis["offset"])], rtol=1e-6)


@pytest.mark.thorough
def test_damage_is_one_line(tmp_path: Path) -> None:
    """Some damage makes the library run for ever; its process is ended then, and the next file opens."""
    rng, files = random.Random(1), [case.values[1] for case in real_files() if case.values[1].stat().st_size < 1e6]
    said: list[str] = []
    for _ in range(100 if files else 0):
        path = rng.choice(files)
        content = bytearray(path.read_bytes())
        if rng.random() < 0.3:
            del content[rng.randrange(1, len(content)) :]
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.randrange(min(len(content), rng.choice((64, 1024, len(content)))))
            content[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), rng.randbytes(4)))
        damaged = tmp_path / path.name
        damaged.write_bytes(content)
        try:
            group = vfs.open_group(damaged, format="rosettasciio")
            for array in group.values():
                array[0]
        except vfs.VfsError as error:
            said.append(str(error))
        damaged.unlink()
    assert all(str(tmp_path) in line and "\n" not in line for line in said)
