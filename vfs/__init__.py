"""Shows scattered detector files as one zarr store and one mounted directory, without converting anything.

Names are imported when they are first used, so `import vfs` and `vfs --help` load neither numpy nor
numba nor zarr.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vfs.errors import (
    DecodeError,
    DependencyError,
    ExecutorError,
    FormatError,
    IncompleteWarning,
    MissingSourceError,
    MountError,
    NoChunkError,
    NotReferenceableError,
    NotYetError,
    OptionError,
    OutsideError,
    RegionError,
    ServeError,
    SourceChangedError,
    SourceError,
    TruncatedSourceError,
    UnknownArrayError,
    UnknownFormatError,
    VerifyError,
    VfsError,
)
from vfs.own_code import check as _check  # notes what is loaded, so it comes before all that decides numbers
from vfs.reduce import CLASSES as _REDUCTIONS

if TYPE_CHECKING:
    from vfs.api.arrays import VirtualArray, VirtualGroup
    from vfs.api.exporting import export
    from vfs.api.guessing import guess_nav_shape
    from vfs.api.opening import open, open_group, show
    from vfs.api.showing import mount, serve
    from vfs.integrations import rsciio
    from vfs.integrations import virtualizarr as virtualizarr
    from vfs.model.region import Region
    from vfs.reduce.backgrounds import WithoutBackground
    from vfs.reduce.histogram import Histogram
    from vfs.reduce.in_frames import CenterOfMass, FrameSum, Masks, RadialSum
    from vfs.reduce.over_frames import Max, Mean, Min, Std, Sum, Variance
    from vfs.reduce.radial import RadialMean
    from vfs.reduce.reduction import Reduction
    from vfs.reduce.result import Result
    from vfs.reduce.shapes import Disk, Grid, Point, Polygon, Rectangle, Ring
    from vfs.reduce.usual import AnnularBrightField, AnnularDarkField, BrightField, HighAngleDarkField

    __version__: str

__all__ = [
    "AnnularBrightField",
    "AnnularDarkField",
    "BrightField",
    "CenterOfMass",
    "DecodeError",
    "DependencyError",
    "Disk",
    "ExecutorError",
    "FormatError",
    "FrameSum",
    "Grid",
    "HighAngleDarkField",
    "Histogram",
    "IncompleteWarning",
    "Masks",
    "Max",
    "Mean",
    "Min",
    "MissingSourceError",
    "MountError",
    "NoChunkError",
    "NotReferenceableError",
    "NotYetError",
    "OptionError",
    "OutsideError",
    "Point",
    "Polygon",
    "RadialMean",
    "RadialSum",
    "Rectangle",
    "Reduction",
    "Region",
    "RegionError",
    "Result",
    "Ring",
    "ServeError",
    "SourceChangedError",
    "SourceError",
    "Std",
    "Sum",
    "TruncatedSourceError",
    "UnknownArrayError",
    "UnknownFormatError",
    "Variance",
    "VerifyError",
    "VfsError",
    "VirtualArray",
    "VirtualGroup",
    "WithoutBackground",
    "export",
    "guess_nav_shape",
    "mount",
    "open",
    "open_group",
    "rsciio",
    "serve",
    "show",
]

_HOMES = (
    {
        "Region": "vfs.model.region",
        "Reduction": "vfs.reduce.reduction",
        "Result": "vfs.reduce.result",
        "export": "vfs.api.exporting",
        "guess_nav_shape": "vfs.api.guessing",
    }
    | dict.fromkeys(("VirtualArray", "VirtualGroup"), "vfs.api.arrays")
    | dict.fromkeys(("open", "open_group", "show"), "vfs.api.opening")
    | dict.fromkeys(("mount", "serve"), "vfs.api.showing")
    | {name: f"vfs.reduce.{home}" for name, home in _REDUCTIONS.items()}
)
# virtualizarr is in no __all__, since `from vfs import *` would need it
_MODULES = {name: f"vfs.integrations.{name}" for name in ("rsciio", "virtualizarr")}


_COMMANDS = ("check", "demo", "docs", "doctor", "formats", "info", "look", "mounts", "unmount", "verify")
_HINTS = {
    **dict.fromkeys(("imread", "load", "read"), "vfs.open opens a set"),
    **dict.fromkeys(
        _COMMANDS, "`vfs --help` in a shell lists the commands; in Python vfs.open and vfs.open_group open a set"
    ),
    "reduce": "vfs.open(…).reduce(…) makes results of all frames",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOMES:
        if _HOMES[name] not in sys.modules:
            _check()
        value = getattr(import_module(_HOMES[name]), name)
    else:
        hint = _HINTS.get(name, "")
        hint = f": {hint}" if hint else ""
        raise AttributeError(f"module 'vfs' has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vfs")
    except PackageNotFoundError:
        from vfs.errors import NOT_INSTALLED, DependencyError

        raise DependencyError(NOT_INSTALLED) from None


def __dir__() -> list[str]:
    # Leaves out the names that this module imports for itself, and submodules that happen to be loaded
    return sorted((*__all__, "__doc__", "__version__"))
