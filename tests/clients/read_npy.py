"""numpy: a .npy face, mapped into memory. ARRAY is not used: the face is one file."""

from __future__ import annotations

from typing import Any

import numpy as np
from compare import main


def read(face: str, array: str) -> Any:
    mapped = np.load(face, mmap_mode="r")
    return mapped.__getitem__, {"offset": mapped.offset, "writeable": mapped.flags.writeable}


if __name__ == "__main__":
    main(read)
