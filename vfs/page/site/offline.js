/**
 * Answers as the server does, from what is in the page: for a page that was exported as one file (`vfs export
 * scan.hdr scan.html`). The scan is there in coarse bins, of which images and frames are made; images of some detectors
 * are there as vfs has computed them, of all pixels.
 */

import { fromText, inside } from "./detectors.js";
import { Summary } from "./preview.js";

const KINDS = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };

/** @returns {Promise<TypedArray>} numbers from text: gzip, base64. */
async function unpacked({ dtype, gzip }) {
  const bytes = Uint8Array.from(atob(gzip), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new KINDS[dtype](await new Response(stream).arrayBuffer());
}

export class Offline {
  /** @param {Object} known what `vfs.page.mail` has written. */
  constructor(known) {
    this.known = known;
    const { shape, picture } = known.array;
    const sizes = picture.map((axis) => shape[axis]);
    this.size = sizes.length === 2 ? sizes : [1, sizes[0]];
    this.scan = shape.slice(0, 2);
    this.positions = this.scan[0] * this.scan[1];
    this._ready = null;
  }

  /** @returns {Promise<Summary>} the bins. */
  ready() {
    this._ready ??= this._read();
    return this._ready;
  }

  async _read() {
    const { bins, centre } = this.known;
    const summary = new Summary(this.positions, this.size, centre, { rings: 0, bins: bins.most });
    summary.take(0, { binned: { data: await unpacked(bins), shape: bins.shape } });
    summary.complete = true;
    this.summary = summary;
    return summary;
  }

  /** @returns {number[]} shape of a frame of bins. */
  get _grid() {
    return this.known.bins.shape.length === 2 && this.known.array.shown === 2 ? this.known.bins.shape : [this.known.bins.shape.at(-1)];
  }

  /** @returns {Float32Array} of each bin, how many pixels it has. */
  _counts() {
    const [rows, columns] = this.summary.grid;
    const bin = this.summary.bin();
    const of = (k, size) => Math.min(bin, size - k * bin);
    return Float32Array.from({ length: rows * columns }, (_, k) =>
      of(Math.floor(k / columns), this.size[0]) * of(k % columns, this.size[1]),
    );
  }

  /** @returns {Promise<Object>} see `api.frame`: means of bins. */
  async frame(at) {
    const summary = await this.ready();
    const counts = this._counts();
    const first = (at[0] * this.scan[1] + at[1]) * counts.length;
    const data = counts.map((count, k) => summary.binned[first + k] / count);
    return { data, shape: this._grid, bin: summary.bin(), rounded: this.known.bins.rounded };
  }

  /** See `api.compute`. `head.about` says of what results are that are not exact. */
  async *compute({ results, region }) {
    const summary = await this.ready();
    const { rounded } = this.known.bins;
    const about = summary.bin() > 1 ? `of bins of ${summary.bin()} pixels` : rounded ? "of rounded numbers" : "";
    if (/^(mean|sum|max|std)\(\)$/.test(Object.values(results)[0])) {
      const data = this._pattern(Object.values(results)[0].slice(0, -2), region);
      const shape = this._grid;
      yield { head: { exact: true, stored: true, bin: summary.bin(), rounded }, values: { frame: { data, shape } } };
      return;
    }
    const values = {};
    let known = true;
    for (const [name, text] of Object.entries(results)) {
      const image = this.known.images[text];
      known &&= Boolean(image);
      values[name] = image
        ? { data: await unpacked(image), shape: image.shape }
        : { data: summary.preview(fromText(text)), shape: this.scan };
    }
    yield { head: { first: 0, count: this.positions, about: known ? "" : about }, values };
  }

  /** @returns {Float64Array} mean, sum, maximum or standard deviation of the frames of positions, of bins. */
  _pattern(how, region) {
    const counts = this._counts();
    const isIn = region ? regionOf(region) : () => true;
    const [sum, square, most] = [0, 0, -Infinity].map((value) => new Float64Array(counts.length).fill(value));
    let frames = 0;
    for (let p = 0; p < this.positions; p++) {
      if (!isIn(Math.floor(p / this.scan[1]), p % this.scan[1])) continue;
      frames += 1;
      for (let k = 0; k < counts.length; k++) {
        const value = this.summary.binned[p * counts.length + k] / counts[k];
        sum[k] += value;
        square[k] += value * value;
        if (value > most[k]) most[k] = value;
      }
    }
    if (how === "sum") return sum;
    if (how === "max") return most;
    if (how === "mean") return sum.map((value) => value / frames);
    return sum.map((value, k) => Math.sqrt(Math.max(0, square[k] / frames - (value / frames) ** 2)));
  }
}

/** @returns {function(number, number): boolean} which positions a region of the API has. */
function regionOf(region) {
  const [[kind, numbers]] = Object.entries(region);
  const names = { rectangle: ["y0", "x0", "y1", "x1"], disk: ["cy", "cx", "r"], point: ["y", "x"], polygon: ["y", "x"] }[kind];
  return inside({ kind, ...Object.fromEntries(names.map((name, k) => [name, numbers[k]])) });
}
