/**
 * Gets images of the scan: coarse first, then row by row, then kept; and a summary for previews.
 */

import * as api from "./api.js";
import { toText } from "./detectors.js";
import { Kept, Latest } from "./latest.js";
import { Summary, plan } from "./preview.js";

const KEPT = [24, 64 << 20]; // images, bytes
const OFTEN = 80; // ms between two pictures while rows come: drawing takes time from what computes
const SETTLED = 150; // ms without a change before an image is computed exactly

export class ScanImages {
  /**
   * @param {Object} array as the API describes it, with the key of its set as `set`.
   * @param {function(Object)} shown called with {data, shape, status, part, detector}: numbers of the whole picture,
   *   one for each position, or y and x for centres of mass.
   * @param {function(Error)} failed
   */
  constructor(array, shown, failed) {
    Object.assign(this, { array, shown, failed, summary: null, centre: null });
    this.axes = Math.min(2, array.nav);
    /** Shape of the scan's picture: the last two scan axes, or the only one. */
    this.shape = array.shape.slice(array.nav - this.axes, array.nav);
    this.positions = this.shape.reduce((a, b) => a * b, 1);
    this.within = [];
    this._kept = new Kept(...KEPT);
    this._image = new Latest(failed);
    this._background = new Latest(() => this.noSummary());
    this.noSummary = () => {};
  }

  /** Height and width of a frame; a line is one row. */
  get size() {
    return this.array.shown === 1 ? [1, ...this.array.shape.slice(-1)] : this.array.shape.slice(-2);
  }

  /**
   * Find the bright-field disk in the mean of a few frames.
   *
   * @param {AbortSignal} [signal]
   * @returns {Promise<{cy: number, cx: number, r: number}>} pixels.
   */
  async findCentre(signal) {
    this.centre = await api.centre(this.array.set, this.array.path, this.within, signal);
    return this.centre;
  }

  /**
   * Look at another part of a scan of more than two axes.
   *
   * @param {number[]} within indices of the scan axes before the last two.
   */
  go(within) {
    if (String(within) === String(this.within)) return;
    this.within = within;
    this.summary = null;
    this._background.stop();
  }

  /**
   * Show the image of a detector.
   *
   * @param {Object} detector a shape.
   * @param {boolean} [dragging] true: the next one is near; only a preview is made before it settles.
   */
  want(detector, dragging = false) {
    const text = toText(detector);
    const key = `${this.within} ${text}`;
    const kept = this._kept.get(key);
    if (kept) {
      this._image.stop();
      this.shown({ ...kept, detector, status: "exact", part: 1 });
      this._summarise();
      return;
    }
    const preview = this.summary?.preview(detector) ?? null;
    if (preview) this.shown({ data: preview, shape: this.shapeOf(detector), detector, status: "preview", part: 1 });
    else this.shown({ waiting: true }); // what is shown is not what is wanted any more
    this._image.run((signal) => this._compute(detector, text, key, preview, signal), dragging ? SETTLED : 0);
  }

  /** @returns {number[]} shape of the numbers of a detector's image. */
  shapeOf(detector) {
    return detector.kind === "com" ? [...this.shape, 2] : this.shape;
  }

  async _compute(detector, text, key, preview, signal) {
    this._background.stop();
    const shape = this.shapeOf(detector);
    const each = detector.kind === "com" ? 2 : 1;
    const data = preview || new Float64Array(this.positions * each).fill(NaN);
    const wanted = { results: { image: text }, region: null, within: this.within, coarse: !preview };
    let rows = 0;
    let drawn = 0; // when rows were shown last, ms
    for await (const { head, values } of api.compute(this.array.set, this.array.path, wanted, signal)) {
      const image = values.image;
      if (head.step) {
        spread(image, head.step, data, this.shape, each);
        this.shown({ data, shape, detector, status: "coarse", part: 0.01 });
        continue;
      }
      data.set(image.data, head.first * each);
      rows += head.count;
      const part = rows / this.positions;
      if (part < 1 && performance.now() - drawn < OFTEN) continue;
      drawn = performance.now();
      if (part < 1) this.shown({ data, shape, detector, status: `${Math.floor(100 * part)} %`, part });
    }
    this._kept.set(key, { data, shape });
    this.shown({ data, shape, detector, status: "exact", part: 1 });
    this._summarise();
  }

  /** Make the summary for previews, when nothing else is under way. */
  _summarise() {
    if (this.summary || !(this.centre || this.size[0] === 1)) return;
    const planned = plan(this.positions, this.size, this.centre);
    if (!planned) return;
    const summary = new Summary(this.positions, this.size, this.centre, planned);
    this.summary = summary;
    const wanted = { results: planned.results, region: null, within: this.within, coarse: false };
    this._background.run(async (signal) => {
      try {
        for await (const { head, values } of api.compute(this.array.set, this.array.path, wanted, signal)) {
          summary.take(head.first, values);
        }
        summary.complete = true;
      } finally {
        if (!summary.complete && this.summary === summary) this.summary = null;
      }
    }, SETTLED);
  }

  /** Stop everything: another array is looked at. */
  stop() {
    this._image.stop();
    this._background.stop();
    this.summary = null;
  }
}

/**
 * Fill a picture from every step-th position of it.
 *
 * @param {{data: TypedArray, shape: number[]}} coarse
 * @param {number} step positions, along each axis.
 * @param {Float64Array} out float64[positions * each]
 * @param {number[]} shape of the picture: one axis or two.
 * @param {number} each numbers a position.
 */
export function spread(coarse, step, out, shape, each) {
  const [height, width] = shape.length === 2 ? shape : [1, shape[0]];
  const columns = Math.ceil(width / step);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const from = (Math.floor(y / step) * columns + Math.floor(x / step)) * each;
      for (let k = 0; k < each; k++) out[(y * width + x) * each + k] = coarse.data[from + k];
    }
  }
}
