/**
 * A panel: a picture or plot with its title, what is known of it, a strip for its contrast and a toolbar.
 */

import { MAPS, table } from "./colours.js";
import { CURVES, MODES, isEmpty, limits, sample, usual } from "./contrast.js";
import { el, select, sheet, short } from "./dom.js";
import { NOT_STORED } from "./frame.js";
import { Histogram } from "./histogram.js";
import { Picture } from "./picture.js";
import { Plot } from "./plot.js";

export class Panel {
  /**
   * @param {string} id of the canvas: "scan" or "frame".
   * @param {string} title what people read.
   * @param {function()} changed called when the contrast was changed.
   */
  constructor(id, title, changed) {
    Object.assign(this, { id, title, changed, contrast: usual(), view: null, kind: "", layers: [], axis: null, aspect: 1 });
    this.titles = { x: "", y: "" }; // of the axes of a plot
    this.coloured = () => {}; // called when colours were made again
    /** What is shown: {data, shape, size, bin, status, caption, paint}; status is "" where there is nothing. */
    this.shown = { data: null, shape: [], size: [0, 0], bin: 1, status: "", caption: "" };
    this.heading = el("h2", {}, title);
    this.caption = el("span.caption");
    this.status = el("span.status", { role: "status", "aria-label": `${title}: how far it is` });
    this.readout = el("output.readout", { "aria-label": `${title}: value under the pointer` });
    this.stage = el("div.stage", { tabindex: 0, role: "application" });
    this.progress = el("div.progress");
    this.tools = el("div.tools", { role: "toolbar", "aria-label": `${title}: tools` });
    this.strip = new Histogram(title, (lo, hi) => this.change({ lo, hi, mode: "never" }));
    this.below = el("div.below");
    this.element = el(
      `section.panel.${id}-panel`,
      { "aria-label": title },
      el("header", {}, this.heading, this.caption, this.status, this.readout),
      el("div.frame-box", {}, this.stage, this.progress),
      this.below,
      this.strip.element,
      this.tools,
    );
    this.controls = null; // of the contrast; null: nobody has looked at them yet
    this.sheet = sheet(`${title}: contrast`, "contrast", () => this._rows());
  }

  /**
   * Become a picture, a plot or a single number.
   *
   * @param {string} kind "picture", "plot" or "number".
   * @param {string} hint what can be done, for screen readers.
   */
  become(kind, hint) {
    this.stage.setAttribute("aria-label", `${this.title}. ${hint}`);
    if (kind === this.kind) return;
    this.kind = kind;
    const old = this.stage;
    this.stage = el("div.stage", { tabindex: 0, role: "application", "aria-label": old.getAttribute("aria-label") });
    old.replaceWith(this.stage);
    this.element.dataset.kind = kind;
    if (kind === "number") {
      this.number = el("p.number", { id: this.id });
      this.stage.append(this.number);
      this.view = null;
      return;
    }
    this.view = new (kind === "plot" ? Plot : Picture)(this.stage, this.id, this.title);
    this.view.layers = this.layers;
  }

  /** Have another heading. */
  rename(heading) {
    this.heading.textContent = heading;
  }

  /**
   * Show numbers.
   *
   * @param {Object} shown {data, shape, size, bin, status, caption, paint, mixed, part}; `paint`: uint32 colours that were
   *   made of them, or a function that makes them with a contrast, also of the numbers of other pictures, `also`; `mixed`:
   *   how they are mixed with others (see mixing.js); `part`: how much of it is done, 0 to 1.
   */
  show(shown) {
    this.shown = { bin: 1, paint: null, part: 1, ...shown };
    this.say(this.shown.status, this.shown.part);
    this.caption.textContent = shown.caption || "";
    this.caption.title = shown.caption || "";
    if (this.kind === "number") {
      this.number.textContent = short(shown.data[0], 10);
      return;
    }
    Object.assign(this.view, { axis: this.axis, titles: this.titles });
    this.hatch(nothing(shown.status, () => [shown.data, ...(shown.also ?? [])].every(isEmpty)));
    this.view.show(shown.data, shown.shape, shown.size, this.shown.bin);
    const coloured = this.kind === "picture" && (shown.shape.length === 3 || this.shown.paint);
    this.element.classList.toggle("coloured", Boolean(coloured));
    this.element.classList.toggle("fixed", Boolean(coloured) && typeof this.shown.paint !== "function"); // contrast changes nothing
    this.element.classList.toggle("samples", shown.shape.length === 3); // colours, not numbers: of these nothing is measured
    if (!coloured) this._sampled = sample(shown.data);
    if (this.contrast.mode === "always" || (this.contrast.mode === "once" && !(this.contrast.hi > this.contrast.lo)))
      this._limit();
    this.colour();
  }

  /** Say why there is nothing to be seen; "": there is something. */
  hatch(why) {
    this.element.classList.toggle("blank", why !== "");
    this.stage.dataset.blank = why;
  }

  /** Say how far it is: status "exact" and "" are quiet. */
  say(status, part = 1) {
    this.shown.status = status;
    this.status.textContent = status;
    this.status.dataset.state = status.includes("%") ? "under way" : status;
    this.progress.style.transform = `scaleX(${part < 1 ? part : 0})`;
  }

  /** Show nothing, and say so. */
  clear(status) {
    this.shown = { data: null, shape: [], size: [0, 0], bin: 1, status, caption: "" };
    this.say(status);
    this.caption.textContent = "";
    this.element.classList.remove("blank");
    if (this.number && this.kind === "number") this.number.textContent = "";
    this.view?.clear();
  }

  /** Colour what is shown. */
  colour() {
    if (!this.shown.data || !this.view) return;
    const colours = table(this.contrast.map, this.contrast.invert);
    const { paint } = this.shown;
    if (paint && this.kind === "picture") this.view.paint(typeof paint === "function" ? paint(this.contrast) : paint);
    else if (this.shown.mixed && this.kind === "picture") {
      if (!(this.contrast.hi > this.contrast.lo)) this._limit();
      const { parts, painter, table: own } = this.shown.mixed();
      this.view.use(painter, parts);
      this.strip.show(this._sampled, this.contrast, own);
    } else {
      if (!(this.contrast.hi > this.contrast.lo)) this._limit();
      this.view.colour(this.contrast, colours);
      if (this.kind === "picture" && this.shown.shape.length === 2)
        this.strip.show(this._sampled, this.contrast, colours);
    }
    this.coloured();
    this._fill();
  }

  _limit() {
    if (!this._sampled) return;
    [this.contrast.lo, this.contrast.hi] = limits(this._sampled, this.contrast.low, this.contrast.high);
  }

  /** Change the contrast; `lo` and `hi` are found again where only percentiles or the mode are given. */
  change(changes) {
    Object.assign(this.contrast, changes);
    if (!("lo" in changes) && ("low" in changes || "high" in changes || "mode" in changes)) {
      if (this.contrast.mode !== "never") this._limit();
    }
    this.colour();
    this.changed();
  }

  /** Take another contrast as a whole. */
  use(contrast) {
    this.contrast = { ...usual(), ...contrast };
    this.colour();
    this._fill();
  }

  /** Fit the limits to what is shown, now. */
  autoscale() {
    this._limit();
    this.change({ mode: this.contrast.mode === "never" ? "always" : this.contrast.mode });
  }

  /** Make the controls of the contrast. */
  _rows() {
    const number = (label, name) =>
      el("input", {
        type: "number",
        step: "any",
        "aria-label": label,
        onchange: (event) => this._typed(name, event.target),
      });
    this.controls = {
      map: select(
        "Colour map",
        MAPS.map((name) => [name, name]),
        "grey",
        (map) => this.change({ map }),
      ),
      invert: el("input", {
        type: "checkbox",
        "aria-label": "Invert colours",
        onchange: (e) => this.change({ invert: e.target.checked }),
      }),
      curve: select("Scale", Object.entries(CURVES), "linear", (curve) => this.change({ curve })),
      gamma: el("input", {
        type: "range",
        min: 0.1,
        max: 3,
        step: 0.05,
        "aria-label": "Gamma",
        oninput: (e) => this.change({ gamma: Number(e.target.value), curve: "gamma" }),
      }),
      mode: select("Limits follow", Object.entries(MODES), "always", (mode) => this.change({ mode })),
      low: number("Lower percentile", "low"),
      high: number("Upper percentile", "high"),
      lo: number("Lower limit", "lo"),
      hi: number("Upper limit", "hi"),
    };
    const c = this.controls;
    const row = (word, ...inputs) =>
      el(`div.row.for-${word.toLowerCase()}`, {}, el("span", {}, word), el("span.inputs", {}, ...inputs));
    this._fill();
    return [
      row("Colours", c.map, el("label.check", {}, c.invert, "inverted")),
      row("Scale", c.curve),
      row("Gamma", c.gamma),
      row("Limits", c.lo, c.hi),
      row("Fitted", c.mode),
      row("Percentiles", c.low, c.high),
    ];
  }

  _typed(name, input) {
    const value = input.valueAsNumber;
    const next = { ...this.contrast, [name]: value };
    const ordered = next.low < next.high && next.low >= 0 && next.high <= 100 && next.lo < next.hi;
    if (!ordered) this._fill();
    else if (name === "lo" || name === "hi") this.change({ lo: next.lo, hi: next.hi, mode: "never" });
    else this.change({ [name]: value, mode: this.contrast.mode === "never" ? "always" : this.contrast.mode });
  }

  /** Put the contrast into the controls. */
  _fill() {
    const { controls: c, contrast } = this;
    if (!c) return;
    c.invert.checked = contrast.invert;
    c.map.hidden = Boolean(this.shown.mixed); // layers have colours of their own
    for (const name of ["map", "curve", "mode", "low", "high"]) c[name].value = contrast[name];
    c.gamma.value = contrast.gamma;
    for (const name of ["lo", "hi"]) {
      if (document.activeElement !== c[name])
        c[name].value = Number.isFinite(contrast[name]) ? Number(contrast[name].toPrecision(7)) : "";
    }
  }
}

/**
 * Say why a picture shows nothing, once all of it is there.
 *
 * @param {string} status of it. @param {function(): boolean} empty asked for numbers that are all NaN.
 * @returns {string} "" where it shows something.
 */
export function nothing(status, empty) {
  if (status === NOT_STORED) return "Nothing was recorded here.";
  const binned = status.startsWith("binned");
  if ((status !== "exact" && !binned) || !empty()) return "";
  return binned ? "No means here: NaN is in every square." : "No numbers here: all are NaN.";
}
