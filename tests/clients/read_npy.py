"""numpy: a .npy face, mapped into memory; HOW "load": read into memory, also from a URL. ARRAY is
not used: the face is one file.
"""

from __future__ import annotations

import io
import urllib.request
from typing import Any

import numpy as np
from compare import how, is_url, main


def read(face: str, array: str) -> Any:
    if how() == "load":
        file = io.BytesIO(urllib.request.urlopen(face).read()) if is_url(face) else face
        return np.load(file).__getitem__, {"version": np.__version__}
    mapped = np.load(face, mmap_mode="r")
    return mapped.__getitem__, {"version": np.__version__, "offset": mapped.offset, "writeable": mapped.flags.writeable}


if __name__ == "__main__":
    main(read)
