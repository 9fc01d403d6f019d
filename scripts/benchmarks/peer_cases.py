"""What `peers.py` measures: files that vfs and peers read, and the same thing done to them by each.
Peers are imported when they are opened.
"""

from __future__ import annotations

import importlib
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vfs
from scripts.benchmarks.bench import frames_of
from scripts.benchmarks.rows import Size
from vfs.testing import frame_writers, gatan_writers, stack_writers, writers
from vfs.testing.tiff_writers import write_tiff

Call = Callable[[], Any]
Opener = Callable[[], Call]
"""Opens a file and returns what is measured; that returns elements to compare, or None."""


class Case(NamedTuple):
    """One thing done to one file: by vfs, and by peers."""

    file: str
    did: str
    ours: Opener
    theirs: dict[str, Opener]
    # Where what is measured returns nothing: what returns the elements
    check: tuple[Call, dict[str, Call]] | None = None


def turns(count: int, seed: int = 2) -> Callable[[], int]:
    """Positions in random order, the same order for everybody."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    at = [-1]

    def following() -> int:
        at[0] = (at[0] + 1) % count
        return int(order[at[0]])

    return following


# ----------------------------------------------------------------------------------------------------------------
# LiberTEM


class Tiled(NamedTuple):
    """A set that LiberTEM reads too."""

    file: str
    path: Path
    kind: str  # what LiberTEM calls it
    load: dict[str, Any]
    open: dict[str, Any]


def frame_sets(folder: Path, size: Size) -> Iterator[Tiled]:
    """Sets of frames, written when asked for."""

    def place(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name

    n = size.frames
    u16 = frames_of(n)
    raw = place("raw") / "plain.raw"
    u16.tofile(raw)
    options = {"dtype": "uint16", "nav_shape": (n,), "sig_shape": (256, 256)}
    yield Tiled(
        f"raw u16, {n} x 256 x 256", raw, "raw", options, {"format": "raw", "dtype": "<u2", "sig_shape": (256, 256)}
    )
    for kind, depth, quad in (
        ("U16", 12, False),
        ("R64", 12, False),
        ("R64", 12, True),
        ("R64", 6, False),
        ("R64", 1, False),
    ):
        count, side = (max(1, n // 4), 512) if quad else (n, 256)
        some = frames_of(count, (side, side), "u2" if depth == 12 else "u1", 2**depth - 1)
        name = f"{kind}-{depth}{'-quad' if quad else ''}"
        path = writers.write_mib(place(name), some, kind=kind, depth=depth, quad=quad, scan=(1, count))
        shown = {"nav_shape": (count,)}
        yield Tiled(
            f"MIB {kind} {depth} bit{' quad' if quad else ''}, {count} x {side} x {side}", path, "mib", shown, shown
        )
    m = max(2, size.files // 8)
    path = writers.write_mib(place("many"), frames_of(m), kind="U16", depth=12, frames_per_file=1, scan=(1, m))
    yield Tiled(f"MIB U16 in {m:,} files, 256 x 256", path, "mib", {"nav_shape": (m,)}, {"nav_shape": (m,)})
    yield Tiled(
        f"SEQ u16, {n} x 256 x 256",
        frame_writers.write_seq(place("seq"), u16),
        "seq",
        {"nav_shape": (n,)},
        {"nav_shape": (n,)},
    )
    k = max(2, n // 2 // 4 * 4)
    path = frame_writers.write_frms6(
        place("frms6"), frames_of(k, (264, 264)), dark=frames_of(3, (264, 264)), scan=(2, k // 2)
    )
    yield Tiled(f"FRMS6, {k} x 264 x 264", path, "frms6", {"enable_offset_correction": False}, {"nav_shape": (k,)})
    k = max(1, n // 32)
    path = gatan_writers.write_k2is(place("k2is"), frames_of(k, (1860, 2048)))
    yield Tiled(f"K2IS, {k} x 1860 x 2048", path, "k2is", {"nav_shape": (k,)}, {"nav_shape": (k,)})


def with_libertem(folder: Path, size: Size) -> Iterator[Case]:
    """LiberTEM's DataSet tiles and frames, one worker, in this process; its own choice of partitions and tiles."""
    for s in frame_sets(folder, size):
        array = vfs.open(s.path, **s.open)
        shape, dtype = array.shape, array.dtype
        loaded = _Loaded(s)
        yield Case(
            s.file,
            "opened",
            lambda s=s: lambda: (vfs.open(s.path, **s.open), None)[1],
            {"LiberTEM": lambda e=loaded: e.opening()},
        )
        same = {"LiberTEM": lambda e=loaded, d=dtype, h=shape: _assembled(e.tiles(d), h, d)}
        as_stored = (lambda a=array: _assembled(_ours(a), a.shape, a.dtype), same)
        theirs = {"LiberTEM": lambda e=loaded, d=dtype: lambda: _copied(e.tiles(d))}
        yield Case(s.file, "whole set, tile by tile", lambda a=array: lambda: _copied(_ours(a)), theirs, as_stored)
        if s.file.startswith(("raw", "MIB U16 12 bit, ", "MIB R64 12 bit, ")):
            converted = vfs.open(
                s.path, **(s.open | ({"stored_dtype": "<u2"} if s.kind == "raw" else {}) | {"dtype": "f4"})
            )
            f4 = converted.dtype
            same = {"LiberTEM": lambda e=loaded, d=f4, h=shape: _assembled(e.tiles(d), h, d)}
            check = (lambda a=converted: _assembled(_ours(a), a.shape, a.dtype), same)
            theirs = {"LiberTEM": lambda e=loaded, d=f4: lambda: _copied(e.tiles(d))}
            yield Case(
                s.file,
                "whole set as float32, tile by tile",
                lambda a=converted: lambda: _copied(_ours(a)),
                theirs,
                check,
            )
        pick, also = turns(shape[0]), turns(shape[0])
        yield Case(
            s.file,
            "a random frame",
            lambda a=array, i=pick: lambda: _frame(a, i()),
            {"LiberTEM": lambda e=loaded, i=also: lambda: e.frame(i())},
        )


class _Loaded:
    """A set opened by LiberTEM when it is first needed."""

    def __init__(self, what: Tiled) -> None:
        self.what = what
        self._held: Any = None

    def opening(self) -> Call:
        context = self._context()
        return lambda: (context.load(self.what.kind, path=str(self.what.path), **self.what.load), None)[1]

    def _context(self) -> Any:
        from libertem.api import Context
        from libertem.executor.inline import InlineJobExecutor

        return Context(executor=InlineJobExecutor(inline_threads=1))

    @property
    def held(self) -> tuple[Any, Any, Any]:
        if self._held is None:
            context = self._context()
            data = context.load(self.what.kind, path=str(self.what.path), **self.what.load)
            self._held = context, data, next(iter(data.get_partitions())).shape
        return self._held  # type: ignore[no-any-return]

    def tiles(self, dtype: np.dtype[Any]) -> Iterator[tuple[Any, np.ndarray]]:
        from libertem.io.dataset.base import Negotiator
        from libertem.udf.sum import SumUDF

        _, data, partition_shape = self.held
        scheme = Negotiator().get_scheme(
            udfs=[SumUDF()], dataset=data, read_dtype=dtype, approx_partition_shape=partition_shape
        )
        for partition in data.get_partitions():
            for tile in partition.get_tiles(tiling_scheme=scheme, dest_dtype=dtype):
                yield tile.tile_slice.get(), tile.data

    def frame(self, i: int) -> np.ndarray:
        from libertem.udf.raw import PickUDF

        context, data, _ = self.held
        roi = np.zeros(data.shape.nav, bool)
        roi.flat[i] = True
        return np.asarray(context.run_udf(dataset=data, udf=PickUDF(), roi=roi)["intensity"].raw_data[0])


def _ours(array: vfs.VirtualArray) -> Iterator[tuple[Any, np.ndarray]]:
    for region, tile in array.tiles(workers=0):
        yield region.slices, tile


def _frame(array: vfs.VirtualArray, i: int) -> np.ndarray:
    return _own(np.asarray(array[i]))


def _own(found: np.ndarray) -> np.ndarray:
    """Elements in memory of their own, as peers give them: views of a file or of the cache are copied."""
    return found if found.flags.writeable else found.copy()


def _copied(tiles: Iterator[tuple[Any, np.ndarray]]) -> None:
    """Copy every tile into the same memory."""
    scratch: dict[tuple[int, ...], np.ndarray] = {}
    for _, tile in tiles:
        if tile.shape not in scratch:
            scratch[tile.shape] = np.zeros(tile.shape, tile.dtype)
        np.copyto(scratch[tile.shape], tile)


def _assembled(tiles: Iterator[tuple[Any, np.ndarray]], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    out = np.zeros(shape, dtype)
    for where, tile in tiles:
        out[where] = tile
    return out


# -------------------------------------------------------------------------------------------------------------------
# zarr


def stores(
    file: str,
    ours: Callable[[], Any],
    theirs: dict[str, Callable[[], Any]],
    *,
    packed: bool = False,
    directly: Call | None = None,
) -> Iterator[Case]:
    """What is done with zarr arrays: opening, the whole, one index of the first axis.

    Args:
        packed: the file is compressed. directly: tifffile without zarr.
    """
    yield Case(
        file,
        "opened as a zarr array",
        lambda: lambda: (ours(), None)[1],
        {p: lambda o=o: lambda: (o(), None)[1] for p, o in theirs.items()},
    )

    def whole(opened: Callable[[], Any]) -> Opener:
        def opener() -> Call:
            z = opened()
            return (lambda: opened()[...]) if packed else (lambda: z[...])

        return opener

    def one(opened: Callable[[], Any], anew: bool = False) -> Opener:
        def opener() -> Call:
            z = opened()
            i = turns(z.shape[0])
            return (lambda: np.asarray(opened()[i()])) if anew else (lambda: np.asarray(z[i()]))

        return opener

    every = {p: whole(o) for p, o in theirs.items()} | ({"tifffile asarray": lambda: directly} if directly else {})
    yield Case(file, "opened, z[...]" if packed else "z[...]", whole(ours), every)
    if packed:
        yield Case(file, "opened, z[i], random", one(ours, True), {p: one(o, True) for p, o in theirs.items()})
    yield Case(
        file, "z[i], random, again" if packed else "z[i], random", one(ours), {p: one(o) for p, o in theirs.items()}
    )


def with_tiff(folder: Path, size: Size) -> Iterator[Case]:
    """tifffile's `aszarr` and `asarray`, kerchunk's reference."""
    n = size.frames
    some = max(4, n // 8)
    for name, count, side, tile, deflated in (
        ("pages", n, 256, None, False),
        ("pages, deflate", max(4, n // 4), 256, None, True),
        ("tiles", some, 1024, (256, 256), False),
        ("tiles, deflate", max(4, some // 4), 1024, (256, 256), True),
    ):
        path = folder / f"{name.replace(', ', '-')}.tif"
        packed: dict[str, Any] = {"compression": 8, "encode": lambda held: zlib.compress(held, 1)} if deflated else {}
        write_tiff(path, list(frames_of(count, (side, side), most=255)), tile=tile, **packed)
        yield from stores(
            f"TIFF {name}, {count} x {side} x {side} u16",
            lambda p=path: vfs.open(p).zarr(),
            {"tifffile aszarr": lambda p=path: _aszarr(p), "kerchunk": lambda p=path: _kerchunk_tiff(p)},
            packed=deflated,
            directly=lambda p=path: _asarray(p),
        )


def _aszarr(path: Path) -> Any:
    import tifffile
    import zarr

    return zarr.open_array(tifffile.imread(path, aszarr=True), mode="r")


def _asarray(path: Path) -> np.ndarray:
    import tifffile

    return np.asarray(tifffile.imread(path))


def _kerchunk_tiff(path: Path) -> Any:
    import zarr
    from kerchunk.tiff import tiff_to_zarr
    from kerchunk.utils import refs_as_store

    return zarr.open_array(refs_as_store(tiff_to_zarr(str(path)), remote_protocol="file"), mode="r", zarr_format=2)


def with_references(folder: Path, size: Size) -> Iterator[Case]:
    """128 KiB big-endian frames with headers between them, which only a reference made by hand
    shows to kerchunk and VirtualiZarr.
    """
    n = size.frames
    where = folder / "mib"
    where.mkdir()
    path = writers.write_mib(where, frames_of(n), kind="U16", depth=12, scan=(1, n))
    data = next(where.glob("*.mib"))
    made = _reference(data, n)
    (folder / "reference.json").write_text(json.dumps(made))
    theirs = {
        "kerchunk": lambda: _kerchunk_frames(folder / "reference.json"),
        "VirtualiZarr": lambda: _manifest(data, n),
    }
    for chunks in ("auto", (1, 256, 256)):
        name = "chunks as the reference's" if chunks != "auto" else "vfs's own chunks"
        ours = lambda c=chunks: vfs.open(path, nav_shape=(n,), chunks=c).zarr()  # noqa: E731
        yield from stores(f"MIB U16, {n} x 128 KiB big-endian, headers; {name}", ours, theirs)


def _offsets(n: int) -> np.ndarray:
    return 384 + np.arange(n, dtype=np.int64) * (384 + 131072)


def _reference(data: Path, n: int) -> dict[str, Any]:
    array = {"zarr_format": 2, "shape": [n, 256, 256], "chunks": [1, 256, 256], "dtype": ">u2", "order": "C"}
    array |= {"compressor": None, "filters": None, "fill_value": 0}
    refs: dict[str, Any] = {".zgroup": json.dumps({"zarr_format": 2}), "data/.zarray": json.dumps(array)}
    refs |= {f"data/{i}.0.0": [str(data), offset, 131072] for i, offset in enumerate(_offsets(n).tolist())}
    return {"version": 1, "refs": refs}


def _kerchunk_frames(reference: Path) -> Any:
    import zarr
    from kerchunk.utils import refs_as_store

    store = refs_as_store(json.loads(reference.read_text()), remote_protocol="file")
    return zarr.open_array(store, path="data", mode="r", zarr_format=2)


def _registry() -> Any:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    return ObjectStoreRegistry({"file://": LocalStore()})


def _manifest(data: Path, n: int) -> Any:
    import zarr
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
    from virtualizarr.manifests.utils import create_v3_array_metadata

    shape = (n, 1, 1)
    paths = np.full(shape, f"file://{data}", dtype=np.dtypes.StringDType())
    lengths = np.full(shape, 131072, "u8")
    chunks = ChunkManifest.from_arrays(paths=paths, offsets=_offsets(n).astype("u8").reshape(shape), lengths=lengths)
    codecs = [{"name": "bytes", "configuration": {"endian": "big"}}]
    metadata = create_v3_array_metadata(
        shape=(n, 256, 256), data_type=np.dtype("u2"), chunk_shape=(1, 256, 256), codecs=codecs, fill_value=0
    )
    store = ManifestStore(ManifestGroup(arrays={"data": ManifestArray(metadata, chunks)}), registry=_registry())
    return zarr.open_array(store, path="data", mode="r", zarr_format=3)


def with_hdf5(folder: Path, size: Size) -> Iterator[Case]:
    """h5py itself, and references that kerchunk's and VirtualiZarr's parsers make. A netCDF-4 file
    is an HDF5 file: the same.
    """
    import h5py

    n = size.frames
    for name, count, options in (
        ("contiguous", n, {}),
        ("chunks of a frame", n, {"chunks": (1, 256, 256)}),
        ("chunks of 8 frames", n, {"chunks": (8, 256, 256)}),
        (
            "chunks of 8 frames, gzip",
            max(8, n // 4),
            {"chunks": (8, 256, 256), "compression": "gzip", "compression_opts": 1},
        ),
        (
            "chunks of 8 frames, shuffle + gzip",
            max(8, n // 4),
            {"chunks": (8, 256, 256), "compression": "gzip", "compression_opts": 1, "shuffle": True},
        ),
    ):
        path = folder / f"{name.replace(' ', '_').replace(',', '').replace('+', 'and')}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=frames_of(count, most=255), **options)
        file_name = f"HDF5 {name}, {count} x 256 x 256 u16"
        theirs = {"kerchunk": lambda p=path: _kerchunk_hdf5(p), "VirtualiZarr": lambda p=path: _virtual_hdf5(p)}
        yield from stores(file_name, lambda p=path: vfs.open(p).zarr(), theirs, packed="compression" in options)
        array, data = vfs.open(path), h5py.File(path)["data"]
        yield from _into(file_name, array, path, data, anew="compression" in options)
        again = "a random frame, again" if "compression" in options else "a random frame"
        i, j = turns(count), turns(count)
        yield Case(
            file_name, again, lambda a=array, i=i: lambda: _frame(a, i()), {"h5py": lambda d=data, j=j: lambda: d[j()]}
        )


def _into(file: str, array: vfs.VirtualArray, path: Path, data: Any, anew: bool) -> Iterator[Case]:
    """Reading everything into memory that is there already, by h5py and vfs."""
    import h5py

    out, other = np.zeros(array.shape, array.dtype), np.zeros(array.shape, array.dtype)
    everything = vfs.Region.whole(array.shape)

    def theirs() -> np.ndarray:
        if not anew:
            data.read_direct(other)
        else:
            with h5py.File(path) as opened:
                opened["data"].read_direct(other)
        return other

    def ours() -> np.ndarray:
        return (vfs.open(path) if anew else array).read(everything, out)

    yield Case(
        file,
        "opened, whole, into memory given" if anew else "whole, into memory given",
        lambda: ours,
        {"h5py": lambda: theirs},
    )


def _kerchunk_hdf5(path: Path, at: str = "data") -> Any:
    import zarr
    from kerchunk.hdf import SingleHdf5ToZarr
    from kerchunk.utils import refs_as_store

    return zarr.open_array(
        refs_as_store(SingleHdf5ToZarr(str(path)).translate(), remote_protocol="file"),
        path=at,
        mode="r",
        zarr_format=2,
    )


def _virtual_hdf5(path: Path, group: str | None = None) -> Any:
    import zarr
    from virtualizarr.parsers import HDFParser

    store = HDFParser(group=group)(f"file://{path}", _registry())
    return zarr.open_array(store, path="data", mode="r", zarr_format=3)


# ------------------------------------------------------------------------------------------------------------------
# others


def with_others(folder: Path, size: Size) -> Iterator[Case]:
    """mrcfile; RosettaSciIO, which reads whole files and flips what it reads of a detector's rows."""
    n = size.frames
    path = stack_writers.write_mrc(folder, frames_of(n).astype("i2"), 1, name="stack.mrc")
    array = vfs.open(path)
    out = np.zeros(array.shape, array.dtype)
    everything = vfs.Region.whole(array.shape)
    name = f"MRC i16, {n} x 256 x 256"
    ours = lambda: lambda: array.read(everything, out)  # noqa: E731
    yield Case(name, "whole, into memory given", ours, {"mrcfile mmap": lambda: _mrc_into(path)})
    yield Case(
        name,
        "opened, whole in new memory",
        lambda: lambda: _own(vfs.open(path)[...]),
        {"mrcfile": lambda: lambda: _mrc(path)},
    )
    where = folder / "rsciio"
    where.mkdir()
    mib = writers.write_mib(where, frames_of(n), kind="U16", depth=12, scan=(2, n // 2))
    data = next(where.glob("*.mib"))
    name = f"MIB U16, {n} x 256 x 256"
    whole = lambda: lambda: _own(vfs.open(mib)[...])  # noqa: E731
    yield Case(
        name,
        "opened, whole in new memory",
        whole,
        {"RosettaSciIO": lambda: lambda: _rosetta("quantumdetector", data, navigation_shape=(n // 2, 2))[:, :, ::-1]},
    )
    blo = frame_writers.write_blo(folder, frames_of(n, dtype="u1", most=255).reshape(2, n // 2, 256, 256))
    name = f"BLO u8, {n} x 256 x 256"
    yield Case(
        name,
        "opened, whole in new memory",
        lambda: lambda: _own(vfs.open(blo)[...]),
        {"RosettaSciIO": lambda: lambda: _rosetta("blockfile", blo)},
    )


def _mrc_into(path: Path) -> Call:
    import mrcfile

    data = mrcfile.mmap(path, permissive=True).data
    out = np.zeros(data.shape, data.dtype)
    return lambda: (np.copyto(out, data), out)[1]


def _mrc(path: Path) -> np.ndarray:
    import mrcfile

    with mrcfile.open(path, permissive=True) as file:
        return np.asarray(file.data)


def _rosetta(module: str, path: Path, **options: Any) -> np.ndarray:
    reader = importlib.import_module(f"rsciio.{module}")
    return np.array(reader.file_reader(str(path), **options)[0]["data"])


PARTS: tuple[Callable[[Path, Size], Iterator[Case]], ...] = (
    with_libertem,
    with_references,
    with_tiff,
    with_hdf5,
    with_others,
)
