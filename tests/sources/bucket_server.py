"""Serves a folder as S3 does, as far as obstore asks: objects are read, written whole or in parts, listed and deleted.

    with BucketServer(folder) as server:
        os.environ |= server.environment
        vfs.export("scan.hdr", "s3://bucket/scan.zarr")

The folder has a folder for each bucket. Who asks is not looked at. It is no judge of requests: moto is one.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path
from typing import Self

from vfs.testing.range_server import OtherReply, RangeServer, ServedRequest

_KEY = re.compile(rb"<Key>(.*?)</Key>")


class BucketServer(RangeServer):
    """A store of objects on 127.0.0.1, for as long as `with` lasts.

    Attributes:
        environment: variables by which obstore finds it, with credentials.
        refuse: says for which requests it answers with status 403.
        page: names in one page of a list, at most.
        quotes: False to list tags without the quotes that they have in headers.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder, lists=False)
        self.hook = self._replied
        self.page = 1000
        self.quotes = True
        self.refuse: Callable[[ServedRequest], bool] = lambda one: False
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "topsecret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        self._parts: dict[str, dict[int, bytes]] = {}
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return the objects of a bucket."""
        top = self.folder / bucket
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def _replied(self, one: ServedRequest) -> OtherReply | None:
        if self.refuse(one):
            return _xml("<Error><Code>AccessDenied</Code></Error>", 403)
        bucket, _, key = one.path.strip("/").partition("/")
        if not (self.folder / bucket).is_dir():
            return _xml("<Error><Code>NoSuchBucket</Code></Error>", 404)
        with self._writing:
            if one.method == "PUT":
                return self._put(self.folder / bucket / key, one)
            if one.method == "POST":
                return self._posted(bucket, key, one)
            if one.method == "DELETE":
                (self.folder / bucket / key).unlink(missing_ok=True)
                return _xml("", 204)
        return None if key else self._list(bucket, one.query)

    def _put(self, path: Path, one: ServedRequest) -> OtherReply:
        if "uploadId" in one.query:
            self._parts[one.query["uploadId"]][int(one.query["partNumber"])] = one.body
        elif one.headers.get("if-none-match") == "*" and path.exists():
            return _xml("<Error><Code>PreconditionFailed</Code></Error>", 412)
        else:
            _store(path, one.body)
        return _xml("", 200)

    def _posted(self, bucket: str, key: str, one: ServedRequest) -> OtherReply:
        if "uploads" in one.query:
            name = str(len(self._parts))
            self._parts[name] = {}
            return _xml(f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
        if "uploadId" in one.query:
            parts = self._parts[one.query["uploadId"]]
            _store(self.folder / bucket / key, b"".join(parts[number] for number in sorted(parts)))
            return _xml("<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
        keys = [found.decode() for found in _KEY.findall(one.body)]
        for name in keys:
            (self.folder / bucket / unescape(name)).unlink(missing_ok=True)
        return _xml(f"<DeleteResult>{''.join(f'<Deleted><Key>{name}</Key></Deleted>' for name in keys)}</DeleteResult>")

    def _list(self, bucket: str, query: dict[str, str]) -> OtherReply:
        """Return a page of what S3 answers to the question what begins with a prefix."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        found: dict[str, str] = {}
        for path in sorted(path for path in (self.folder / bucket).rglob("*") if path.is_file()):
            key = str(path.relative_to(self.folder / bucket))
            name, slash, _ = key.removeprefix(prefix).partition(delimiter or "\0")
            if key.startswith(prefix) and slash:
                found[name] = f"<CommonPrefixes><Prefix>{escape(prefix + name + slash)}</Prefix></CommonPrefixes>"
            elif key.startswith(prefix):
                state = path.stat()
                quote = '"' * self.quotes
                found[name] = (
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2001-09-09T01:46:40.000Z</LastModified>"
                    f"<ETag>{quote}{state.st_mtime_ns:x}-{state.st_size:x}{quote}</ETag><Size>{state.st_size}</Size></Contents>"
                )
        rows, first = [*found.values()], int(query.get("continuation-token", 0))
        last = first + self.page
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < len(rows) else ""
        about = f"<IsTruncated>{str(last < len(rows)).lower()}</IsTruncated>{token}"
        return _xml(f"<ListBucketResult>{about}{''.join(rows[first:last])}</ListBucketResult>")


def _store(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _xml(text: str, status: int = 200) -> OtherReply:
    page = text.encode()
    return OtherReply(
        status, {"Content-Type": "application/xml", "Content-Length": str(len(page)), "ETag": '"x"'}, [page]
    )
