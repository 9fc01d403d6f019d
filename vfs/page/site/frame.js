/**
 * Gets frames: that of a position, or the mean, sum or maximum of those of a selection.
 */

import * as api from "./api.js";
import { toRegion } from "./detectors.js";
import { Kept, Latest } from "./latest.js";
import { isLarge, wholeOf } from "./pyramid.js";

const AT_ONCE = 3; // frames under way: more would only queue up in front of the one that is wanted
const KEPT = [64, 96 << 20]; // frames, bytes
const LARGEST = 8192; // pixels along y and x that the server sends
const MOST = 1 << 25; // numbers of a box of a large frame that are fetched at once
const LONG = 500; // ms after which a large frame is left for another one that is wanted
const OFTEN = 120; // ms between two looks at a large frame on its way
/** The status of a frame that no file holds. */
export const NOT_STORED = "not recorded";
const SETTLED = 120; // ms without a change before a selection's frames are read

function keyOf({ most, part, ground }, at) {
  return `${at} ${most} ${part} ${ground}`;
}

export class Frames {
  /**
   * @param {Object} array as the API describes it, with the key of its set as `set`.
   * @param {function(Object)} shown called with {data, shape, size, bin, status, part, at?}.
   * @param {function(Error)} failed
   */
  constructor(array, shown, failed) {
    Object.assign(this, { array, shown, failed, large: isLarge(array) && !api.alone });
    this._kept = new Kept(...KEPT);
    this._abort = new AbortController();
    this._selected = new Latest(failed);
    this._under = 0;
    this._wanted = null;
    this._count = 0;
    this._newest = 0;
    this.skipna = false; // sums and the like leave NaN out
  }

  /** @returns {string} a reduction as the API has it. */
  _reduction(how) {
    return `${how}(${this.skipna ? "skipna=true" : ""})`;
  }

  /** True while frames are fetched. */
  get busy() {
    return this._under > 0;
  }

  /** Height and width of a whole frame; of a line 1 and its length. */
  get size() {
    const sizes = this.array.picture.map((axis) => this.array.shape[axis]);
    return sizes.length === 2 ? sizes : [1, sizes[0] ?? 1];
  }

  /**
   * Want the frame of a position. Of many wanted in a row, those are fetched that there is time for, and the last.
   *
   * @param {number[]} at an index for each leading axis.
   * @param {number} most pixels along y and x that can be seen.
   * @param {string} part of complex numbers, or "".
   * @param {number[][]} [ats] indices of frames that are shown together with it, which is one of them.
   * @param {string} [ground] the background that is taken away, see grounds.js.
   */
  want(at, most, part, ats = [at], ground = "") {
    this._selected.stop();
    this._wanted = { at, most, part, ats, ground, order: ++this._count };
    this._next();
  }

  _next() {
    const wanted = this._wanted;
    if (!wanted || this._under >= (this.large ? 1 : AT_ONCE) || this._abort.signal.aborted) return;
    this._wanted = null;
    const kept = wanted.ats.map((at) => this._kept.get(keyOf(wanted, at)));
    if (!kept.includes(undefined)) this._arrived(wanted, kept);
    else this._fetch(wanted, kept);
  }

  async _fetch(wanted, frames) {
    this._under += 1;
    try {
      await Promise.all(wanted.ats.map((at, k) => frames[k] ?? this._one(wanted, frames, k)));
      if (frames.some((one) => !one || one.done < 1)) return; // left for another one
      this._arrived(wanted, frames);
    } catch (error) {
      if (!api.aborted(error) && wanted.order > this._newest) this.failed(error);
    } finally {
      this._under -= 1;
      this._next();
    }
  }

  /** Fetch one of the frames that are wanted together. */
  async _one(wanted, frames, k) {
    const { set, path } = this.array;
    const { [k]: at } = wanted.ats;
    if (this.large) await this._pieces(wanted, frames, k);
    else frames[k] = await api.frame(set, path, at, wanted, this._abort.signal);
    if (frames[k] && !(frames[k].done < 1)) this._kept.set(keyOf(wanted, at), frames[k]);
  }

  /** Fetch a large frame, which is shown as it comes; it is left if another one is wanted meanwhile. */
  async _pieces(wanted, frames, k) {
    const began = performance.now();
    let seen = began;
    for await (const got of wholeOf(this.array, wanted.ats[k], wanted.part, this._abort.signal)) {
      frames[k] = got;
      const now = performance.now();
      if (got.done === 1) return;
      if (this._wanted && now - began > LONG) return;
      if (now - seen > OFTEN && !frames.includes(undefined)) {
        this._arrived(wanted, frames);
        seen = now;
      }
    }
  }

  _arrived(wanted, frames) {
    const got = frames[wanted.ats.findIndex((at) => String(at) === String(wanted.at))];
    if (wanted.order < this._newest) return; // a newer one came first
    this._newest = wanted.order;
    const sizes = this.array.picture.map((axis) => this.array.shape[axis]);
    const binned = sizes.filter((size, axis) => got.shape[axis] < size).map(() => got.bin);
    const part = frames.reduce((sum, one) => sum + (one.done ?? 1), 0) / frames.length;
    const exact = got.bin > 1 ? `binned ${binned.join(" × ")}` : got.rounded ? "rounded" : "exact";
    const status = part < 1 ? `${Math.floor(100 * part)} %` : frames.some((one) => one.stored !== false) ? exact : NOT_STORED;
    const parts = frames.map((one, k) => ({ ...one, at: wanted.ats[k] }));
    this.shown({ ...got, size: this.size, status, part, at: wanted.at, parts, ground: wanted.ground });
  }

  /**
   * Want the frames of a selection as one.
   *
   * @param {Object} shape of the selection.
   * @param {string} how mean, sum or max.
   * @param {number[]} at an index for each leading axis; those of the scan's picture are not looked at.
   * @param {number} axes of the scan's picture.
   * @param {boolean} [coarse] begin with some of them.
   */
  select(shape, how, at, axes, coarse = false) {
    const { nav } = this.array;
    const within = at.slice(0, nav - axes);
    this._wanted = null;
    this._newest = ++this._count;
    const wanted = { results: { frame: this._reduction(how) }, region: toRegion(shape, axes), within, coarse };
    this._selected.run(async (signal) => {
      for await (const { head, values } of api.compute(this.array.set, this.array.path, wanted, signal)) {
        const part = head.of ? head.done / head.of : 1;
        const bin = head.bin || 1;
        const exact = !head.stored ? NOT_STORED : bin > 1 ? `binned ${bin} × ${bin}` : head.rounded ? "rounded" : "exact";
        const status = head.exact ? exact : `${Math.floor(100 * part)} %`;
        const order = head.exact ? { parts: head.parts, workers: head.workers } : null;
        this.shown({ ...this._picture(values.frame, at.slice(nav)), size: this.size, bin, status, part: head.exact ? 1 : part, order });
      }
    }, SETTLED);
  }

  /**
   * Want frames that are projected along some axes.
   *
   * @param {string} how name of a reduction. @param {number[]} at an index for each leading axis. @param {number[][]} ats of those that
   *   are shown together. @param {function(number[]): number[][]} boxOf says which frames, see `Projecting.boxOf`.
   */
  project(how, at, ats, boxOf) {
    this._wanted = null;
    const order = (this._newest = ++this._count);
    const { set, path, nav } = this.array;
    this._selected.run(async (signal) => {
      const parts = [];
      for (const one of ats) {
        const box = boxOf(one);
        const key = `${this._reduction(how)} ${box} ${one.slice(nav)}`;
        if (!this._kept.get(key)) {
          for await (const { head, values } of api.compute(set, path, { results: { frame: this._reduction(how) }, region: { box } }, signal)) {
            const made = { ...this._picture(values.frame, one.slice(nav)), bin: 1, stored: head.stored, rounded: head.rounded };
            if (head.exact) this._kept.set(key, { ...made, order: { parts: head.parts, workers: head.workers } });
            else if (ats.length === 1) this._projected({ at, order }, [{ ...made, at: one, done: head.done / head.of }]);
          }
        }
        parts.push({ ...this._kept.get(key), at: one });
      }
      this._projected({ at, order }, parts);
    });
  }

  _projected({ at, order }, parts) {
    if (order !== this._newest) return;
    const own = parts.find((one) => String(one.at) === String(at));
    const stored = parts.some((one) => one.stored !== false);
    const status = own.done < 1 ? `${Math.floor(100 * own.done)} %` : !stored ? NOT_STORED : own.rounded ? "rounded" : "exact";
    this.shown({ ...own, size: this.size, status, part: own.done ?? 1, at, parts, projected: true });
  }

  /** Take the picture at indices of the other axes out of a whole frame, with colours last. */
  _picture({ data, shape }, at) {
    const { nav, picture, colour, where } = this.array;
    const shown = [...picture, ...(colour === null ? [] : [colour])].map((axis) => axis - nav);
    if (shown.length === shape.length && shown.every((axis, place) => axis === place)) return { data, shape };
    const steps = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
    const first = where.slice(nav).reduce((sum, axis, k) => sum + at[k] * steps[axis - nav], 0);
    const sizes = shown.map((axis) => shape[axis]);
    const out = new data.constructor(sizes.reduce((a, b) => a * b, 1));
    for (let i = 0; i < out.length; i++) {
      let [from, rest] = [first, i];
      for (let k = sizes.length - 1; k >= 0; k--) {
        from += (rest % sizes[k]) * steps[shown[k]];
        rest = Math.floor(rest / sizes[k]);
      }
      out[i] = data[from];
    }
    return { data: out, shape: sizes };
  }

  /**
   * Fetch a box of a frame with all its pixels.
   *
   * @param {number[]} at @param {string} part see `want`. @param {number[]} box y0, x0, y1, x1, half-open.
   * @returns {?Promise<Object>} its numbers as panels show them, and `from`: the place of the first; null: it is too large.
   */
  box(at, part, box) {
    const [y0, x0, y1, x1] = box;
    if (api.alone || (y1 - y0) * (x1 - x0) * (this.array.shown > 2 ? 4 : 1) > MOST || y1 <= y0 || x1 <= x0) return null;
    const from = [y0, x0];
    return api.tile(this.array.set, this.array.path, at, 0, box, 1, part).then((got) => ({ ...got, bin: 1, from }));
  }

  /**
   * Fetch a frame with all its pixels, in parts: rows that follow one another.
   *
   * @yields {TypedArray}
   */
  async *rows(at, part, ground = "") {
    const [height, width] = this.size;
    const { set, path, shown } = this.array;
    if (!this.large) {
      yield (await api.frame(set, path, at, { most: LARGEST, part, ground })).data;
      return;
    }
    const count = Math.max(1, Math.floor(MOST / 4 / width / (shown > 2 ? 4 : 1)));
    for (let y = 0; y < height; y += count) {
      yield (await api.tile(set, path, at, 0, [y, 0, Math.min(height, y + count), width], 1, part)).data;
    }
  }

  /** Stop everything: another array is looked at. */
  stop() {
    this._abort.abort();
    this._selected.stop();
  }
}
