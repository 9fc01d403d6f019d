"""Opens files that RosettaSciIO reads: spectra and maps of Bruker, JEOL, Oxford, Renishaw, Phenom, Horiba and others.

RosettaSciIO (https://hyperspy.org/rosettasciio) runs in another process (`vfs.libraries`). A file is told by its ending
and its first bytes, before anything of the library is imported. What vfs reads itself is not asked of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from vfs.errors import OptionError
from vfs.formats import Format
from vfs.libraries.signals import Signal, Signals
from vfs.model.hyperspy_places import TERMS
from vfs.model.libraries import Library
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray
from vfs.model.wording import format_option
from vfs.sources.names import splitext

LIBRARY = Library(
    "RosettaSciIO", "GPL-3.0-or-later", "rosettasciio", ("rsciio",), "vfs.formats.rosettasciio:RosettaReader"
)

_KINDS: Mapping[str, Sequence[tuple[str, str]]] = {
    ".bcf": [("bruker", r"AAMVHFSS")],
    ".spx": [("bruker", r"(?s).{0,400}<TRTSpectrum")],
    ".asw": [("jeol", r"(?s)\x00{4}.{0,32}FileType.{0,32}Analysis Station")],
    ".img": [("jeol", r"4\x00\x00\x00JED-2200"), ("hamamatsu", r"(?s)IM.{62}\[Application\]")],
    ".map": [("jeol", r"4\x00\x00\x00JED-2200")],
    ".pts": [("jeol", r"0\x01\x00\x00PTTD")],
    ".eds": [("jeol", r"\x02\x00\x00\x00\x02\x00\x00\x00")],
    ".elid": [("phenom", r"BZh")],
    ".wdf": [("renishaw", r"WDF1")],
    ".tvf": [("trivista", r"(?s)(\xef\xbb\xbf)?.{0,200}(TriVista-File|<XmlMain)")],
    ".xml": [("jobinyvon", r"(?s).{0,200}<LSX_Data>")],
    ".prz": [("pantarhei", r"PK\x03\x04")],
    ".unf": [("semper", r"(?s)[\x0c\x10\x18\x1c\x20]\x00\x00\x00.{8,16}")],
    ".sur": [("digitalsurf", r"DSCOMPRESSED|DIGITAL SURF")],
    ".pro": [("digitalsurf", r"DSCOMPRESSED|DIGITAL SURF")],
    **{ending: [("msa", r"(?s).{0,100}#FORMAT")] for ending in (".msa", ".ems", ".mas", ".emsa")},
    ".dens": [("dens", r"(?s).{0,200}Digiheater|(?s:.{0,200})DENS")],
    ".csv": [("protochips", r"Time, ?Notes, ?[A-Z]"), ("impulse", r"TimeStamp,Experiment time,")],
    ".sac": [("quadstar", r"(?s)..32\x00\x00")],
    ".sbc": [("quadstar", r"(?s)..32\x00\x00")],
}
"""Ending of a file -> (module of RosettaSciIO that reads it, its first bytes, as a pattern of latin-1)."""
_PICTURES = {
    ".jpg": [("image", r"\xff\xd8\xff")],
    ".jpeg": [("image", r"\xff\xd8\xff")],
    ".png": [("image", r"\x89PNG\r\n\x1a\n")],
    ".bmp": [("image", r"(?s)BM.{4}\x00{4}")],
}
"""Pictures: one opens when somebody names it. In a folder they are no data sets: many are figures beside the data."""
_KNOWN = {
    ending: [(kind, re.compile(mark)) for kind, mark in kinds] for ending, kinds in {**_KINDS, **_PICTURES}.items()
}


def _reader_of(path: str, first_bytes: bytes) -> str:
    kinds = _KNOWN.get(splitext(path)[1].lower(), ())
    return next((kind for kind, mark in kinds if mark.match(first_bytes[:512].decode("latin1"))), "") if kinds else ""


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return bool(_reader_of(path, first_bytes))


class RosettaReader(Signals):
    """Reads a set, in the fork: a signal of RosettaSciIO is an array."""

    @staticmethod
    def load() -> None:
        import dask.array  # noqa: F401  most readers import it
        import rsciio  # noqa: F401

    def open(self, path: str, options: Mapping[str, Any]) -> list[Signal]:
        reader = options["reader"] or self._named(path)
        read = import_module(f"rsciio.{reader}").file_reader
        more = {key: value for key, value in options.items() if key != "reader" and value is not None}
        try:
            signals = read(path, lazy=True, **more)
        except MemoryError:
            raise
        except Exception:  # some readers cannot be lazy, and say so in several ways
            signals = read(path, **more)
        return [*map(Signal.of, signals)]

    @staticmethod
    def _named(path: str) -> str:
        from rsciio import IO_PLUGINS

        ending = splitext(path)[1][1:].lower()
        apis = [str(one["api"]) for one in IO_PLUGINS if ending in map(str.lower, one["file_extensions"])]
        found = [api.split(".")[1] for api in apis]
        if len(found) != 1:
            raise ValueError(f"readers of .{ending}: {', '.join(found) or 'none'}; -o reader=… chooses one")
        return found[0]


def _options(path: str, sources: Sources, given: Mapping[str, Any]) -> dict[str, Any]:
    reader = given["reader"]
    if reader and not re.fullmatch(r"[a-z]+", reader):
        raise OptionError(f"{format_option(reader=reader)}: expected the name of a reader of RosettaSciIO")
    return {**given, "reader": reader or _reader_of(path, sources.read(path, 0, 512))}


def open(
    paths: Sequence[str],
    sources: Sources,
    *,
    reader: str = "",
    downsample: int | None = None,
    cutoff_at_kV: float | None = None,  # noqa: N803  as RosettaSciIO calls it
    sum_frames: bool | None = None,
) -> list[StoredArray]:
    """Open a file that RosettaSciIO reads.

    Args:
        reader: what RosettaSciIO calls the format, such as bruker; by default the file's ending and first bytes say it
        downsample: of maps of Bruker and JEOL: how many positions along each axis are added up
        cutoff_at_kV: of maps of Bruker and JEOL: the energy at which spectra are cut
        sum_frames: of maps of JEOL (.pts): false shows each frame

    Raises:
        DependencyError: RosettaSciIO is not installed.
        FormatError: it does not read the file.
        OptionError: it has no such reader.
    """
    from vfs.libraries.arrays import library_arrays

    given = {"reader": reader, "downsample": downsample, "cutoff_at_kV": cutoff_at_kV, "sum_frames": sum_frames}
    return library_arrays(LIBRARY, paths[0], sources, _options(paths[0], sources, given), TERMS)


def _original(paths: Sequence[str], sources: Sources) -> Mapping[str, Any]:
    from vfs.libraries.arrays import library_original

    return library_original(LIBRARY, paths[0], sources, _options(paths[0], sources, {"reader": ""}))


FORMAT = Format(
    "rosettasciio",
    tuple(_KINDS),
    "https://hyperspy.org/rosettasciio",
    "by RosettaSciIO: spectra, maps and images of Bruker, JEOL, Renishaw, Phenom, Horiba, Hamamatsu and others",
    sniff,
    open,
    index_extensions=(".asw",),
    single=True,
    terms=TERMS,
    original=_original,
    library=LIBRARY,
)
