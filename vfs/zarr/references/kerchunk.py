"""Writes references as kerchunk does, which fsspec's file system `reference` reads: in JSON, or in Parquet.

JSON is one file; who opens it reads all of it. In Parquet each file holds 10,000 references, and readers take those
that they need. Both describe arrays in zarr v2. The formats:
https://fsspec.github.io/kerchunk/spec.html and https://fsspec.github.io/kerchunk/advanced.html#parquet-storage.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from vfs.errors import DependencyError, extra
from vfs.hierarchy.documents import document
from vfs.hierarchy.references import ChunkTable, References
from vfs.zarr.references.shown import ReferencedSet, chunk_coordinates, copied_bytes, documents, url

RECORDS = 10_000
"""References in a file of Parquet."""


def write_json(found: ReferencedSet, target: str) -> None:
    """Write references as one file of JSON.

    Raises:
        OSError: it cannot be written.
    """
    texts = {key: document(node).decode() for key, node in documents(found, 2).items()}
    for path, array in found.copied.items():
        texts[f"{path}/{_first(array.ndim)}"] = "base64:" + base64.b64encode(copied_bytes(array)).decode()
    with open(target, "wb") as file:
        file.write(b'{\n "version": 1,\n "refs": {\n')
        file.write(",\n".join(f"  {json.dumps(key)}: {json.dumps(text)}" for key, text in texts.items()).encode())
        for path, one in found.referenced.items():
            _write_chunks(file, path, one)
        file.write(b"\n }\n}\n")


def _write_chunks(file: BinaryIO, path: str, one: References) -> None:
    """Write a line for each chunk. One call formats thousands of them."""
    names = np.array([json.dumps(url(name, quoted=False)) for name in one.array.dataset.files.paths], object)
    key = json.dumps(path)[1:-1].replace("%", "%%")
    form = f',\n  "{key}/{".".join(["%d"] * len(one.counts)) or "0"}": [%s, %d, %d]'
    for coordinates, files, offsets, nbytes in chunk_coordinates(one):
        rows = np.empty((len(files), coordinates.shape[1] + 3), object)
        rows[:, :-3], rows[:, -3], rows[:, -2], rows[:, -1] = coordinates, names[files], offsets, nbytes
        file.write((form * len(rows) % tuple(rows.reshape(-1).tolist())).encode())


def write_parquet(found: ReferencedSet, target: str) -> None:
    """Write references as a folder of Parquet files.

    Raises:
        DependencyError: pyarrow is not installed.
        OSError: it cannot be written.
    """
    arrow = _arrow()
    os.mkdir(target)
    groups = (".zgroup", ".zattrs")  # of the root; fsspec takes every other folder with a document for an array
    arrays = {*found.referenced, *found.copied}
    metadata = {
        key: node for key, node in documents(found, 2).items() if key in groups or key.rpartition("/")[0] in arrays
    }
    with open(f"{target}/.zmetadata", "wb") as file:
        file.write(document({"metadata": metadata, "record_size": RECORDS}))
    for path in arrays:
        os.makedirs(f"{target}/{path}")
    for path, one in found.referenced.items():
        names = [url(name, quoted=False) for name in one.array.dataset.files.paths]
        for record, table in enumerate(one.tables(RECORDS)):
            if (table.file >= 0).any():
                _write_table(arrow, f"{target}/{path}/refs.{record}.parq", _columns(arrow, names, table))
    for path, array in found.copied.items():
        raw = _texts(arrow, arrow.binary(), [copied_bytes(array)])
        none, zero = _texts(arrow, arrow.string(), [None]), _numbers(arrow, np.zeros(1, np.int64))
        _write_table(arrow, f"{target}/{path}/refs.0.parq", {"path": none, "offset": zero, "size": zero, "raw": raw})


def _columns(arrow: Any, names: Sequence[str], table: ChunkTable) -> dict[str, Any]:
    """Return the columns of a file. Few names are written once each, and numbers that stand for them."""
    held, count = table.file >= 0, len(table.file)
    used, which = np.unique(table.file[held], return_inverse=True)
    texts = [names[k].encode() for k in used.tolist()]
    if held.all():
        numbers = _numbers(arrow, which.astype(np.int32))
        paths = arrow.DictionaryArray.from_arrays(numbers, _texts(arrow, arrow.string(), texts))
    else:
        # Readers differ in what they make of null among numbered names; a plain text that is null they know
        said = np.full(count, None, object)
        said[held] = np.array(texts, object)[which]
        paths = _texts(arrow, arrow.string(), said.tolist())
    return {
        "path": paths,
        "offset": _numbers(arrow, table.offset),
        "size": _numbers(arrow, table.nbytes),
        "raw": arrow.nulls(count, arrow.binary()),
    }


def _texts(arrow: Any, kind: Any, texts: Sequence[bytes | None]) -> Any:
    """Return texts, or bytes, as Arrow has them: see `_numbers`."""
    ends = np.cumsum([0, *(len(text or b"") for text in texts)], dtype=np.int32)
    held = np.packbits([text is not None for text in texts], bitorder="little")
    data = b"".join(text or b"" for text in texts)
    return arrow.Array.from_buffers(
        kind, len(texts), [arrow.py_buffer(held), arrow.py_buffer(ends), arrow.py_buffer(data)]
    )


def _numbers(arrow: Any, values: np.ndarray) -> Any:
    """Return numbers as Arrow has them. What takes those of numpy or Python imports pandas: 0.5 s."""
    kind = arrow.int32() if values.dtype == np.int32 else arrow.int64()
    return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(np.ascontiguousarray(values))])


def _write_table(arrow: Any, path: str, columns: Mapping[str, Any]) -> None:
    import pyarrow.parquet

    # fastparquet makes floats of numbers that may be null
    fields = [arrow.field(name, column.type, nullable=name in ("path", "raw")) for name, column in columns.items()]
    table = arrow.Table.from_arrays([*columns.values()], schema=arrow.schema(fields))
    pyarrow.parquet.write_table(table, path, compression="zstd")


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DependencyError(f"references in Parquet need pyarrow: {extra('references')}") from None
    return pyarrow


def _first(ndim: int) -> str:
    """Return the coordinates of the first chunk, as a key has them."""
    return ".".join(["0"] * ndim) or "0"
