/**
 * Large pictures: numbers of the whole from its levels, piece by piece, and above them tiles of what is looked at, as
 * fine as the screen shows.
 *
 * A level is the picture (level 0) or a smaller version of it, see `levels` in protocol.md. Tiles are squares of a
 * level. What is kept of them is bounded: those that were used longest ago are let go.
 */

import * as api from "./api.js";
import { isEmpty } from "./contrast.js";
import { Kept } from "./latest.js";

export const LARGE = 2048; // pixels along y or x: larger pictures are shown from levels and tiles
const WHOLE = 1024; // numbers along y and x that stand for the whole picture, at most
const PIECE = 2048; // pixels along y and x of the picture that are read for a piece of these, if levels are computed
const SIDE = 512; // numbers along y and x of a tile
const SEEN = 96; // tiles that may be wanted at once: more are not looked at closely, and wait for a smaller part
const AT_ONCE = 5; // requests under way: a browser has six connections to a server
const NUMBERS = [512, 128 << 20]; // tiles, bytes of numbers that are kept
const PAINTED = [192, 160 << 20]; // tiles, bytes of colours that are kept
const BUDGET = 8; // ms of a frame of the screen in which tiles are coloured
const PROBE = 64; // pixels along y and x that are read around the pointer

/** @returns {boolean} true if a picture of an array is large. */
export function isLarge({ picture, shape }) {
  return picture.length === 2 && picture.every((axis) => shape[axis] > 3) && picture.some((axis) => shape[axis] > LARGE);
}

/** @returns {Object[]} levels of an array, the finest first: shape, times. */
function levelsOf(array) {
  return array.levels?.length ? array.levels : [{ shape: array.picture.map((axis) => array.shape[axis]), times: [1, 1] }];
}

/**
 * Fetch numbers of a whole large picture, piece by piece: means of squares of its pixels.
 *
 * @param {Object} array as the API describes it, with its `levels`.
 * @param {number[]} at an index for each leading axis. @param {string} part of complex numbers, or "".
 * @param {AbortSignal} signal
 * @yields {{data: TypedArray, shape: number[], bin: number, stored: boolean, done: number}} `done`: the share that is there,
 *   0 to 1; what is not there yet is NaN. The same `data` each time. `stored`: false where no file holds the picture.
 */
export async function* wholeOf(array, at, part, signal) {
  const levels = levelsOf(array);
  const [height, width] = levels[0].shape;
  let bin = 1;
  while (Math.max(height, width) > WHOLE * bin) bin *= 2;
  const level = levels.findLastIndex(({ times, ready }) => {
    return times.every((n) => n === times[0] && bin % n === 0 && (ready || n <= Math.max(1, PIECE / SIDE)));
  });
  const { shape: shapeOf, times: [times] } = levels[Math.max(0, level)];
  const colours = array.shown > 2;
  const shape = [height, width].map((n) => Math.ceil(n / bin));
  const pieces = [];
  const step = Math.max(PIECE, bin, SIDE * times);
  for (let y = 0; y < height; y += step) for (let x = 0; x < width; x += step) pieces.push([y, x]);
  const middle = ([y, x]) => Math.hypot(y + step / 2 - height / 2, x + step / 2 - width / 2);
  pieces.sort((a, b) => middle(a) - middle(b));
  let got = null;
  let done = 0;
  const fetched = async ([y, x]) => {
    const ends = [Math.min(height, y + step), Math.min(width, x + step)].map((n, k) => Math.min(shapeOf[k], Math.ceil(n / times)));
    const box = [y / times, x / times, ...ends];
    return { y, x, ...(await api.tile(array.set, array.path, at, Math.max(0, level), box, bin / times, part, signal)) };
  };
  const under = new Set();
  while (pieces.length || under.size) {
    while (pieces.length && under.size < AT_ONCE) {
      const work = fetched(pieces.shift()).then((piece) => {
        under.delete(work);
        return piece;
      });
      under.add(work);
    }
    const { y, x, data, shape: size, stored } = await Promise.race(under);
    const samples = colours ? size[2] : 1;
    got ??= { data: nothing(array, shape[0] * shape[1] * samples), shape: colours ? [...shape, samples] : shape, bin };
    const [rows, columns] = [shape[0] - y / bin, shape[1] - x / bin].map((n) => Math.min(n, step / bin));
    for (let row = 0; row < rows; row++) {
      // A version that the file holds may be without the rest of rows and columns: the last ones stand for it
      const from = Math.min(row, size[0] - 1) * size[1];
      const to = (y / bin + row) * shape[1] + x / bin;
      for (let column = 0; column < columns; column++) {
        const k = (from + Math.min(column, size[1] - 1)) * samples;
        for (let s = 0; s < samples; s++) got.data[(to + column) * samples + s] = data[k + s];
      }
    }
    done += rows * columns;
    yield { ...got, stored, done: done / (shape[0] * shape[1]) };
  }
}

/** @returns {TypedArray} so many numbers that are not there yet; of colours of 8 bits 0. */
function nothing({ shown, dtype, colour }, count) {
  const bytes = shown > 2 && (dtype === "uint8" || colour === null);
  return bytes ? new Uint8ClampedArray(count) : new Float32Array(count).fill(NaN);
}

export class Pyramid {
  /**
   * @param {Object} array as the API describes it, with its `levels`.
   * @param {function()} changed called when there is more to draw, or when another share of it is there.
   * @param {function(Error)} failed
   */
  constructor(array, changed, failed) {
    Object.assign(this, { array, changed, failed });
    this.levels = levelsOf(array);
    this._numbers = new Kept(...NUMBERS);
    this._painted = new Kept(...PAINTED);
    this._probes = new Kept(NUMBERS[0], NUMBERS[1] >> 4);
    this._under = new Map(); // key -> AbortController
    this._lost = new Set(); // keys of tiles that could not be read: they are not asked for again until `show`
    this._wanted = [];
    this._shown = null;
    this._ats = [];
    this.level = -1; // that is looked at; -1: the whole picture is as fine as the screen
    this.part = 1; // share of its tiles that are there
    this.empty = false; // true: all numbers of these are NaN
  }

  /**
   * Show other pictures: their numbers are coloured together.
   *
   * @param {number[][]} ats an index for each leading axis, of each of them. @param {string} part of complex numbers, or "".
   * @param {number} bin pixels, along y and x, of what stands for the whole.
   */
  show(ats, part, bin) {
    Object.assign(this, { _ats: ats, _part: part, _bin: bin });
    this._lost.clear();
  }

  /** True while tiles that are seen are fetched. */
  get busy() {
    return this._wanted.length > 0 || this._under.size > 0;
  }

  /** Leave all that is on its way. */
  stop() {
    this._wanted = [];
    this._ats = [];
    for (const abort of this._under.values()) abort.abort();
    this._under.clear();
  }

  _key(at, level, row, column) {
    return `${at} ${this._part} ${level} ${row} ${column}`;
  }

  /** @returns {number} the level whose numbers are about as fine as the screen; -1 where the whole is fine enough. */
  _levelFor(picture) {
    const pixel = 1 / (Math.max(...picture.scale()) * picture.ratio); // pixels of the picture in one of the screen
    if (pixel >= this._bin * 0.8) return -1;
    const found = this.levels.findLastIndex(({ times }) => Math.max(...times) <= pixel * 1.25);
    return Math.max(0, found);
  }

  /** @returns {Array<[number, number]>} tiles of a level that a picture shows: row and column, those in the middle first. */
  _tiles(picture, level) {
    const { shape, times } = this.levels[level];
    const corners = [picture.toPlace(0, 0), picture.toPlace(...picture.box)];
    const ends = [0, 1].map((axis) => {
      const [from, to] = corners.map((corner) => (corner[axis] + 0.5) / times[axis] / SIDE).sort((a, b) => a - b);
      const last = Math.ceil(shape[axis] / SIDE) - 1;
      return [Math.max(0, Math.floor(from)), Math.min(last, Math.floor(to)), (from + to) / 2 - 0.5];
    });
    const [[top, bottom, y], [left, right, x]] = ends;
    if ((bottom - top + 1) * (right - left + 1) > SEEN) return [];
    const found = [];
    for (let row = top; row <= bottom; row++) for (let column = left; column <= right; column++) found.push([row, column]);
    return found.sort((a, b) => Math.hypot(a[0] - y, a[1] - x) - Math.hypot(b[0] - y, b[1] - x));
  }

  /** Want the tiles that a picture shows, and leave others that are on their way. */
  _want(picture) {
    const level = this._levelFor(picture);
    const tiles = level < 0 ? [] : this._tiles(picture, level);
    const wanted = [];
    let missing = 0;
    let empty = tiles.length > 0;
    for (const [row, column] of tiles) {
      const keys = this._ats.map((at) => ({ key: this._key(at, level, row, column), at, level, row, column }));
      const open = keys.filter(({ key }) => !this._numbers.get(key) && !this._lost.has(key));
      missing += open.length > 0;
      empty &&= keys.every(({ key }) => this._numbers.get(key)?.empty);
      wanted.push(...open);
    }
    const keys = new Set(wanted.map(({ key }) => key));
    for (const [key, abort] of this._under) {
      if (keys.has(key)) continue;
      abort.abort();
      this._under.delete(key);
    }
    this._wanted = wanted.filter(({ key }) => !this._under.has(key));
    const part = tiles.length ? 1 - missing / tiles.length : 1;
    const was = `${this.level} ${this.part} ${this.empty}`;
    Object.assign(this, { level: tiles.length ? level : -1, part, empty });
    if (was !== `${this.level} ${this.part} ${this.empty}`) queueMicrotask(this.changed);
    this._next();
  }

  _next() {
    while (this._wanted.length && this._under.size < AT_ONCE) this._fetch(this._wanted.shift());
  }

  async _fetch({ key, at, level, row, column }) {
    const abort = new AbortController();
    this._under.set(key, abort);
    const { shape } = this.levels[level];
    const [y, x] = [row * SIDE, column * SIDE];
    const box = [y, x, Math.min(shape[0], y + SIDE), Math.min(shape[1], x + SIDE)];
    try {
      const got = await api.tile(this.array.set, this.array.path, at, level, box, 1, this._part, abort.signal);
      this._numbers.set(key, { ...got, empty: isEmpty(got.data) });
    } catch (error) {
      if (api.aborted(error) || abort.signal.aborted) return;
      this._lost.add(key);
      this.failed(error);
    } finally {
      if (this._under.get(key) === abort) this._under.delete(key);
    }
    this._shown?.draw();
    this._next();
  }

  /**
   * Draw the tiles that a picture shows, those of coarser levels below where finer ones are not there yet.
   *
   * @param {CanvasRenderingContext2D} context in pixels of the screen, turned over where rows are drawn upwards.
   * @param {Picture} picture @param {boolean} [once] false: it is on the screen, and missing tiles are fetched.
   */
  draw(context, picture, once = false) {
    if (!once) {
      this._shown = picture;
      this._want(picture);
    }
    if (this.level < 0) return;
    const began = performance.now();
    const late = () => !once && performance.now() - began > BUDGET;
    const coarsest = this.part < 1 ? this.levels.length - 1 : this.level;
    for (let level = coarsest; level >= this.level; level--) {
      for (const [row, column] of this._tiles(picture, level)) {
        const canvas = this._colours(picture, level, row, column, late);
        if (canvas) this._put(context, picture, canvas, level, row, column);
      }
    }
    if (late()) picture.draw(); // the rest with the next frame of the screen
  }

  /** @returns {?HTMLCanvasElement} a tile in its colours; while there is no time for these, in those that it had. */
  _colours(picture, level, row, column, late) {
    const key = `${this._ats.join(";")} ${this._part} ${level} ${row} ${column}`;
    const kept = this._painted.get(key);
    if (kept && (kept.stamp === picture.stamp || late())) return kept.canvas;
    const numbers = this._ats.map((at) => this._numbers.get(this._key(at, level, row, column)));
    if (!numbers.length || numbers.includes(undefined) || late()) return kept?.canvas;
    const [height, width] = numbers[0].shape;
    const image = new ImageData(width, height);
    picture.painter(numbers, image);
    const canvas = kept?.canvas ?? document.createElement("canvas");
    if (!kept) Object.assign(canvas, { width, height });
    canvas.getContext("2d").putImageData(image, 0, 0);
    this._painted.set(key, { canvas, stamp: picture.stamp, data: { byteLength: image.data.byteLength } });
    return canvas;
  }

  _put(context, picture, canvas, level, row, column) {
    const { times } = this.levels[level];
    const [sy, sx] = picture.scale();
    const [y, x] = [row * SIDE * times[0], column * SIDE * times[1]];
    const ends = [
      [y, x],
      [y + canvas.height * times[0], x + canvas.width * times[1]],
    ].map(([down, across]) => picture.toStage(down - 0.5, across - 0.5));
    const [left, right] = ends.map((end) => Math.round(end[1] * picture.ratio)); // whole pixels: else there are seams
    const [top, bottom] = ends.map((end) => Math.round(end[0] * picture.down * picture.ratio));
    context.imageSmoothingEnabled = Math.max(sy * times[0], sx * times[1]) * picture.ratio < 1;
    context.drawImage(canvas, left, top, right - left, bottom - top);
  }

  /**
   * Find the number of a pixel of the picture.
   *
   * @returns {number|number[]|undefined} of one picture, or its colours, or a number of each; undefined: it is not there yet, and
   *   `then` is called when it is.
   */
  value(y, x, then) {
    const found = this._ats.map((at) => this._pixel(at, y, x));
    const missing = found.indexOf(undefined);
    if (missing < 0 && found.length) return found.length > 1 ? found.flat() : found[0];
    if (found.length) this._probe(this._ats[missing], y, x, then);
    return undefined;
  }

  _pixel(at, y, x) {
    for (const [kept, side] of [[this._numbers, SIDE], [this._probes, PROBE]]) {
      const tile = kept.get(this._key(at, 0, Math.floor(y / side), Math.floor(x / side)));
      if (!tile) continue;
      const k = (y % side) * tile.shape[1] + (x % side);
      const samples = tile.shape[2] || 0;
      return samples ? [...tile.data.subarray(k * samples, (k + 1) * samples)] : tile.data[k];
    }
    return undefined;
  }

  /** Read pixels around a place: one request at a time, and then what is wanted by that time. */
  async _probe(at, y, x, then) {
    if (this._probing) return;
    this._probing = true;
    const [row, column] = [Math.floor(y / PROBE), Math.floor(x / PROBE)];
    const { shape } = this.levels[0];
    const box = [row * PROBE, column * PROBE, Math.min(shape[0], (row + 1) * PROBE), Math.min(shape[1], (column + 1) * PROBE)];
    try {
      const key = this._key(at, 0, row, column);
      this._probes.set(key, await api.tile(this.array.set, this.array.path, at, 0, box, 1, this._part));
    } catch (error) {
      this.failed(error);
      return;
    } finally {
      this._probing = false;
    }
    then();
  }

  /** @returns {string} how fine what is seen is; "" where it is as fine as the whole. */
  status() {
    if (this.level < 0) return "";
    if (this.part < 1) return `${Math.floor(100 * this.part)} %`;
    const times = this.levels[this.level].times.map((n) => Number(n.toFixed(2)));
    return Math.max(...times) > 1 ? `binned ${times.join(" × ")}` : "exact";
  }
}
