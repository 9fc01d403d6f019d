/**
 * Lines: arrays of one axis, scans with one axis, profiles.
 *
 * A plot takes the same calls as a `Picture` of height 1: places are (0, x), x in samples of the whole line.
 */

import { el, power, short } from "./dom.js";
import { Picture } from "./picture.js";
import { Path } from "./svg.js";
import { fitting } from "./units.js";

const MARKS = 10; // about so many beside a plot, at most
const MARGIN = { top: 20, right: 16, bottom: 26, left: 56 }; // screen pixels; left is wider for long marks
const DARKER = 0.55; // of a colour, on a light ground: some 4 to 1 against it
const FONT = "11px system-ui, sans-serif";
const MANY = 1e6; // marks are written with powers of ten where they reach it

export class Plot extends Picture {
  left = MARGIN.left; // screen pixels, where the lines begin
  others = []; // more lines: {data, bin, colour, dash, under}, samples as those of the first; `under`: it is drawn below that
  titles = { x: "", y: "" }; // of the axes, without units
  noise = 0; // samples at the beginning that may be higher than the plot

  /**
   * Show a line.
   *
   * @param {TypedArray} data samples; NaN leaves a gap.
   * @param {number[]} shape of one axis; more: a line for each of the last.
   * @param {[number, number]} size 1 and the samples of the whole line.
   * @param {number} bin samples of the whole line in one of the data.
   */
  show(data, shape, size, bin) {
    super.show(data, shape, size, bin);
    this._lines = shape.length > 1 ? shape[1] : 1;
    this._whole = data.every(Number.isInteger); // counts have no marks between them
    this.draw();
  }

  /** @param {{curve: string}} how a contrast; "log" makes the axis logarithmic. */
  colour(how) {
    this.curve = how.curve;
    this.draw();
  }

  paint() {
    this.draw();
  }

  /** @returns {[number, number]} screen pixels for the whole height, and for one sample. */
  scale() {
    const [height, width] = this._inner();
    return [height, (width / Math.max(1, this.size[1])) * this.zoom];
  }

  _inner() {
    return [
      Math.max(1, this.box[0] - MARGIN.top - MARGIN.bottom),
      Math.max(1, this.box[1] - this.left - MARGIN.right),
    ];
  }

  toStage(y, x) {
    const [height, width] = this._inner();
    return [MARGIN.top + (y + 0.5) * height, this.left + width / 2 + (x - this.centre()[1]) * this.scale()[1]];
  }

  toPlace(top, left) {
    const [, width] = this._inner();
    return [0, (left - this.left - width / 2) / this.scale()[1] + this.centre()[1]];
  }

  moveTo(_, x) {
    const half = this.size[1] / 2 / this.zoom;
    this.middle = this.zoom === 1 ? null : [0, Math.max(half - 0.5, Math.min(this.size[1] - 0.5 - half, x))];
    this.draw();
    this.moved();
  }

  value(_, x) {
    if (!this.numbers || x < -0.5 || x >= this.size[1] - 0.5) return undefined;
    const { data, bin } = this.numbers;
    const at = Math.min(data.length / this._lines - 1, Math.floor((Math.round(x) + 0.5) / bin)) * this._lines;
    return this._lines > 1 ? [...data.subarray(at, at + this._lines)] : data[at];
  }

  _draw() {
    this._fit();
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.numbers && this.size[1]) this.drawLines(context);
    this._drawOver();
  }

  /** @returns {Object<string, string>} colours of lines, grid, text, marks and what is below. */
  colours() {
    const style = getComputedStyle(this.stage);
    const names = { line: "text", grid: "faint", text: "quiet", accent: "accent", ground: "stage" };
    return Object.fromEntries(Object.entries(names).map(([name, own]) => [name, style.getPropertyValue(`--${own}`)]));
  }

  /** Draw axes and lines. */
  drawLines(context) {
    const colours = this.colours();
    const { data, bin } = this.numbers;
    context.font = FONT;
    const long = Math.max(...this._seen().marks.map((mark) => context.measureText(mark.text).width));
    this.left = Math.max(MARGIN.left, 12 * Math.ceil((long + 14) / 12)); // in steps: it stays while frames are played
    const { from, to, lo, hi, log, marks, power } = this._seen();
    const [height, width] = this._inner();
    const up = (value) => (log ? Math.log10(Math.max(value, lo / 10)) : value); // what is not above 0 lies below the axis
    const across = (value) => MARGIN.top + height * (1 - (up(value) - up(lo)) / (up(hi) - up(lo)));
    this._drawAxes(context, colours, { marks, power }, across);
    context.save();
    this.clip(context);
    const more = (under) => {
      for (const one of this.others.filter((other) => Boolean(other.under) === under)) {
        context.strokeStyle = readable(one.colour, colours.ground);
        context.setLineDash(one.dash || []);
        context.lineWidth = 1.5;
        context.stroke(this._path(one.data, 0, Math.floor((from * bin) / one.bin), Math.ceil((to * bin) / one.bin), one.bin, across, 1));
      }
    };
    more(true);
    for (let line = 0; line < this._lines; line++) {
      context.strokeStyle = colours.line;
      context.globalAlpha = line ? 0.5 : 1;
      context.setLineDash(line ? [4, 3] : []);
      context.lineWidth = 1.25;
      context.stroke(this._path(data, line, from, to, bin, across));
    }
    context.globalAlpha = 1;
    more(false);
    context.setLineDash([]);
    context.restore();
  }

  /** Draw nothing but what lies between both ends of the axis, and above it, until the context is restored. */
  clip(context) {
    const [height, width] = this._inner();
    context.beginPath();
    context.rect(this.left, 0, width, MARGIN.top + height);
    context.clip();
  }

  /** Find the samples that are seen, half-open, the values from bottom to top, and the marks beside them. */
  _seen() {
    const { data, bin } = this.numbers;
    const [, width] = this._inner();
    const from = Math.max(0, Math.floor((this.toPlace(0, this.left)[1] + 0.5) / bin));
    const to = Math.min(data.length / this._lines, Math.ceil((this.toPlace(0, this.left + width)[1] + 0.5) / bin));
    const [lo, hi] = this._range(from, to);
    const log = this.curve === "log" && hi > 0;
    const about = Math.max(2, Math.min(MARKS, this.box[0] / 50));
    const values = log ? logTicks(lo, hi, about) : ticks(lo, hi, about, this._whole ? 1 : 0).map((value) => ({ value, named: true }));
    const named = values.filter((one) => one.named).map((one) => one.value);
    const { texts, power } = log ? { texts: named.map((value) => plain(value, named.at(-1))), power: "" } : labelled(named);
    const marks = values.map(({ value, named: has }) => ({ value, text: has ? texts[named.indexOf(value)] : "" }));
    return { from, to, lo, hi, log, marks, power };
  }

  /** Follow a line; where many samples share a column of the screen, from their least to their most. */
  _path(data, line, from, to, bin, across, lines = this._lines) {
    const path = new Path();
    const step = Math.max(1, Math.floor((to - from) / (this.box[1] * 2)));
    let on = false;
    for (let i = from; i < to; i += step) {
      let [least, most] = [Infinity, -Infinity];
      for (let k = i; k < Math.min(to, i + step); k++) {
        const value = data[k * lines + line];
        if (value < least) least = value;
        if (value > most) most = value;
      }
      if (!Number.isFinite(least) || !Number.isFinite(most)) {
        on = false;
        continue;
      }
      const left = this.toStage(0, (i + step / 2) * bin - 0.5)[1];
      if (on) path.lineTo(left, across(least));
      else path.moveTo(left, across(least));
      if (!on && to - from === 1) path.circle(left, across(least), 2);
      if (most > least) path.lineTo(left, across(most));
      on = true;
    }
    return path;
  }

  _range(from, to) {
    const { data, bin } = this.numbers;
    let [lo, hi, positive] = [Infinity, -Infinity, Infinity];
    const look = (values, first, last) => {
      for (let i = first; i < Math.min(last, values.length); i++) {
        const value = values[i];
        if (!Number.isFinite(value)) continue;
        if (value < lo) lo = value;
        if (value > hi) hi = value;
        if (value > 0 && value < positive) positive = value;
      }
    };
    const quiet = Math.max(from, Math.min(to, Math.ceil(this.noise / bin)));
    look(data, quiet * this._lines, to * this._lines);
    if (!(hi > 0)) look(data, from * this._lines, quiet * this._lines);
    const [own, least] = [hi, positive];
    for (const one of this.others) look(one.data, Math.floor((quiet * bin) / one.bin), Math.ceil((to * bin) / one.bin));
    if (lo > hi) return [0, 1];
    if (this.curve === "log" && hi > 0) return [Math.min(own > 0 ? least : positive, hi / 2), hi * 1.15];
    const room = (hi - lo) * 0.04;
    if (hi > lo) return [lo - room, hi + room];
    const around = Math.abs(lo) / 2 || 1; // a constant
    return [lo - around, lo + around];
  }

  _drawAxes(context, colours, { marks, power }, across) {
    const [, width] = this._inner();
    context.fillStyle = colours.text;
    context.strokeStyle = colours.grid;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const { value, text } of marks) {
      const y = Math.round(across(value)) + 0.5;
      context.globalAlpha = text ? 0.4 : 0.2;
      context.beginPath();
      context.moveTo(this.left, y);
      context.lineTo(this.left + width, y);
      context.stroke();
      context.globalAlpha = 1;
      context.fillText(text, this.left - 8, y);
    }
    const above = [this.titles.y, this.titles.y && power ? `(${power})` : power].filter(Boolean).join(" ");
    if (above) {
      context.textAlign = "left";
      context.fillText(above, this.left, MARGIN.top / 2 - 2); // beside the marks, above the lines
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const axis = { scale: 1, offset: 0, ...this.axis };
    const { factor, unit } = fitting(Math.abs(axis.scale) * this.size[1], axis.unit);
    const [scale, offset] = [axis.scale * factor, (axis.offset || 0) * factor];
    const [first, last] = [this.left, this.left + width].map((left) => this.toPlace(0, left)[1] * scale + offset);
    const all = ticks(Math.min(first, last), Math.max(first, last), Math.max(2, width / 70));
    const along = labelled(all);
    const own = [along.power, unit].filter(Boolean).join(" ");
    const title = [this.titles.x, own && (this.titles.x ? `(${own})` : own)].filter(Boolean).join(" ");
    const beside = (text) => {
      const end = text ? this.left + width - context.measureText(text).width - 24 : Infinity;
      return all.map((value) => ({ value, left: this.toStage(0, (value - offset) / scale)[1] })).filter(({ left }) => left < end);
    };
    const named = [title, own && `(${own})`, ""].find((text) => beside(text).length > 1) ?? title; // two marks say more than a name
    const foot = this.box[0] - MARGIN.bottom;
    for (const { value, left } of beside(named)) {
      context.globalAlpha = 0.4;
      context.beginPath();
      context.moveTo(Math.round(left) + 0.5, foot);
      context.lineTo(Math.round(left) + 0.5, foot + 4);
      context.stroke();
      context.globalAlpha = 1;
      context.fillText(along.texts[all.indexOf(value)], left, foot + 8);
    }
    context.textAlign = "right";
    context.fillText(named, this.left + width, foot + 8);
  }
}

/** @returns {string} a colour of a line, darker on a light ground: "#b388ff", "rgb(40 210 60)". */
export function readable(colour, ground) {
  const parts = (text) =>
    text.includes("#") ? text.match(/[\da-f]{2}/gi).map((two) => parseInt(two, 16)) : text.match(/\d+/g).map(Number);
  const light = parts(ground).reduce((a, b) => a + b) > (3 * 255) / 2;
  return light ? `rgb(${parts(colour).map((n) => Math.round(n * DARKER)).join(" ")})` : colour;
}

/** @returns {number[]} round numbers from lo to hi, about so many, no nearer to each other than `least`. */
export function ticks(lo, hi, about, least = 0) {
  const rough = (hi - lo) / about;
  if (!(rough > 0) || !Number.isFinite(rough)) return [lo];
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 5, 10].find((n) => n * ten >= rough) * ten);
  const out = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k++)
    out.push(Number((k * step).toPrecision(12)));
  return out;
}

/**
 * Write the marks of an axis: very large and small numbers in powers of ten that all have in common.
 *
 * @param {number[]} values
 * @returns {{texts: string[], power: string}} power: "×10⁸"; "" where numbers are written as they are.
 */
export function labelled(values) {
  const most = Math.max(...values.map(Math.abs));
  if (!(most >= MANY || (most > 0 && most < 1e-3))) return { texts: values.map((value) => short(value, 7)), power: "" };
  const ten = Math.floor(Math.log10(most) + 1e-9);
  return { texts: values.map((value) => short(Number((value / 10 ** ten).toPrecision(12)), 7)), power: power(ten) };
}

/** Write a mark of a logarithmic axis. @param {number} most the largest mark: those beside it are written as it is. */
function plain(value, most) {
  if (!(most >= MANY && value >= 1e3) && value >= 1e-3) return String(value);
  const [number, ten] = value.toExponential().split("e");
  return `${number}${power(Number(ten))}`.replace(/^1×/, "");
}

/**
 * Find marks of a logarithmic axis.
 *
 * @returns {Array<{value: number, named: boolean}>} powers of ten; over few decades also 2 and 5 times these, and all
 *   multiples without a name; over less than one the marks of a linear axis.
 */
export function logTicks(lo, hi, about) {
  const wide = Math.log10(hi / lo);
  if (wide < 1) return ticks(lo, hi, about).map((value) => ({ value, named: true })).filter(({ value }) => value > 0);
  const every = Math.max(1, Math.ceil(wide / about));
  const close = wide < about / 2.5 ? [1, 2, 5] : [1];
  const out = [];
  for (let k = Math.floor(Math.log10(lo)); k <= Math.log10(hi); k++) {
    for (let n = 1; n < 10; n++) {
      const value = Number((n * 10 ** k).toPrecision(12));
      if (value < lo || value > hi || (n > 1 && every > 1)) continue;
      out.push({ value, named: close.includes(n) && k % every === 0 });
    }
  }
  return out;
}

/**
 * Read numbers along a line.
 *
 * @param {Picture} picture with numbers of one value a pixel.
 * @param {[number, number]} from place, pixels.
 * @param {[number, number]} to place, pixels.
 * @returns {Float64Array} one number a pixel along the line, each between its four neighbours; NaN outside.
 */
export function along(picture, from, to, numbers = picture.numbers) {
  const { data, shape, bin, from: [top, left] = [0, 0] } = numbers;
  const count = Math.max(2, Math.round(Math.hypot(to[0] - from[0], to[1] - from[1])) + 1);
  const out = new Float64Array(count).fill(NaN);
  const get = (y, x) =>
    data[Math.max(0, Math.min(shape[0] - 1, y)) * shape[1] + Math.max(0, Math.min(shape[1] - 1, x))];
  for (let i = 0; i < count; i++) {
    const t = i / (count - 1);
    const [wy, wx] = [from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])];
    if (!picture.holds(wy, wx)) continue;
    const [y, x] = [(wy - top + 0.5) / bin - 0.5, (wx - left + 0.5) / bin - 0.5];
    const [iy, ix] = [Math.floor(y), Math.floor(x)];
    const [v, u] = [y - iy, x - ix];
    out[i] =
      (1 - v) * mixed(get(iy, ix), get(iy, ix + 1), u) + (v ? v * mixed(get(iy + 1, ix), get(iy + 1, ix + 1), u) : 0);
  }
  return out;
}

function mixed(a, b, u) {
  return u ? a + u * (b - a) : a;
}

/**
 * A small plot below a picture, for a profile.
 *
 * @returns {{element: HTMLElement, show: function(Float64Array, ?Object, ?Object)}} `show` takes numbers, their axis, titles of axes.
 */
export function strip(label) {
  const element = el("div.profile", { role: "group", "aria-label": label, hidden: true });
  let plot = null;
  return {
    element,
    show(values, axis, titles = { x: "", y: "" }) {
      plot ??= new Plot(element, `${label.toLowerCase().replaceAll(" ", "-")}`, label);
      Object.assign(plot, { axis, titles });
      plot.show(values, [values.length], [1, values.length], 1);
    },
    numbers: () => plot?.numbers?.data ?? null,
  };
}
