// zarrita, for talk.mjs: folders (in Node) and URLs.
import * as zarr from "zarrita";

let array;

export async function open(face, path) {
    const { default: Store } = face.includes("://")
        ? { default: zarr.FetchStore }
        : await import("@zarrita/storage/fs");
    array = await zarr.open(zarr.root(new Store(face)).resolve(path), { kind: "array" });
    return { shape: array.shape, dtype: array.dtype, dims: array.dimensionNames ?? array.attrs._ARRAY_DIMENSIONS };
}

export async function get(starts, stops) {
    const { data } = await zarr.get(
        array,
        starts.map((start, i) => zarr.slice(start, stops[i])),
    );
    return Array.from(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}
