"""Lists folders of stores and servers: prefixes of a bucket, and pages of links as web servers make them."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from vfs.errors import MissingSourceError, SourceError
from vfs.model.file_state import UNKNOWN, FileState
from vfs.sources.library import obstore
from vfs.sources.stores import state_of
from vfs.sources.threads import in_parallel
from vfs.sources.transfers import UNLISTED, Transfers
from vfs.sources.urls import WEB, place

MAX_PAGE = 16 << 20
"""Bytes of a page of links at most."""
MAX_LIST = 512 << 20
"""Bytes of memory that the list of a folder of a bucket takes at most: more than a million names."""
_LOOK = 0.02
"""Seconds between two looks at how much memory it takes: obstore collects all its pages, and says nothing meanwhile."""
Listed = dict[str, FileState | None]
"""Name in a folder -> its state, `UNKNOWN` where the listing does not say it; None for a folder."""


def listed(transfers: Transfers, folder: str) -> Listed:
    """List a folder.

    Args:
        folder: its URL, without a slash at the end.

    Raises:
        MissingSourceError: there is no such folder.
        SourceError: it cannot be listed.
    """
    if place(folder).scheme in WEB:
        return _links(transfers, folder)
    try:  # in another thread, which may have a loop of its own, and for which Ctrl-C does not wait
        (found,) = in_parallel(partial(_objects, transfers), [folder], transfers.limits.parallel)
    except MissingSourceError:
        raise MissingSourceError(f"{folder}: no such folder") from None
    names: Listed = {one.rstrip("/").rpartition("/")[2]: None for one in found["common_prefixes"]}
    for meta in found["objects"]:
        names[str(meta["path"]).rpartition("/")[2]] = state_of(meta)
    if not names:
        raise MissingSourceError(f"{folder}: no such folder")
    return names


def _objects(transfers: Transfers, folder: str) -> Any:
    """List a folder of a bucket, as obstore does."""
    seconds, before = transfers.limits.seconds, _held()

    def ask() -> Any:
        where = place(folder)
        store, path = transfers.store(where), where.path

        async def all_pages() -> Any:
            asked = asyncio.ensure_future(obstore().list_with_delimiter_async(store, f"{path}/" if path else None))
            try:
                while not asked.done():
                    await asyncio.wait({asked}, timeout=_LOOK)
                    if _held() - before > MAX_LIST and not asked.done():
                        raise SourceError(
                            f"{folder}: cannot be listed: the list takes more than {MAX_LIST >> 20} MiB of memory,"
                            " more than a million names; name the files, or a folder below it"
                        )
                return asked.result()
            finally:
                asked.cancel()

        transfers.counts.add(requests=1)
        try:
            return asyncio.run(asyncio.wait_for(all_pages(), seconds))
        except TimeoutError:
            raise SourceError(f"{folder}: cannot be listed: the list has no end within {seconds:g} seconds") from None

    return transfers.again(folder, f"{folder}: cannot be listed", ask)


def _held() -> int:
    """Return the bytes of memory of this process that are not pages of files."""
    with open("/proc/self/statm", "rb") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * _PAGE


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _links(transfers: Transfers, folder: str) -> Listed:
    """List a folder of a web server by the links of its page to what is in it."""
    page, base = transfers.page(folder, MAX_PAGE + 1)
    if len(page) > MAX_PAGE:
        raise SourceError(f"{folder}: the list of its files is longer than {MAX_PAGE:,} bytes")
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    names: Listed = {}
    above, server = unquote(urlsplit(base).path), urlsplit(base).netloc
    for link in links.found:
        if "?" in link or "#" in link:
            continue
        try:
            to = urlsplit(urljoin(base, link))
        except ValueError:
            continue
        path = unquote(to.path)  # servers quote absolute links in their own ways
        name = path.removeprefix(above).rstrip("/")
        if to.netloc == server and path.startswith(above) and name and "/" not in name:
            names[name] = None if path.endswith("/") else UNKNOWN
    if not names:
        raise SourceError(f"{folder}: {UNLISTED}")
    return names


class _Links(HTMLParser):
    """Collects the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Go on behind a section that `html.parser` does not know, such as `<![x[`: it ends with an AssertionError."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.rawdata.find(">", i) + 1 or -1
