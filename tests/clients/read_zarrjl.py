"""Zarr.jl (Julia) over HTTP, as Julia cannot be had here: the requests that it makes, sent by Python.

They are GETs of whole files: `.zmetadata`, then each chunk that a region touches. A chunk that is
404 is one of fill values for it, any other failure an error.
"""

from __future__ import annotations

import http.client
import itertools
import json
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from compare import main


def read(face: str, array: str) -> Any:
    where = urlsplit(face)

    def get_key(key: str) -> bytes | None:
        connection = http.client.HTTPConnection(where.netloc, timeout=250)
        connection.request("GET", f"{where.path}/{key}")
        answer = connection.getresponse()
        if answer.status == 404:
            return None
        if answer.status >= 300:
            raise OSError(f"{key}: status {answer.status}")
        return answer.read()

    document = get_key(".zmetadata")
    assert document is not None
    about = json.loads(document)["metadata"][f"{array}/.zarray"]
    assert (about["compressor"], about["filters"], about["order"]) == (None, None, "C")
    shape, chunks, dtype = about["shape"], about["chunks"], np.dtype(about["dtype"])

    def get(region: tuple[slice, ...]) -> Any:
        ranges = [range(*piece.indices(n)) for piece, n in zip(region, shape, strict=True)]
        held = np.full(shape, about["fill_value"] or 0, dtype)
        for place in itertools.product(
            *(range(r.start // n, (r.stop - 1) // n + 1) for r, n in zip(ranges, chunks, strict=True))
        ):
            body = get_key(f"{array}/" + about.get("dimension_separator", ".").join(map(str, place)))
            if body is not None:
                box = tuple(slice(i * n, min(end, i * n + n)) for i, n, end in zip(place, chunks, shape, strict=True))
                cut = tuple(slice(0, piece.stop - piece.start) for piece in box)
                held[box] = np.frombuffer(body, dtype).reshape(chunks)[cut]
        return held[region]

    return get, {"version": "its requests, replayed"}


if __name__ == "__main__":
    main(read)
