"""zarrita (JavaScript) under Node: the elements come back as bytes on stdout. Packages are found
from the working directory.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import numpy as np
from compare import main

SCRIPT = """
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";
const [face, path, starts, stops] = process.argv.slice(2);
const array = await zarr.open(zarr.root(new FileSystemStore(face)).resolve(path), { kind: "array" });
if (!starts) {
    const dims = array.dimensionNames ?? array.attrs._ARRAY_DIMENSIONS;
    console.log(JSON.stringify({ shape: array.shape, dtype: array.dtype, dims, node: process.version }));
} else {
    const [first, last] = [JSON.parse(starts), JSON.parse(stops)];
    const part = await zarr.get(array, first.map((start, i) => zarr.slice(start, last[i])));
    process.stdout.write(Buffer.from(part.data.buffer, part.data.byteOffset, part.data.byteLength));
}
"""


def zarrita(*arguments: str) -> bytes:
    done = subprocess.run(
        ["node", "--input-type=module", "-", *arguments], input=SCRIPT.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise OSError(done.stderr.decode())
    return done.stdout


def read(face: str, array: str) -> Any:
    face = os.path.abspath(face)
    opened = json.loads(zarrita(face, array))

    def get(region: tuple[slice, ...]) -> Any:
        bounds = [piece.indices(n)[:2] for piece, n in zip(region, opened["shape"], strict=True)]
        held = zarrita(
            face, array, json.dumps([first for first, _ in bounds]), json.dumps([last for _, last in bounds])
        )
        return np.frombuffer(held, opened["dtype"]).reshape([last - first for first, last in bounds])

    with open("node_modules/zarrita/package.json") as file:
        version = json.load(file)["version"]
    return get, {"version": f"{version}, Node {opened['node'][1:]}", "dims": opened["dims"]}


if __name__ == "__main__":
    main(read)
