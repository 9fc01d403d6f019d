"""What the client scripts share. Each runs in a process of its own and shows what one foreign tool makes of a face::

    python read_zarr.py FACE EXPECTED.npy [ARRAY [HOW]]

FACE is a folder (a zarr face of a mount, or a copy of one), a .npy face, a URL where the tool takes
one, or a pickled `vfs.zarr.store.Store` (NAME.pickle) for tools that read stores. ARRAY is the
array's path in it ("data"). EXPECTED.npy holds what must come back, element by element and in the
same dtype. HOW is up to the script: another way of the same tool. One line of JSON on stdout says
what was seen; its "regions" say of each region "equal", "unreadable", "not drawn" (a picture has a
gap), "not offered" (the tool has no way to ask for it) or how it differs. Exit status:

- 0: all that the tool offers is equal
- 1: something came back that is not what was expected
- 3: the tool reported that it cannot read (what a source that is broken must lead to), and nothing
  that did come back was wrong

A script that gets no argument takes these from lines of its standard input, each a JSON list of them, and prints a
line for each, in which "status" is what the exit status would be: so one start of a tool reads many faces.

With CLIENT_WAITS in the environment, a script says "opened" once it knows the array, and reads on
when it gets a line: what it read can break in between.

Only numpy is needed here: some tools have a Python of their own.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

WRONG, UNREADABLE = 1, 3
RIGHT = ("equal", "unreadable", "not drawn", "not offered")
"""What may be said of a region."""


class NotOffered(Exception):  # noqa: N818 - not an error
    """The tool, in the version its message names, cannot be asked for a region such as this one, or
    does not know such a face.
    """


class NotDrawnError(Exception):
    """A picture has a gap where the elements should be."""


def source(face: str) -> Any:
    """The store a pickle holds; other faces as they are."""
    if not face.endswith(".pickle"):
        return face
    with open(face, "rb") as file:
        return pickle.load(file)


def is_url(face: str) -> bool:
    return "://" in face


def is_v3(face: str) -> bool:
    """True where the root of a folder has a zarr.json; of URLs, the name says it."""
    return not face.endswith(".v2.zarr") if is_url(face) else os.path.exists(f"{face}/zarr.json")


def expected_shape() -> tuple[int, ...]:
    """For tools that do not say the shape themselves."""
    return np.load(sys.argv[2], mmap_mode="r").shape


def how() -> str:
    """The way of reading that was asked for; "" for the usual one."""
    return sys.argv[4] if len(sys.argv) > 4 else ""


def regions(shape: tuple[int, ...]) -> dict[str, tuple[slice, ...]]:
    """All of it; across the borders of chunks; the far edge; the first element."""
    return {
        "whole": (slice(None),) * len(shape),
        "crossing": tuple(slice(n // 3, max(n // 3 + 1, n - n // 4)) for n in shape),
        "edge": tuple(slice(max(0, n - 2), n) for n in shape),
        "first": tuple(slice(0, 1) for _ in shape),
    }


def wrong(message: str) -> NoReturn:
    """Say what came back instead of what was expected."""
    print(message, file=sys.stderr)
    sys.exit(WRONG)


def difference(part: np.ndarray, want: np.ndarray) -> str:
    """What is wrong with what came back; "" where nothing is."""
    if part.dtype != want.dtype or part.shape != want.shape:
        return f"expected {want.dtype}{list(want.shape)}, found {part.dtype}{list(part.shape)}"
    if part.tobytes() != want.tobytes():
        zeros = "" if part[part != want].any() else ": they are 0"
        return f"{np.count_nonzero(part != want):,} of {want.size:,} elements differ{zeros}"
    return ""


Read = Callable[[str, str], tuple[Callable[[tuple[slice, ...]], Any], dict[str, Any]]]
"""(face, array) -> (function from slices to elements, what else was seen)."""


def main(read: Read) -> None:
    """Read a face with a tool and compare; or each face of a line of the standard input."""
    status = 0
    if sys.argv[1:]:
        answer = judged(read)
        print(json.dumps(answer))
        status = int(answer["status"])
    else:
        for line in sys.stdin:
            sys.argv[1:] = json.loads(line)
            print(json.dumps(judged(read)), flush=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: threads of a tool that outlive the interpreter (those of obstore, once in some hundred runs) abort it
    os._exit(status)


def judged(read: Read) -> dict[str, Any]:
    """Read the face that the arguments name and compare. Say what is wrong on stderr."""
    face, expected_file, *rest = sys.argv[1:]
    expected = np.load(expected_file)
    found: dict[str, str] = {}
    seen: dict[str, Any] = {}
    try:
        get, seen = read(face, rest[0] if rest else "data")
    except NotOffered as error:
        seen = {"version": str(error)}
        found = dict.fromkeys(regions(expected.shape), "not offered")
    except Exception:
        traceback.print_exc()
        found = dict.fromkeys(regions(expected.shape), "unreadable")
    else:
        if os.environ.get("CLIENT_WAITS"):
            print("opened", flush=True)
            sys.stdin.readline()
        for name, region in regions(expected.shape).items():
            try:
                found[name] = difference(np.asarray(get(region)), expected[region]) or "equal"
            except NotOffered:
                found[name] = "not offered"
            except NotDrawnError:
                found[name] = "not drawn"
            except Exception:
                traceback.print_exc()
                found[name] = "unreadable"
    differing = {name: text for name, text in found.items() if text not in RIGHT}
    status = UNREADABLE if {"unreadable", "not drawn"} & set(found.values()) else 0
    if differing:
        print("; ".join(f"{name}: {text}" for name, text in differing.items()), file=sys.stderr)
        status = WRONG
    return seen | {"dtype": str(expected.dtype), "shape": expected.shape, "regions": found, "status": status}
