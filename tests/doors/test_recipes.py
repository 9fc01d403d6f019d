"""The sessions of recipes.md that need a tool which only this environment has: they print what the page shows.

Also what these tools do with our arrays beyond that: executors of LiberTEM, ways to start the workers of PyTorch.
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.cli.demo import SCAN, SIZE, diffraction
from vfs.testing.writers import write_mib

PAGE = Path(vfs.__file__).parent / "docs" / "recipes.md"
SESSIONS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```pycon\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
MODULES = {"LiberTEM": "libertem.api", "py4DSTEM": "py4DSTEM", "PyTorch": "torch"}

pytestmark = pytest.mark.filterwarnings("default")  # what these tools warn of is theirs


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `vfs demo --keep demo` leaves, in the folder where the test is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    return write_mib(tmp_path / "demo", diffraction().reshape(-1, SIZE, SIZE), frames_per_file=50, scan=SCAN)


def imported(tool: str) -> Any:
    """A module, or a skip that says what was not tested."""
    return pytest.importorskip(tool, reason=f"{tool.upper()} WAS NOT TESTED: it is not installed", exc_type=ImportError)


def test_every_session_of_another_tool_is_run() -> None:
    assert SESSIONS.keys() == MODULES.keys()
    assert len(SESSIONS) == PAGE.read_text().count("```pycon")


@pytest.mark.parametrize("tool", MODULES)
def test_sessions_print_what_the_page_shows(tool: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(MODULES[tool])
    session = doctest.DocTestParser().get_doctest(SESSIONS[tool], {"__name__": "__main__"}, tool, str(PAGE), 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(session, out=sys.stdout.write)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


@pytest.mark.parametrize("executor", ["inline", "threads", "dask"])
def test_libertem_reads_in_its_workers(path: Path, executor: str) -> None:
    api = imported("libertem.api")
    from libertem.udf.masks import ApplyMasksUDF
    from libertem.udf.sum import SumUDF

    array = vfs.open(path)
    mask = np.random.default_rng(0).integers(0, 3, (SIZE, SIZE)).astype("f8")
    how = {"inline": {}, "threads": {"cpus": 2}, "dask": {"cpus": 2, "gpus": 0}}[executor]
    with api.Context.make_with(executor, **how) as context:
        data = context.load("dask", array.dask(block=(4, -1, -1, -1)), sig_dims=2, min_size=1)
        assert data.shape.nav.to_tuple() == SCAN
        assert data.get_num_partitions() == 3
        masked, total = context.run_udf(data, [ApplyMasksUDF(mask_factories=[lambda: mask], mask_dtype="f8"), SumUDF()])
    mine = array.reduce(masked=vfs.Masks(mask), total=vfs.Sum())
    np.testing.assert_array_equal(masked["intensity"].data[..., 0], mine["masked"].data)
    np.testing.assert_array_equal(total["intensity"].data, mine["total"].data)


def test_py4dstem_reads_frame_by_frame(path: Path) -> None:
    py4dstem = imported("py4DSTEM")
    array = vfs.open(path)
    images = [
        py4dstem.DataCube(data=data).get_virtual_image(mode="circle", geometry=((30, 33), 5), name="x").data
        for data in (array, array[...])
    ]
    np.testing.assert_array_equal(*images)
    lazy = py4dstem.DataCube(data=array.dask(block=(4, -1, -1, -1)))
    np.testing.assert_allclose(lazy.get_dp_mean().data.compute(), array.reduce(m=vfs.Mean())["m"].data)
    assert not isinstance(lazy.bin_Q(2).data, np.ndarray)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_torch_loads_every_frame_once(path: Path, start: str) -> None:
    torch = imported("torch")
    frames = vfs.open(path, nav_shape=SCAN[0] * SCAN[1], dtype="f4")
    frames[0]  # open in this process, too, and for `fork` in those that follow
    given = torch.utils.data.DataLoader(frames, batch_size=10, num_workers=2, multiprocessing_context=start)
    for _ in range(2):
        np.testing.assert_array_equal(torch.cat(list(given)).numpy(), frames[...])
