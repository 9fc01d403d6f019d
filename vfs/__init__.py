"""vfs shows scattered detector files as one zarr store and one mounted directory, without converting anything."""

from vfs.api import VirtualArray, VirtualGroup, open, open_group
from vfs.errors import (
    DecodeError,
    DependencyError,
    FormatError,
    MissingSourceError,
    MountError,
    OptionError,
    RegionError,
    SourceChangedError,
    SourceError,
    TruncatedSourceError,
    UnknownArrayError,
    UnknownFormatError,
    VfsError,
)
from vfs.geometry import Region

__version__ = "0.1.0"

__all__ = [
    "DecodeError",
    "DependencyError",
    "FormatError",
    "MissingSourceError",
    "MountError",
    "OptionError",
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
    "open",
    "open_group",
]
