/**
 * What is drawn with a spectrum: backgrounds below windows, spectra that are kept beside it, marks of elements.
 */

import { before, energies, fitted } from "./background.js";
import { marks, symbols } from "./elements.js";
import { placeText } from "./takespectra.js";

const COLOURS = ["#b388ff", "#ff8a65", "#4dd0c8", "#d4b106"]; // of spectra that are kept
const BEYOND = 0.5; // a background goes on so far behind its window, as a share of both
const EDS = 8000; // eV: spectra that reach further are of X-rays
const NOISE = 200; // eV, below which detectors of X-rays count their own noise
const PEAK = 200; // eV that a peak of X-rays is wide, about
const EDGE = 40; // eV of an energy loss above an edge that a window on it holds
const FARTHEST = 20_000; // eV, beyond which detectors of X-rays see little: the next line is taken
const MAIN = { lines: ["Kα", "Lα", "Mα"], edges: ["K", "L3", "M5", "N5"] }; // of an element: the first one that the spectra hold
const EV = { eV: 1, keV: 1000, meV: 0.001 };

/** What marks stand for. */
export const KINDS = { edges: "edges", lines: "X-ray lines" };

export class Spectra {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.begin();
  }

  /** Begin anew, as for another array. */
  begin() {
    this.kept = [];
  }

  /** @returns {number} eV in the unit of the energies; 0: they are none. */
  get unit() {
    return EV[this.viewer.frame.axis?.unit] || 0;
  }

  /** @returns {string} what marks stand for: "edges" or "lines"; spectra that reach far have lines. */
  get kind() {
    const { frame, frames, view } = this.viewer;
    if (view.marks || !frame.axis || !frames) return view.marks || "edges";
    const { scale, offset } = frame.axis;
    return ((offset || 0) + scale * Math.max(...frames.size)) * this.unit > EDS ? "lines" : "edges";
  }

  /** True for spectra of X-rays: those of a single position hold a few counts. */
  get sparse() {
    return this.unit > 0 && this.kind === "lines";
  }

  /** @returns {number} samples at the beginning of spectra in which detectors of X-rays count their own noise. */
  get noise() {
    if (!this.sparse) return 0;
    const { scale, offset } = this.viewer.frame.axis;
    return Math.max(0, (NOISE / this.unit - (offset || 0)) / scale);
  }

  /** @returns {?{at: number, half: number}} the highest peak of X-rays that is shown, and half the width of one, samples. */
  peak() {
    const { shown, axis } = this.viewer.frame;
    if (!this.sparse || !shown.data || shown.shape.length > 1) return null;
    const first = Math.min(shown.data.length - 1, Math.ceil(this.noise / shown.bin));
    let at = first;
    for (let x = first; x < shown.data.length; x++) if (shown.data[x] > shown.data[at]) at = x;
    return shown.data[at] > 0 ? { at: at * shown.bin, half: Math.max(1, PEAK / 2 / this.unit / axis.scale) } : null;
  }

  /** @returns {string} the name of spectra: of energy losses or of others. */
  get word() {
    return this.unit && this.kind === "edges" ? "energy loss" : "energy";
  }

  /** Mark elements. @param {string} text symbols. @throws {Error} one is none. */
  mark(text) {
    this.viewer.view.elements = symbols(text).join(" ");
    this._again();
  }

  setKind(kind) {
    this.viewer.view.marks = kind;
    this._again();
  }

  _again() {
    this.viewer.update();
    this.viewer.changed();
  }

  /** @returns {Array<{x: number, text: string}>} marks, in samples, from left to right. */
  marks() {
    const { frame, view } = this.viewer;
    if (!view?.elements || !this.unit || frame.kind !== "plot") return [];
    const { scale, offset } = frame.axis;
    const at = (energy) => (energy / this.unit - (offset || 0)) / scale;
    return marks(view.elements.split(" "), this.kind)
      .map(({ text, energy }) => ({ text, x: at(energy) }))
      .filter(({ x }) => x >= 0 && x < frame.shown.size[1])
      .sort((a, b) => a.x - b.x);
  }

  /** Have a window on each marked element, with a background below edges. */
  windows() {
    const { viewer } = this;
    const wanted = viewer.view.elements.split(" ");
    const made = wanted.map((symbol) => this._windowOn(symbol));
    const missing = wanted.filter((_, k) => !made[k]);
    if (missing.length) viewer.told(`These spectra hold no main line or edge of ${missing.join(", ")}.`);
    if (missing.length < wanted.length) viewer.detecting.start(made.filter(Boolean), 0);
  }

  /** @returns {?{shape: Object, fit: ?Object}} a window on the main line or edge of an element, with its background. */
  _windowOn(symbol) {
    const { frame, images } = this.viewer;
    const { scale, offset } = frame.axis;
    const size = images.size[1];
    const sample = (energy) => (energy / this.unit - (offset || 0)) / scale;
    const wide = (energies) => Math.max(1, energies / this.unit / scale);
    const [below, above] = this.kind === "lines" ? [wide(PEAK / 2), wide(PEAK / 2)] : [0, wide(EDGE)];
    const known = marks([symbol], this.kind).filter(({ energy }) => this.kind === "edges" || energy < FARTHEST);
    const main = MAIN[this.kind].map((name) => known.find(({ text }) => text === `${symbol} ${name}`));
    const found = main.find((mark) => mark && sample(mark.energy) >= this.noise && sample(mark.energy) + above < size);
    if (!found) return null;
    const [x0, x1] = [Math.max(this.noise, sample(found.energy) - below), sample(found.energy) + above].map(Math.round);
    const shape = { kind: "rectangle", y0: 0, x0, y1: 1, x1: x1 + 1 };
    return { shape, fit: this.kind === "edges" ? before(shape, "power", size) : null };
  }

  /** @returns {string} the marked element whose main line or edge a window holds, "Fe Kα"; "": none, or several. */
  markIn({ x0, x1 }) {
    const main = this.marks().filter(({ x, text }) => x >= x0 - 0.5 && x < x1 - 0.5 && MAIN[this.kind].includes(text.split(" ")[1]));
    return new Set(main.map(({ text }) => text.split(" ")[0])).size === 1 ? main[0].text : "";
  }

  /** Keep the spectrum that is shown, to compare others with it; the first is left out where there are too many. */
  keep() {
    const { shown, kind, view } = this.viewer.frame;
    if (kind !== "plot" || !shown.data || shown.shape.length > 1) return;
    const { selection } = this.viewer.view;
    const [y, x] = this.viewer.position() || [0, 0];
    const place = selection || { kind: "rectangle", y0: y, x0: x, y1: y + 1, x1: x + 1 };
    if (this.kept.length === COLOURS.length) this.kept.shift();
    const colour = COLOURS.find((one) => this.kept.every((other) => other.colour !== one));
    this.kept.push({ colour, data: shown.data.slice(), bin: shown.bin, place, under: true });
    this.curves();
    view.draw();
    this.viewer.update();
  }

  /** Leave out all that were kept. */
  clear() {
    this.kept = [];
    this.curves();
    this.viewer.update();
  }

  /** @returns {Object} where in the scan kept spectra are of, as shapes to draw. */
  places() {
    return {
      channels: this.kept.map(({ place }) => ({ shape: place })),
      active: -1,
      colours: this.kept.map(({ colour }) => colour),
    };
  }

  /** @returns {Array<{name: string, data: TypedArray, bin: number}>} the lines beside the spectrum, as people call them. */
  named(panel) {
    const { detecting, frame, showing } = this.viewer;
    if (panel !== frame || !this.viewer.scanned) return [];
    const fits = detecting.channels.flatMap((one, k) => {
      const window = one.fit && showing.window(one.shape);
      return this._fits(one, k).map(({ data }, which) => ({ name: `${which ? "above background" : "background"} of ${window || `window ${k + 1}`}`, data, bin: 1 }));
    });
    return [...this.kept.map(({ data, bin, place }) => ({ name: `kept: ${placeText(place)}`, data, bin })), ...fits];
  }

  /** Give the plot its other lines. */
  curves() {
    const { frame, detecting } = this.viewer;
    if (frame.kind !== "plot" || !frame.view) return;
    frame.view.others = [...this.kept, ...detecting.channels.flatMap((one, k) => this._fits(one, k))];
  }

  /** @returns {Object[]} lines of a background and of what is left above it. */
  _fits({ shape, fit }, k) {
    const { shown, axis } = this.viewer.frame;
    if (!fit || !shown.data || shown.bin !== 1 || shown.shape.length > 1) return [];
    const size = shown.size[1];
    const middle = (fit.from + fit.to) / 2;
    const sum = (from, to) => shown.data.subarray(from, to).reduce((a, b) => a + b, 0);
    const { value } = fitted(fit, sum(fit.from, middle), sum(middle, fit.to), energies(axis, size));
    const end = Math.min(size, Math.round(shape.x1 + BEYOND * (shape.x1 - fit.from)));
    const [below, left] = [new Float64Array(size).fill(NaN), new Float64Array(size).fill(NaN)];
    for (let x = fit.from; x < end; x++) below[x] = value(x);
    for (let x = fit.to; x < end; x++) left[x] = shown.data[x] - below[x];
    const colour = this.viewer.colours()[k];
    return [
      { data: below, bin: 1, colour, dash: [5, 4] },
      { data: left, bin: 1, colour },
    ];
  }
}
