"""Sets on servers through other doors: mounts, servers, stores that speak S3, other processes."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import vfs
from tests.cli.support import run
from tests.sources.bucket_server import BucketServer
from tests.waiting import eventually
from vfs.errors import MissingSourceError, SourceError
from vfs.folder_tree import FolderTree, plans, watched_folder
from vfs.fuse.askers import EVERYBODY, Askers
from vfs.server import servers
from vfs.sources.counts import in_all
from vfs.testing.inside import set_of
from vfs.testing.range_server import OtherReply, RangeServer
from vfs.testing.writers import write_mib

pytest.importorskip("obstore")

FRAMES = np.arange(6 * 64 * 64, dtype="u2").reshape(6, 64, 64)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    (tmp_path / "bucket").mkdir()
    write_mib(tmp_path / "bucket", FRAMES, frames_per_file=2, scan=(2, 3))
    with RangeServer(tmp_path) as made:
        yield made


def _change(path: Path) -> None:
    """Change a byte of a file on the server."""
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    os.utime(path, (1, 1))


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="no /dev/fuse")
def test_a_mount_reads_and_notices_what_changed(server: RangeServer, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    with (
        vfs.mount([f"{server.url}/bucket/scan.hdr"], point, cache_size=0, direct_io=True),
        open(point / "scan.npy", "rb", buffering=0) as file,
        ThreadPoolExecutor(4) as pool,
    ):

        def read(k: int) -> bool:
            found = os.pread(file.fileno(), 8192, 128 + k % 6 * 8192)
            return np.array_equal(np.frombuffer(found, "<u2"), FRAMES[k % 6].reshape(-1))

        assert all(pool.map(read, range(12)))
        broken = itertools.count()  # the server is away for six requests, and comes back
        server.hook = lambda _: OtherReply(0, resets=True) if next(broken) < 6 else None
        assert all(pool.map(read, range(24)))
        assert next(broken) > 6
        server.hook = lambda _: OtherReply(403, {"Content-Length": "0"})
        with pytest.raises(OSError, match="error") as caught:
            read(0)
        assert caught.value.errno == errno.EIO
        server.hook = None
        assert all(pool.map(read, range(12)))
    with vfs.mount([f"{server.url}/bucket/scan.hdr"], point):
        _change(tmp_path / "bucket/scan003.mib")
        with open(point / "scan.npy", "rb", buffering=0) as file, pytest.raises(OSError, match="error") as caught:
            os.pread(file.fileno(), 8192, 128 + 5 * 8192)
        assert caught.value.errno == errno.EIO


def test_a_server_serves_and_notices_what_changed(server: RangeServer, tmp_path: Path) -> None:
    here = in_all.requests
    with vfs.serve([f"{server.url}/bucket/scan.hdr"], port=0) as served:
        with urllib.request.urlopen(f"{served.url}scan.npy") as reply:
            np.testing.assert_array_equal(np.frombuffer(reply.read()[128:], "<u2"), FRAMES.reshape(-1))
        asked = len(server.asked) - (in_all.requests - here)  # by the server
        with urllib.request.urlopen(f"{served.url}metrics") as reply:
            rows = dict(line.split() for line in reply.read().decode().splitlines() if line[0] != "#")
        assert int(rows["vfs_remote_requests_total"]) >= asked > 0
        assert int(rows["vfs_remote_bytes_total"]) > FRAMES.nbytes
        assert eventually(lambda: any(one.status and one.status.remote["requests"] >= asked for one in servers()))
    with vfs.serve([f"{server.url}/bucket/scan.hdr"], port=0) as served:
        _change(tmp_path / "bucket/scan003.mib")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{served.url}scan.npy")
        with caught.value as error:
            assert error.code == 422
            assert b"scan003.mib" in error.read()


def test_other_users_do_not_read_with_the_rights_of_who_mounted() -> None:
    askers = Askers(lambda: (0, 0, 0))
    assert askers.unreadable(["s3://bucket/a.mib"], EVERYBODY) == "s3://bucket/a.mib"


# stores of objects


@pytest.fixture
def s3(server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketServer]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with BucketServer(tmp_path) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.mark.parametrize("quotes", [True, False])
def test_a_set_in_a_bucket(s3: BucketServer, tmp_path: Path, quotes: bool) -> None:
    """Stores that list tags without quotes seemed to replace each file behind its first read."""
    s3.quotes = quotes
    array = vfs.open("s3://bucket/scan.hdr")
    np.testing.assert_array_equal(np.asarray(array[...]).reshape(FRAMES.shape), FRAMES)
    assert array.files == tuple(f"s3://bucket/scan00{k}.mib" for k in (1, 2, 3))
    # The .hdr, a listing, the first and the last header of each file, its frames
    assert len(s3.asked) == set_of(array.group).opening.sources.transfers.counts.requests == 1 + 1 + 3 * 3
    assert all("topsecret" not in str(one.headers) for one in s3.asked)
    assert b"topsecret" not in pickle.dumps(array)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], array[...])
    np.testing.assert_array_equal(vfs.open("s3://bucket/*[0-9].mib")[...], FRAMES)
    with pytest.raises(MissingSourceError, match=r"s3://bucket/none.hdr: no such file"):
        vfs.open("s3://bucket/none.hdr")
    _change(tmp_path / "bucket/scan002.mib")
    with pytest.raises(vfs.SourceChangedError, match=r"s3://bucket/scan002.mib: was changed"):
        array[...]


# trees of folders


def _shown(tree: FolderTree, path: str = "") -> list[str]:
    return sorted(name for name in tree.at(path).children() if name.count(".") < 2 and name.endswith((".npy", "sub")))


@pytest.fixture(params=["s3", "http"])
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[RangeServer, str]:
    """A server with folders of sets, and the URL of one."""
    made: RangeServer = request.getfixturevalue("s3" if request.param == "s3" else "server")
    (tmp_path / "bucket/sub").mkdir()
    for k in range(12):
        np.save(tmp_path / f"bucket/sub/n{k}.npy", FRAMES[:2] + k)
    (tmp_path / "bucket/out.zarr").mkdir()
    (tmp_path / "bucket/out.zarr/zarr.json").write_text("{}")
    return made, "s3://bucket/" if request.param == "s3" else f"{made.url}/bucket"


def test_folders_of_a_bucket_are_listed(s3: BucketServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bucket/below/deep").mkdir(parents=True)
    np.save(tmp_path / "bucket/below/deep/x.npy", FRAMES)
    assert run("info", "s3://bucket/") == 0
    said = capsys.readouterr().out
    assert said.startswith("s3://bucket/: 1 data set\n  scan.hdr  mib  3 files")
    assert "1 folder: below" in said
    assert run("check", "s3://bucket/", "s3://bucket/scan.hdr") == 0
    names = [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["s3://bucket/scan.hdr", "s3://bucket/below/deep/x.npy"]
    assert run("look", "s3://bucket/") == 2
    assert "`vfs mount --tree s3://bucket/ MOUNTPOINT` shows them all" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AWS_ENDPOINT_URL", "", r"AWS_ENDPOINT_URL='': expected the URL of a server"),
        ("AWS_ENDPOINT_URL", "http://topsecret@127.0.0.1:99999", r"AWS_ENDPOINT_URL='127.0.0.1:99999': expected"),
        ("AWS_REGION", "to psecret", r"AWS_REGION: expected the name of a region, such as eu-west-1"),
        ("AWS_SECRET_ACCESS_KEY", "topsecret\n", r"AWS_SECRET_ACCESS_KEY has characters that cannot be sent"),
        ("AWS_SESSION_TOKEN", "topsecret\r", r"AWS_SESSION_TOKEN has characters that cannot be sent"),
        ("AWS_ALLOW_HTTP", "false", r"it is to be asked without TLS, which AWS_ALLOW_HTTP=true"),
    ],
)
def test_settings_of_a_store_that_cannot_be_used(
    s3: BucketServer, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(vfs.VfsError, match=said) as caught:
        vfs.open("s3://bucket/scan.hdr")
    assert "secret" not in str(caught.value).replace("AWS_SECRET", "")


def _wrong(path: Path, at: int, *words: bytes) -> None:
    """Replace words in the header that begins at a byte of a file."""
    whole = bytearray(path.read_bytes())
    whole[at : at + 384] = whole[at : at + 384].replace(*words, 1)
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("at", "before", "after", "said"),
    [
        (0, b"MQ1,000041,", b"MQ1,000042,", "expected number 41 in its first frame header, found 42"),
        (0, b",U16,", b",U08,", "holds 64 × 64 pixels U08"),
        (0, b"MQ1", b"MQ2", "expected a frame header"),
        (0, b"2020-", b"2021-", "begins at 2021"),
        (8576, b"MQ1,000042,", b"MQ1,000043,", "expected number 42 in its last frame header, found 43"),
        (8576, b"MQ1", b"\0\0\0", "expected number 42 in its last frame header, found none"),
    ],
)
def test_a_set_of_many_files_in_a_bucket_is_opened_with_few_requests(
    s3: BucketServer, tmp_path: Path, at: int, before: bytes, after: bytes, said: str
) -> None:
    frames = np.arange(64 * 64 * 64, dtype="u2").reshape(64, 64, 64)
    write_mib(tmp_path / "bucket", frames, prefix="many", frames_per_file=2, scan=(8, 8))
    array = vfs.open("s3://bucket/many.hdr")
    assert len(s3.asked) == 8
    assert len(array.files) == 32
    np.testing.assert_array_equal(array[2, 4], frames[20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...].reshape(frames.shape), frames)
    wrong = tmp_path / "bucket/many021.mib"
    assert run("check", "s3://bucket/many.hdr") == 0
    _wrong(wrong, at, before, after)
    array = vfs.open("s3://bucket/many.hdr")
    np.testing.assert_array_equal(array[0, 0], frames[0])
    for _ in range(2):
        with pytest.raises(SourceError, match=rf"many021.mib: {said}.*vfs check looks at all"):
            array[5, 0]
    assert run("check", "s3://bucket/many.hdr") == 2


def test_a_tree_of_folders_of_a_server(folders: tuple[RangeServer, str], tmp_path: Path) -> None:
    """It is listed by pages, and sets are opened when they are looked up; others are read at once, 32 at a time."""
    server, url = folders
    if isinstance(server, BucketServer):
        server.page = 5
    tree = plans.folder_tree(url)
    asked = len(server.asked)
    node = tree.at("sub/n3.npy").node()
    assert node is not None
    assert node.size == 128 + 2 * 8192
    # The lists of two folders, and what begins the one file
    pages = 1 + 3 if isinstance(server, BucketServer) else 2
    assert len(server.asked) - asked <= pages + 2
    assert _shown(tree) == ["scan.npy", "sub"]
    asked, server.latency = len(server.asked), 0.01
    assert _shown(tree, "sub") == sorted(f"n{k}.npy" for k in range(12))
    assert len(server.asked) - asked <= pages + 12
    assert server.most_at_once > 3
    for k in (0, 11):
        got = tree.at(f"sub/n{k}.npy").get()
        assert got is not None
        np.testing.assert_array_equal(np.frombuffer(bytes(got)[128:], "<u2"), (FRAMES[:2] + k).reshape(-1))
    asked = len(server.asked)
    assert tree.at("sub/n0.npy").node() == node  # what was looked at a moment ago is not asked for
    assert len(server.asked) == asked


def test_a_tree_of_a_server_is_listed_anew_when_asked(
    folders: tuple[RangeServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_folder, "ASKED", 0.0)
    tree = plans.folder_tree(folders[1])
    assert len(_shown(tree, "sub")) == 12
    before = tree.at("sub/n1.npy").stamp()
    np.save(tmp_path / "bucket/sub/n1.npy", FRAMES[:2] + 100)  # as long as before
    np.save(tmp_path / "bucket/sub/new.npy", FRAMES)
    (tmp_path / "bucket/sub/n2.npy").unlink()
    assert _shown(tree, "sub") == sorted([*(f"n{k}.npy" for k in range(12) if k != 2), "new.npy"])
    if isinstance(folders[0], BucketServer):  # pages of links say no states: files are looked at by themselves
        assert eventually(lambda: tree.at("sub/n1.npy").stamp() != before)
        got = tree.at("sub/n1.npy").get(128, 130)
        assert got is not None
        assert bytes(got) == (FRAMES[0, 0, 0] + 100).tobytes()


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="no /dev/fuse")
def test_a_mounted_and_a_served_tree_of_a_bucket(s3: BucketServer, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    with vfs.mount(["s3://bucket"], tmp_path / "mnt", tree=True):
        assert "scan.npy" in os.listdir(tmp_path / "mnt")
        assert np.load(tmp_path / "mnt/scan.npy").sum() == FRAMES.sum()
    with (
        vfs.serve(["s3://bucket/"], port=0, tree=True) as served,
        urllib.request.urlopen(f"{served.url}scan.npy") as reply,
    ):
        assert np.frombuffer(reply.read()[128:], "<u2").sum() == FRAMES.sum()
    assert not Askers(lambda: (0, 0, 0)).may_list("s3://bucket", EVERYBODY)
    for url, said in (("s3://bucket/none", "no such folder"), ("ftp://host/x", "expected a URL that begins with")):
        with pytest.raises(vfs.VfsError, match=said):
            vfs.serve([url], port=0, tree=True)


# other processes


FORKS = """
import gc, multiprocessing, os, sys, threading
from concurrent.futures import ProcessPoolExecutor
import vfs, vfs.sources.library
array = vfs.open(sys.argv[1])
right, there = int(array[...].sum()), vfs.sources.library.obstore()

def read(how):
    import obstore
    if how == "again":  # a fork of a fork
        pid = os.fork()
        if pid == 0:
            os._exit(read(""))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or read("")
    same = int(array[...].sum()) == right and vfs.open(sys.argv[1]).shape == array.shape
    return 0 if same and obstore is there is not vfs.sources.library.obstore() else 1

over = threading.Event()
def go_on():
    while not over.is_set():
        assert int(array[...].sum()) == right
threads = [threading.Thread(target=go_on) for _ in range(2)]
for one in threads:
    one.start()
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    assert [*pool.map(read, ["", "", "again", ""])] == [0] * 4
over.set()
for one in threads:
    one.join()
pid = os.fork()
if pid == 0:
    del array
    gc.collect()
    sys.exit(0)  # frees what is left of the parent's
assert os.waitpid(pid, 0)[1] == 0
assert int(array[...].sum()) == right
assert there is vfs.sources.library.obstore()
print("all read")
"""


@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_forks_read_with_a_client_of_their_own(s3: BucketServer, server: RangeServer, scheme: str) -> None:
    """Threads and connections of obstore do not live in a fork, which must neither wait for them nor break them; nor
    may two processes read from one connection.
    """
    top = "s3://" if scheme == "s3" else f"{server.url}/"
    command = [sys.executable, "-W", "ignore", "-c", FORKS, f"{top}bucket/scan.hdr"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert (done.stdout, done.stderr) == ("all read\n", "")


def _read(array: vfs.VirtualArray) -> int | str:
    try:
        return int(np.asarray(array[...]).sum())
    except SourceError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_that_cannot_have_a_client_says_so(s3: BucketServer) -> None:
    array = vfs.open("s3://bucket/scan.hdr")
    with mock.patch("os.memfd_create", side_effect=PermissionError("not here")):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            assert "was forked from one that had loaded obstore" in str(pool.submit(_read, array).result(100))
        assert np.asarray(array[...]).sum() == FRAMES.sum()


def test_a_process_that_is_spawned_reads(server: RangeServer) -> None:
    array = vfs.open(f"{server.url}/bucket/scan.hdr")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(_read, array).result(100) == FRAMES.sum()


def test_workers_of_dask_read(server: RangeServer) -> None:
    distributed = pytest.importorskip("distributed")
    array = vfs.open(f"{server.url}/bucket/scan.hdr")
    with (
        distributed.LocalCluster(1, threads_per_worker=1, dashboard_address=":0", processes=True) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert int(array.dask().sum().compute()) == int(FRAMES.sum(dtype="u8"))
        summed = array.reduce(s=vfs.FrameSum(), executor=client)["s"].data
    np.testing.assert_array_equal(summed.reshape(-1), FRAMES.sum(axis=(1, 2)))


# what files of the set name


def test_links_in_hdf5_lead_nowhere_else(server: RangeServer, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("hdf5plugin")
    for name in ("bucket/beside.h5", "up.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["data"] = FRAMES
    links = {"beside": "beside.h5", "up": "../up.h5", "here": str(tmp_path / "up.h5"), "url": f"{server.url}/up.h5"}
    with h5py.File(tmp_path / "bucket/set.h5", "w") as file:
        file["own"] = FRAMES[:2]
        for name, to in links.items():
            file[name] = h5py.ExternalLink(to, "data")
    with pytest.warns(vfs.IncompleteWarning):
        group = vfs.open_group(f"{server.url}/bucket/set.h5")
    assert set(group) == {"own", "beside"}
    np.testing.assert_array_equal(group["beside"][...], FRAMES)
    left = group.main.attrs["root"]["left_out"]
    assert {name: "outside" in left[name] for name in ("up", "here", "url")} == dict.fromkeys(
        ("up", "here", "url"), True
    )
    assert all(one.path != "/up.h5" for one in server.asked)


def test_ome_xml_names_no_files_elsewhere(server: RangeServer, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    xml = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0"><Pixels ID="Pixels:0"'
        ' DimensionOrder="XYZCT" Type="uint16" SizeX="64" SizeY="64" SizeZ="1" SizeC="1" SizeT="1"><Channel'
        ' ID="Channel:0:0" SamplesPerPixel="1"/><TiffData IFD="0" PlaneCount="1"><UUID'
        ' FileName="{}">urn:uuid:1</UUID></TiffData></Pixels></Image></OME>'
    )
    tifffile.imwrite(tmp_path / "up.ome.tif", FRAMES[0])
    for name in ("../up.ome.tif", str(tmp_path / "up.ome.tif"), f"{server.url}/up.ome.tif"):
        (tmp_path / "bucket/set.companion.ome").write_text(xml.format(name))
        with pytest.raises(vfs.VfsError, match=r"up\.ome\.tif"):
            vfs.open(f"{server.url}/bucket/set.companion.ome")
    assert all(one.path != "/up.ome.tif" for one in server.asked)
