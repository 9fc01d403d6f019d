/**
 * The radial mean of the frame that is shown, below it: over rings, or ellipses, around the centre of the detector that is a
 * radial mean. The window in the plot is that detector: what it holds is the scan's image.
 */

import { dragged, drawn, elliptic, distance, hold, moved } from "./detectors.js";
import { button, el } from "./dom.js";
import { fitted } from "./ellipse.js";
import { listen } from "./gestures.js";
import { channelsLayer } from "./layers.js";
import { Measured } from "./measured.js";
import { Plot } from "./plot.js";
import { radial } from "./statistics.js";
import { save } from "./take.js";
import { takeRadial } from "./taking.js";
import { symbol } from "./units.js";

const NEAR = 9; // screen pixels around an edge in which it is taken hold of
const TITLE = "Radial mean";
const FIELDS = {
  cy: { word: "y", label: "centre y, pixels", step: 0.1 },
  cx: { word: "x", label: "centre x, pixels", step: 0.1 },
  ratio: { word: "ratio", label: "ratio of the axes of the ellipses, longer to shorter", step: 0.001, min: 1 },
  angle: { word: "angle", label: "angle of the longer axis, degrees from x towards larger y", step: 1 },
};

export class Radial extends Measured {
  /** @param {Viewer} viewer @param {Object} how see `Measured`. */
  constructor(viewer, how) {
    super(viewer.frame, "", how);
    Object.assign(this, { viewer, values: null, plot: null });
  }

  make() {
    const field = ([name, { word, label, step, min }]) => {
      const input = el("input", { type: "number", step, min, "aria-label": `${TITLE}: ${label}`, title: label, onchange: () => this._typed(name, input) });
      this.fields[name] = input;
      return el("label.check", {}, word, input);
    };
    this.fields = {};
    this.log = button(`${TITLE}: logarithm`, "log", () => this._logarithm(), { class: "word", "aria-pressed": "false" });
    this.strip = { element: el("div.profile", { role: "group", tabindex: 0, "aria-label": `${TITLE}: drag a window, or move it by the arrow keys; [ ] make it narrower, wider`, hidden: true }) };
    this.strip.element.addEventListener("keydown", (event) => this._key(event));
    this.row = el(
      "div.profile-row.radial-row",
      { hidden: true },
      ...Object.entries(FIELDS).map(field),
      button(`${TITLE}: fit centre and ellipse to the ring in the window`, "Fit", () => this._fit(), { class: "word" }),
      button(`${TITLE}: around the bright-field disk, in circles`, "Disk", () => this._around(), { class: "word" }),
      el("span.space"),
      this.log,
      button(`${TITLE}: numbers as CSV`, "CSV", () => this._take(), { class: "word" }),
      button(`${TITLE}: Python that makes it`, "Python", () => takeRadial(this.viewer), { class: "word" }),
    );
  }

  /** The detector, if it is a radial mean in a picture; else null. */
  get shape() {
    const { detects, curves, detecting } = this.viewer;
    return detects && !curves && detecting.shape?.kind === "radial" ? detecting.shape : null;
  }

  /** Begin or leave as the detector is one or none, and show it. */
  follow() {
    if (Boolean(this.shape) !== this.on) this.toggle();
    else this.update();
  }

  start() {}

  clear() {
    this._exact = this.values = null;
  }

  /** Show the mean of each ring of the frame. */
  update() {
    const { shape, viewer } = this;
    const { kind, shown, axis, view, units } = this.panel;
    if (!this.on || !shape || kind !== "picture" || !shown.data || shown.shape.length !== 2) return;
    for (const [name, input] of Object.entries(this.fields)) if (document.activeElement !== input) input.value = shape[name];
    const numbers = this._numbers([0, 0, ...view.size]);
    const { bin } = numbers;
    const key = [shape.cy, shape.cx, shape.ratio, shape.angle].join(" ");
    if (this.values?.of !== numbers.data || this.values.key !== key) {
      const far = distance(shape);
      const data = radial(numbers, (y, x) => far(y, x) / bin - 0.5);
      this.values = { of: numbers.data, key, bin, data };
    }
    const step = Math.abs(axis?.scale ?? 1) * bin;
    this.axis = { scale: step, offset: step / 2, unit: axis?.unit ?? "px" };
    this.plot ??= this._plot();
    const means = bin > 1 ? `, of means of ${bin} × ${bin} pixels` : "";
    Object.assign(this.plot, { axis: this.axis, titles: { x: "radius", y: `mean ${symbol(units || viewer.array.units)}${means}`.trim() } });
    const { data } = this.values;
    this.plot.show(data, [data.length], [1, data.length], 1);
  }

  _plot() {
    const plot = new Plot(this.strip.element, "radial-mean", TITLE);
    plot.layers = [channelsLayer(() => ({ channels: this.shape ? [{ shape: this._window() }] : [], active: 0, colours: [this.viewer.colours()[this.viewer.detecting.active]] }))];
    listen(plot, [(place) => this._press(place)], () => {});
    return plot;
  }

  /** @returns {Object} the detector as a window of the plot. */
  _window() {
    const { bin } = this.values;
    return { kind: "rectangle", y0: 0, x0: this.shape.r0 / bin, y1: 1, x1: this.shape.r1 / bin };
  }

  _press(place) {
    if (!this.shape) return null;
    const start = this._window();
    const size = [1, this.values.data.length];
    const part = hold(start, place, this.plot.scale().map((s) => NEAR / s));
    const made = (to) => (part ? dragged(start, part, place, to, size) : drawn("rectangle", place, to, size));
    let last = part ? null : made(place); // a click takes one ring
    if (last) this._use(last, true);
    return { move: (to) => this._use((last = made(to)), true), end: () => last && this._use(last) };
  }

  _use({ x0, x1 }, dragging = false) {
    const { bin } = this.values;
    this.viewer.detecting.set({ ...this.shape, r0: x0 * bin, r1: x1 * bin }, dragging);
  }

  _key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const wider = { "[": -1, "]": 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !(by || wider) || !this.shape || !this.values) return;
    event.preventDefault();
    const size = [1, this.values.data.length];
    const { x0, x1, ...rest } = this._window();
    const now = { ...rest, x0: Math.round(x0), x1: Math.max(Math.round(x0) + 1, Math.round(x1)) };
    this._use(by ? moved(now, 0, event.shiftKey ? 10 * by : by, size) : { ...now, x1: Math.max(now.x0 + 1, Math.min(size[1], now.x1 + wider)) }, true);
  }

  _typed(name, input) {
    const value = input.valueAsNumber;
    const good = Number.isFinite(value) && (name !== "ratio" || value >= 1);
    input.setCustomValidity(good ? "" : `expected a number${name === "ratio" ? " of 1 or more" : ""}`);
    input.reportValidity();
    const { ratio, angle } = { ...this.shape, [name]: value };
    if (good) this.viewer.detecting.set(name in { ratio, angle } ? elliptic(this.shape, ratio, angle) : { ...this.shape, [name]: value });
  }

  /** Have the ellipse of the ring that the window holds, in the frame that is shown. */
  _fit() {
    const found = this.shape && fitted(this._numbers([0, 0, ...this.panel.view.size]), this.shape);
    if (found) this.viewer.detecting.set(found);
    else this.viewer.told("No ring was found there: drag the window so that it holds one ring all around, in a frame or a mean of frames that shows it.");
  }

  _logarithm() {
    const curve = this.plot?.curve === "log" ? "linear" : "log";
    this.plot?.colour({ curve });
    this.log.setAttribute("aria-pressed", String(curve === "log"));
  }

  _around() {
    const { cy, cx } = this.viewer.detecting.presets?.BF ?? { cy: (this.panel.view.size[0] - 1) / 2, cx: (this.panel.view.size[1] - 1) / 2 };
    this.viewer.detecting.set({ ...this.shape, cy, cx, ratio: 1, angle: 0 });
  }

  /** Save the numbers as text: the middle of each ring, and its mean. */
  _take() {
    if (!this.values) return;
    const { scale, offset, unit } = this.axis;
    const rows = Array.from(this.values.data, (value, k) => `${k * scale + offset},${Number.isNaN(value) ? "" : value}`);
    save(new Blob([[`radius (${symbol(unit)}),mean`, ...rows, ""].join("\n")], { type: "text/csv" }), "radial mean.csv");
  }
}
