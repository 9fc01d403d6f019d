/**
 * Sliders for the leading axes of an array, each with a number to type and a button that plays along it.
 */

import { button, el, icon, select, short } from "./dom.js";
import { fitting } from "./units.js";

const RATES = [2, 5, 10, 20, 40]; // frames a second

export class Axes {
  /** @param {function(number, number)} moved called with an axis and its new index. */
  constructor(moved) {
    this.moved = moved;
    this.rate = 10;
    this.playing = -1;
    this.rows = [];
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
      this.element.append(select("Speed of playing", rates, String(this.rate), (value) => (this.rate = Number(value))));
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
    const number = el("input", {
      type: "number",
      min: 0,
      max: Math.max(0, last),
      step: 1,
      "aria-label": `${name}: index`,
    });
    number.style.minWidth = `calc(${String(last).length}ch + 20px)`; // of 10^10 frames all digits are seen
    number.addEventListener("change", () =>
      this._set(axis, Number.isFinite(number.valueAsNumber) ? number.valueAsNumber : this.at[axis]),
    );
    const play = button(`Play along ${name}`, "play", () => (this.playing === axis ? this.stop() : this.play(axis)), {
      "aria-pressed": "false",
    });
    const where = el("span.where");
    const element = el("div.axis", { hidden: last < 1 }, el("span.name", {}, name), play, slider, number, where);
    return { element, slider, number, play, where };
  }

  _set(axis, index) {
    const whole = Math.max(0, Math.min(this.lengths[axis] - 1, Math.round(index)));
    this.moved(axis, whole);
  }

  /** Put the sliders where the view is. */
  put(at) {
    this.at = at;
    this.rows.forEach((row, axis) => {
      row.slider.value = at[axis];
      if (document.activeElement !== row.number || row.number.valueAsNumber !== at[axis]) row.number.value = at[axis];
      const { scale, offset, unit } = this.calibrations[axis] || {};
      const fit = scale && unit && fitting(Math.abs(scale) * this.lengths[axis], unit);
      const word = this.words[axis]?.[at[axis]];
      row.where.title = word ?? "";
      row.where.textContent = word
        ? word
        : fit
        ? `${short((at[axis] * scale + (offset || 0)) * fit.factor)} ${fit.unit}`
        : `of ${this.lengths[axis]}`;
    });
  }

  /** Play along an axis, around and around; the last one that has a length if none is given. */
  play(axis = this.lengths.findLastIndex((length) => length > 1)) {
    this.stop();
    if (axis < 0) return;
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
