"""Writes tiny valid files whose planes lie anywhere: NDTiff, EDF, FITS.

Each function takes numpy arrays, writes the files of a set, and returns the path that names the
set. It is the shortest counterpart of its reader.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

Folder = str | os.PathLike[str]

_EDF_TYPES = {
    "i1": "SignedByte",
    "u1": "UnsignedByte",
    "i2": "SignedShort",
    "u2": "UnsignedShort",
    "i4": "SignedInteger",
    "u4": "UnsignedInteger",
    "i8": "Signed64",
    "u8": "Unsigned64",
    "f4": "FloatValue",
    "f8": "DoubleValue",
}


def write_ndtiff(
    folder: Folder,
    planes: np.ndarray,
    axes: Mapping[str, Sequence[int | str]],
    *,
    files: int = 1,
    left_out: Sequence[int] = (),
    version: int = 3,
    said: Callable[[Mapping[str, int | str]], Mapping[str, object]] = lambda axes: {},
    summary: Mapping[str, object] | None = None,
) -> Path:
    """Write planes uint8 or uint16 [*axes, y, x], or colours uint8[*axes, y, x, 3], as an NDTiff data set.

    The TIFF files hold no directories, only the bytes that the index names, each plane behind a gap of another length.

    Args:
        axes: what the planes are called along each axis.
        files: number of files.
        left_out: planes that were never recorded, counted in C order.
        version: 2 or 3, the mark in the TIFF files.
        said: further metadata of a plane, by what it is called along each axis.
        summary: further metadata of the acquisition.
    """
    colour = planes.ndim == len(axes) + 3
    about = json.dumps({"z-step_um": 2.0, **(summary or {})}).encode()
    start = struct.pack("<2sHIII", b"II", 42, 0, 483_729, version) + (b"\1\0\0\0" if version > 2 else b"")
    contents = [bytearray(start + struct.pack("<II", 2_355_492, len(about)) + about) for _ in range(files)]
    index, total = b"", int(np.prod([len(values) for values in axes.values()]))
    shape = planes.shape[len(axes) :]
    flat = planes.reshape(total, *shape)
    for n, values in enumerate(itertools.product(*axes.values())):
        if n in left_out:
            continue
        content, name = (
            contents[n * files // total],
            f"run_NDTiffStack{f'_{n * files // total}' if n * files // total else ''}.tif",
        )
        known = json.dumps({"PixelSizeUm": 0.25, **said(dict(zip(axes, values, strict=True)))}).encode()
        content += bytes(n % 3 + 1)
        at = len(content)
        content += flat[n].astype(flat.dtype.newbyteorder("<")).tobytes() + known
        kind = 2 if colour else int(flat.itemsize > 1)
        place = json.dumps(dict(zip(axes, values, strict=True))).encode()
        index += struct.pack("<I", len(place)) + place + struct.pack("<I", len(name)) + name.encode()
        index += struct.pack("<8I", at, shape[1], shape[0], kind, 0, at + flat[n].nbytes, len(known), 0)
    for k, content in enumerate(contents):
        (Path(folder) / f"run_NDTiffStack{f'_{k}' if k else ''}.tif").write_bytes(content)
    path = Path(folder) / "NDTiff.index"
    path.write_bytes(index)
    return path


def write_edf(path: Path, frames: np.ndarray, **keys: object) -> Path:
    """Write frames [n, y, x] as an .edf file: byte order and type are those of the dtype, headers differ in length.

    Args:
        keys: further keys of the header of every frame; they replace the usual ones.
    """
    path.unlink(missing_ok=True)
    for n, frame in enumerate(frames):
        said: dict[str, object] = {
            "HeaderID": f"EH:{n + 1:06d}:000000:000000",
            "ByteOrder": "HighByteFirst" if frame.dtype.str[0] == ">" else "LowByteFirst",
            "DataType": _EDF_TYPES[frame.dtype.str[1:]],
            **{f"Dim_{k}": size for k, size in enumerate(reversed(frame.shape), 1)},
            "Size": frame.nbytes,
            "PSize_1": "7.5e-05",
            "PSize_2": "0.000172",
            **keys,
        }
        text = "{\n" + "".join(f"{key} = {value} ;\n" for key, value in said.items())
        head = text.ljust(512 * (1 + n % 2 + len(text) // 512) - 2) + "}\n"
        with path.open("ab") as file:
            file.write(head.encode() + frame.tobytes())
    return path


def fits_unit(array: np.ndarray | None, sums: bool = False, **cards: str | float | bool) -> bytes:
    """Make a unit of a FITS file, header and data; integers of the other sign have their top bit turned.

    Args:
        array: what it holds; None for a header alone.
        sums: True for DATASUM and CHECKSUM.
        cards: cards of the header: SIMPLE or XTENSION come first, others last.
    """
    shape = () if array is None else array.shape
    said: dict[str, str | float | bool] = {key: cards[key] for key in ("SIMPLE", "XTENSION") if key in cards}
    kind = "u1" if array is None else array.dtype.str[1:]
    said["BITPIX"] = (-8 if kind[0] == "f" else 8) * int(kind[1:])
    said |= {"NAXIS": len(shape), **{f"NAXIS{k}": size for k, size in enumerate(reversed(shape), 1)}}
    turned = kind in ("i1", "u2", "u4", "u8")
    if turned:
        said |= {"BSCALE": 1, "BZERO": -128 if kind == "i1" else 1 << (8 * int(kind[1:]) - 1)}
    data = b""
    if array is not None:
        stored = array.astype(array.dtype.newbyteorder(">"))
        if turned:
            top = np.array(1 << (8 * array.itemsize - 1), f">u{array.itemsize}")
            stored = stored.view(top.dtype) ^ top
        data = stored.astype(stored.dtype.newbyteorder(">")).tobytes()
        data += bytes(max(0, int(cards.get("PCOUNT", 0))) * array.itemsize)
    data = data.ljust(-(-len(data) // 2880) * 2880, b"\0")
    if sums:
        said = {**said, **cards, "CHECKSUM": "0" * 16, "DATASUM": str(_ones_sum(data))}
        made = _fits_header(said) + data
        cards |= said | {"CHECKSUM": _fits_checksum(_ones_sum(made))}
    return _fits_header(said | cards) + data


def _ones_sum(data: bytes) -> int:
    """Add the big-endian words of 32 bits in one's complement, as FITS does."""
    total = 0
    for word in struct.unpack(f">{len(data) // 4}I", data):
        total += word
        total = (total & 0xFFFFFFFF) + (total >> 32)
    return total


def _fits_checksum(total: int) -> str:
    """Write the complement of a sum in 16 letters and digits (FITS standard 4.0, J.2)."""
    made = [""] * 16
    for k, byte in enumerate((total ^ 0xFFFFFFFF).to_bytes(4, "big")):
        four = [byte // 4 + 48 + (byte % 4 if not j else 0) for j in range(4)]
        while any(not chr(one).isalnum() for one in four):
            for j in (0, 2):
                if any(not chr(one).isalnum() for one in four[j : j + 2]):
                    four[j], four[j + 1] = four[j] + 1, four[j + 1] - 1
        for j, one in enumerate(four):
            made[4 * j + k] = chr(one)
    return "".join(made[-1:] + made[:-1])


def _fits_header(cards: Mapping[str, str | float | bool]) -> bytes:
    lines = []
    for key, value in cards.items():
        if isinstance(value, str):
            text = "'{}'".format(value.replace("'", "''").ljust(8)).ljust(20)
        else:
            text = f"{'FT'[value] if value is True or value is False else repr(value):>20}"
        lines.append(f"{key:8}= {text}".ljust(80))
    head = "".join([*lines, "END".ljust(80)]).encode()
    return head.ljust(-(-len(head) // 2880) * 2880)


def write_fits(path: Path, array: np.ndarray) -> Path:
    """Write an array as the only image of a FITS file."""
    path.write_bytes(fits_unit(array, SIMPLE=True, CDELT1=0.25, CUNIT1="mm", CDELT2=0.5, CUNIT2="mm"))
    return path


def write_tiled_fits(
    path: Path, array: np.ndarray, tile: tuple[int, ...], *, method: str = "RICE_1", **more: str | float
) -> Path:
    """Write integers, or floats by GZIP_1, as an image that is compressed into a table (`NAME.fits.fz`).

    Args:
        tile: elements of a tile along each axis.
        method: RICE_1, GZIP_1, or UNCOMPRESSED for tiles that no method made smaller.
        more: cards of the table.
    """
    import imagecodecs

    turned = array.dtype.kind == "u" and array.itemsize > 1
    meant = (array ^ array.dtype.type(1 << (8 * array.itemsize - 1))).view(f"i{array.itemsize}") if turned else array
    big = meant.astype(meant.dtype.newbyteorder(">"))
    packed = []
    for at in np.ndindex(*(-(-n // m) for n, m in zip(array.shape, tile, strict=True))):
        part = np.ascontiguousarray(big[tuple(slice(k * m, k * m + m) for k, m in zip(at, tile, strict=True))])
        if method == "RICE_1":
            packed.append(imagecodecs.rcomp_encode(part.astype(part.dtype.newbyteorder("=")).reshape(-1), nblock=32))
        else:
            packed.append(gzip.compress(part.tobytes()) if method == "GZIP_1" else part.tobytes())
    ends = np.cumsum([len(one) for one in packed])
    width = array.itemsize if method == "UNCOMPRESSED" else 1
    letter = {1: "B", 2: "I", 4: "J"}[width]
    table = np.array([[len(one) // width, end - len(one)] for one, end in zip(packed, ends, strict=True)], ">i4")
    column = "UNCOMPRESSED_DATA" if method == "UNCOMPRESSED" else "COMPRESSED_DATA"
    cards: dict[str, str | float | bool] = {"XTENSION": "BINTABLE", "BITPIX": 8, "NAXIS": 2, "NAXIS1": 8}
    cards |= {"NAXIS2": len(packed), "PCOUNT": int(ends[-1]), "GCOUNT": 1, "TFIELDS": 1, "TTYPE1": column}
    cards |= {"TFORM1": f"1P{letter}(9)", "ZIMAGE": True, "ZCMPTYPE": "RICE_1" if method == "RICE_1" else "GZIP_1"}
    cards |= {"ZBITPIX": (-8 if big.dtype.kind == "f" else 8) * array.itemsize, "ZNAXIS": array.ndim}
    for k, (n, m) in enumerate(zip(reversed(array.shape), reversed(tile), strict=True), 1):
        cards |= {f"ZNAXIS{k}": n, f"ZTILE{k}": m} | ({f"CDELT{k}": 0.5, f"CUNIT{k}": "mm"} if k < 3 else {})
    cards |= {"ZNAME1": "BLOCKSIZE", "ZVAL1": 32, "ZNAME2": "BYTEPIX", "ZVAL2": array.itemsize}
    cards |= {"BSCALE": 1, "BZERO": 1 << (8 * array.itemsize - 1)} if turned else {}
    data = table.tobytes() + b"".join(packed)
    unit = _fits_header(cards | more) + data.ljust(-(-len(data) // 2880) * 2880, b"\0")
    path.write_bytes(fits_unit(None, SIMPLE=True) + unit)
    return path
