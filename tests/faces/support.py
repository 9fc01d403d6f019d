"""What the tests of hierarchies share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.engine.support import in_memory
from vfs.engine.array import ArrayReader
from vfs.faces.data_set import Hierarchy
from vfs.model.stored import main_of


def array_of(
    values: np.ndarray,
    path: str = "data",
    *,
    companion: bool = False,
    said: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> ArrayReader:
    return in_memory(values, nav_ndim=min(1, values.ndim), said={"path": path, "companion": companion, **said}, **more)


def tree_of(*arrays: ArrayReader, name: str = "set", **attrs: Any) -> Hierarchy:
    main = main_of([array.dataset for array in arrays])
    return Hierarchy(name, {array.dataset.path: array for array in arrays}, attrs, main.path if main else "")


FORMATS = [3, 2]
