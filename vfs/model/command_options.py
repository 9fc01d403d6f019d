"""Defines the options of commands that open data and do more with it: each has all `OpenOptions`, and its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import option


@dataclass(frozen=True, kw_only=True)
class ShowOptions(OpenOptions):
    """Holds the options for opening data and showing them to other programs, by a mount or over HTTP."""

    tree: bool = option(
        False,
        "Show a folder, DATASET, with its subfolders and every data set in them.",
        more="Then `paths` is that folder.",
    )
    show_files: bool = option(False, "With --tree: also show files that are no data set.")
    single_files: bool = option(
        False, "With --tree: show numbered images (20 or more) each by itself, not as one stack."
    )
    cache_size: int | str = option(
        "256MiB",
        "Memory for keeping decoded chunks, such as 2GiB.",
        "BYTES",
        more="It is for all data sets together; 0 keeps none.",
    )
    workers: int | None = option(
        None, "Number of reads that are answered at once. Without it, one per core, at least 4.", "N"
    )


@dataclass(frozen=True, kw_only=True)
class MountOptions(ShowOptions):
    """Holds the options for opening and mounting data: those of `vfs.mount` and `vfs mount`."""

    allow_other: bool = option(
        False, "Let other users in. Each sees only what they could read of the files themselves."
    )
    direct_io: bool = option(
        False, "Bypass the kernel's page cache, for data read only once. Programs cannot map files into memory then."
    )


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ShowOptions):
    """Holds the options for opening data and serving them over HTTP: those of `vfs.serve` and `vfs serve`."""

    host: str = option(
        "127.0.0.1",
        "Listen on this host. Other machines reach 0.0.0.0, and do not reach the default.",
        "HOST",
    )
    port: int | None = option(
        None,
        "Listen on this port; 0 for any that is free. Without it, 8765, or the next one that is free.",
        "N",
    )
    token: str | None = option(
        None,
        "A file that holds the token which all URLs begin with, or none for no token: then all users and programs of"
        " this machine may read, and in browsers no page but the server's own. Otherwise each start makes a new one.",
        "FILE|none",
    )
    tokens: str | None = option(
        None,
        "A file with a name and a token in each line, instead of --token: each person has URLs of their own, and with"
        " --tree may see only the folders that follow in the line, if any do. It is read again when it changes, and a"
        " token that is gone is refused at once.",
        "FILE",
    )
    cors: Sequence[str] | None = option(
        None,
        "Let pages of this origin read, and of no other, such as https://example.org. May be repeated.",
        "ORIGIN",
        more="By default pages of all origins may, since the token is the secret; with no token, none but the"
        " server's own page.",
        several=True,
    )
    allow_host: Sequence[str] | None = option(
        None,
        "Also answer requests under this name of the server, such as that of a proxy; with a token * for any. May be"
        " repeated.",
        "NAME",
        several=True,
    )
    embed: Sequence[str] | None = option(
        None,
        "Let pages of this origin show the page in a frame, such as http://localhost:*. May be repeated.",
        "ORIGIN",
        several=True,
    )
    trust_proxy: Sequence[str] | None = option(
        None,
        "Tell clients apart by the X-Forwarded-For (or Forwarded) header of a proxy at this address or in this network,"
        " such as 10.0.0.5 or 10.0.0.0/8, and users by its X-Remote-User. May be repeated.",
        "ADDRESS",
        more="Without it, all who come through a proxy count as one client, which may compute a few things at once.",
        several=True,
    )
    cache_control: str | None = option(
        None,
        "The Cache-Control header of chunks and documents, such as 'public, max-age=3600', by which browsers and"
        " proxies keep them. Without it, they ask each time if what they keep is current.",
        "VALUE",
    )
    access_log: str | None = option(
        None,
        "Write a line for each answer to the end of this file: time, name, address, method, path, status, bytes and"
        " milliseconds; as JSON if its name ends with .jsonl. SIGHUP opens it again.",
        "FILE",
    )
    allow_describe: bool = option(
        False,
        "Let the page save what was corrected in it as NAME.vfs.json beside the data. Nothing else is ever written.",
    )
    tls_cert: str | None = option(None, "Encrypt connections, with the certificate in this PEM file.", "FILE")
    tls_key: str | None = option(None, "The key of --tls-cert, a PEM file.", "FILE")
    no_native: bool = option(
        False, "Answer every request in Python, which is slower: to find out where an error comes from.", hidden=True
    )


PAGE_ENDING = ".html"
"""How names of a scan that is written as one page end."""

OME_TIFF_ENDINGS = (".ome.tif", ".ome.tiff")
TIFF_ENDINGS = (*OME_TIFF_ENDINGS, ".tif", ".tiff")
"""How names of a set that is written as one TIFF end."""
SIGNAL_ENDING = ".hspy"
"""How names of a set that is written as a signal of HyperSpy end."""
OF_STORES = ("codec", "shards", "chunks", "resume", "verify", "zarr_format")
"""Options of an export that have no effect on such a page; nor on references, apart from chunks."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions(OpenOptions):
    """Holds the options for opening and exporting data: those of `vfs.export` and `vfs export`."""

    codec: str = option(
        "blosc:zstd:3:bitshuffle",
        "How chunks are compressed: none, zstd:LEVEL (1 to 22), or blosc:NAME:LEVEL:SHUFFLE (zstd, lz4, lz4hc, blosclz"
        " or zlib; 0 to 9; noshuffle, shuffle or bitshuffle).",
        "CODEC",
    )
    shards: int | str | Sequence[int] | None = option(
        None,
        "Put many chunks into one file: auto (128 MiB before compression), a size such as 1GiB, or elements per axis"
        " (1,-1,-1,-1: whole axes). Without it, or with none, each chunk is a file.",
        "SHARDS",
        more="Only zarr version 3 has shards.",
    )
    resume: bool = option(
        False, "Go on with an export that was interrupted: what is done is not done again. All else must be the same."
    )
    verify: bool = option(False, "Then read the store back by another library, and compare it with the checksums.")
    to: str | None = option(
        None,
        "Copy nothing, and write references to the bytes of DATASET's own files: kerchunk (OUT.json or OUT.parquet) or"
        " icechunk (a folder). They need chunks that are stored as zarr knows them.",
        "KIND",
    )
    blank: bool = option(
        False, "With --to: let readers fill in the chunks that no file holds. Without it, these are refused."
    )


@dataclass(frozen=True, kw_only=True)
class ReduceOptions(OpenOptions):
    """Holds the options of `vfs reduce`."""

    resume: bool = option(
        False, "Go on with a pass that was interrupted: what is done is not done again. All else must be the same."
    )
    verify: bool = option(
        False, "Then read OUT.zarr or OUT.npy back, the store by another library, and compare it with the results."
    )
