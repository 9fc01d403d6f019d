"""ncdump, the command of netCDF, through NCZarr: it prints a whole variable as text, and has no way to ask for less."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

import numpy as np
from compare import NotOffered, main

TYPES = {
    "ubyte": "u1",
    "ushort": "<u2",
    "uint": "<u4",
    "byte": "i1",
    "short": "<i2",
    "int": "<i4",
    "float": "<f4",
    "double": "<f8",
}


def ncdump(*arguments: str) -> str:
    return subprocess.run(["ncdump", *arguments], capture_output=True, text=True, check=True).stdout


def read(face: str, array: str) -> Any:
    said = subprocess.run(["ncdump"], capture_output=True, text=True, check=False).stderr
    version = said.rpartition("library version ")[2].split()[0]
    url = f"file://{os.path.abspath(face)}#mode=zarr,file"
    head = ncdump("-h", url)
    sizes = {name: int(size) for name, size in re.findall(r"^\t(\w+) = (\d+) ;", head, re.MULTILINE)}
    declared = re.search(rf"^\t(\w+) {array}\((.*)\) ;", head, re.MULTILINE)
    assert declared is not None, head
    dims = declared[2].split(", ")

    def get(region: tuple[slice, ...]) -> Any:
        if region != (slice(None),) * len(dims):
            raise NotOffered(version)
        values = ncdump("-v", array, url).partition("\ndata:\n")[2].partition("=")[2].partition(";")[0]
        return np.array(values.replace(",", " ").split(), TYPES[declared[1]]).reshape([sizes[name] for name in dims])

    return get, {"version": version, "dims": dims}


if __name__ == "__main__":
    main(read)
