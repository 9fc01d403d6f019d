"""zarr-python 3: the group by its consolidated metadata, the array in it and the array by itself.
HOW "zarrs": decoded by Rust. HOW "obstore": a URL read by Rust, without fsspec.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import zarr
from compare import how, main, source, wrong


def store(face: str) -> Any:
    if how() != "obstore":
        return source(face)
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    return ObjectStore(HTTPStore.from_url(face, client_options={"allow_http": True}), read_only=True)


def read(face: str, array: str) -> Any:
    version = zarr.__version__
    if how() == "zarrs":
        version = f"{importlib.metadata.version('zarrs')} in zarr {version}"
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    elif how() == "obstore":
        version = f"{importlib.metadata.version('obstore')} in zarr {version}"
    group = zarr.open_group(store(face), mode="r", use_consolidated=True)
    z = group[array]
    alone = zarr.open_array(store(face), path=array, mode="r")
    if alone.metadata != z.metadata:
        wrong(f"the consolidated metadata of {array} differ from its own")
    members = sorted(name for name, _ in group.members(max_depth=None))
    return alone.__getitem__, {
        "version": version,
        "zarr_format": z.metadata.zarr_format,
        "members": members,
        "attributes": list(z.attrs),
    }


if __name__ == "__main__":
    main(read)
