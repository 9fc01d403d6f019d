/**
 * A region of a picture that is measured: its statistics, and a histogram or radial mean below; or its Fourier transform.
 */

import { table } from "./colours.js";
import { limits, sample, usual } from "./contrast.js";
import { dragged, drawn, fromText, grown, hold, moved, toText } from "./detectors.js";
import { button, el, select, short } from "./dom.js";
import { listen } from "./gestures.js";
import { scaleBarLayer } from "./layers.js";
import { Measured } from "./measured.js";
import { Picture } from "./picture.js";
import { strip } from "./plot.js";
import { length, spacing } from "./profile.js";
import { counted, radial, spectrum, statistics, within } from "./statistics.js";
import { dialog, npy, png, save } from "./take.js";
import { symbol } from "./units.js";
import { known, OVER, rings } from "./xray.js";

export const COLOUR = "#7fd3ff";
const KINDS = ["rectangle", "disk", "ring"];
const NEAR = 9; // screen pixels around an edge in which it is taken hold of
const LARGEST = 2048; // pixels along y and x of a Fourier transform
const SHOWN = { histogram: "histogram", radial: "radial mean", q: "radial mean over q", angle: "radial mean over 2θ" };

export class Region extends Measured {
  /**
   * @param {Panel} panel of the picture.
   * @param {{centre: function(): [number, number], units: function(): string, name: function(): string}} how besides what is in
   *   `Measured`: `centre` of radial means; `units` of the numbers; `name` of files.
   */
  constructor(panel, how) {
    super(panel, "regionButton", how);
    Object.assign(this, { shape: null, shown: "histogram" });
  }

  make() {
    const { title } = this.panel;
    this.strip = strip(`${title} region`);
    this.said = el("output.said", { "aria-label": `${title} region: statistics` });
    this.field = el("input.shape", { type: "text", spellcheck: "false", autocomplete: "off", "aria-label": `${title} region`, onchange: () => this._typed() });
    this.field.addEventListener("input", () => this.field.setCustomValidity(""));
    this.which = select(`${title} region: plot`, Object.entries(SHOWN), "histogram", (shown) => {
      this.shown = shown;
      this.update();
    });
    this.row = el(
      "div.profile-row.region-row",
      { hidden: true },
      this.field,
      this.which,
      button(`${title} region: Fourier transform`, "FFT", () => this._transform(), { class: "word" }),
      button(`${title} region: numbers as CSV`, "CSV", () => this._take(), { class: "word" }),
      button(`${title} region: all pixels of the rectangle around it (.npy)`, "NPY", () => this._export("npy"), { class: "word" }),
      button(`${title} region: picture with all pixels of the rectangle around it (PNG)`, "PNG", () => this._export("png"), { class: "word" }),
      this.said,
    );
  }

  start([height, width]) {
    const there = known(this.panel.xray?.());
    for (const option of this.which.options) option.hidden = option.value in OVER && !there.includes(option.value);
    if (this.shown in OVER && !there.includes(this.shown)) this.which.value = this.shown = "radial";
    this.shape = { kind: "rectangle", y0: height >> 2, x0: width >> 2, y1: height - (height >> 2), x1: width - (width >> 2) };
  }

  clear() {
    this.shape = this._exact = null;
  }

  /** Take a press in the picture: the region, its edge, or a new one is dragged. */
  press(place) {
    if (!this.on) return null;
    const { view } = this.panel;
    const start = this.shape;
    const part = hold(start, place, view.scale().map((s) => NEAR / s));
    const made = (to) => (part ? dragged(start, part, place, to, view.size) : drawn(start.kind, place, to, view.size));
    return {
      move: (to) => {
        this.shape = made(to);
        this._changed();
      },
    };
  }

  nudge(dy, dx) {
    this.shape = moved(this.shape, dy, dx, this.panel.view.size);
    this._changed();
  }

  grow(by, inner) {
    this.shape = grown(this.shape, by, inner, this.panel.view.size);
    this._changed();
  }

  _typed() {
    try {
      this.shape = fromText(this.field.value, KINDS);
      this._changed();
    } catch (error) {
      this.field.setCustomValidity(error.message);
      this.field.reportValidity();
    }
  }

  /** @returns {number[]} the rectangle around the region, in pixels of the picture: y0, x0, y1, x1, half-open. */
  _box() {
    return boxOf(this.shape, { shape: this.panel.view.size, bin: 1 });
  }

  /** Measure again. */
  update() {
    const { kind, shown } = this.panel;
    if (!this.on || kind !== "picture" || !shown.data || shown.shape.length !== 2) return;
    const numbers = this._numbers(this.shown !== "histogram" ? [0, 0, ...this.panel.view.size] : this._box());
    this.values = within(numbers, this.shape);
    this.found = statistics(this.values);
    if (document.activeElement !== this.field) this.field.value = toText(this.shape);
    this.said.textContent = [...this._facts().map(([name, value]) => `${name} ${short(Math.abs(value) >= 1e5 ? Math.round(value) : value, 6)}`), this._units(), means(numbers)].filter(Boolean).join(" · ");
    this._plot(numbers);
  }

  _facts() {
    return Object.entries(this.found);
  }

  _units() {
    const units = this.how.units();
    return units && `in ${symbol(units)}`;
  }

  _plot(numbers) {
    if (this.shown !== "histogram") {
      const [cy, cx] = this.how.centre();
      const { word, unit, step, ring } = this._rings(cy, cx, numbers.bin);
      this.plotted = radial(numbers, ring);
      this.axis = { scale: step, offset: 0, unit };
      this.word = word;
      this.strip.show(this.plotted, this.axis, { x: word, y: `mean around ${[cy, cx].map((at) => short(at)).join(", ")}` });
      return;
    }
    const { counts, first, step } = counted(this.values);
    this.plotted = counts;
    this.axis = { scale: step, offset: first, unit: "" };
    this.strip.show(counts, this.axis, { x: "value", y: "count" });
  }

  /** @returns {Object} the rings of a radial mean: see `rings`, with the word and the unit of what it is over. */
  _rings(cy, cx, bin) {
    const { axis, aspect } = this.panel;
    if (this.shown in OVER) return { ...OVER[this.shown], ...rings(this.shown, this.panel.xray(), bin) };
    const ring = (y, x) => Math.hypot((y - cy) * aspect, x - cx) / bin;
    return { word: "distance", unit: axis?.unit ?? "px", step: bin * Math.abs(axis?.scale ?? 1), ring };
  }

  /** Save statistics and the plot's numbers as text. */
  _take() {
    if (!this.found) return;
    const { scale, offset, unit } = this.axis;
    const head = this.shown !== "histogram" ? `${this.word} (${symbol(unit)}),mean` : "middle of the bin,count";
    const rows = Array.from(this.plotted, (value, i) => `${i * scale + offset},${Number.isNaN(value) ? "" : value}`);
    const facts = this._facts().map(([name, value]) => `# ${name},${value}`);
    save(new Blob([[`# ${toText(this.shape)}`, ...facts, head, ...rows, ""].join("\n")], { type: "text/csv" }), `${this.panel.id} region.csv`);
  }

  /** Save all pixels of the rectangle around the region, as numbers or as a picture. */
  async _export(kind) {
    try {
      const { shown, view } = this.panel;
      const box = this._box();
      const numbers = shown.bin > 1 ? await this.how.box(box) : cut(shown, box);
      if (!numbers) throw new Error("The rectangle around this region is too large to be saved here, or all that is there are means.");
      const name = `${this.how.name()}_${box.join("_")}`;
      if (kind === "npy") return save(npy([numbers.data], numbers.shape), `${name}.npy`);
      const [height, width] = numbers.shape;
      const canvas = el("canvas", { width, height });
      const context = canvas.getContext("2d");
      if (shown.bin > 1) {
        const image = new ImageData(width, height);
        view.painter([numbers], image);
        context.putImageData(image, 0, 0);
      } else context.drawImage(view._image, -box[1], -box[0]);
      return save(await png({ _image: canvas, down: view.down }), `${name}.png`);
    } catch (error) {
      return this.how.failed(error);
    }
  }

  /** Show the Fourier transform of the rectangle around the region. */
  _transform() {
    const numbers = this._numbers(this._box());
    const box = boxOf(this.shape, numbers);
    const [height, width] = [box[2] - box[0], box[3] - box[1]];
    if (height < 2 || width < 2) return this.how.failed(new Error("Fourier transform: expected a region of 2 × 2 pixels or more."));
    if (Math.max(height, width) > LARGEST)
      return this.how.failed(new Error(`Fourier transform: expected a region of at most ${LARGEST} × ${LARGEST} pixels, not ${height} × ${width}.`));
    const { axis, aspect, heading } = this.panel;
    const own = axis && { scale: 1 / (width * numbers.bin * Math.abs(axis.scale)), unit: inverse(axis.unit) };
    const about = [`${height} × ${width} pixels, the mean taken away; magnitudes, logarithmic`, means(numbers)].filter(Boolean).join(" · ");
    return showTransform(`${heading.textContent}: Fourier transform`, spectrum(numbers, box), [height, width], { axis: own, aspect: width / (height * aspect), about, down: this.panel.view.down });
  }
}

function means({ bin }) {
  return bin > 1 ? `of means of ${bin} × ${bin} pixels` : "";
}

/** @returns {Object} a rectangle of numbers. */
function cut({ data, shape: [, width] }, [y0, x0, y1, x1]) {
  const out = new data.constructor((y1 - y0) * (x1 - x0));
  for (let y = y0; y < y1; y++) out.set(data.subarray(y * width + x0, y * width + x1), (y - y0) * (x1 - x0));
  return { data: out, shape: [y1 - y0, x1 - x0] };
}

/** @returns {number[]} the rectangle around a shape in the numbers: y0, x0, y1, x1, half-open. */
function boxOf(shape, { shape: size, bin, from = [0, 0] }) {
  const r = shape.r1 ?? shape.r;
  const { y0, x0, y1, x1 } = shape.kind === "rectangle" ? shape : { y0: shape.cy - r, x0: shape.cx - r, y1: shape.cy + r + 1, x1: shape.cx + r + 1 };
  const keep = (at, axis) => Math.max(0, Math.min(size[axis], Math.round((at - from[axis]) / bin)));
  return [keep(y0, 0), keep(x0, 1), keep(y1, 0), keep(x1, 1)];
}

/** @returns {string} the unit of one over a number of a unit. */
function inverse(unit) {
  return unit.startsWith("1/") ? unit.slice(2) : `1/${unit}`;
}

/** @returns {string} how far a place of a transform is from its middle, the spacing that belongs to it, and the value. */
function frequency(view, axis, [y, x]) {
  const value = view.value(y, x);
  if (value === undefined) return "";
  const [dy, dx] = [Math.round(y) - (view.size[0] >> 1), Math.round(x) - (view.size[1] >> 1)];
  const far = Math.hypot(dy * view.aspect, dx);
  return [`${short(dy)}, ${short(dx)}`, axis && length(axis, far), axis && spacing(axis, far), short(value)].filter(Boolean).join(" · ");
}

function showTransform(title, data, shape, { axis, aspect, about, down }) {
  const stage = el("div.stage.transform", { tabindex: 0, role: "application", "aria-label": `${title}. Wheel, + and - zoom, 0 shows all, arrows move.` });
  const readout = el("output.readout", { "aria-label": `${title}: value under the pointer` });
  const take = button(`${title}: numbers (.npy)`, "Numbers (.npy)", () => save(npy([data], shape), "transform.npy"), { class: "word" });
  dialog(title, stage, el("div.row", {}, readout), el("div.row", {}, el("span", {}, about), take));
  const view = new Picture(stage, "transform", title);
  Object.assign(view, { aspect, down });
  view.layers = [scaleBarLayer(() => axis && { x: axis })];
  listen(view, [], (place) => (readout.textContent = place ? frequency(view, axis, place) : ""));
  view.show(data, shape, shape, 1);
  const [lo, hi] = limits(sample(data), 1, 100);
  view.colour({ ...usual({ curve: "log" }), lo, hi }, table("grey", false));
  stage.addEventListener("keydown", (event) => steer(view, event));
  stage.focus();
}

/** Zoom and move a picture by keys. */
function steer(view, event) {
  const arrow = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const by = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 }[event.key];
  if (arrow) view.moveBy(...arrow.map((n) => n / 10));
  else if (by) view.zoomBy(by);
  else if (event.key === "0") view.reset();
  else return;
  event.preventDefault();
}
