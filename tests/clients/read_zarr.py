"""zarr-python 3: the group by its consolidated metadata, the array in it and the array by itself.
HOW "zarrs": decoded by Rust.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import zarr
from compare import how, main, source, wrong


def read(face: str, array: str) -> Any:
    version = zarr.__version__
    if how() == "zarrs":
        version = f"{importlib.metadata.version('zarrs')} in zarr {version}"
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    group = zarr.open_group(source(face), mode="r", use_consolidated=True)
    z = group[array]
    alone = zarr.open_array(source(face), path=array, mode="r")
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
