/**
 * Sliders for the leading axes of an array, each with a number to type and a button that plays along it.
 */

import { button, el, icon, number, select, short } from "./dom.js";
import { fitting } from "./units.js";

const RATES = [2, 5, 10, 20, 40]; // frames a second

export class Axes {
  /**
   * @param {function(number, number)} moved called with an axis and its new index.
   * @param {{how: HTMLElement, toggle: function(number), range: function(number, number, number)}} projecting what of frames
   *   along an axis is shown; called with an axis, and the first and last index that are taken.
   */
  constructor(moved, projecting) {
    Object.assign(this, { moved, projecting });
    this.rate = 10;
    this.playing = -1;
    this.rows = [];
    this.told = () => []; // what is said of a frame, beside the last slider
    this.ready = () => true; // false: the last step is not on the screen yet
    this.element = el("div.axes", { role: "group", "aria-label": "Position" });
  }

  /**
   * Offer the axes of an array.
   *
   * @param {string[]} names @param {number[]} lengths @param {Array<?Object>} calibrations of each.
   * @param {Array<?string[]>} [words] of each, names of its indices.
   */
  show(names, lengths, calibrations, words = []) {
    this.stop();
    this.words = words;
    this.lengths = lengths;
    this.calibrations = calibrations;
    this.at = lengths.map(() => 0);
    this.rows = names.map((name, axis) => this._row(name, axis));
    this.element.replaceChildren(...this.rows.map((row) => row.element));
    const moves = lengths.some((length) => length > 1);
    if (moves) {
      const rates = RATES.map((rate) => [String(rate), `${rate} / s`]);
      this.element.append(this.projecting.how, select("Speed of playing", rates, String(this.rate), (value) => (this.rate = Number(value))));
    }
    this.element.hidden = !moves;
  }

  _row(name, axis) {
    const last = this.lengths[axis] - 1;
    const slider = el("input", {
      type: "range",
      min: 0,
      max: Math.max(0, last),
      step: 1,
      "aria-label": name,
      oninput: () => this._set(axis, slider.valueAsNumber),
    });
    const index = number(`${name}: index`, 0, Math.max(0, last), (value) => this._set(axis, Number.isFinite(value) ? value : this.at[axis]));
    const play = button(`Play along ${name}`, "play", () => (this.playing === axis ? this.stop() : this.play(axis)), {
      "aria-pressed": "false",
    });
    const where = el("span.where");
    const project = button(`Project along ${name}`, "project", () => this.projecting.toggle(axis), { "aria-pressed": "false", hidden: true });
    const ends = ["first", "last"].map((end) => number(`${name}: ${end} that is projected`, 0, Math.max(0, last), () => this._range(axis)));
    const range = el("span.range", { hidden: true }, ends[0], "to", ends[1]);
    const element = el("div.axis", { hidden: last < 1 }, el("span.name", {}, name), project, play, slider, index, range, where);
    return { element, slider, number: index, play, where, project, range, ends };
  }

  _range(axis) {
    const [first, last] = this.rows[axis].ends.map((end) => end.valueAsNumber);
    if (Number.isFinite(first + last)) this.projecting.range(axis, first, last);
  }

  /**
   * Show along which axes frames are projected.
   *
   * @param {number[]} able axes along which they can be. @param {function(number): ?number[]} rangeOf first and stop index along an
   *   axis; empty: all, which is said elsewhere; null: they are not projected along it.
   */
  projected(able, rangeOf) {
    this.rows.forEach(({ slider, number: index, play, project, range, ends }, axis) => {
      const taken = able.includes(axis) ? rangeOf(axis) : null;
      project.hidden = !able.includes(axis);
      project.setAttribute("aria-pressed", String(taken !== null));
      const here = taken?.length === 2;
      slider.hidden = index.hidden = play.hidden = here;
      range.hidden = !here;
      if (here) [taken[0], taken[1] - 1].forEach((end, k) => document.activeElement !== ends[k] && (ends[k].value = end));
    });
    this.put(this.at);
  }

  _set(axis, index) {
    const whole = Math.max(0, Math.min(this.lengths[axis] - 1, Math.round(index)));
    this.moved(axis, whole);
  }

  /** Put the sliders where the view is. */
  put(at) {
    this.at = at;
    const last = this.lengths.findLastIndex((length) => length > 1);
    this.rows.forEach((row, axis) => {
      row.slider.value = at[axis];
      if (document.activeElement !== row.number || row.number.valueAsNumber !== at[axis]) row.number.value = at[axis];
      const { scale, offset, unit } = this.calibrations[axis] || {};
      const fit = scale && unit && fitting(Math.abs(scale) * this.lengths[axis], unit);
      const word = row.range.hidden && this.words[axis]?.[at[axis]];
      row.where.title = word || "";
      const place = word
        ? word
        : fit && row.range.hidden
        ? `${short((at[axis] * scale + (offset || 0)) * fit.factor)} ${fit.unit}`
        : `of ${this.lengths[axis]}`;
      row.where.textContent = [place, ...(axis === last ? this.told(at) : [])].join(" · ");
    });
  }

  /** @returns {number[]} the axes with a slider. */
  slides() {
    return this.rows.map((_, axis) => axis).filter((axis) => !this.rows[axis].element.hidden && this.rows[axis].range.hidden);
  }

  /** Have no slider for an axis, or the usual one. */
  without(axis, away) {
    if (this.rows[axis]) this.rows[axis].element.hidden = away || this.lengths[axis] < 2;
  }

  /** Play along an axis, around and around; the last one that has a slider if none is given. */
  play(axis = this.slides().at(-1)) {
    this.stop();
    if (axis === undefined) return;
    this.playing = axis;
    this._mark(axis, true);
    let due = performance.now();
    const step = (now) => {
      if (this.playing !== axis) return;
      if (now >= due && this.ready()) {
        due = Math.max(due + 1000 / this.rate, now);
        this.moved(axis, (this.at[axis] + 1) % this.lengths[axis]);
      }
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  /** Stop playing. */
  stop() {
    if (this.playing >= 0) this._mark(this.playing, false);
    this.playing = -1;
  }

  _mark(axis, on) {
    const play = this.rows[axis]?.play;
    if (!play) return;
    play.setAttribute("aria-pressed", String(on));
    play.replaceChildren(icon(on ? "pause" : "play"));
  }
}
