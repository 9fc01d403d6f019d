/**
 * A line profile of a picture: drag a line, and its numbers are shown below, with its length and angle.
 */

import { button, el, short } from "./dom.js";
import { Measured } from "./measured.js";
import { along, strip } from "./plot.js";
import { save } from "./take.js";
import { factorBetween, fitting, symbol } from "./units.js";

const WIDEST = 500; // pixels across
const [NEAREST, FARTHEST] = [0.01, 1000]; // nm or Å between planes

export class Profile extends Measured {
  /** @param {Panel} panel of the picture. @param {Object} how see `Measured`. */
  constructor(panel, how) {
    super(panel, "profileButton", how);
    this.line = null;
    this.values = null;
  }

  make() {
    const { title } = this.panel;
    this.strip = strip(`${title} profile`);
    this.said = el("output.said", { "aria-label": `${title} profile: length and angle` });
    this.width = el("input", {
      type: "number",
      min: 1,
      max: WIDEST,
      value: 1,
      "aria-label": `${title} profile: width in pixels`,
      title: "Pixels across, of which each number is the mean",
      oninput: () => this._changed(),
    });
    this.ends = el("input.shape", {
      type: "text",
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": `${title} profile: ends`,
      title: "Ends of the line: y, x to y, x, in pixels",
      onchange: () => this._typed(),
    });
    this.ends.addEventListener("input", () => this.ends.setCustomValidity(""));
    this.row = el(
      "div.profile-row",
      { hidden: true },
      this.ends,
      this.said,
      el("span.space"),
      el("label.check", {}, "width", this.width),
      button(`${title} profile: numbers as CSV`, "CSV", () => this.take(), { class: "word" }),
    );
  }

  start([height, width]) {
    this.line = { from: [(height - 1) / 2, width * 0.15], to: [(height - 1) / 2, width * 0.85] };
  }

  clear() {
    this.line = this._exact = null;
  }

  /** Take a press in the picture: an end of the line is moved, or a new line drawn. */
  press(place) {
    if (!this.on) return null;
    const { from, to } = this.line;
    const near = 10 / this.panel.view.scale()[1];
    const far = (end) => Math.hypot(end[0] - place[0], end[1] - place[1]);
    const fixed = far(to) <= near ? from : far(from) <= near ? to : place;
    return {
      move: (now) => {
        this.line = { from: fixed, to: now };
        this._changed();
      },
    };
  }

  nudge(dy, dx) {
    const move = ([y, x]) => [y + dy, x + dx];
    this.line = { from: move(this.line.from), to: move(this.line.to) };
    this._changed();
  }

  /** Make the line longer at its end, by pixels; `inner`: make the band across it wider. */
  grow(by, inner) {
    const { from, to } = this.line;
    const long = Math.hypot(to[0] - from[0], to[1] - from[1]);
    if (inner) this.width.value = Math.max(1, this._count() + by);
    else if (long + by >= 1) this.line = { from, to: to.map((at, axis) => at + ((at - from[axis]) * by) / long) };
    this._changed();
  }

  /** Have the line that is typed. */
  _typed() {
    const [from, to] = this.ends.value.split(" to ").map((end) => end.replaceAll("−", "-").split(",").map(Number));
    const good = [from, to].every((end) => end?.length === 2 && end.every(Number.isFinite));
    this.ends.setCustomValidity(good ? "" : "expected y, x to y, x: 10, 5 to 30.5, 60");
    this.ends.reportValidity();
    if (!good) return;
    this.line = { from, to };
    this._changed();
  }

  /** Read the numbers along the line again. */
  update() {
    const { view, shown, kind, axis } = this.panel;
    if (!this.on || kind !== "picture" || !shown.data || shown.shape.length !== 2) return;
    this.values = this._across(view);
    const step = this.length() / (this.values.length - 1);
    const own = axis ? { ...axis, scale: Math.abs(axis.scale) * step, offset: 0 } : { scale: step, unit: "px" };
    this.strip.show(this.values, (this.axis = own), { x: "distance", y: symbol(this.how.units()) || "value" });
    this.said.textContent = this._measured();
    if (document.activeElement !== this.ends) this.ends.value = [this.line.from, this.line.to].map((end) => end.map((n) => short(n)).join(", ")).join(" to ");
  }

  /** @returns {number} lines of which the mean is taken. */
  _count() {
    return Math.max(1, Math.min(WIDEST, Math.round(this.width.valueAsNumber) || 1));
  }

  /** @returns {[number, number]} the way from one line to the next beside it, pixels along y and x. */
  _aside() {
    const { from, to } = this.line;
    const { aspect } = this.panel;
    const long = this.length() || 1;
    return [(to[1] - from[1]) / long / aspect, (-(to[0] - from[0]) * aspect) / long];
  }

  /** @returns {?Object} what is drawn of it: see `lineLayer`. */
  get drawn() {
    const half = this.on && this._count() / 2;
    return this.line && { ...this.line, beside: half > 0.5 ? this._aside().map((n) => n * half) : [0, 0] };
  }

  /** @returns {Float64Array} means across the line, of so many lines one pixel apart. */
  _across(view) {
    const { from, to } = this.line;
    const { aspect } = this.panel;
    const count = this._count();
    const numbers = this._numbers(around([from, to], count * Math.max(aspect, 1 / aspect), view.size));
    this.means = numbers.bin > 1 ? `of means of ${numbers.bin} × ${numbers.bin} pixels` : "";
    const [ny, nx] = this._aside();
    const beside = Array.from({ length: count }, (_, k) => {
      const off = k - (count - 1) / 2;
      const move = ([y, x]) => [y + ny * off, x + nx * off];
      return along(view, move(from), move(to), numbers);
    });
    if (count === 1) return beside[0];
    return beside[0].map((_, i) => {
      const good = beside.map((line) => line[i]).filter((value) => !Number.isNaN(value));
      return good.length ? good.reduce((a, b) => a + b, 0) / good.length : NaN;
    });
  }

  /** @returns {number} widths of pixels: these may be higher than wide, or lower. */
  length() {
    const { from, to } = this.line;
    return Math.hypot((to[0] - from[0]) * this.panel.aspect, to[1] - from[1]);
  }

  /** @returns {string} the length, its inverse where it is one over a length, and the angle from the right, upwards. */
  _measured() {
    const { from, to } = this.line;
    const { axis, view, aspect } = this.panel;
    const angle = (Math.atan2(-(to[0] - from[0]) * aspect * view.down, to[1] - from[1]) * 180) / Math.PI;
    const long = this.length();
    const pixels = short(Math.hypot(to[0] - from[0], to[1] - from[1]));
    const parts = [axis ? `${length(axis, long)} (${pixels} px)` : `${pixels} px`];
    if (axis) parts.push(spacing(axis, long));
    parts.push(`${short(angle, 3)}°`, this.means);
    return parts.filter(Boolean).join(" · ");
  }

  /** Save the numbers as text: places, and values. */
  take() {
    if (!this.values) return;
    const { scale, unit } = this.axis;
    const rows = Array.from(this.values, (value, i) => `${i * scale},${Number.isNaN(value) ? "" : value}`);
    const head = `distance (${symbol(unit)}),${this.panel.units || "value"}`;
    save(new Blob([[head, ...rows, ""].join("\n")], { type: "text/csv" }), `${this.panel.id} profile.csv`);
  }
}

/** @returns {number[]} the rectangle around places, with so many pixels around it: y0, x0, y1, x1, half-open. */
function around(places, beside, size) {
  const keep = (at, axis) => Math.max(0, Math.min(size[axis], at));
  const ends = [0, 1].map((axis) => places.map((place) => place[axis]));
  const low = ends.map((one, axis) => keep(Math.floor(Math.min(...one) - beside), axis));
  const high = ends.map((one, axis) => keep(Math.ceil(Math.max(...one) + beside) + 1, axis));
  return [...low, ...high];
}

/** @returns {string} a length in the unit that people write. */
export function length({ scale, unit }, pixels) {
  const size = pixels * Math.abs(scale);
  const fit = fitting(size, unit);
  return `${short(size * fit.factor)} ${fit.unit}`;
}

/**
 * Write the spacing of lattice planes at a distance in a pattern.
 *
 * @param {{scale: number, unit: string}} axis of the pattern. @param {number} pixels
 * @returns {string} "d 0.2035 nm", or in Å where the pattern is; "" where the unit is not one over a length.
 */
export function spacing({ scale, unit }, pixels) {
  const size = pixels * Math.abs(scale);
  if (!unit?.startsWith("1/") || !(size > 0)) return "";
  const own = unit.slice(2) === "angstrom" ? "angstrom" : "nm"; // in which people say it, also below 1 nm
  const apart = 1 / size / (factorBetween(own, unit.slice(2)) || NaN);
  if (apart >= NEAREST && apart < FARTHEST) return `d ${short(apart)} ${symbol(own)}`;
  const fit = fitting(1 / size, unit.slice(2));
  return fit.unit === symbol(unit.slice(2)) && fit.factor === 1 && !/m$|Å$/.test(fit.unit) ? "" : `d ${short((1 / size) * fit.factor)} ${fit.unit}`;
}
