/**
 * The panel in which a set is corrected: scan shape, order of axes, steps and units, what raw bytes mean.
 *
 * Whatever is changed has the server open the set anew; the picture follows. Only `Save` writes anything.
 */

import * as api from "./api.js";
import * as order from "./axisorder.js";
import { besideOf } from "./corrected.js";
import { button, el, select } from "./dom.js";
import { field, optionRow, pixels, row } from "./fields.js";
import { boxes } from "./hiding.js";
import { save } from "./take.js";

const PAUSE = 350; // ms after a letter until the set is opened anew
const GUESSES = 6; // of scans that are offered
const TURNS = [
  ["flipX", "flip left and right"],
  ["flipY", "flip top and bottom"],
  ["swap", "swap rows and columns"],
  ["turn", "turn by a right angle"],
];
const OF_MAIN = ["nav_shape", "sync_offset", "line_skip", "axes", "calibration", "dtype", "dead"]; // what is said of the main array's frames
const RAW = ["stored_dtype", "sig_shape"]; // what raw bytes need

/** @returns {Object} options without those that say nothing. */
function without(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

export class DataPanel {
  /**
   * @param {function(Object): Promise} changed opens the set with options; rejects with an error for people.
   * @param {Viewer} viewer whose pictures lines are drawn in.
   */
  constructor(changed, viewer) {
    Object.assign(this, { changed, viewer, key: "", known: null, options: {}, of: null, array: null, timer: 0 });
    this.said = el("p.field-said", { role: "status" });
    this.parts = { first: el("div"), scan: el("div"), axes: el("div"), steps: el("div"), pixels: el("div"), arrays: el("div"), file: el("div") };
    this.guessed = el("div.guesses", { role: "group", "aria-label": "Guessed scan shapes" });
    this.foot = el("div.row.data-foot");
    this.element = el("aside.side.facts.data", { "aria-label": "Data", hidden: true, tabindex: -1 });
  }

  /**
   * Show what can be changed of a set.
   *
   * @param {string} key of the set as it is served, or of a file.
   * @param {?Object} set as it is open now. @param {?Object} array that is looked at.
   * @param {?Object} options with which it was opened anew.
   */
  async show(key, set, array, options) {
    const same = this.key === key && this.known;
    Object.assign(this, { key, of: set, array, options: { ...options } });
    if (this.element.hidden) return;
    if (!same) {
      this.known = null;
      this.element.replaceChildren(el("p.quiet", {}, "…"));
      const known = await api.options(key);
      if (this.key !== key) return;
      this.known = known;
    }
    this._fill();
  }

  /** @returns {*} the value of an option: what was typed here, else what the set was served with. */
  value(name) {
    return name in this.options ? this.options[name] : this.known.given[name];
  }

  _fill() {
    const { known, array } = this;
    const focus = this.element.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    if (!focus || !this.element.contains(this.said)) {
      this.element.replaceChildren(
        el("h2", {}, "Data"),
        el("p.quiet", {}, `${known.name}${known.files > 1 ? ` and ${known.files - 1} more` : ""}`),
        this.foot,
        this.said,
        ...Object.values(this.parts),
        pixels(),
      );
    }
    const about = array?.main ? array : null; // what is said of scan, axes and steps is said of the main array
    this._put("first", array && !about ? this._beside() : []);
    this._put("scan", about?.nav ? this._scan() : []);
    this._put("axes", about?.dims.length > 1 ? this._axes() : []);
    this._put("steps", about?.dims.length ? this._steps() : []);
    if (about) this._offerSteps();
    this._put("pixels", about && (about.masked || this.value("dead")) ? this._pixels() : []);
    this._put("arrays", known.count > 1 ? this._arrays() : []);
    this._put("file", this._file());
    this._put("foot", this._foot());
    if (about?.nav) this._guess();
  }

  /** Put rows into a part, unless somebody types there: what is typed stays. */
  _put(name, rows) {
    const part = this.parts[name] || this.foot;
    if (part.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox])")) return;
    const label = part.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    part.replaceChildren(...rows);
    if (!label) return;
    const same = part.querySelector(`[aria-label="${CSS.escape(label)}"]:enabled`);
    (same || this.element).focus();
  }

  _scan() {
    return [
      el("h3", {}, "Scan"),
      row(
        "shape",
        "lines, columns",
        field("scan shape", "text", this.value("nav_shape") ?? this._navShape(), (text) => this._setScan(text)),
      ),
      this.guessed,
      row(
        "skip in front",
        "frames before the first line; negative: blank ones come first",
        field("frames to skip in front", "number", this.value("sync_offset"), (n) => this.set({ sync_offset: n }), {
          placeholder: "0",
        }),
      ),
      row(
        "skip after lines",
        "frames that were recorded while the beam returned",
        field("frames to skip behind each line", "number", this.value("line_skip"), (n) => this.set({ line_skip: n }), {
          placeholder: "0",
        }),
      ),
    ];
  }

  _navShape() {
    const { dims, shape, nav } = this.array;
    return dims.length ? shape.slice(0, nav).join(", ") : "";
  }

  /** Take another scan shape. With another number of axes, their order and steps are no longer what was said. */
  _setScan(text, more = {}) {
    const count = text ? text.split(",").length : 0;
    const again = count !== this.array.nav ? { axes: undefined, calibration: undefined } : {};
    this.set({ nav_shape: text, ...again, ...more });
  }

  async _guess() {
    const { key, of } = this;
    const asked = JSON.stringify([key, this.options.format, ...RAW.map((name) => this.options[name])]);
    if (this.guessedFor === asked) return;
    this.guessedFor = asked;
    this.guessed.replaceChildren(el("span.quiet", {}, "looking for scan shapes\u00a0…"));
    const found = await api.guesses(of.key).catch(() => []);
    if (this.guessedFor !== asked) return;
    this.guessed.replaceChildren(...found.slice(0, GUESSES).map((one) => this._guessButton(one)));
  }

  _guessButton({ nav_shape, line_skip, sync_offset, sure, source, reason }) {
    const shape = nav_shape.join(" × ");
    const more = [line_skip ? `skip ${line_skip}` : "", source === "number of frames" ? "" : source, sure ? "sure" : ""];
    const said = more.filter(Boolean).join(", ");
    const chosen = { sync_offset: sync_offset || undefined, line_skip: line_skip || undefined };
    return button(
      `${shape}: ${reason}`,
      el("span", {}, shape, said ? el("span.quiet", {}, ` ${said}`) : ""),
      () => this._setScan(nav_shape.join(", "), chosen),
      { class: "word guess" },
    );
  }

  /** @returns {string[][]} how the order of axes is changed, and what that does to the picture as it is seen. */
  _turns(part) {
    if (part === "scan" || !this.array.upward) return TURNS;
    const [flip, , [swap, swapped], [turn, turned]] = TURNS; // rows are drawn upwards, in either order
    return [flip, [turn, swapped, swap], [swap, turned, turn]];
  }

  _axes() {
    const now = this._order();
    const rows = ["scan", "frame"]
      .filter((part) => now[part].length > 1)
      .map((part) =>
        row(
          part,
          "",
          ...this._turns(part).map(([way, says, icon]) =>
            button(`${part}: ${says}`, icon ?? way, () => this._setOrder(order.turned(this._order(), part, way))),
          ),
        ),
      );
    const counts = Array.from({ length: this.array.dims.length + 1 }, (_, n) => [String(n), String(n)]);
    return [
      el("h3", {}, "Axes"),
      ...rows,
      row(
        "scan axes",
        "how many of the axes, the first ones, are the scan; the others are a frame",
        select("axes of the scan", counts, String(now.scan.length), (n) => this._setOrder(order.split(now, Number(n)))),
        now.scan.length && now.frame.length
          ? button("swap scan and frame", "scan ⇄ frame", () => this._setOrder(order.exchanged(now)), { class: "word" })
          : "",
      ),
      row(
        "order",
        "names of axes, | before those of a frame; -x turns an axis over, new=old gives it another name",
        field("order of the axes", "text", order.write(now), (text) => this.set({ axes: text ?? undefined })),
      ),
    ];
  }

  /** @returns {Object} the order of axes, see axisorder.js. */
  _order() {
    const said = this.value("axes");
    const { dims, nav } = this.array;
    return said?.includes("|") ? order.read(said) : said ? order.split(order.read(said), nav) : order.plain(dims, nav);
  }

  _setOrder(wanted) {
    this.set({ axes: order.write(wanted) }, 0);
  }

  _steps() {
    const { dims, calibration } = this.array;
    return [
      el("h3", {}, "Steps and units"),
      el("div.field.heads", { "aria-hidden": "true" }, el("span.field-name"), ...["step", "unit", "start"].map((word) => el("span", {}, word))),
      ...dims.map((dim) => {
        const known = calibration?.[dim] || {};
        const now = () => ({ scale: known.scale, unit: known.unit || "", offset: known.offset || 0, ...this._typed(dim) });
        const typed = (name) => (value) => this._setStep(dim, { ...now(), [name]: value ?? (name === "unit" ? "" : 0) });
        return row(
          dim,
          "step, unit, and where element 0 lies",
          field(`step along ${dim}`, "number", known.scale, typed("scale"), { placeholder: "step" }),
          field(`unit along ${dim}`, "text", known.unit, typed("unit"), { placeholder: "unit", class: "unit" }),
          field(`start of ${dim}`, "number", known.offset || null, typed("offset"), { placeholder: "from 0" }),
          this._offer(dim),
        );
      }),
      this._distance(),
    ];
  }

  /** @returns {HTMLElement} what gives an axis the step of the other one of its picture. */
  _offer(dim) {
    const offered = () => this._setStep(dim, { ...this._stepBeside(dim), offset: 0 }, 0);
    return button("", "", offered, { class: "word", hidden: true, "data-offer": dim });
  }

  /** @returns {?Object} the step that was said of the other axis of a picture, where this one has none. */
  _stepBeside(dim) {
    const { dims, calibration } = this.array;
    const step = besideOf(dims, dim) && !calibration?.[dim]?.scale && this._typed(besideOf(dims, dim));
    return step?.scale ? step : null;
  }

  /** Offer steps, also while somebody types in this part. */
  _offerSteps() {
    for (const made of this.parts.steps.querySelectorAll("[data-offer]")) {
      const dim = made.dataset.offer;
      const step = this.array.dims.includes(dim) ? this._stepBeside(dim) : null;
      made.hidden = !step;
      if (!step) continue;
      const said = `step along ${dim}: ${step.scale} ${step.unit}, as ${besideOf(this.array.dims, dim)}`;
      for (const name of ["aria-label", "title"]) made.setAttribute(name, said);
      made.textContent = `${step.scale} ${step.unit}`.trim();
    }
  }

  /** What becomes of the pixels that the set's own mask marks. */
  _pixels() {
    const { masked } = this.array;
    return [
      el("h3", {}, "Pixels"),
      row(
        "dead pixels",
        `those that the set's own mask marks${masked ? `, ${masked}` : ""}: left out, or replaced by their good neighbours`,
        field("replace the dead pixels of the mask", "checkbox", this.value("dead"), (on) =>
          this.set({ dead: on ? "mask" : undefined }, 0),
        ),
      ),
    ];
  }

  _typed(dim) {
    return this.value("calibration")?.[dim];
  }

  _setStep(dim, step, pause = undefined) {
    const said = { ...this.value("calibration"), [dim]: step };
    if (!step.scale) delete said[dim];
    this.set({ calibration: Object.keys(said).length ? said : undefined }, pause);
  }

  /** A row that says how long the line of a profile is: the steps of both axes of that picture follow from it. */
  _distance() {
    const panels = ["frame", "scan"].filter((id) => this.viewer[id].kind === "picture" && !this.viewer[id].element.hidden);
    if (!panels.length) return "";
    const length = field("known distance", "text", this.distance, (text) => (this.distance = text), {
      placeholder: "100 nm",
    });
    const draw = (id) =>
      button(
        `draw the known distance in the ${id}`,
        id,
        () => this._measure(id, length),
        { class: "word", "aria-pressed": String(this.viewer.measuring.profiles[id].on) },
      );
    return row("known distance", "draw a line in a picture, type how long it is, press the button again", length, ...panels.map(draw));
  }

  _measure(id, length) {
    const profile = this.viewer.measuring.profiles[id];
    const [, number, unit] = /^\s*([\d.,]+(?:e[-+]?\d+)?)\s*(.*?)\s*$/i.exec(length.value) || [];
    const known = Number((number || "").replace(",", "."));
    if (!profile.on || !(known > 0)) {
      if (!profile.on) {
        this.viewer.measuring.toggleProfile(this.viewer[id]);
        this._put("steps", this._steps()); // the button is pressed
      }
      this.say(known > 0 ? "drag the line over the distance, then press again" : "type how long the line is: 100 nm");
      return;
    }
    const { aspect } = this.viewer[id];
    const { dims, nav, picture } = this.array;
    const axes = id === "scan" ? [nav - 2, nav - 1] : picture;
    const said = { ...this.value("calibration") };
    const steps = [aspect, 1].map((one) => Number(((one * known) / profile.length()).toPrecision(6)));
    axes.forEach((axis, k) => (said[dims[axis]] = { scale: steps[k], unit, offset: 0 }));
    this.viewer.measuring.toggleProfile(this.viewer[id]);
    this.set({ calibration: said }, 0);
  }

  /** Of an array beside the main one, scan, axes and steps stay as they are, unless it becomes the main one. */
  _beside() {
    const { path } = this.array;
    const named = this.known.arrays.some((one) => one.path === path); // so, and not only in URLs
    return [
      el("p.quiet", {}, "Scan, axes and steps can be said of the main array only."),
      named ? button(`take ${path} as the main array`, "Take this one as main", () => this._setMain(path), { class: "word" }) : "",
    ];
  }

  /** Take an array as the main one. What was said of frames was said of another one. */
  _setMain(path) {
    const again = Object.fromEntries([...OF_MAIN, "array"].map((name) => [name, undefined]));
    this.set({ ...again, main: path || undefined }, 0);
  }

  /** The array that is opened first, and which others are shown. */
  _arrays() {
    const { arrays, count } = this.known;
    const paths = arrays.map(({ path, label }) => [path, label ? `${label} · ${path}` : path]);
    const hidden = () => this.value("hide") || [];
    const [only, first] = [this.value("array") || "", this.value("main") || ""];
    return [
      el("h3", {}, "Arrays"),
      row(
        "main",
        "the array that opens first, whose scan and steps are said here; all others stay beside it",
        select("main array", [["", "found by vfs"], ...paths], only ? "" : first, (path) => this._setMain(path)),
      ),
      row(
        "only",
        "this array, and what belongs to its frames",
        select("show only", [["", "all"], ...paths], only, (path) =>
          this.set({ array: path || undefined, main: undefined }, 0),
        ),
      ),
      ...boxes(arrays, count, hidden, only || first, (names) =>
        this.set({ hide: names.length ? names : undefined }, 0),
      ),
    ];
  }

  _file() {
    const { known } = this;
    const format = this.options.format ?? known.format;
    const formats = [["", "found by vfs"], ...known.formats.map((name) => [name, name])];
    const all = format === "raw" ? this._rawOptions() : known.options;
    return [
      el("h3", {}, "File"),
      known.stack
        ? row(
            `stack of ${known.stack}`,
            "files in a folder whose names differ only in numbers, as one set; otherwise the file of the frame that is shown",
            field("open these files as one stack", "checkbox", this.options.stack === true || (known.stacked && this.options.stack === undefined), (on) =>
              this.set({ stack: known.stacked ? (on ? undefined : this.viewer.view.at?.[0] ?? 0) : on || undefined }, 0),
            ),
          )
        : "",
      row(
        "format",
        "raw: pixels without a header that vfs knows",
        select("format", formats, format || "", (name) => this._setFormat(name)),
      ),
      ...all.map((option) =>
        optionRow(option, option.name in this.options ? this.options[option.name] : option.value, (value) =>
          this.set({ [option.name]: value ?? undefined }),
        ),
      ),
      row(
        "incomplete",
        "open it although files or frames are missing: these are blank or left out",
        field("open although something is missing", "checkbox", this.value("allow_incomplete"), (on) =>
          this.set({ allow_incomplete: on || undefined }, 0),
        ),
      ),
      format === "raw"
        ? ""
        : row(
            "convert to",
            "type of the numbers",
            field("convert to", "text", this.value("dtype"), (text) => this.set({ dtype: text ?? undefined }), {
              list: "pixels",
              placeholder: "as stored",
            }),
          ),
    ];
  }

  _rawOptions() {
    const { known } = this;
    return known.format === "raw" ? known.options : known.raw;
  }

  _setFormat(name) {
    this.options = name && name !== this.known.format ? { format: name } : {};
    this._put("file", this._file());
    if (name === "raw" && name !== this.known.format) return this.say("type the pixels' type and the frame's rows, columns");
    return this.set({}, 0);
  }

  _foot() {
    const { allowed } = this.known;
    const changed = Object.keys(this.options).length > 0;
    return [
      button("As it is served", "Undo all", () => this._undo(), { class: "word", disabled: !changed }),
      button(
        allowed ? "Save as NAME.vfs.json beside the data" : "Download as NAME.vfs.json",
        allowed ? "Save" : "Download",
        () => this._save(),
        { class: "word", disabled: !this.of },
      ),
    ];
  }

  _undo() {
    this.options = {};
    this.guessedFor = "";
    this.apply();
  }

  async _save() {
    try {
      const { name, text, save: allowed } = await api.description(this.of.key);
      if (allowed) {
        await api.saveDescription(this.of.key);
        this.known = { ...(await api.options(this.of.key)), stack: this.known.stack }; // so it is served from now on
        this.say(`saved ${name} beside the data`);
      } else {
        save(new Blob([text], { type: "application/json" }), name);
        this.say(`put ${name} beside the data, and open that`);
      }
    } catch (error) {
      this.say(error.message, true);
    }
  }

  /** Say how it went. */
  say(text, wrong = false) {
    this.said.textContent = text;
    this.said.classList.toggle("wrong", wrong);
  }

  /** Change options, and have the set opened anew a moment later. Those that are undefined are taken back. */
  set(changes, pause = PAUSE) {
    const own = this.options.format ? [] : this.known.options.filter(({ value }) => value !== null).map(({ name }) => name);
    const served = [...own, ...Object.keys(this.known.given)];
    const back = served.filter((name) => name in changes && changes[name] === undefined).map((name) => [name, null]);
    this.options = without({ ...this.options, ...changes, ...Object.fromEntries(back) });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.apply(), pause);
  }

  async apply() {
    clearTimeout(this.timer);
    try {
      await this.changed(this.options);
      this.say("");
    } catch (error) {
      this.say(error.message, true);
    }
  }
}
