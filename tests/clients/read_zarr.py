"""zarr-python: the group by its consolidated metadata, the array in it and the array by itself."""

from __future__ import annotations

from typing import Any

import zarr
from compare import main, source, wrong


def read(face: str, array: str) -> Any:
    group = zarr.open_group(source(face), mode="r", use_consolidated=True)
    z = group[array]
    alone = zarr.open_array(source(face), path=array, mode="r")
    if alone.metadata != z.metadata:
        wrong(f"the consolidated metadata of {array} differ from its own")
    seen = {"zarr_format": z.metadata.zarr_format, "members": sorted(name for name, _ in group.members(max_depth=None)), "attributes": list(z.attrs)}
    return alone.__getitem__, seen


if __name__ == "__main__":
    main(read)
