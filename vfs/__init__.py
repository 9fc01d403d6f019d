"""Shows scattered detector files as one zarr store and one mounted directory, without converting anything.

Names are imported when they are first used, so `import vfs` and `vfs --help` load neither numpy nor
numba nor zarr.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vfs.errors import (
    DecodeError,
    DependencyError,
    FormatError,
    IncompleteWarning,
    MissingSourceError,
    MountError,
    OptionError,
    OutsideError,
    RegionError,
    SourceChangedError,
    SourceError,
    TruncatedSourceError,
    UnknownArrayError,
    UnknownFormatError,
    VfsError,
)

if TYPE_CHECKING:
    from vfs.api import VirtualArray, VirtualGroup, mount, open, open_group
    from vfs.model.region import Region

__version__ = "0.1.0"

__all__ = [
    "DecodeError",
    "DependencyError",
    "FormatError",
    "IncompleteWarning",
    "MissingSourceError",
    "MountError",
    "OptionError",
    "OutsideError",
    "Region",
    "RegionError",
    "SourceChangedError",
    "SourceError",
    "TruncatedSourceError",
    "UnknownArrayError",
    "UnknownFormatError",
    "VfsError",
    "VirtualArray",
    "VirtualGroup",
    "mount",
    "open",
    "open_group",
]

_HOMES = {"Region": "vfs.model.region"} | dict.fromkeys(
    ("VirtualArray", "VirtualGroup", "mount", "open", "open_group"), "vfs.api"
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vfs' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    # Leaves out the names that this module imports for itself, and submodules that happen to be loaded
    return sorted((*__all__, "__doc__", "__version__"))
