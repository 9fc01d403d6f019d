"""What many tests share."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import PATIENCE

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("quick", deadline=None, suppress_health_check=_SLOW, max_examples=10)
settings.register_profile("thorough", deadline=None, suppress_health_check=_SLOW, max_examples=3000)
settings.load_profile("quick")

SHARED = Path(os.environ.get("VFS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
"""Real files from instruments with `oracle.json`: beside the checkout, never in it."""


COMMANDS = {"export", "reduce", "demo"}
"""Those of the command line that write or read with zarr: tests that name one themselves depend on it."""


VERSIONED = (
    *("tests/kernels/", "tests/h5/", "tests/http/test_protocol.py", "tests/formats/test_tiff.py"),
    "tests/test_surface.py",
)
"""Tests that reach the parts of numba, h5py, uvicorn, tifffile and numpy that differ between versions."""


def pytest_configure(config: pytest.Config) -> None:
    """Look for hours if asked to.

    Signals are taken as in the foreground: `nohup scripts/test &` ignores some, and so would all that the tests start.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # this process goes on; what it starts has none of its handlers
    if config.getoption("thorough"):
        settings.load_profile("thorough")


FEW = 2
"""Parameters of a test that run with `--few`."""
IN_TURNS = ("tests/conformance/", "tests/fuse/", "tests/page/", "tests/test_docs.py")
"""Tests of which `--day` runs every second one, as many as half of the suite's time: with browsers, mounts, shells."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know how many tests are wanted. `.ci/run` asks few of other versions of libraries, which rarely differ for one
    parameter.
    """
    parser.addoption("--day", type=int, help=f"of {', '.join(IN_TURNS)} run the tests whose turn is on this day")
    parser.addoption("--few", action="store_true", help=f"of a test with more than {FEW} parameters, run {FEW}")
    parser.addoption("--thorough", action="store_true", help="also run tests marked thorough, and 3,000 examples each")


def _leave_out(config: pytest.Config, items: list[pytest.Item], others: list[pytest.Item]) -> None:
    """Run all but some tests, and say how many these are."""
    left_out = {*map(id, others)}
    items[:] = [item for item in items if id(item) not in left_out]
    config.hook.pytest_deselected(items=others)


def _beyond_few(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that do not run with `--few`: those that do are spread over the parameters of each function."""
    same: dict[str, list[pytest.Item]] = {}
    for item in items:
        same.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {
        id(one)
        for found in same.values()
        for one in ([found[k * (len(found) - 1) // (FEW - 1)] for k in range(FEW)] if len(found) > FEW else found)
    }
    return [item for item in items if id(item) not in kept]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that depend on the zarr that is installed, and those that depend on other libraries' versions."""
    for item in items:
        if item.nodeid.startswith(VERSIONED):
            item.add_marker("versions")
        if isinstance(item, pytest.Function):
            fixtures = [made.func for found in item._fixtureinfo.name2fixturedefs.values() for made in found]
            if any(map(_asks_zarr, (item.function, *fixtures))):
                item.add_marker("zarr")
    if not config.getoption("thorough"):
        _leave_out(config, items, [item for item in items if item.get_closest_marker("thorough")])
    if (day := config.getoption("day")) is not None:
        others = [
            item for item in items if item.nodeid.startswith(IN_TURNS) and crc32(item.nodeid.encode()) % 2 != day % 2
        ]
        _leave_out(config, items, others)
    if config.getoption("few"):
        _leave_out(config, items, _beyond_few(items))


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what was imported and collected: a million objects that nobody drops.

    It looks rarely at what tests make: each look at the oldest goes through all that they hold.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _is_of_zarr(value: object) -> bool:
    """Say whether a value that a module of tests holds is zarr's or our adapter's, or a program that imports zarr."""
    if isinstance(value, str):
        return value == "zarr" or "import zarr" in value or "from zarr" in value
    module = str(getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", ""))
    return f"{module}.".startswith(("zarr.", "vfs.zarr."))


def _asks_zarr(function: Callable[..., Any]) -> bool:
    function = getattr(function, "hypothesis", function)  # of a property: what is below the decorator
    function = getattr(function, "inner_test", function)
    return isinstance(function, FunctionType) and _reaches_zarr(function, frozenset())


@cache
def _reaches_zarr(function: FunctionType, above: frozenset[FunctionType]) -> bool:
    """Say whether a function of the tests names zarr, or a store, or calls a function of the tests that does; or
    whether it is zarr's own.
    """
    if _is_of_zarr(function):
        return True
    names: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                codes.append(constant)
            elif isinstance(constant, str) and (_is_of_zarr(constant) or (not above and constant in COMMANDS)):
                return True
    if names & {"zarr", "store"}:
        return True
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    if any(map(_is_of_zarr, known)):
        return True
    below = [
        found
        for value in known
        for found in (vars(value).values() if isinstance(value, type) else [value])
        if isinstance(found, FunctionType) and found.__module__.startswith(("tests.", "vfs.testing"))
    ]
    return any(
        _reaches_zarr(found, above | {function}) for found in below if found not in above and found is not function
    )


@pytest.fixture(scope="session", autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers of tests are written down in a folder of theirs. When they end they are waited for, however long."""
    path = tmp_path_factory.mktemp("runtime")
    path.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(path))
        for module in ("serving.process", "fuse.mounts", "server.servers"):
            patch.setattr(import_module(f"vfs.{module}"), "PATIENCE", PATIENCE)
        yield


@pytest.fixture
def shapes_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what is read of arrays from now on."""
    from vfs.engine.array import ArrayReader

    noted: list[tuple[int, ...]] = []
    really = ArrayReader.read

    def noting(self: ArrayReader, region: Any = None, out: Any = None) -> Any:
        got = really(self, region, out)
        noted.append(got.shape)
        return got

    monkeypatch.setattr(ArrayReader, "read", noting)
    return noted


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
