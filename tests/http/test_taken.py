"""Numbers of the page that become a signal of HyperSpy."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from tests.http.asking import FRAME, SCAN, VALUES, ask, contents_of, refused
from tests.http.support import application_of
from vfs.page.taken import MAX_NUMBERS_BYTES
from vfs.server.application import Application
from vfs.testing.writers import write_mib

STEPS = {"scan_x": "5 nm from 2", "y": "0.1 1/nm", "x": "0.1 1/nm"}


@pytest.fixture
def shown(tmp_path: Path) -> Application:
    write_mib(tmp_path, VALUES.reshape(-1, *FRAME), scan=SCAN)
    return application_of(contents_of(tmp_path / "scan.hdr", calibration=STEPS))


def body(numbers: np.ndarray, **about: Any) -> bytes:
    head = {"name": "bf", "kind": "nav", "axes": [0, 1], "bin": 1, "reduction": "disk(1, 2, 3)"}
    head |= {"dtype": numbers.dtype.name, "shape": list(numbers.shape)} | about
    text = json.dumps(head).encode()
    return len(text).to_bytes(4, "little") + text + numbers.tobytes()


def taken(application: Application, sent: bytes) -> tuple[np.ndarray, list[dict[str, Any]]]:
    done = ask(application, "/api/hspy/scan.zarr/data", "POST", sent)
    assert done.status == 200, done.body
    with h5py.File(io.BytesIO(done.body)) as file:
        (signal,) = file["Experiments"].values()
        axes = [dict(signal[f"axis-{k}"].attrs) for k in range(signal["data"].ndim)]
        return signal["data"][...], axes


def test_numbers_of_a_scan_and_of_a_frame(shown: Application) -> None:
    scan = np.random.default_rng(0).normal(size=SCAN)
    numbers, (_, x) = taken(shown, body(scan))
    np.testing.assert_array_equal(numbers, scan)
    assert (x["name"], x["scale"], x["offset"], x["units"], x["navigate"]) == ("scan_x", 5.0, 2.0, "nm", False)
    pairs = np.random.default_rng(1).normal(size=(*SCAN, 2))
    numbers, axes = taken(shown, body(pairs, axes=[0, 1, None]))
    np.testing.assert_array_equal(numbers, pairs)
    assert [bool(axis["navigate"]) for axis in axes] == [True, True, False]
    means = np.arange(FRAME[0] * FRAME[1] // 4, dtype="f4").reshape(FRAME[0] // 2, FRAME[1] // 2)
    numbers, (y, x) = taken(shown, body(means, kind="sig", axes=[2, 3], bin=2))
    np.testing.assert_array_equal(numbers, means[::-1])  # as programs show it: the top row first
    assert (x["scale"], x["offset"], y["scale"]) == (0.2, 0.05, 0.2)  # the first mean lies between two pixels


def test_a_part_of_a_line_becomes_a_spectrum(shown: Application) -> None:
    line = np.array([3.5, -2.0])
    sent = body(line, kind="sig", axes=[1], ending=".msa", first=3)
    lines = ask(shown, "/api/hspy/scan.zarr/data", "POST", sent).body.decode().split("\r\n")
    said = dict(one[1:].split(": ", 1) for one in lines if one.startswith("#"))
    assert {key.strip(): value for key, value in said.items()}["OFFSET"] == "17.0"
    assert [one for one in lines if not one.startswith("#")] == ["17, 3.5", "22, -2.0", ""]  # steps of 5 nm from 2


def test_a_page_for_a_mail_is_that_of_an_export(shown: Application, tmp_path: Path) -> None:
    done = ask(shown, "/api/mail/scan.zarr/data", "POST")
    assert vfs.export(tmp_path / "scan.hdr", tmp_path / "scan.html", calibration=STEPS) == len(done.body)
    assert bytes(done.body) == (tmp_path / "scan.html").read_bytes()
    assert refused(shown, "/api/mail/scan.zarr/data")[0] == 405
    assert refused(shown, "/api/mail/scan.zarr/none", "POST")[0] == 404
    status, text = refused(shown, "/api/mail/scan.zarr/exposure", "POST")
    assert (status, "expected a scan of two axes" in text) == (400, True)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 400),
        (b"\xff\xff\xff\xff{}", 400),
        (body(np.zeros(SCAN), axes=[0, 0]), 400),
        (body(np.zeros(SCAN), axes=[0, 7]), 400),
        (body(np.zeros(SCAN), axes=[[0], 1]), 400),
        (body(np.zeros(SCAN), axes=[{}, 1]), 400),
        (body(np.zeros(SCAN), axes=[0.0, 1.0]), 400),
        (body(np.zeros(SCAN), axes=[False, True]), 400),
        (body(np.zeros((1, 1)), bin=10**400), 400),
        (body(np.zeros(SCAN), kind=["nav"]), 400),
        (body(np.zeros(SCAN), axes=[None, 0]), 400),
        (body(np.zeros(SCAN), axes=[None, None]), 400),
        (body(np.zeros(SCAN), axes="01"), 400),
        (body(np.zeros(SCAN), bin=0), 400),
        (body(np.zeros(SCAN), ending=".msa"), 400),
        (body(np.zeros(SCAN), ending=".txt"), 400),
        (body(np.zeros(SCAN[1]), axes=[1], first=1), 400),
        (body(np.zeros(1), axes=[1], first=True), 400),
        (body(np.zeros(SCAN), bin=True), 400),
        (body(np.zeros(SCAN), kind="single"), 400),
        (body(np.zeros(SCAN), name=3), 400),
        (body(np.zeros(SCAN), dtype="complex128"), 400),
        (body(np.zeros(SCAN), dtype=[]), 400),
        (body(np.zeros(SCAN), shape=[1 << 60, 2, 2]), 400),
        (body(np.zeros(SCAN))[:-1], 400),
        (body(np.zeros((2, 3))), 400),
        (b"x" * (MAX_NUMBERS_BYTES + 1), 413),
    ],
)
def test_what_is_no_such_record_is_refused(shown: Application, sent: bytes, status: int) -> None:
    assert refused(shown, "/api/hspy/scan.zarr/data", "POST", sent)[0] == status
    assert refused(shown, "/api/hspy/scan.zarr/none", "POST", body(np.zeros(SCAN)))[0] == 404
