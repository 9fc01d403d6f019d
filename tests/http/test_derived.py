"""Derived arrays over HTTP: they are computed when somebody asks, and only as long as he waits."""

from __future__ import annotations

import os
import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import vfs
from tests.waiting import eventually
from vfs.server import servers


def seconds_of(pid: int) -> float:
    """Processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def eventually_idle(pid: int) -> bool:
    """Return True once all threads of a process sleep at ten looks in a row. One that computes never sleeps."""
    looks = 0

    def sleeping() -> bool:
        nonlocal looks
        threads = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        looks = looks + 1 if {*threads} == {"S"} else 0
        return looks == 10

    return eventually(sleeping)


COMPUTE = b'{"results": {"mean": "mean()"}, "coarse": false}'


@pytest.mark.parametrize("ending", ["client", "server"])
@pytest.mark.parametrize(
    ("asked", "body"),
    [("GET {}large.derived.mean.npy", b""), ("POST {}api/compute/large.zarr/data", COMPUTE)],
    ids=["derived", "page"],
)
def test_a_computation_ends_with_its_client_or_the_server(tmp_path: Path, ending: str, asked: str, body: bytes) -> None:
    source = tmp_path / "large.npy"
    with source.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 18, 1 << 10, 1 << 10)}
        )
        file.truncate(file.tell() + (1 << 38))  # 256 GiB of hole
    with vfs.serve(source, port=0, derive={"mean": vfs.Mean()}) as server:
        pid = next(one.pid for one in servers() if one.address == server.address)
        place = urlsplit(server.url)
        assert place.hostname is not None
        with socket.create_connection((place.hostname, place.port or 0)) as client:
            before = seconds_of(pid)
            head = f"{asked.format(place.path)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert eventually(lambda: seconds_of(pid) >= before + 1)
            if ending == "server":
                server.close()
                assert not Path(f"/proc/{pid}").exists()
                assert client.recv(100).startswith(b"HTTP/1.1 503 ")
        if ending == "client":
            assert eventually_idle(pid)
            with urllib.request.urlopen(server.url + "large.zarr/zarr.json") as answer:
                assert answer.status == 200
