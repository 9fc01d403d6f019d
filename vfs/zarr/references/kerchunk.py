"""Writes references as kerchunk does, which fsspec's file system `reference` reads: in JSON, or in Parquet.

JSON is one file; who opens it reads all of it. In Parquet each file holds 10,000 references, and readers take those
that they need. Both describe arrays in zarr v2. The formats:
https://fsspec.github.io/kerchunk/spec.html and https://fsspec.github.io/kerchunk/advanced.html#parquet-storage.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, BinaryIO

import numpy as np

from vfs.errors import DependencyError, extra
from vfs.faces.documents import document
from vfs.faces.references import ChunkTable, References
from vfs.new_files import create
from vfs.zarr.references.shown import ReferencedSet, check_names, chunk_coordinates, copied_bytes, documents, url

RECORDS = 10_000
"""References in a file of Parquet."""


def write_json(found: ReferencedSet, target: str, check: Callable[[], None]) -> None:
    """Write references as one file of JSON.

    Args:
        check: is called after every group of references.

    Raises:
        OSError: it cannot be written.
    """
    texts = {key: document(node).decode() for key, node in documents(found, 2).items()}
    for path, array in found.copied.items():
        texts[f"{path}/{_first(array.ndim)}"] = "base64:" + base64.b64encode(copied_bytes(array)).decode()
    with open(create(target), "wb") as file:
        file.write(b'{\n "version": 1,\n "refs": {\n')
        file.write(",\n".join(f"  {json.dumps(key)}: {json.dumps(text)}" for key, text in texts.items()).encode())
        for path, one in found.referenced.items():
            _write_chunks(file, path, one, check)
        file.write(b"\n }\n}\n")


def _write_chunks(file: BinaryIO, path: str, one: References, check: Callable[[], None]) -> None:
    """Write a line for each chunk. One call formats thousands of them."""
    names = np.array([json.dumps(url(name, quoted=False)) for name in one.array.dataset.files.paths], object)
    key = json.dumps(path)[1:-1].replace("%", "%%")
    form = f',\n  "{key}/{".".join(["%d"] * len(one.counts)) or "0"}": [%s, %d, %d]'
    for coordinates, files, offsets, nbytes in chunk_coordinates(one):
        rows = np.empty((len(files), coordinates.shape[1] + 3), object)
        rows[:, :-3], rows[:, -3], rows[:, -2], rows[:, -1] = coordinates, names[files], offsets, nbytes
        file.write((form * len(rows) % tuple(rows.reshape(-1).tolist())).encode())
        check()


def write_parquet(found: ReferencedSet, target: str, check: Callable[[], None]) -> None:
    """Write references as a folder of Parquet files.

    Each folder of a group is references, too, to what is below it: fsspec knows no groups in Parquet, so no reader
    finds them from above.

    Args:
        check: is called after every file.

    Raises:
        DependencyError: pyarrow is not installed.
        NotReferenceableError: the name of a file is no UTF-8.
        OSError: it cannot be written.
    """
    arrow = _arrow()
    check_names(found.files, "Parquet")
    os.mkdir(target)
    described, arrays = documents(found, 2), {*found.referenced, *found.copied}
    for path in arrays:
        os.makedirs(f"{target}/{path}")
    for group in {key.removesuffix(".zgroup") for key in described if key.endswith(".zgroup")}:
        with open(create(f"{target}/{group}.zmetadata"), "wb") as file:
            file.write(document({"metadata": _below(group, described, arrays), "record_size": RECORDS}))
    for path, one in found.referenced.items():
        names = [url(name, quoted=False) for name in one.array.dataset.files.paths]
        for record, table in enumerate(one.tables(RECORDS)):
            # Also of blank chunks only: fsspec may look into the first file when it opens the folder
            _write_table(arrow, f"{target}/{path}/refs.{record}.parq", _columns(arrow, names, table))
            check()
    for path, array in found.copied.items():
        raw = _texts(arrow, arrow.binary(), [copied_bytes(array)])
        none, zero = _texts(arrow, arrow.string(), [None]), _numbers(arrow, np.zeros(1, np.int64))
        _write_table(arrow, f"{target}/{path}/refs.0.parq", {"path": none, "offset": zero, "size": zero, "raw": raw})


def _below(group: str, described: Mapping[str, Any], arrays: Set[str]) -> dict[str, Any]:
    """Return the documents of a group ("entry/", "" is the root) and of the arrays below it, by their names there.

    Without those of groups below it: fsspec takes every folder that has a document for an array.
    """
    own = (f"{group}.zgroup", f"{group}.zattrs")
    return {
        key.removeprefix(group): node
        for key, node in described.items()
        if key in own or (key.startswith(group) and key.rpartition("/")[0] in arrays)
    }


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
