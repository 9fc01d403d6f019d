"""Reads which files are in an archive (`.zip`, `.tar`), and where.

The list in an archive may say anything: it is bounded, names that lead out of the archive refuse all of it, and what
cannot be read by itself (links, encrypted files, names that stand twice) is an error where it is read.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from vfs.errors import FormatError, VfsError

_MAX_MEMBERS = 1 << 18  # files and folders: of more, the list alone takes hundreds of MiB of memory
_MAX_FAR = 1 << 12  # of a tar file on a server, which is asked for each
_MAX_LIST_BYTES = 1 << 26  # bytes of the list of members, which is read at once
_LONGEST_NAME = 4096
_DEEPEST = 64  # folders within folders
STORED, DEFLATED, BZIP2, ZSTD = 0, 8, 12, 93
"""How the bytes of a member are packed, as zip counts it."""
_METHODS = {1: "Shrunk", 6: "Imploded", 9: "Deflate64", 14: "LZMA", 95: "XZ", 98: "PPMd", 99: "AES"}
_ENCRYPTED = 1  # bit of a member's flags


@dataclass(frozen=True)
class Member:
    """A file in an archive.

    Attributes:
        at: first byte of its header in a zip file, of its bytes in a tar file.
        size: bytes.
        packed: bytes in the archive.
        method: how these are packed.
        why: why it cannot be read; "" if it can.
    """

    at: int
    size: int
    packed: int
    method: int = STORED
    why: str = ""


@dataclass(frozen=True, eq=False)
class ArchiveIndex:
    """What is in an archive.

    Attributes:
        headed: True if each member has a header of its own before its bytes, as zip has.
        members: path -> file.
        folders: path of a folder, "" for the archive itself -> name -> True for a folder in it.
    """

    headed: bool
    members: dict[str, Member] = field(default_factory=dict)
    folders: dict[str, dict[str, bool]] = field(default_factory=lambda: {"": {}})

    def add(self, archive: str, name: str, member: Member | None) -> None:
        """Add a file, or with None a folder.

        Raises:
            FormatError: its name leads out of the archive, or there are too many.
        """
        parts = [part for part in name.split("/") if part not in ("", ".")]
        strange = name.startswith("/") or ".." in parts or name[1:2] == ":" or not name.isprintable()
        if strange or len(name) > _LONGEST_NAME or len(parts) > _DEEPEST or not (parts or member is None):
            raise FormatError(
                f"{archive}: expected names of files within it, found {name[:200]!a}: nothing of it is shown;"
                " unpack it with a program that you trust"
            )
        above, path = "", "/".join(parts)
        for part in parts[: len(parts) - (member is not None)]:
            if not self.folders[above].setdefault(part, True):
                raise FormatError(f"{archive}: {part} is a file and a folder in it: nothing of it is shown")
            above = f"{above}/{part}".lstrip("/")
            self.folders.setdefault(above, {})
        if member is not None:
            if self.folders[above].setdefault(parts[-1], False):
                raise FormatError(f"{archive}: {path} is a file and a folder in it: nothing of it is shown")
            twice = self.headed and path in self.members  # in tar files the last one counts
            self.members[path] = replace(member, why="stands twice in the archive; unpack it") if twice else member
        if len(self.members) + len(self.folders) > _MAX_MEMBERS:
            raise FormatError(
                f"{archive}: expected at most {_MAX_MEMBERS:,} files and folders in an archive, found more"
            )


class _Bounded(io.BufferedReader):
    """A stream of which no more is read at once than a list of members takes."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(_MAX_LIST_BYTES + 1 if size is None or size < 0 else min(size, _MAX_LIST_BYTES + 1))
        if len(data) > _MAX_LIST_BYTES:
            raise ValueError(f"its list of members has more than {_MAX_LIST_BYTES:,} bytes")
        return data


def index_of(archive: str, raw: io.RawIOBase, is_zip: bool, far_away: bool = False) -> ArchiveIndex:
    """Read what is in an archive.

    Args:
        raw: its bytes.
        far_away: True if each read takes long.

    Raises:
        FormatError: it is damaged, no archive, or none that one should unpack.
        SourceError: it cannot be read.
    """
    stream: BinaryIO = _Bounded(raw, 1 << 16)
    made = ArchiveIndex(is_zip)
    try:
        for name, member in _in_zip(stream) if is_zip else _in_tar(stream):
            made.add(archive, name, member)
            if far_away and not is_zip and len(made.members) > _MAX_FAR:
                raise FormatError(
                    f"{archive}: a tar archive has no list of its files, and each is asked for; expected at most"
                    f" {_MAX_FAR:,} on a server, found more: copy it to this machine"
                )
    except VfsError:
        raise
    except (
        *(zipfile.BadZipFile, tarfile.TarError, zlib.error),
        *(ValueError, EOFError, OSError, NotImplementedError, OverflowError, RecursionError),
    ) as error:
        kind = "zip" if is_zip else "tar"
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise FormatError(
            f"{archive}: expected a {kind} archive, found another file, or a damaged one: {said}"
        ) from None
    return made


def _in_zip(stream: BinaryIO) -> Iterator[tuple[str, Member | None]]:
    with zipfile.ZipFile(stream) as archive:
        for one in archive.infolist():
            name = one.filename.replace("\\", "/")  # as some programs of Windows write it
            if name.endswith("/"):
                yield name, None
                continue
            why = ""
            if one.flag_bits & _ENCRYPTED:
                why = "is encrypted; unpack it with its password"
            elif one.external_attr >> 28 == 0o12:
                why = "is a link; unpack the archive"
            elif one.compress_type not in (STORED, DEFLATED, BZIP2, ZSTD):
                method = _METHODS.get(one.compress_type, str(one.compress_type))
                why = f"is packed by {method}, which vfs does not read; unpack it"
            elif one.compress_type == STORED and one.compress_size != one.file_size:
                why = f"has {one.file_size:,} and {one.compress_size:,} bytes by the list; the archive is damaged"
            yield name, Member(one.header_offset, one.file_size, one.compress_size, one.compress_type, why)


def _in_tar(stream: BinaryIO) -> Iterator[tuple[str, Member | None]]:
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        while (one := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # else all stay in memory
            if one.isdir():
                yield one.name, None
            elif one.isreg() and not one.issparse():
                yield one.name, Member(one.offset_data, one.size, one.size)
            else:
                yield one.name, Member(0, 0, 0, why="is no plain file; unpack the archive")
