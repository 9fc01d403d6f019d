"""What ImageJ says of an image, in the vocabulary of `vfs.model.metadata`.

The description has lines such as `mode=composite`, `min=0.0`, `max=255.0`. Two further tags are in the byte order of
the file: 50838 has the bytes of each piece of 50839, which is: IJIJ | kind (4 letters), number of pieces (uint32), … |
pieces. Kinds are `rang`, two float64 for each channel, `luts`, the tables of colours: 256 red, green and blue values
each, and `labl`, names of planes in UTF-16. Others (regions, overlays) may be large, and are not read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vfs.errors import VfsError
from vfs.formats.tiff_structure.headers import DESCRIPTION, Reader
from vfs.formats.tiff_structure.structure import Structure, within
from vfs.model.channels import Channel, real
from vfs.model.metadata import Term

_COUNTS, _PIECES = 50838, 50839
_MAX_HEAD = 804  # bytes of the list of kinds
_MAX_PIECES = 1 << 20
_MAX_PIECE_BYTES = 1 << 16  # bytes of a piece that is read
_MAX_LABELS = 1 << 12
_LUT = 768  # bytes of a table of colours
_LINE = re.compile(r"^(\w+)=(.*?)\s*$", re.M)


def wrote(found: Structure) -> bool:
    """Return True if the description is one of ImageJ."""
    return found.start.startswith("ImageJ=")


def attrs_of(found: Structure) -> dict[str, Any]:
    """Return the lines of the description, and under `channels` what is said of each channel."""
    lines = dict(_LINE.findall(found.text(DESCRIPTION, _MAX_PIECE_BYTES)))
    try:
        pieces = _pieces(found)
    except (VfsError, struct.error):
        pieces = {}
    channels = _channels(lines, pieces, found.order)
    return {"imagej": lines, **({"channels": channels} if channels else {})}


def _pieces(found: Structure) -> dict[str, list[bytes]]:
    """Read the pieces of some kinds.

    Raises:
        VfsError: the file ends before.
        struct.error: they are garbled.
    """
    counts, field = found.tags.get(_COUNTS), found.tags.get(_PIECES)
    if counts is None or field is None or counts.type != 4 or not 2 <= counts.length <= _MAX_PIECES:
        return {}
    if not within(found.size, counts) or not within(found.size, field):
        return {}
    reader = Reader(found.sources, found.path)
    head, *sizes = reader.numbers(counts).tolist()
    if not 12 <= head <= min(_MAX_HEAD, field.length) or reader.read(field.at, 4) not in (b"IJIJ", b"JIJI"):
        return {}
    kinds = struct.iter_unpack(found.order + "4sI", reader.read(field.at + 4, (head - 4) // 8 * 8))
    at, end, k = field.at + head, field.at + field.length, 0
    made: dict[str, list[bytes]] = {}
    for letters, count in kinds:
        name = (letters if found.order == ">" else letters[::-1]).decode("latin-1")
        for size in sizes[k : k + count]:
            wanted = name in ("rang", "luts") or (name == "labl" and count <= _MAX_LABELS)
            if wanted and size <= _MAX_PIECE_BYTES and at + size <= end:
                made.setdefault(name, []).append(reader.read(at, size))
            at += size
        k += count
    return made


def _channels(lines: Mapping[str, str], pieces: Mapping[str, Sequence[bytes]], order: str) -> list[dict[str, Any]]:
    count = int(lines["channels"]) if lines.get("channels", "").isdecimal() and len(lines["channels"]) < 6 else 1
    mode = lines.get("mode", "")
    drawn = list(_colours(pieces.get("luts", ()))) if mode in ("composite", "color") else []
    windows = [struct.unpack(order + f"{len(one) // 8}d", one[: len(one) // 8 * 8]) for one in pieces.get("rang", ())]
    edges = list(windows[0]) if windows else []
    if count == 1 and not edges:
        edges = [number for name in ("min", "max") if (number := real(lines.get(name))) is not None]
    names = list(_names(pieces.get("labl", ()), count, order))
    made = []
    for k in range(count):
        one = Channel()
        if len(names) == count and names[k]:
            one["name"] = names[k]
        if len(drawn) == count:
            one["colour"] = drawn[k]
        if len(edges) == 2 * count and edges[2 * k] < edges[2 * k + 1]:
            one["window"] = (edges[2 * k], edges[2 * k + 1])
        made.append(dict(one))
    return made if any(made) else []


def _colours(tables: Sequence[bytes]) -> Iterator[str]:
    """Yield the colour of the end of each table that is not black."""
    for table in tables:
        if len(table) == _LUT:
            last, first = table[255::256], table[0::256]
            yield f"#{(last if any(last) else first).hex()}"


def _names(labels: Sequence[bytes], count: int, order: str) -> Iterator[str]:
    """Yield the names of channels, where the planes of each have one label: channels follow each other first."""
    texts = [label.decode("utf-16-be" if order == ">" else "utf-16-le", "replace").strip() for label in labels]
    for k in range(count if count > 1 and texts and len(texts) % count == 0 else 0):
        own = {*texts[k::count]}
        yield own.pop() if len(own) == 1 else ""


def _version(entry: Any) -> str | None:
    return f"ImageJ {entry}" if isinstance(entry, str) and entry else None


TERMS = (Term("software", "imagej:ImageJ", take=_version), Term("channels", "channels"))
"""Of what `attrs_of` finds."""
