/**
 * The strip below a picture: how often each value occurs, the colours, and two handles for the limits.
 */

import { bend, histogram } from "./contrast.js";
import { el, short } from "./dom.js";

const BINS = 160;
const MOST = 0.999; // of the numbers: beyond these are single ones
const WIDE = 4; // times as far from the lower limit as most numbers, it reaches at most

export class Histogram {
  /**
   * @param {string} label of whose numbers.
   * @param {function(number, number)} limited called with limits that were dragged or typed.
   */
  constructor(label, limited) {
    this.limited = limited;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.low = this._handle(`${label}: lower limit`, "lo");
    this.high = this._handle(`${label}: upper limit`, "hi");
    this.texts = [el("span.limit"), el("span.limit")];
    this.box = el("div.histogram-box", {}, this.canvas, this.low, this.high);
    this.element = el("div.histogram", {}, this.texts[0], this.box, this.texts[1]);
    this.box.addEventListener("pointerdown", (event) => this._press(event));
    this.size = [0, 0]; // of the box
    new ResizeObserver(([{ contentRect }]) => {
      this.size = [contentRect.width, contentRect.height];
      this._draw();
    }).observe(this.box);
  }

  /**
   * Show the values of a picture.
   *
   * @param {Float64Array} sorted a sample of them.
   * @param {Object} contrast
   * @param {Uint32Array} table uint32[256]
   */
  show(sorted, contrast, table) {
    const { lo, hi } = contrast;
    const least = sorted.length ? Math.min(sorted[0], lo) : lo;
    const last = sorted.length - 1;
    const far = sorted[Math.ceil(last * MOST)]; // beyond which single hot pixels are
    const most = sorted.length ? Math.max(hi, Math.min(sorted[last], lo + WIDE * (far - lo))) : hi;
    Object.assign(this, { contrast, table, from: least, to: most > least ? most : least + 1 });
    this.counts = histogram(sorted, (value) => this._place(value), BINS);
    this.texts[0].textContent = short(lo, 3);
    this.texts[1].textContent = short(hi, 3);
    for (const [handle, value] of [
      [this.low, lo],
      [this.high, hi],
    ]) {
      handle.style.left = `${this._place(value) * 100}%`;
      handle.setAttribute("aria-valuemin", this.from);
      handle.setAttribute("aria-valuemax", this.to);
      handle.setAttribute("aria-valuenow", value);
      handle.setAttribute("aria-valuetext", short(value));
    }
    this._draw();
  }

  _handle(label, which) {
    const handle = el(`div.handle.${which}`, { role: "slider", tabindex: 0, "aria-label": label });
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -100, End: 100 }[event.key];
      if (!step || !this.contrast) return;
      this._set(which, this._place(this.contrast[which]) + (step * (event.shiftKey ? 10 : 1)) / 100);
      event.preventDefault();
      event.stopPropagation();
    });
    return handle;
  }

  /** @returns {number} 0 to 1: where a value is along the strip, which follows the curve of the contrast. */
  _place(value) {
    const t = Math.max(0, Math.min(1, (value - this.from) / (this.to - this.from)));
    return bend(t, this.contrast.curve, this.contrast.gamma);
  }

  /** @returns {number} the value at a place along the strip. */
  _value(place) {
    let [a, b] = [0, 1];
    for (let i = 0; i < 40; i++) {
      const middle = (a + b) / 2;
      if (bend(middle, this.contrast.curve, this.contrast.gamma) < place) a = middle;
      else b = middle;
    }
    return this.from + b * (this.to - this.from);
  }

  _set(which, place) {
    const value = this._value(Math.max(0, Math.min(1, place)));
    const { lo, hi } = this.contrast;
    if (which === "lo" && value < hi) this.limited(place <= 0 ? this.from : value, hi);
    if (which === "hi" && value > lo) this.limited(lo, place >= 1 ? this.to : value);
  }

  _press(event) {
    if (!this.contrast) return;
    const { left, width } = this.box.getBoundingClientRect();
    const place = (moved) => (moved.clientX - left) / width;
    const near = (which) => Math.abs(this._place(this.contrast[which]) - place(event));
    const which = near("lo") < near("hi") ? "lo" : "hi";
    (which === "lo" ? this.low : this.high).focus({ preventScroll: true });
    const move = (moved) => this._set(which, place(moved));
    const end = () => {
      this.box.removeEventListener("pointermove", move);
      this.box.removeEventListener("pointerup", end);
    };
    this.box.setPointerCapture(event.pointerId);
    this.box.addEventListener("pointermove", move);
    this.box.addEventListener("pointerup", end);
    move(event);
    event.preventDefault();
  }

  /** Draw, once, before the next frame of the screen. */
  _draw() {
    this._drawn ??= requestAnimationFrame(() => {
      this._drawn = null;
      this._paint(...this.size);
    });
  }

  _paint(width, height) {
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.max(1, width * ratio), height: Math.max(1, height * ratio) });
    if (!this.counts || !width) return;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [bar, body] = [5, height - 7];
    const tallest = Math.log1p(this.counts.reduce((a, b) => Math.max(a, b), 1));
    context.fillStyle = getComputedStyle(this.box).getPropertyValue("--faint");
    for (let i = 0; i < BINS; i++) {
      const tall = (body * Math.log1p(this.counts[i])) / tallest;
      const [left, right] = [i, i + 1].map((k) => Math.round((k * width) / BINS)); // whole pixels: no seams between bars
      context.fillRect(left, body - tall, right - left, tall);
    }
    const [a, b] = [this._place(this.contrast.lo) * width, this._place(this.contrast.hi) * width];
    for (let x = 0; x < width; x++) {
      const value = (this._value(x / width) - this.contrast.lo) / (this.contrast.hi - this.contrast.lo);
      const level =
        x < a
          ? 0
          : x > b
            ? 255
            : Math.round(255 * bend(Math.max(0, Math.min(1, value)), this.contrast.curve, this.contrast.gamma));
      const colour = this.table[level];
      context.fillStyle = `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
      context.fillRect(x, height - bar, 1, bar);
    }
  }
}
