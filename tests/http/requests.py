"""Requests below `api/`, sensible and senseless, for arrays of every kind: what the fuzz of the server asks.

Every one must be answered with data, or with a line that says what is wrong. `scripts/fuzz` asks some ten thousands,
`tests/http/test_requests.py` some hundreds.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import h5py
import numpy as np

import vfs
from tests.http.support import Asgi, application_of
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.server.application import Application
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib, write_raw

ANSWERS = frozenset((200, 304, 400, 404, 405, 413, 429))
"""What a request to sets that are whole may be answered with."""

KINDS = ("u1", "i2", ">u4", "i8", "u8", "f2", "f4", ">f8", "c8", "c16", "?")
SHAPES = ((), (1,), (7,), (0,), (3, 5), (0, 5), (5, 0), (1, 1), (1, 9), (9, 1), (2, 3, 4), (4, 6, 3), (2, 3, 4, 5))
LARGER = ((2, 2, 3, 4, 5), (2, 1, 2, 2, 3, 4), (3, 3, 40, 40, 3))
REDUCTIONS = {
    "sum": 0,
    "mean": 0,
    "std": 0,
    "variance": 0,
    "max": 0,
    "min": 0,
    "frame_sum": 0,
    "magnitude_sum": 0,
    "disk": 3,
    "ring": 4,
    "rectangle": 4,
    "point": 2,
    "center_of_mass": 2,
    "radial_sum": 3,
    "histogram": 2,
    "binned": 1,
    "masks": 1,
}
"""Kinds of reductions, and how many arguments they usually have."""
NUMBERS = ("0", "1", "2", "3.5", "-1", "nan", "inf", "1e308", "1e400", "1e-320", "9" * 30, "True", "(0,1)", "()", "1j")
VALUES = (0, 1, 2, -1, 0.5, 1e8, 1e308, float("nan"), float("-inf"), 10**400, True, None, "1", [], {})
INDICES = ("0", "1", "00", "9" * 18, "9" * 19, "-1", "", "1e3", "%C2%B2", "%D9%A3", "+1", "%00")
DTYPES = ("u1", "f2", "f4", "f8", "c8", "i8", "O", "S5", "M8[ns]", "V8", "x" * 50)
BODIES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"[" * 60_000,
    b'{"a":' * 9000,
    b"\xff\xfe",
    b"9" * 5000,
    b"x" * 70_000,
    b'{"results":{"\\ud800":"sum()"}}',
    b'{"results":{"a":"\\ud800()"}}',
    b'{"results":{"a":"sum(\\u0000)"}}',
    b'{"results":{"a":"disk(' + b"(" * 900 + b')"}}',
    b'{"results":{"a":"disk(' + b"-" * 900 + b'1)"}}',
    b'{"results":{"a":"sum()"},"within":[' + b"9" * 4000 + b"]}",
    b'{"results":{"a":"sum()"},"region":{"disk":[NaN,Infinity,-Infinity]}}',
)
KEYS = (
    "none",
    "%00",
    "..",
    "%2E%2E/%2E%2E",
    "%FF",
    "a%2Fb",
    "constructor",
    "%5Cx",
    "c/0/0",
    "zarr.json",
)


AXES = ([0, 1], [2, 3], [0], [0, None], [[0], 1], [{}, 1], [0.0, 1.0], [False, True], [0, 0], [9, 1], "01", None)
"""Axes of numbers that are to become a file of HyperSpy."""


class Ask(NamedTuple):
    """A request: path with its query, method, body."""

    path: str
    method: str = "GET"
    body: bytes = b""


def arrays() -> dict[str, np.ndarray]:
    """Arrays of every kind, by names that say which."""
    rng = np.random.default_rng(0)
    made: dict[str, np.ndarray] = {}
    for kind in KINDS:
        for shape in SHAPES + (LARGER if kind in ("u1", "f4") else ()):
            values = np.asarray(rng.integers(0, 100, shape)).astype(kind)
            made[f"{np.dtype(kind).name}_{'x'.join(map(str, shape)) or 'one'}"] = values
    odd = np.array([np.nan, np.inf, -np.inf, -1, 0, 1e300])
    made["odd"] = np.resize(odd, (3, 3, 4, 5))
    made["nothing"] = np.full((3, 3, 4, 5), np.nan)
    made["negative"] = -np.resize(np.arange(7.0), (3, 3, 4, 5))
    made["texts"] = np.array([b"abc", b"d"], "S5")
    return made


def served(place: Path) -> Application:
    """Serve sets of every kind, written into an empty folder."""
    with h5py.File(place / "all.h5", "w") as file:
        for name, values in arrays().items():
            file[name] = values
    paths: list[tuple[Path, dict[str, Any]]] = [(place / "all.h5", {})]
    for name, values in {
        "flags": np.ones((2, 3, 4, 5), bool),
        "colours": np.zeros((40, 50, 3), "u1"),
        "spectra": np.random.default_rng(1).random((4, 5, 60)),
    }.items():
        np.save(place / f"{name}.npy", values)
        paths.append((place / f"{name}.npy", {}))
    (place / "mib").mkdir()
    values = np.random.default_rng(2).integers(0, 99, (12, 8, 8)).astype("u2")
    paths.append((write_mib(place / "mib", values, scan=(3, 4), frames_per_file=4), {"nav_shape": (4, 4)}))
    (place / "raw").mkdir()
    (raw,) = write_raw(place / "raw", values)
    paths.append((raw, {"format": "raw", "dtype": "u2", "sig_shape": (8, 8), "nav_shape": (2, 2, 3)}))
    sets = [set_of(vfs.open_group(path, backend="buffered", **options)) for path, options in paths]
    return application_of(folder(sets, ChunkCache()))


def ask(application: Application, asked: Ask) -> Asgi:
    return asyncio.run(Asgi(application, f"/api/{asked.path}", asked.method, asked.body).run())


def described(application: Application) -> dict[str, dict[str, Any]]:
    """Key -> what the server says of every array."""
    sets = [one["key"] for one in json.loads(ask(application, Ask("list/")).body)["entries"]]
    known = {key: json.loads(ask(application, Ask(f"set/{quote(key)}")).body)["arrays"] for key in sets}
    return {quote(f"{key}/{one['path']}"): one for key, arrays in known.items() for one in arrays}


def computation(results: Mapping[str, str], **more: Any) -> bytes:
    return json.dumps({"results": results, **more}).encode()


def plain(key: str, about: Mapping[str, Any]) -> Iterator[Ask]:
    """What may be asked of every array, with sense."""
    middle = ",".join(str(about["shape"][axis] // 2) for axis in about["where"])
    at = f"at={middle}&" if middle else ""
    for more in ("max=8192", "max=1", "max=3&part=phase", "part=imag"):
        yield Ask(f"frame/{key}?{at}{more}")
    yield Ask(f"array/{key}")
    within = [n // 2 for n in about["shape"][: max(0, about["nav"] - 2)]]
    yield Ask(f"centre/{key}" + (f"?within={','.join(map(str, within))}" if within else ""))
    for kind, count in REDUCTIONS.items():
        arguments = ", ".join(["1", "1", "2", "3"][:count])
        yield Ask(f"compute/{key}", "POST", computation({"a": f"{kind}({arguments})"}, within=within))


def senseless(keys: Mapping[str, Mapping[str, Any]], rng: random.Random) -> Ask:
    """A request that may have no sense."""
    key = rng.choice(list(keys))
    where = (
        key
        if rng.random() < 0.8
        else rng.choice((key.partition("/")[0], f"{key}/{rng.choice(KEYS)}", rng.choice(KEYS)))
    )
    kind = rng.random()
    if kind < 0.6:
        stream = f"?id={rng.choice(('', 'a', '%00', '%ff', 'x' * 500))}" if rng.random() < 0.2 else ""
        return Ask(f"compute/{where}{stream}", "POST", _body(keys[key], rng))
    if kind < 0.8:
        at = ",".join(rng.choice(INDICES) for _ in range(rng.choice((len(keys[key]["where"]), 0, 1, 2, 65))))
        part, most = rng.choice(("abs", "phase", "real", "x", "")), rng.choice(("1", "0", "8192", "8193", "1e3", "%00"))
        return Ask(f"frame/{where}?at={at}&max={most}&part={part}")
    if kind < 0.85:
        return Ask(f"hspy/{where}", "POST", _numbers(keys[key], rng))
    if kind < 0.9:
        what = rng.choice(("open", "save", "mail", "events"))  # what these do without a fault is asked elsewhere
        return Ask(f"{what}/{where}", rng.choice(("PUT", "DELETE")), rng.choice(BODIES))
    pages = (
        "list",
        "set",
        "array",
        "python",
        "thumbnails",
        "centre",
        "stop",
        "options",
        "guesses",
        "description",
        "none",
    )
    what = rng.choice((*pages, ""))
    query = rng.choice(
        (
            "",
            "within=0",
            "within=0,0",
            "first=1&count=1",
            "first=9999999999999999",
            "count=0",
            "size=1",
            "size=256&main=1",
            "a",
            "=",
            "a=b",
            "within=0&within=1",
            "&".join(f"a{k}=1" for k in range(25)),
        )
    )
    return Ask(f"{what}/{where}?{query}", rng.choice(("GET", "GET", "GET", "HEAD", "POST", "PUT")))


def _body(about: Mapping[str, Any], rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(BODIES)
    names = ("a", "b.c", "x" * 100, "__proto__", "data", "zarr.json", "")
    asked: dict[str, Any] = {"results": {rng.choice(names): _reduction(rng) for _ in range(rng.choice((1, 1, 2, 17)))}}
    if rng.random() < 0.4:
        shape = rng.choice(("rectangle", "disk", "point", "range", "x"))
        asked["region"] = {shape: [rng.choice(VALUES) for _ in range(rng.choice((1, 2, 2, 3, 4, 4)))]}
    if rng.random() < 0.8:
        asked["within"] = [n // 2 for n in about["shape"][: max(0, about["nav"] - 2)]]
    elif rng.random() < 0.5:
        asked["within"] = [rng.choice(VALUES)]
    if rng.random() < 0.3:
        asked["coarse"] = rng.choice((True, False, 1, None))
    return json.dumps(asked).encode()


def _numbers(about: Mapping[str, Any], rng: random.Random) -> bytes:
    """A record that may become a file of HyperSpy: numbers of the scan, or of other shapes, kinds and axes."""
    shape = rng.choice((about["shape"][:2], about["shape"][-2:], [1, 1], [2, 3], [0], []))
    head: dict[str, Any] = {"name": "a", "kind": "nav", "dtype": "float64", "shape": shape, "axes": [0, 1], "bin": 1}
    head["reduction"] = "sum()"
    for _ in range(rng.randrange(3)):
        name = rng.choice(list(head))
        head[name] = rng.choice(AXES) if name == "axes" else rng.choice((*VALUES, *DTYPES, ["nav"]))
    if rng.random() < 0.1:
        del head[rng.choice(list(head))]
    text = json.dumps(head).encode()
    return len(text).to_bytes(4, "little") + text + np.ones(shape, "<f8").tobytes()


def _reduction(rng: random.Random) -> str:
    kind, count = rng.choice(list(REDUCTIONS.items()))
    given = [rng.choice(NUMBERS) for _ in range(count if rng.random() < 0.7 else rng.randrange(6))]
    if rng.random() < 0.3:
        given.append(f"dtype={rng.choice(DTYPES)}")
    return f"{kind}({', '.join(given)})"


def fuzz(application: Application, count: int, seed: int, share: float = 1.0) -> Counter[int]:
    """Ask what has sense of every array, or a share of it, and then so many things that may have none.

    Returns: how often there was which status.

    Raises:
        AssertionError: an answer is none that `ANSWERS` has, or not in one line.
    """
    keys, rng, seen = described(application), random.Random(seed), Counter[int]()
    sensible = [one for key, about in keys.items() for one in plain(key, about) if rng.random() < share]

    async def run() -> None:
        for asked in [*sensible, *(senseless(keys, rng) for _ in range(count))]:
            done = await Asgi(application, f"/api/{asked.path}", asked.method, asked.body).run()
            said = done.body if done.status != 200 else b""
            assert done.status in ANSWERS, f"{asked}: {done.status} {said!r}"
            assert done.ended, asked
            assert said.count(b"\n") == (asked.method != "HEAD" and done.status >= 400), f"{asked}: {said!r}"
            seen[done.status] += 1

    asyncio.run(run())
    return seen
