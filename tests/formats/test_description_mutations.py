"""Descriptions and tables that were changed at random: each opens or is refused, in one line; no crash, no hang."""

from __future__ import annotations

import copy
import json
import os
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.description_sets import columns, values, write, write_csv, write_npz
from vfs.errors import VfsError
from vfs.testing.inside import set_of

TWIN = values((4, 6, 8), "<u2")
BLOCKS = [{"file": 0, "offset": 96 * t, "origin": [t, 0, 0], "shape": [1, 6, 8]} for t in range(4)]
HEAD: dict[str, Any] = {"vfs": 1, "dtype": "<u2", "shape": [4, 6, 8], "files": ["a.bin"]}

NASTY: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    2**31,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "a",
    "<u2",
    "O",
]
NASTY += [
    "../a.bin",
    "/etc/hostname",
    "a.bin",
    "\0",
    "\ud800",
    [],
    [[]],
    {},
    [0],
    [1, 2, 3],
    [-1],
    [2**63],
    ["x"],
    {"id": "zlib"},
    {"id": "pickle"},
    {"id": "blosc"},
]
NASTY += [
    [None],
    "NaN",
    "x.vfs.json",
    "t.csv",
    "t.npz",
    "raw",
    "description",
    "data",
    [[0, 0], [0]],
    "z.bin",
    ".",
    [{"id": "shuffle", "elementsize": 0}],
]
WORDS = [
    *HEAD,
    "blocks",
    "table",
    "frames",
    "format",
    "arrays",
    "options",
    "codec",
    "encodings",
    "file",
    "offset",
    "origin",
    "nbytes",
    "byte_order",
    "header",
    "first",
]
WORDS += [
    "per_file",
    "first_frame",
    "running_on",
    "pieces",
    "payload",
    "sync_offset",
    "nav_shape",
    "roi",
    "dark",
    "chunks",
    "fill_value",
    "stored_shape",
    "xyz",
]


def valid_documents() -> list[dict[str, Any]]:
    head = HEAD | {
        "dims": ["t", "y", "x"],
        "sig_ndim": 2,
        "fill_value": 3,
        "attributes": {"a": [1, {"b": None}]},
        "conventions": {"units": "e"},
    }
    frames = {
        "header": 0,
        "footer": 0,
        "first": [0],
        "per_file": [4],
        "first_frame": [0],
        "file": [0],
        "payload": 96,
        "sync_offset": 1,
    }
    pieces = [
        {"origin": [y, 0], "shape": [3, 8], "strides": [s, 1], "first": f} for y, s, f in ((0, 8, 0), (3, -8, 40))
    ]
    coded = [
        {
            "file": 0,
            "offset": 0,
            "origin": [0, 0, 0],
            "shape": [4, 6, 8],
            "codec": [{"id": "zlib"}],
            "byte_order": "big",
        }
    ]
    options = {
        "stored_dtype": "<u2",
        "sig_shape": [6, 8],
        "nav_shape": [2, 2],
        "sync_offset": 1,
        "roi": [0, 2],
        "chunks": [1, 6, 8],
        "backend": "buffered",
    }
    more = {"array": "data", "dtype": "float32", "dark": [[1] * 8] * 6, "dead": [[0, 0]], "sig_ndim": 2}
    return [
        head | {"frames": frames},
        head | {"frames": {"pieces": pieces}},
        head | {"frames": {"running_on": True, "header": 0}},
        head | {"blocks": BLOCKS, "stored_shape": [1, 6, 8]},
        head | {"blocks": coded, "files": ["z.bin"]},
        head | {"table": "t.csv", "encodings": [{}, {"byte_order": "big"}]},
        head | {"table": "t.npz", "codec": None, "encodings": [{"codec": None}, {"byte_order": "little"}]},
        {
            "vfs": 1,
            "files": ["a.bin"],
            "arrays": {
                "data": {**{key: value for key, value in head.items() if key not in ("vfs", "files")}, "frames": {}}
            },
        },
        {"vfs": 1, "format": "raw", "files": ["a.bin"], "options": options},
        {"vfs": 1, "format": "npy", "files": ["a.npy"], "options": more},
    ]


def places(value: Any) -> list[tuple[Any, Any]]:
    found = []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += [(value, key), *places(inner)]
    return found


def mutated(chance: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        spots = places(made)
        if not spots:
            break
        at, key = chance.choice(spots)
        how = chance.random()
        if how < 0.5:
            at[key] = copy.deepcopy(chance.choice(NASTY))
        elif how < 0.6:
            del at[key]
        elif isinstance(at, list):
            at.insert(key, copy.deepcopy(chance.choice([*NASTY, at[key]])))
        elif how < 0.75:
            at[chance.choice(WORDS)] = at.pop(key)
        elif how < 0.9:
            at[chance.choice(WORDS)] = copy.deepcopy(chance.choice(NASTY))
        elif type(at[key]) is int:
            at[key] += chance.choice([-1, 1, 100, 2**40])
    return made


def garbled(chance: random.Random, content: bytes) -> bytes:
    made = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(made) + 1)
        how = chance.random()
        if how < 0.4:
            made[at : at + 1] = bytes([chance.randrange(256)])
        elif how < 0.6:
            del made[at : at + chance.choice([1, 4, 20])]
        elif how < 0.8:
            made[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice([1, 4])))
        elif how < 0.9:
            del made[at:]
        else:
            made[at:at] = chance.choice(
                [b"{", b"[", b'"', b",", b"}", b"1e999", b"-", b"9" * 30, b"\\ud800", b"NaN", b"\xff", b"\n"]
            )
    return bytes(made)


def opens_or_refuses(folder: Path) -> bool:
    """True where it opens; then what is small reads, too, or says why not. Any other exception is a failure."""
    try:
        group = vfs.open_group(folder / "x.vfs.json", format="description")
        for array in group.values():
            if array.nbytes < 1 << 22:
                array.read()
        set_of(group).tree.faces()
    except VfsError as error:
        if "\n" in str(error) or len(str(error)) > 1500:
            raise RuntimeError(f"more than one line: {error}") from error
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_mutations(tmp_path: Path, seed: int) -> None:
    """2,000 in all; VFS_FUZZ says how many instead of 500 each."""
    folder = tmp_path
    (folder / "a.bin").write_bytes(TWIN.tobytes())
    (folder / "z.bin").write_bytes(zlib.compress(TWIN.tobytes()))
    np.save(folder / "a.npy", TWIN)
    chance = random.Random(seed)
    table, _ = columns(BLOCKS, 3)
    write_csv(folder / "t.csv", table)
    write_npz(folder / "t.npz", table)
    files = {name: (folder / name).read_bytes() for name in ("t.csv", "t.npz")}
    documents = valid_documents()
    for document in documents:
        write(folder, document)
        assert opens_or_refuses(folder), document
    opened = 0
    count = int(os.environ.get("VFS_FUZZ", "500"))
    for _ in range(count):
        document = chance.choice(documents)
        name = document.get("table", "")
        if name and chance.random() < 0.5:
            write(folder, document)
            (folder / name).write_bytes(garbled(chance, files[name]))
        elif chance.random() < 0.7:
            write(folder, mutated(chance, document))
        else:
            (folder / "x.vfs.json").write_bytes(garbled(chance, json.dumps(document).encode()))
        opened += opens_or_refuses(folder)
        if name:
            (folder / name).write_bytes(files[name])
    assert count // 25 < opened < count * 4 // 5  # neither is everything refused nor nothing
