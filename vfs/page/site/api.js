/**
 * Asks the server. Every address is relative to the page's, so that it works below any prefix.
 *
 * What fails becomes an `ApiError` with the server's line of text; what was aborted, an `AbortError`.
 */

import { argumentsOf } from "./grounds.js";
import { quoted } from "./names.js";
import { Offline } from "./offline.js";

/** Arrays of JS by the name of their dtype. Numbers are little-endian, as all machines with a browser are. */
const ARRAYS = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
};

/** A server that has too much to do is asked again: so many times, after so many ms. */
const AGAIN = 8;
const PAUSE = 300;

/** An answer that is none: its message is for people. */
export class ApiError extends Error {
  /**
   * @param {string} message one line.
   * @param {number} status of HTTP; 0 if the server was not reached or the answer broke.
   */
  constructor(message, status) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

/** @returns {boolean} true if an error only says that nobody wants the answer any more. */
export function aborted(error) {
  return error?.name === "AbortError";
}

/**
 * Write a key as part of an address.
 *
 * @param {string} key names with / between.
 * @returns {string}
 * @throws {ApiError} it has a name that leads out of its folder, where a browser would ask for another path, or
 *   one without a letter.
 */
export function encoded(key) {
  const names = key.split("/");
  if (key && names.some((name) => ["", ".", ".."].includes(name))) throw new ApiError(`Nothing is called ${key}.`, 404);
  return names.map(quoted).join("/");
}

/**
 * Make the address of something below the page.
 *
 * @param {string} path encoded.
 * @returns {string} without fragment.
 */
export function address(path) {
  return new URL(path, document.baseURI.split("#")[0]).href;
}

let heard = () => {};

/** @param {function()} then called whenever the server answers. */
export function answering(then) {
  heard = then;
}

async function ask(path, how = {}) {
  let response;
  for (let again = AGAIN; ; again--) {
    try {
      response = await fetch(address(path), { credentials: "same-origin", ...how });
    } catch (error) {
      if (aborted(error)) throw error;
      throw new ApiError("The server does not answer. Is vfs serve still running?", 0);
    }
    heard();
    if (response.status !== 429 || !again) break;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  if (response.ok) return response;
  const text = (await response.text().catch(() => "")).trim();
  throw new ApiError(text || `The server answered with status ${response.status}.`, response.status);
}

async function json(path, signal) {
  return (await ask(path, { signal })).json();
}

/** What came with the page: it is true once, later the server is asked. */
const first = JSON.parse(document.getElementById("first")?.textContent || "{}");

/** True if the page stands alone: there is no server, and `known` is all there is. */
export const alone = Boolean(first.offline);
const own = alone ? new Offline(first.offline) : null;

/** @returns {?Summary} what previews are made of, where it came with the page. */
export function summary() {
  return own?.summary ?? null;
}

function taken(name, fits) {
  const known = first[name];
  if (!known || !fits(known)) return undefined;
  delete first[name];
  return known;
}

/** @returns {Promise<Object>} folders and sets in a folder, and files in it that nobody has opened yet. */
export async function listing(path, from, count, signal) {
  if (own) return first.listing;
  const known = path || from ? undefined : taken("listing", () => true);
  return known || json(`api/list/${encoded(path)}?known=1&first=${from}&count=${count}`, signal);
}

/** @returns {Promise<Object>} a set and `count` of its arrays, or some more of them. */
export async function dataset(key, from, count, signal) {
  if (own) return own.known.set;
  const known = from ? undefined : taken("set", (set) => set.key === key);
  return known || json(`api/set/${encoded(key)}?first=${from}&count=${count}`, signal);
}

/** @returns {Promise<string>} the key of the set that a file in a folder names or belongs to. */
export async function setOf(file) {
  return (await json(`api/set/${encoded(file)}?file=1&count=1`)).key;
}

/** @returns {Promise<Object>} an array, with its metadata. */
export async function array(key, path, signal) {
  return own ? own.known.array : json(`api/array/${encoded(key)}/${encoded(path)}`, signal);
}

/** @returns {Promise<?number[][]>} the numbers of each channel of an array that are black and full, over the stack; null: not known. */
export function windows(key, path, signal) {
  return json(`api/windows/${encoded(key)}/${encoded(path)}`, signal);
}

/** @returns {Promise<Object>} all that the files of a set say, as they say it. */
export function original(key, signal) {
  return json(`api/original/${encoded(key)}`, signal);
}

/** @returns {Promise<Object>} what can be changed of a set or a file: format, options, given, raw, arrays, allowed. */
export function options(key, signal) {
  return json(`api/options/${encoded(key)}`, signal);
}

/** @returns {Promise<Object[]>} scans that the frames of a set may be, best first. */
export function guesses(key, signal) {
  return json(`api/guesses/${encoded(key)}`, signal);
}

/**
 * Have a set opened anew.
 *
 * @param {string} key of the set, or of a file.
 * @param {Object} wanted option -> value.
 * @returns {Promise<Object>} a set as `dataset` gives it, with a key of its own.
 * @throws {ApiError} it does not open so.
 */
export async function reopened(key, wanted, signal) {
  const body = JSON.stringify({ options: wanted });
  const how = { method: "POST", body, headers: { "content-type": "application/json" }, signal };
  const made = await (await ask(`api/open/${encoded(key)}`, how)).json();
  if (made.error) throw new ApiError(made.error, 200);
  return made;
}

/** @returns {Promise<Object>} the description of a set: name, text, save. */
export function description(key) {
  return json(`api/description/${encoded(key)}`);
}

/** Save the description of a set beside its data. @returns {Promise<{name: string}>} the file. */
export async function saveDescription(key) {
  return (await ask(`api/save/${encoded(key)}`, { method: "POST" })).json();
}

/**
 * Have numbers written as a file of HyperSpy, or as EMSA/MAS.
 *
 * @param {string} key of the set. @param {string} path of the array. @param {Object} head what they are, see `vfs docs protocol`.
 * @param {TypedArray} data
 * @returns {Promise<Blob>}
 */
export async function fileOf(key, path, head, data) {
  const text = new TextEncoder().encode(JSON.stringify({ ...head, bytes: data.byteLength }));
  const body = new Blob([new Uint32Array([text.length]), text, data], { type: "application/octet-stream" });
  return (await ask(`api/hspy/${encoded(key)}/${encoded(path)}`, { method: "POST", body })).blob();
}

/** @returns {Promise<Blob>} an array as a page that needs no server. */
export async function mail(key, path) {
  return (await ask(`api/mail/${encoded(key)}/${encoded(path)}`, { method: "POST" })).blob();
}

/** @returns {Promise<{cy: number, cx: number, r: number, found: boolean}>} the bright-field disk of a part of a scan, pixels. */
export async function centre(key, path, within, signal) {
  if (own) return own.known.centre;
  const same = ({ of, within: there }) => of === `${key}/${path}` && String(there) === String(within);
  const known = taken("centre", same);
  if (known) return known;
  const query = within.length ? `?within=${within.join(",")}` : "";
  return json(`api/centre/${encoded(key)}/${encoded(path)}${query}`, signal);
}

/** @returns {Promise<Object>} how a set was opened, as Python writes it: name, paths, options, imports, absent. */
export async function recipe(key, signal) {
  return own ? own.known.recipe : json(`api/python/${encoded(key)}`, signal);
}

/**
 * Fetch one picture (or line, or number).
 *
 * @param {string} key of the set.
 * @param {string} path of the array.
 * @param {number[]} at one index for each leading axis.
 * @param {Object} how {most, part, ground}: most pixels along y and x, larger pictures are binned; the part of complex numbers,
 *   abs, phase, real or imag, "" for others; the background that is taken away, see grounds.js, "" for none.
 * @param {AbortSignal} [signal]
 * @returns {Promise<{data: TypedArray, shape: number[], bin: number}>}
 */
export async function frame(key, path, at, { most, part = "", ground = "" }, signal) {
  if (own) return own.frame(at);
  return picture(key, path, { max: most, at: at.join(","), part, background: ground && argumentsOf(ground) }, signal);
}

/**
 * Fetch a box of a picture, or of a smaller version of it.
 *
 * @param {string} key @param {string} path @param {number[]} at see `frame`.
 * @param {number} level of the picture. @param {number[]} box y0, x0, y1, x1 in its pixels, half-open.
 * @param {number} bin pixels of the level, along y and x, of which each number is the mean.
 * @param {string} part @param {AbortSignal} [signal]
 * @returns {Promise<{data: TypedArray, shape: number[]}>}
 */
export async function tile(key, path, at, level, box, bin, part, signal) {
  const { data, shape, stored } = await picture(key, path, { at: at.join(","), level, box: box.join(","), bin, part }, signal);
  return { data, shape, stored };
}

/**
 * Fetch a plane along other axes than those of frames.
 *
 * @param {string} key @param {string} path see `frame`. @param {number[]} at an index for each axis that is not shown.
 * @param {number[]} axes that are rows and columns. @param {number} most @param {AbortSignal} [signal]
 * @returns {Promise<{data: TypedArray, shape: number[], bin: number}>}
 */
export function plane(key, path, at, axes, most, signal) {
  return picture(key, path, { at: at.join(","), plane: axes.join(","), max: most }, signal);
}

/**
 * Fetch numbers of a picture. Of one that no file holds they are NaN, and `stored` is false.
 *
 * @param {Object} query name -> value; "" is left out.
 */
async function picture(key, path, query, signal) {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(given).toString().replaceAll("%2C", ",");
  const response = await ask(`api/frame/${encoded(key)}/${encoded(path)}?${text}`, { signal });
  const shape = (response.headers.get("x-vfs-shape") || "").split(",").filter(Boolean).map(Number);
  const data = numbers(response.headers.get("x-vfs-dtype"), await whole(response));
  const stored = response.headers.get("x-vfs-stored") !== "no";
  return {
    data: stored ? data : new Float32Array(data.length).fill(NaN),
    shape,
    stored,
    bin: Number(response.headers.get("x-vfs-bin") || 1),
  };
}

async function whole(response) {
  try {
    return await response.arrayBuffer();
  } catch (error) {
    if (aborted(error)) throw error;
    throw new ApiError("The answer broke off on its way.", 0);
  }
}

/**
 * Take bytes as numbers.
 *
 * @param {string} dtype one of `ARRAYS`.
 * @param {ArrayBuffer} buffer
 * @returns {TypedArray}
 */
function numbers(dtype, buffer) {
  const Kind = ARRAYS[dtype];
  if (!Kind) throw new ApiError(`The server sent numbers of type ${dtype}, which this page does not know.`, 0);
  return new Kind(buffer, 0, Math.floor(buffer.byteLength / Kind.BYTES_PER_ELEMENT));
}

/**
 * Run a computation: records as they come, each with the numbers of its results.
 *
 * @param {string} key of the set.
 * @param {string} path of the array.
 * @param {Object} wanted results, region, within, coarse.
 * @param {AbortSignal} signal ends it, also on the server.
 * @yields {{head: Object, values: Object<string, {data: TypedArray, shape: number[]}>}}
 */
export async function* compute(key, path, wanted, signal) {
  if (own) {
    yield* own.compute(wanted);
    return;
  }
  const body = JSON.stringify(wanted);
  const how = { method: "POST", body, headers: { "content-type": "application/json" } };
  for await (const { head, body: part } of stream(`api/compute/${encoded(key)}/${encoded(path)}`, {}, signal, how)) {
    const values = {};
    let at = 0;
    for (const each of head.results || []) {
      const size = each.shape.reduce((a, b) => a * b, 1) * ARRAYS[each.dtype].BYTES_PER_ELEMENT;
      values[each.name] = { data: numbers(each.dtype, part.slice(at, at + size)), shape: each.shape };
      at += size;
    }
    yield { head, values };
  }
}

/**
 * Fetch small pictures of arrays, as they are ready.
 *
 * @param {number|string} first array, or "main" for the one to show first.
 * @param {boolean} whole of large pictures all pixels are taken, which may take some seconds each.
 * @yields {{path: string, shape?: number[], data?: TypedArray, sampled?: boolean, error?: string}} sampled: of a large one,
 *   made of some of its pixels.
 */
export async function* thumbnails(key, first, count, size, signal, whole = false) {
  const which = { ...(first === "main" ? { main: 1 } : { first, count }), ...(whole ? { whole: 1 } : {}) };
  for await (const { head, body } of stream(`api/thumbnails/${encoded(key)}`, { ...which, size }, signal)) {
    yield head.bytes ? { ...head, data: numbers(head.dtype, body) } : head;
  }
}

/**
 * Fetch a stream, record by record.
 *
 * jupyter-server-proxy passes a stream on as it comes only where nothing but `text/event-stream` is accepted, else once
 * all of it is there. It also reads on when the browser has closed the connection, so the server is told to stop.
 *
 * @param {string} path encoded.
 * @param {Object} query name -> value.
 * @param {AbortSignal} signal ends it, also on the server.
 * @param {Object} [how] of `fetch`.
 * @yields {{head: Object, body: ArrayBuffer}}
 */
async function* stream(path, query, signal, how = {}) {
  const id = Math.random().toString(36).slice(2);
  const headers = { ...how.headers, accept: "text/event-stream" };
  const stop = () => void fetch(address(`api/stop/${id}`), { method: "POST" }).catch(() => {});
  signal.addEventListener("abort", stop);
  try {
    yield* records(await ask(`${path}?${new URLSearchParams({ ...query, id })}`, { ...how, headers, signal }));
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/**
 * Cut a stream into its records, up to the last one.
 *
 * @param {Response} response
 * @yields {{head: Object, body: ArrayBuffer}}
 */
async function* records(response) {
  const take = taker(response.body.getReader());
  for (;;) {
    const length = await take(4);
    const head = JSON.parse(new TextDecoder().decode(await take(new DataView(length.buffer).getUint32(0, true))));
    if (head.error && head.path === undefined) throw new ApiError(head.error, 422);
    if (head.end) return;
    yield { head, body: (await take(head.bytes)).buffer };
  }
}

/** @returns {function(number): Promise<Uint8Array>} takes so many bytes, in memory of their own. */
function taker(reader) {
  let parts = [];
  let have = 0;
  return async (count) => {
    while (have < count) {
      const { done, value } = await reader.read().catch((error) => {
        throw aborted(error) ? error : new ApiError("The answer broke off on its way.", 0);
      });
      if (done) throw new ApiError("The answer ended too early: the server stopped or broke.", 0);
      parts.push(value);
      have += value.length;
    }
    const out = new Uint8Array(count);
    let filled = 0;
    while (filled < count) {
      const part = parts[0];
      const step = Math.min(part.length, count - filled);
      out.set(part.subarray(0, step), filled);
      filled += step;
      if (step === part.length) parts.shift();
      else parts[0] = part.subarray(step);
    }
    have -= count;
    return out;
  };
}
