"""curl: parts of a .npy face by ranges of bytes. HOW "no --fail": as it is without the option for
which a status of 400 or more is an error. ARRAY is not used: the face is one file.
"""

from __future__ import annotations

import io
import subprocess
from typing import Any

import numpy as np
from compare import how, main


def curl(*arguments: str) -> bytes:
    fail = [] if how() == "no --fail" else ["--fail"]
    return subprocess.run(
        ["curl", "--silent", "--show-error", *fail, *arguments], stdout=subprocess.PIPE, check=True
    ).stdout


def read(face: str, array: str) -> Any:
    head = io.BytesIO(curl("--range", "0-4095", face))
    assert np.lib.format.read_magic(head) == (1, 0)
    shape, _, dtype = np.lib.format.read_array_header_1_0(head)
    begin = head.tell()

    def get(region: tuple[slice, ...]) -> Any:
        """Elements from the first one of the region to its last, and the region of these."""
        places = np.arange(np.prod(shape)).reshape(shape)[region]
        first, last = int(places.min()), int(places.max())
        got = curl("--range", f"{begin + first * dtype.itemsize}-{begin + (last + 1) * dtype.itemsize - 1}", face)
        elements = np.frombuffer(got, dtype, len(got) // dtype.itemsize)
        kept = np.zeros(last + 1 - first, dtype)
        kept[: len(elements)] = elements[: len(kept)]
        return kept[places - first]

    version = curl("--version").split()[1].decode()
    return get, {"version": version}


if __name__ == "__main__":
    main(read)
