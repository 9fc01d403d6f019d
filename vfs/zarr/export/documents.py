"""Writes the documents of an exported store: those of the face, with the codecs and shards of the export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vfs.faces.documents import document
from vfs.model.naming import DOCUMENTS
from vfs.zarr.export.codecs import Codec

_INDEX = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def stored_documents(
    shown: Mapping[str, bytes], codecs: Mapping[str, Codec], shards: Mapping[str, tuple[int, ...]]
) -> dict[str, bytes]:
    """Return the documents of the store.

    Args:
        shown: key -> document, as a face shows them, in either zarr format.
        codecs: path of each array -> how its chunks are compressed.
        shards: path of each array that is sharded -> elements per axis of a shard.
    """

    def changed(path: str, node: Any) -> Any:
        codec = codecs.get(path)
        return node if codec is None else _array(node, codec, shards.get(path))

    made: dict[str, bytes] = {}
    for key, text in shown.items():
        folder, _, name = key.rpartition("/")
        if name not in DOCUMENTS:  # a further file
            made[key] = text
            continue
        node = json.loads(text)
        below = f"{folder}/" if folder else ""
        if name == "zarr.json":
            node = changed(folder, node)
            _each(node.get("consolidated_metadata", {}).get("metadata", {}), below, "", changed)
        elif name == ".zarray":
            node = changed(folder, node)
        elif name == ".zmetadata":
            _each(node["metadata"], below, "/.zarray", changed)
        made[key] = document(node)
    return made


def _each(nodes: dict[str, Any], below: str, ending: str, changed: Any) -> None:
    """Change the arrays in consolidated metadata, in place."""
    for name, node in nodes.items():
        if name.endswith(ending):
            nodes[name] = changed(f"{below}{name.removesuffix(ending)}", node)


def _array(node: Mapping[str, Any], codec: Codec, shards: tuple[int, ...] | None) -> dict[str, Any]:
    if node["zarr_format"] == 2:
        return {**node, "compressor": codec.v2}
    codecs = [*node["codecs"], *codec.v3]
    if shards is None:
        return {**node, "codecs": codecs}
    chunks = node["chunk_grid"]["configuration"]["chunk_shape"]
    how = {"chunk_shape": chunks, "codecs": codecs, "index_codecs": _INDEX, "index_location": "end"}
    return {
        **node,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shards)}},
        "codecs": [{"name": "sharding_indexed", "configuration": how}],
    }
