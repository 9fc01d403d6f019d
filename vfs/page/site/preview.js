/**
 * Previews while a detector is dragged, from a summary of the scan that the browser keeps.
 *
 * The summary is made once, in the background: for each position sums over rings one pixel wide around
 * the pattern's centre, and its pattern in coarse bins. Disks and rings around that centre come
 * from the rings, all else from the bins. A preview is close to the exact image, not equal to it.
 */

import { inside } from "./detectors.js";

/** Bytes that a summary may have: a stated limit of the page. */
export const LIMIT = 64 * 1024 * 1024;
const BINS = 32; // along y and x, at most
const CHANNELS = 256; // of a spectrum, at most
const FEWEST = 4; // with less, a preview would tell nothing

/**
 * Plan a summary that stays within `LIMIT`.
 *
 * @param {number} positions of the scan.
 * @param {[number, number]} size of a frame, pixels.
 * @param {?{cy: number, cx: number}} centre of the pattern; null: frames are spectra.
 * @returns {?{rings: number, bins: number, results: Object<string, string>}} null: not even coarse bins fit.
 */
export function plan(positions, [height, width], centre) {
  const each = Math.floor(LIMIT / 4 / positions);
  if (!centre) {
    const bins = Math.min(CHANNELS, width, each);
    return bins < FEWEST ? null : { rings: 0, bins, results: { binned: `binned(${bins})` } };
  }
  const { cy, cx } = centre;
  const corner = Math.hypot(Math.max(cy, height - 1 - cy), Math.max(cx, width - 1 - cx));
  const rings = Math.floor(corner) + 1;
  const most = Math.min(BINS, Math.max(height, width));
  const withRings = each >= rings + 8 * 8;
  const bins = Math.min(most, Math.floor(Math.sqrt(withRings ? each - rings : each)));
  if (bins < Math.min(FEWEST, most)) return null;
  const results = { binned: `binned(${bins})` };
  if (withRings) results.radial = `radial_sum(${cy}, ${cx}, ${rings})`;
  return { rings: withRings ? rings : 0, bins, results };
}

/** A summary that fills, and previews from it. */
export class Summary {
  /**
   * @param {number} positions of the scan.
   * @param {[number, number]} size of a frame, pixels.
   * @param {?{cy: number, cx: number}} centre of the rings.
   * @param {{rings: number, bins: number}} planned what `plan` has returned.
   */
  constructor(positions, size, centre, planned) {
    this.positions = positions;
    this.size = size;
    this.centre = centre;
    this.rings = planned.rings;
    this.most = planned.bins;
    this.complete = false;
    this.radial = this.rings ? new Float32Array(positions * (this.rings + 1)) : null;
    this.binned = null;
  }

  /**
   * Take rows of a computation.
   *
   * @param {number} first position.
   * @param {Object<string, {data: TypedArray, shape: number[]}>} values "radial" and "binned".
   */
  take(first, { radial, binned }) {
    if (radial && this.radial) this._addRings(first, radial);
    this.grid ??= binned.shape.slice(-2);
    this.binned ??= new Float32Array(this.positions * this.grid[0] * this.grid[1]);
    this.binned.set(binned.data, first * this.grid[0] * this.grid[1]);
  }

  /** Keep sums from the centre outwards: any ring is then a difference of two. */
  _addRings(first, { data, shape }) {
    const rings = shape[shape.length - 1];
    const count = data.length / rings;
    for (let p = 0; p < count; p++) {
      const to = (first + p) * (this.rings + 1);
      let sum = 0;
      for (let k = 0; k < this.rings; k++) {
        this.radial[to + k] = sum;
        sum += k < rings ? data[p * rings + k] : 0;
      }
      this.radial[to + this.rings] = sum;
    }
  }

  /**
   * Make a preview.
   *
   * @param {Object} shape a detector.
   * @returns {?Float64Array} float64[positions], or [positions * 2] (y, x) for centres of mass; null: cannot.
   */
  preview(shape) {
    if (!this.complete) return null;
    const near = "cy" in shape && Math.hypot(shape.cy - this.centre.cy, shape.cx - this.centre.cx) < 0.75;
    if (shape.kind === "radial") {
      const held = this._mask(shape);
      return this._means(near && this.radial && shape.ratio === 1 ? this._fromRings(shape) : this._fromBins(held), held);
    }
    if (near && this.radial && shape.kind !== "com") return this._fromRings(shape);
    const mask = this._mask(shape);
    return shape.kind === "com" ? this._centres(shape, mask) : this._fromBins(mask);
  }

  /** @returns {Float64Array} means of sums: of pixels, about, that lie in a shape. */
  _means(sums, { at, part }) {
    const bin = this.bin();
    const [height, width] = this.size;
    const columns = this.grid[1];
    const of = (k, size) => Math.min(bin, size - k * bin);
    const count = at.reduce((sum, k, i) => sum + part[i] * of(Math.floor(k / columns), height) * of(k % columns, width), 0);
    return sums.map((sum) => sum / count);
  }

  _fromRings(shape) {
    const out = new Float64Array(this.positions);
    const [from, to] = ("r1" in shape ? [shape.r0, shape.r1] : [0, shape.r]).map((r) =>
      Math.min(r, this.rings),
    );
    const [a, b] = [Math.min(this.rings - 1, Math.floor(from)), Math.min(this.rings - 1, Math.floor(to))];
    const [u, v] = [from - a, to - b];
    const width = this.rings + 1;
    for (let p = 0, i = 0; p < out.length; p++, i += width) {
      const radial = this.radial;
      const low = radial[i + a] + u * (radial[i + a + 1] - radial[i + a]);
      out[p] = radial[i + b] + v * (radial[i + b + 1] - radial[i + b]) - low;
    }
    return out;
  }

  /** @returns {{at: Int32Array, part: Float32Array}} bins that a shape touches, and how much of each lies in it. */
  _mask(shape) {
    const [rows, columns] = this.grid;
    const [height, width] = this.size;
    const bin = this.bin();
    const step = Math.max(1, Math.floor(bin / 8));
    const isIn = inside(shape);
    const at = [];
    const part = [];
    for (let k = 0; k < rows * columns; k++) {
      const [top, left] = [Math.floor(k / columns) * bin, (k % columns) * bin];
      let [hits, all] = [0, 0];
      for (let y = top; y < Math.min(height, top + bin); y += step) {
        for (let x = left; x < Math.min(width, left + bin); x += step) {
          all += 1;
          hits += isIn(y, x);
        }
      }
      if (!hits) continue;
      at.push(k);
      part.push(hits / all);
    }
    return { at: Int32Array.from(at), part: Float32Array.from(part) };
  }

  /** @returns {number} pixels in a bin, along y and x. */
  bin() {
    return Math.ceil(Math.max(...this.size) / this.most);
  }

  _fromBins({ at, part }) {
    const out = new Float64Array(this.positions);
    const width = this.grid[0] * this.grid[1];
    for (let p = 0, i = 0; p < out.length; p++, i += width) {
      let sum = 0;
      for (let k = 0; k < at.length; k++) sum += part[k] * this.binned[i + at[k]];
      out[p] = sum;
    }
    return out;
  }

  _centres({ cy, cx }, { at, part }) {
    const out = new Float64Array(this.positions * 2);
    const columns = this.grid[1];
    const width = this.grid[0] * columns;
    const bin = this.bin();
    const ys = Float32Array.from(at, (k) => (Math.floor(k / columns) + 0.5) * bin - 0.5 - cy);
    const xs = Float32Array.from(at, (k) => ((k % columns) + 0.5) * bin - 0.5 - cx);
    for (let p = 0, i = 0; p < this.positions; p++, i += width) {
      let [sum, y, x] = [0, 0, 0];
      for (let k = 0; k < at.length; k++) {
        const weight = part[k] * this.binned[i + at[k]];
        sum += weight;
        y += weight * ys[k];
        x += weight * xs[k];
      }
      out[2 * p] = y / sum;
      out[2 * p + 1] = x / sum;
    }
    return out;
  }
}
