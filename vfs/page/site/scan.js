/**
 * Gets images of the scan: coarse first, then row by row, then kept; and a summary for previews.
 */

import * as api from "./api.js";
import { toText } from "./detectors.js";
import { Kept, Latest } from "./latest.js";
import { Summary, plan } from "./preview.js";

const MOST = 1 << 26; // positions of a picture: its numbers take 512 MiB in the browser
const KEPT = [48, 64 << 20]; // images, bytes
const OFTEN = 80; // ms between two pictures while rows come: drawing takes time from what computes
const SETTLED = 150; // ms without a change before an image is computed exactly

export class ScanImages {
  /**
   * @param {Object} array as the API describes it, with the key of its set as `set`.
   * @param {function(Object)} shown called with {parts, status, part}: of each detector {detector, text, data, shape},
   *   numbers of the whole picture, one for each position, or y and x for centres of mass.
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
    this._filling = null; // parts of images on their way
    this._done = 0; // share of them that is there
    this._before = new Map(); // text -> numbers of an image that was made before more frames came
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
   * Show the images of detectors.
   *
   * @param {Object[]} detectors shapes.
   * @param {boolean} [dragging] true: the next ones are near; only previews are made before they settle.
   */
  want(detectors, dragging = false) {
    const parts = detectors.map((detector) => {
      const [text, shape] = [toText(detector), this.shapeOf(detector)];
      const kept = this._kept.get(`${this.within} ${text}`);
      return { detector, text, shape, data: kept?.data ?? this.summary?.preview(detector) ?? null, exact: Boolean(kept), about: kept?.about };
    });
    if (parts.every((part) => part.exact)) {
      this._image.stop();
      this.shown({ parts, status: parts.find((part) => part.about)?.about || "exact", part: 1 });
      this._summarise();
      return;
    }
    const ready = parts.every((part) => part.data);
    if (ready) this.shown({ parts, status: "preview", part: 1 });
    else this.shown({ waiting: true }); // what is shown is not what is wanted any more
    const work = (signal) => this._compute(parts, ready, signal).finally(() => this._filling === parts && (this._filling = null));
    this._image.run(work, dragging ? SETTLED : 0);
  }

  /**
   * Fill in about the sum of a large frame that is on the screen, where the image of all sums has no number yet: it is
   * made of the means that stand for the frame.
   */
  glimpse({ at, data, size, shape }) {
    const { nav, where } = this.array;
    const place = at.slice(nav - this.axes, nav).reduce((flat, index, axis) => flat * this.shape[axis] + index, 0);
    if (!this._filling || where.length !== nav || String(at.slice(0, nav - this.axes)) !== String(this.within)) return;
    const open = this._filling.filter((part) => part.detector.kind === "whole" && Number.isNaN(part.data[place]));
    if (!open.length) return;
    const sum = (data.reduce((a, b) => a + b, 0) / data.length) * size[0] * size[1] * (shape[2] ?? 1);
    for (const part of open) part.data[place] = sum;
    this._say(this._filling);
  }

  /** Show images as far as they are there. */
  _say(parts) {
    this.shown({ parts, status: this._done ? `${Math.floor(100 * this._done)} %` : "preview", part: Math.max(0.01, this._done) });
  }

  /** @returns {number[]} shape of the numbers of a detector's image. */
  shapeOf(detector) {
    return detector.kind === "com" ? [...this.shape, 2] : this.shape;
  }

  /** Compute the images that are not exact, all in one pass. */
  async _compute(parts, ready, signal) {
    this._background.stop();
    if (this.positions > MOST) {
      const many = this.positions.toLocaleString("en");
      throw new Error(`A scan of ${many} positions is too large for a picture here; \`vfs reduce\` makes results of a part of it (--roi).`);
    }
    const made = new Map(parts.filter((part) => !part.exact).map((part) => [part.text, part]));
    const names = [...made.keys()];
    const results = Object.fromEntries(names.map((text, k) => [`r${k}`, text])); // as first_look.py calls the first one
    const each = ({ detector }) => (detector.kind === "com" ? 2 : 1);
    for (const part of parts) {
      if (part.exact) continue;
      const first = made.get(part.text);
      first.data ??= this._before.get(`${this.within} ${part.text}`)?.slice();
      first.data ??= new Float64Array(this.positions * each(part)).fill(NaN);
      part.data = first.data;
    }
    Object.assign(this, { _filling: parts, _done: 0 });
    const wanted = { results, region: null, within: this.within, coarse: !ready };
    let rows = 0;
    let about = ""; // of what images are that are not exact
    let drawn = 0; // when rows were shown last, ms
    for await (const { head, values } of api.compute(this.array.set, this.array.path, wanted, signal)) {
      names.forEach((text, k) => {
        const one = made.get(text);
        if (head.step) spread(values[`r${k}`], head.step, one.data, this.shape, each(one));
        else one.data.set(values[`r${k}`].data, head.first * each(one));
      });
      if (head.step) {
        this.shown({ parts, status: "coarse", part: 0.01 });
        continue;
      }
      about = head.about || "";
      rows += head.count;
      this._done = rows / this.positions;
      if (this._done === 1 || performance.now() - drawn < OFTEN) continue;
      drawn = performance.now();
      this._say(parts);
    }
    if (rows < this.positions) {
      for (const [text, { data }] of made) this._before.set(`${this.within} ${text}`, data);
      this.shown({ parts, status: `${Math.floor((100 * rows) / this.positions)} % written`, part: 1 });
      return;
    }
    for (const [text, { data, shape }] of made) this._kept.set(`${this.within} ${text}`, { data, shape, about });
    this.shown({ parts, status: about || "exact", part: 1 });
    this._summarise();
  }

  /** Make the summary for previews, when nothing else is under way. */
  _summarise() {
    this.summary ??= api.summary();
    if (this.summary || !(this.centre || this.size[0] === 1)) return;
    const planned = plan(this.positions, this.size, this.centre);
    if (!planned) return;
    const wanted = { results: planned.results, region: null, within: this.within, coarse: false };
    this._background.run(async (signal) => {
      const summary = new Summary(this.positions, this.size, this.centre, planned);
      this.summary = summary; // only now: what waits may be stopped before it begins
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

  /** There are more frames by now: what is known of all of them is out of date. */
  grown() {
    this._kept = new Kept(...KEPT);
    this._background.stop();
    this.summary = null;
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
