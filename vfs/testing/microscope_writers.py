"""Writes tiny valid files of light microscopes: ND2, LIF, CZI.

Each function takes numpy arrays and writes one file, whose planes lie behind each other with gaps.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np

from vfs.testing.tiff_writers import write_tiff

# ND2


def nd2_tree(name: str, value: Any) -> bytes:
    """Encode a named value, or a tree of them, as NIS-Elements 3 and later write it."""
    text = (name + "\0").encode("utf-16-le") if name else b""
    kind, data = 11, b""
    if isinstance(value, bool):
        kind, data = 1, bytes([value])
    elif isinstance(value, int):
        kind, data = 3, struct.pack("<I", value)
    elif isinstance(value, float):
        kind, data = 6, struct.pack("<d", value)
    elif isinstance(value, str):
        kind, data = 8, (value + "\0").encode("utf-16-le")
    elif isinstance(value, bytes):
        kind, data = 9, struct.pack("<Q", len(value)) + value
    else:
        named = value.items() if isinstance(value, Mapping) else (("", one) for one in value)
        entries = [nd2_tree(*pair) for pair in named]
        size = 2 + len(text) + 12 + sum(map(len, entries))
        data = struct.pack("<IQ", len(entries), size) + b"".join(entries) + bytes(8 * len(entries))
    return bytes([kind, len(text) // 2]) + text + data


def nd2_xml(name: str, value: Any) -> str:
    """Write a named value, or a tree of them, as NIS-Elements 2 writes it."""
    for kind, said in ((bool, "bool"), (int, "lx_uint32"), (float, "double"), (str, "CLxStringW")):
        if isinstance(value, kind):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            return f"<{name} runtype={quoteattr(said)} value={quoteattr(text)}/>"
    named = value.items() if isinstance(value, Mapping) else (("no_name", one) for one in value)
    return f'<{name} runtype="CLxListVariant">' + "".join(nd2_xml(*pair) for pair in named) + f"</{name}>"


def _nd2_document(name: str, value: Any) -> bytes:
    return f'<?xml version="1.0"?><variant version="1.0">{nd2_xml("no_name", value)}</variant>'.encode()


def _nd2_loops(loops: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Return the experiment of nested loops over t, position and z, the outermost first."""
    found: dict[str, Any] = {}
    for name, count in reversed(loops):
        pars: dict[str, Any] = {"uiCount": count}
        more: dict[str, Any] = {}
        if name == "t":
            pars |= {"dStart": 0.0, "dPeriod": 500.0, "dDuration": 0.0}
        elif name == "z":
            pars |= {"dZStep": 0.5, "dZLow": 0.0, "dZHigh": 1.0, "dZHome": 0.0, "iType": 0, "bZInverted": False}
        else:  # one point in the list was not visited
            point = {"dPosX": 0.0, "dPosY": 0.0, "dPosZ": 0.0}
            pars |= {"Points": [point | {"dPosX": 1.0 * k, "dPosName": f"Point {k}"} for k in range(count + 1)]}
            more = {"pItemValid": bytes([0] + [1] * count)}
        kind = {"t": 1, "position": 2, "z": 4}[name]
        found = {"eType": kind, "uLoopPars": pars, **more, **({"ppNextLevelEx": [found]} if found else {})}
    return found


def write_nd2(
    path: Path,
    frames: np.ndarray,
    loops: Sequence[str],
    *,
    channels: int = 1,
    colours: int = 1,
    version: int = 3,
    packed: bool = False,
    padding: int = 0,
    left_out: Sequence[int] = (),
    mapped: bool = True,
    pixel_type: int | None = None,
    parts: Sequence[int] = (),
    drawn: Sequence[int] = (),
    metadata: Mapping[str, Any] | None = None,
    planes: Sequence[Mapping[str, Any]] = (),
    more: Mapping[str, bytes] | None = None,
) -> Path:
    """Write frames [*loops, (c,) y, x (, s)] as an .nd2 file.

    Args:
        loops: names of the first axes: t, position, z.
        channels, colours: lengths of the axes c and s; neither is an axis where it is 1. Colours are as they are
            stored: blue first.
        version: 2 writes metadata as XML, 3 in bytes.
        packed: compress frames with zlib.
        padding: bytes behind each row.
        left_out: frames that were never recorded.
        mapped: write the map of chunks at the end.
        pixel_type: 0 for signed, 1 for unsigned integers, 2 for real numbers; None does not say it.
        parts: numbers of a pixel that are of each channel, where these differ; without, `colours` of each.
        drawn: colour of each channel, of which the lowest byte is red.
        metadata: further ones of the first frame.
        planes: further metadata of each channel.
        more: further chunks, by their names.
    """
    nav = frames.shape[: len(loops)]
    height, width = frames.shape[-2:] if colours == 1 else frames.shape[-3:-1]
    pixels = frames.reshape(-1, channels, height, width, colours).transpose(0, 2, 3, 1, 4)
    row = width * channels * colours * frames.itemsize + padding
    bits = frames.itemsize * 8
    attributes = {"uiWidth": width, "uiWidthBytes": row, "uiHeight": height, "uiComp": channels * colours}
    attributes |= {"uiBpcInMemory": bits, "uiBpcSignificant": bits, "uiSequenceCount": len(pixels)}
    attributes["eCompression"] = 0 if packed else 2
    attributes |= {} if pixel_type is None else {"ePixelType": pixel_type}
    each: list[dict[str, Any]] = [{"sDescription": f"dye {c}"} for c in range(len(parts) or channels)]
    each = [one | {"uiCompCount": n} for one, n in zip(each, parts, strict=True)] if parts else each
    each = [one | {"uiColor": n} for one, n in zip(each, drawn, strict=True)] if drawn else each
    each = [{**one, **new} for one, new in zip(each, planes, strict=True)] if planes else each
    channel_planes = {"uiCount": len(each), "sPlaneNew": each, **(metadata or {}).get("sPicturePlanes", {})}
    picture = {"dCalibration": 0.25, "bCalibrated": True, **(metadata or {}), "sPicturePlanes": channel_planes}
    lv = "LV" if version > 2 else ""
    tree = nd2_tree if version > 2 else _nd2_document
    chunks: dict[str, bytes] = {
        f"ImageAttributes{lv}!": tree("SLxImageAttributes", attributes),
        f"ImageMetadata{lv}!": tree("SLxExperiment", _nd2_loops([*zip(loops, nav, strict=True)])),
        f"ImageMetadataSeq{lv}|0!": tree("SLxPictureMetadata", picture),
    }
    chunks |= more or {}
    for n, frame in enumerate(pixels):
        if n not in left_out:
            data = b"".join(np.ascontiguousarray(line).tobytes().ljust(row, b"\xee") for line in frame)
            chunks[f"ImageDataSeq|{n}!"] = struct.pack("<d", n * 500.0) + (zlib.compress(data) if packed else data)
    signature = b"ND2 FILE SIGNATURE CHUNK NAME01!"
    out = bytearray(struct.pack("<IIQ", 0x0ABECEDA, 32, 64) + signature + f"Ver{version}.0".encode().ljust(64, b"\0"))
    places = b""
    for name, data in chunks.items():
        out += bytes(-len(out) % 256)
        places += name.encode() + struct.pack("<QQ", len(out), len(data))
        out += struct.pack("<IIQ", 0x0ABECEDA, 4072, len(data)) + name.encode().ljust(4072, b"\0") + data
    if mapped:
        at = len(out)
        said = places + b"ND2 CHUNK MAP SIGNATURE 0000001!" + struct.pack("<Q", at)
        out += struct.pack("<IIQ", 0x0ABECEDA, 32, len(said)) + b"ND2 FILEMAP SIGNATURE NAME 0001!" + said
    path.write_bytes(out)
    return path


# LIF

_LIF_NUMBERS = {"x": 1, "y": 2, "z": 3, "t": 4, "lambda": 5, "m": 10}
_LIF_MORE = 'NameOfMeasuredQuantity="" Min="0" Max="0" Unit="" IsLUTInverted="0" BitInc="0"'
_LIF_TYPES = {"u1": (0, 8), "u2": (0, 16), "u4": (0, 32), "f4": (1, 32), "f8": (1, 64)}


def _lif_element(name: str, dims: Sequence[str], image: np.ndarray, memory: str) -> str:
    """Return the XML of an image, with its `Memory`."""
    steps = dict(zip(dims, image.strides, strict=True))
    kind, bits = _LIF_TYPES[image.dtype.str[1:]]
    split = "c" if "c" in dims else "s" if "s" in dims else ""
    count = image.shape[dims.index(split)] if split else 1
    channels = "".join(
        f'<ChannelDescription DataType="{kind}" Resolution="{bits}" LUTName="Green" {_LIF_MORE}'
        f' ChannelTag="{k + 1 if split == "s" else 0}" BytesInc="{k * steps.get(split, 0)}"/>'
        for k in range(count)
    )
    axes = "".join(
        f'<DimensionDescription DimID="{_LIF_NUMBERS[dim]}" NumberOfElements="{size}" Origin="0"'
        f' Length="{(size - 1) * 5e-7}" Unit="{"s" if dim == "t" else "m"}" BytesInc="{steps[dim]}" BitInc="0"/>'
        for dim, size in zip(reversed(dims), reversed(image.shape), strict=True)
        if dim not in ("c", "s")
    )
    described = f"<ImageDescription><Channels>{channels}</Channels><Dimensions>{axes}</Dimensions></ImageDescription>"
    return f"<Element Name={quoteattr(name)}><Data><Image>{described}</Image></Data>{memory}</Element>"


def write_lif(
    path: Path,
    images: Mapping[str, tuple[Sequence[str], np.ndarray]],
    *,
    version: int = 2,
    xml: Callable[[str], str] = str,
) -> Path:
    """Write images as a .lif file.

    Args:
        images: name -> (names of axes in the order of the file: x, y, z, t, lambda, m for tiles, c for channels, s for
            colours of a pixel; the image).
        version: of the container: 1 has sizes of four bytes.
        xml: changes the XML.
    """
    elements, memory = "", b""
    for n, (name, (dims, image)) in enumerate(images.items()):
        array = np.ascontiguousarray(image)
        place = f'<Memory Size="{array.nbytes}" MemoryBlockID="MemBlock_{n}"/>'
        elements += _lif_element(name, dims, array, place)
        label = f"MemBlock_{n}".encode("utf-16-le")
        size = struct.pack("<Q" if version > 1 else "<I", array.nbytes)
        head = b"\x2a" + size + b"\x2a" + struct.pack("<I", len(label) // 2) + label
        memory += struct.pack("<II", 0x70, len(head)) + head + array.tobytes()
    text = (
        f'<LMSDataContainerHeader Version="{version}"><Element Name="project"><Data/><Memory Size="0"'
        f' MemoryBlockID="MemBlock_none"/><Children>{elements}</Children></Element></LMSDataContainerHeader>'
    )
    path.write_bytes(_lif_text(xml(text)) + memory)
    return path


def _lif_text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return struct.pack("<IIBI", 0x70, 5 + len(data), 0x2A, len(data) // 2) + data


def write_lof(path: Path, name: str, dims: Sequence[str], image: np.ndarray, xml: Callable[[str], str] = str) -> Path:
    """Write an image as a .lof file: see `write_lif`."""
    array = np.ascontiguousarray(image)
    element = _lif_element(name, dims, array, f'<Memory Size="{array.nbytes}" MemoryBlockID="MemBlock_0"/>')
    start = struct.pack("<BIBIBQ", 0x2A, 2, 0x2A, 0, 0x2A, array.nbytes)
    text = _lif_text(xml(f'<LMSDataContainerHeader Version="2">{element}</LMSDataContainerHeader>'))
    path.write_bytes(_lif_text("LMS_Object_File") + start + array.tobytes() + text)
    return path


def write_xlef(
    folder: Path,
    images: Mapping[str, tuple[Sequence[str], np.ndarray]],
    *,
    kind: str = "lof",
    collection: bool = False,
    **tiff: Any,
) -> Path:
    """Write images as a project of LAS X: NAME.xlef, and for each image an .xlif in the folder `Metadata`.

    Args:
        images: see `write_lif`.
        kind: "lof": pixels in one .lof; "tif": in a TIFF for each plane, last one first; "pages": in one TIFF.
        collection: True lists the images in an .xlcf, which the .xlef names.
        tiff: how TIFFs are written: see `vfs.testing.tiff_writers.write_tiff`.
    """
    meta = folder / "Metadata"
    meta.mkdir()
    names = []
    for name, (dims, image) in images.items():
        array = np.ascontiguousarray(image)
        blocks = _xlef_blocks(meta, name, dims, array, kind, tiff)
        text = "".join(
            f'<Block File={quoteattr(quote(file))} Offset="{offset}" Size="{size}"/>' for file, offset, size in blocks
        )
        element = _lif_element(name, dims, array, f'<Memory Size="{array.nbytes}">{text}</Memory>')
        (meta / f"{name}.xlif").write_text(_xlef_text(element), "utf-8")
        names.append(f"{name}.xlif")
    if collection:
        (meta / "all.xlcf").write_text(_xlef_references("all", "Collection", [f".\\{name}" for name in names]), "utf-8")
        names = ["all.xlcf"]
    path = folder / "project.xlef"
    path.write_text(_xlef_references("project", "Experiment", [f"Metadata\\{name}" for name in names]), "utf-16")
    return path


def _xlef_text(element: str) -> str:
    return f'<?xml version="1.0"?><LMSDataContainerHeader Version="2">{element}</LMSDataContainerHeader>'


def _xlef_references(name: str, kind: str, files: Sequence[str]) -> str:
    children = "".join(f"<Reference File={quoteattr(quote(file))}/>" for file in files)
    return _xlef_text(f'<Element Name="{name}"><Data><{kind}/></Data><Children>{children}</Children></Element>')


def _xlef_blocks(
    folder: Path, name: str, dims: Sequence[str], image: np.ndarray, kind: str, tiff: Mapping[str, Any]
) -> list[tuple[str, int, int]]:
    """Write the pixels of an image. Returns: (file, byte of the block of memory, bytes) of each."""
    if kind == "lof":
        write_lof(folder / f"{name}.lof", name, dims, image)
        return [(f"{name}.lof", 0, image.nbytes)]
    planes = image.reshape(-1, *image.shape[-3 if dims[-1] == "s" else -2 :])
    if kind == "pages":
        write_tiff(folder / f"{name}.ome.tif", list(planes), **tiff)
        return [(f"{name}.ome.tif", 0, image.nbytes)]
    found = []
    for k, plane in enumerate(planes):
        write_tiff(folder / f"{name} {k}.tif", [plane], **tiff)
        found.append((f"{name} {k}.tif", k * plane.nbytes, plane.nbytes))
    return found[::-1]


# CZI

_CZI_TYPES = {
    ("u1", 1): 0,
    ("u2", 1): 1,
    ("f4", 1): 2,
    ("u1", 3): 3,
    ("u2", 3): 4,
    ("f4", 3): 8,
    ("u1", 4): 9,
    ("i4", 1): 12,
    ("f8", 1): 13,
}


def czi_segment(name: str, data: bytes) -> bytes:
    size = len(data) + -len(data) % 32
    return struct.pack("<16sqq", name.encode(), size, len(data)) + data.ljust(size, b"\0")


Piece = tuple[dict[str, int], np.ndarray]
"""A tile: position along each dimension by its letter, and pixels [y, x] or [y, x, colours], red first."""


def czi_xml(channels: Sequence[str] = (), colours: Sequence[str] = ()) -> str:
    """Return metadata: the size of a pixel, and names and colours of channels."""
    scales = "".join(f'<Distance Id="{dim}"><Value>2.5E-07</Value></Distance>' for dim in "XY")
    named = "".join(f'<Channel Id="Channel:{k}" Name={quoteattr(name)}/>' for k, name in enumerate(channels))
    image = f"<Image><Dimensions><Channels>{named}</Channels></Dimensions></Image>"
    drawn = "".join(f"<Channel><Color>{colour}</Color></Channel>" for colour in colours)
    shown = f"<DisplaySetting><Channels>{drawn}</Channels></DisplaySetting>" if drawn else ""
    return (
        f"<ImageDocument><Metadata><Information>{image}</Information><Scaling><Items>{scales}</Items></Scaling>{shown}"
        "</Metadata></ImageDocument>"
    )


def czi_mask(valid: np.ndarray, *, alone: bool = False) -> bytes:
    """Return the attachments of a sub-block with a mask of valid pixels, bool[y, x], behind another one.

    Args:
        alone: no other one is there, and no lengths are.
    """
    guid = bytes.fromhex("67eae3cbfc5b2b49a16aece378031448")
    bits = np.packbits(valid, axis=1)
    data = struct.pack("<IIII", valid.shape[1], valid.shape[0], 0, bits.shape[1]) + bits.tobytes()
    if alone:
        return bytes(16) + guid + data
    return b"o" * 16 + struct.pack("<I", 5) + b"other" + guid + struct.pack("<I", len(data)) + data


def write_czi(
    path: Path,
    tiles: Sequence[Piece],
    *,
    compression: int = 0,
    encode: Callable[[np.ndarray], bytes] | None = None,
    scale: Callable[[int], float | tuple[float, float]] = lambda tile: 1,
    pyramid: Callable[[int], bool] | None = None,
    spans: str = "",
    attached: Callable[[int], bytes] = lambda tile: b"",
    directory: bool = True,
    xml: str | None = None,
    said: Callable[[int], str] = lambda tile: "<METADATA/>",
) -> Path:
    """Write tiles as a .czi file.

    Args:
        compression: code of the compression.
        encode: function that compresses the pixels of a tile, colours as they are stored.
        scale: how many times smaller a tile is stored, by its number; or (rows, columns) of that.
        pyramid: True for tiles that are marked as smaller versions; by default those that are stored smaller.
        spans: letters of the first axes of pixels, slowest first, if a tile has several planes.
        attached: attachments of a tile.
        directory: write the directory at the end.
        xml: metadata.
        said: metadata of a tile.
    """
    blocks, entries = [], []
    at = 32 + 512
    for n, (start, pixels) in enumerate(tiles):
        samples = pixels.shape[-1] if pixels.ndim == len(spans) + 3 else 1
        stored = pixels[..., [2, 1, 0, 3][:samples]] if samples > 1 else pixels
        data = encode(np.ascontiguousarray(stored)) if encode else np.ascontiguousarray(stored).tobytes()
        times = scale(n)
        rows, columns = times if isinstance(times, tuple) else (times, times)
        marked = max(rows, columns) > 1 if pyramid is None else pyramid(n)
        held = dict(zip(reversed(spans), reversed(pixels.shape[: len(spans)]), strict=True))
        kept = {"X": pixels.shape[len(spans) + 1], "Y": pixels.shape[len(spans)], **held}
        dims = b""
        for letter in (*kept, *(key for key in start if key not in kept)):
            size = kept.get(letter, 1)
            shown = round(size * {"X": columns, "Y": rows}.get(letter, 1))
            dims += struct.pack("<4siifi", letter.encode(), start.get(letter, 0), shown, 0.0, size)
        kind = _CZI_TYPES[pixels.dtype.str[1:], samples]
        entry = struct.pack("<2siqiiB5si", b"DV", kind, at, 0, compression, int(marked), b"", len(dims) // 20)
        metadata, more = said(n).encode(), attached(n)
        head = struct.pack("<iiq", len(metadata), len(more), len(data)) + entry + dims
        block = czi_segment("ZISRAWSUBBLOCK", head.ljust(256, b"\0") + metadata + data + more)
        entries.append(entry + dims)
        blocks.append(block)
        at += len(block)
    document = (czi_xml() if xml is None else xml).encode()
    about = czi_segment("ZISRAWMETADATA", struct.pack("<ii", len(document), 0).ljust(256, b"\0") + document)
    listed = czi_segment("ZISRAWDIRECTORY", struct.pack("<i", len(entries)).ljust(128, b"\0") + b"".join(entries))
    places = (at + len(about) if directory else 0, at)
    header = struct.pack("<ii8s16s16siqqiq", 1, 0, b"", b"a" * 16, b"a" * 16, 0, *places, 0, 0)
    first = czi_segment("ZISRAWFILE", header.ljust(512, b"\0"))
    path.write_bytes(b"".join([first, *blocks, about, listed if directory else b""]))
    return path


def czi_planes(planes: np.ndarray, dims: Sequence[str], start: Mapping[str, int] | None = None) -> list[Piece]:
    """Return a tile for each plane [*dims, y, x], whose positions begin at `start`.

    Args:
        dims: letters of the first axes.
    """
    first = dict(start or {})
    found = []
    for index in itertools.product(*(range(n) for n in planes.shape[: len(dims)])):
        found.append((first | {dim: first.get(dim, 0) + k for dim, k in zip(dims, index, strict=True)}, planes[index]))
    return found
