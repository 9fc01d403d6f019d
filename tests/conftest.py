"""What many tests share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("vfs", deadline=None, suppress_health_check=_SLOW, max_examples=60)
settings.register_profile("many", deadline=None, suppress_health_check=_SLOW, max_examples=3000)
settings.load_profile(os.environ.get("VFS_HYPOTHESIS", "vfs"))  # VFS_HYPOTHESIS=many pytest … looks for hours instead of seconds

SHARED = Path(os.environ.get("VFS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
"""Real files from instruments with `oracle.json`: beside the checkout, never in it."""


@pytest.fixture(scope="session", autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Mounts of tests are written down in a folder of theirs."""
    path = tmp_path_factory.mktemp("runtime")
    path.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(path))
        yield


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    """What independent readers say of the real files: data set name -> entry."""
    path = SHARED / "oracle.json"
    if not path.exists():
        pytest.skip(f"no real files here ({path} is missing)")
    return json.loads(path.read_text())["datasets"]


def same_values(array: np.ndarray, entry: dict[str, Any]) -> bool:
    """True where an array has the shape and the values (whatever its dtype) of an oracle entry."""
    import hashlib

    if list(array.shape) != entry["shape"]:
        return False
    wide = {"b": "<i8", "i": "<i8", "u": "<i8", "f": "<f8", "c": "<c16"}[array.dtype.kind]
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and (array > np.iinfo(np.int64).max).any():
        wide = "<u8"
    return hashlib.sha256(np.ascontiguousarray(array, wide).tobytes()).hexdigest() == entry["sha256_values"]
