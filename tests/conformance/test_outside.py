"""A format made elsewhere: the package of `vfs/docs/adding-a-format.md`, built from that page,
installed, and put through the shipped suite.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path


def _files(page: str) -> dict[str, str]:
    """Name -> text of the files that a page shows: blocks whose first line is a comment with the name."""
    return {name: f"{text}\n" for name, text in re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)\n```$", page, re.M | re.S)}


def test_a_package_with_its_own_entry_point_passes_the_suite(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    shown = _files(files("vfs").joinpath("docs/adding-a-format.md").read_text())
    assert set(shown) == {"pyproject.toml", "vfs_lantern.py", "test_lantern.py"}
    for name, text in shown.items():
        (source / name).write_text(text)

    def run(*words: str | Path, cwd: Path = source) -> str:
        path = os.pathsep.join([str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        done = subprocess.run(
            [sys.executable, *words], cwd=cwd, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run(
        "-m",
        "pip",
        "install",
        "-q",
        "--no-input",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--no-compile",
        "--disable-pip-version-check",
        "--target",
        site,
        source,
    )
    (source / "vfs_lantern.py").unlink()  # what is imported is what is installed
    assert "lantern" in run("-m", "vfs", "formats")
    apart = f"--basetemp={tmp_path / 'tests'}"  # other runs clean the folder that is usual
    alone = ("-p", "no:cacheprovider", "-p", "no:asyncio", apart)
    said = run("-m", "pytest", "-q", *alone, "-W", "error", "test_lantern.py")
    passed = re.search(r"^(\d+) passed in", said, re.M)  # nothing was skipped
    assert passed is not None, said
    assert int(passed[1]) > 40
