/**
 * Looks at one array: its frame, its scan where it has one, sliders for the axes in front.
 */

import { mapOf, usual } from "./contrast.js";
import { Axes } from "./axes.js";
import { Detecting } from "./detecting.js";
import { moved, toText } from "./detectors.js";
import { el, short } from "./dom.js";
import { Frames } from "./frame.js";
import { listen } from "./gestures.js";
import { cursorLayer, lineLayer, scaleBarLayer, shapeLayer, wheelLayer } from "./layers.js";
import { Panel } from "./panel.js";
import { Profile } from "./profile.js";
import { readOut } from "./readout.js";
import { ScanImages } from "./scan.js";
import { Selecting } from "./selecting.js";
import { frameTools, scanTools } from "./tools.js";
import { fitting } from "./units.js";
import { SIDES, oneOf, wheel } from "./wheel.js";

const NAMED = { whole: "sum of all", magnitude: "sum of magnitudes" }; // images of a scan
const LONGEST = 8192; // numbers of a line that are fetched
const PLAIN = /^(t|c|z|s|time|channel|frame|slice|depth|page|image|series|position)$/i; // axes of stacks, not of scans

const ENERGY = /^(energy|e|ev|kev|eloss|energy.?loss|wavelength)$/i; // axes of spectra
const LINES = 3; // rows or columns of a picture that is drawn as so many lines, if it is long

/** @returns {boolean} true for a picture of a few long rows or columns, which are better drawn as lines. */
function isLine([height, width]) {
  return Math.min(height, width) <= LINES && Math.max(height, width) > 64;
}

/** @returns {Object} numbers of a picture [rows, columns] as lines [samples, lines], as plots take them. */
function asLines({ data, shape: [rows, columns] }) {
  const [count, lines] = [Math.max(rows, columns), Math.min(rows, columns)];
  if (rows > columns || lines === 1) return { data, shape: lines > 1 ? [count, lines] : [count] };
  const turned = new data.constructor(data.length);
  for (let i = 0; i < count; i++) for (let k = 0; k < lines; k++) turned[i * lines + k] = data[k * count + i];
  return { data: turned, shape: [count, lines] };
}

export class Viewer {
  /**
   * @param {function()} changed called when the view was changed.
   * @param {function(Error)} failed shows what went wrong.
   * @param {function(string)} told shows what one should know.
   */
  constructor(changed, failed, told) {
    Object.assign(this, { changed, failed, told, set: null, array: null, view: null });
    this.scan = new Panel("scan", "Scan", () => this._changed());
    this.frame = new Panel("frame", "Frame", () => this._changed());
    this.axes = new Axes((axis, index) => this._slid(axis, index));
    this.profiles = { scan: new Profile(this.scan), frame: new Profile(this.frame) };
    this.note = el("p.note", { hidden: true });
    this.element = el(
      "div.viewer",
      { hidden: true },
      el("div.panels", {}, this.scan.element, this.frame.element, this.note),
      this.axes.element,
    );
    this.detecting = new Detecting(this);
    this.selecting = new Selecting(this);
    this._toolbars = [frameTools(this), scanTools(this)];
    this._layers();
    this.images = this.frames = null;
  }

  _layers() {
    const sig = () => this.array.calibration?.[this._across()];
    const nav = () => this.array.calibration?.[this.array.dims[this.array.nav - 1]];
    const usable = (one) => (one?.scale && one.unit ? one : null);
    this.frame.layers.push(
      shapeLayer(() => (this.detects ? this.detecting.shape : null)),
      lineLayer(() => this.profiles.frame.line),
      scaleBarLayer(() => (this.frame.kind === "picture" ? (usable(sig()) ?? {}) : null)),
    );
    this.scan.layers.push(
      shapeLayer(() => this.view.selection),
      cursorLayer(() => (this.view.selection ? null : this.position())),
      lineLayer(() => this.profiles.scan.line),
      scaleBarLayer(() => (this.scan.kind === "picture" ? (usable(nav()) ?? {}) : null)),
      wheelLayer(() => this._wheel),
    );
    this._axisOf = { scan: () => usable(nav()), frame: () => usable(sig()) };
  }

  /**
   * Look at an array.
   *
   * @param {Object} set as the API describes it. @param {Object} array as the API describes it.
   * @param {Object} view see state.js.
   */
  open(set, array, view) {
    this.close();
    this.set = set;
    this.array = { ...array, set: set.key };
    this.view = view;
    const { shape, nav, shown, dims, dtype, where } = array;
    this.complex = dtype.startsWith("complex");
    const plain = nav === where.length && shown < 3 && !this.complex; // frames of one axis or two, of real numbers
    const scanned =
      where.slice(0, nav).every((axis) => axis < nav) &&
      where.length >= nav &&
      shape.slice(0, nav).some((n) => n > 1) &&
      shown > 0 &&
      (plain || nav > 1) &&
      (nav === 1 || !dims.slice(nav - 2, nav).some((name) => PLAIN.test(name)));
    const empty = shape.includes(0);
    this.note.hidden = !empty;
    this.note.textContent = empty ? `This array is empty: its shape is ${shape.join(" × ")}.` : "";
    this.element.hidden = false;
    this.frame.element.hidden = empty;
    this.scan.element.hidden = empty || !scanned;
    this.scanned = scanned;
    const sizes = array.picture.map((axis) => shape[axis]);
    this.line = shown === 2 && isLine(sizes);
    this.curves = shown === 1 || (this.line && sizes[0] === 1); // frames are lines, in which a window is a detector
    this.patterns = scanned && plain && shown === 2 && !this.line;
    this.detects = this.patterns || (scanned && plain && this.curves);
    this.detecting.begin();
    this.selecting.kind = view.selection?.kind || "point";
    this._wheel = null;
    this.element.dataset.scan = String(scanned && !empty);
    if (empty) return this.axes.show([], [], []);
    this._start(scanned);
    return undefined;
  }

  _start(scanned) {
    const { array, view } = this;
    const names = array.where.map((axis) => array.dims[axis]);
    this.lengths = array.where.map((axis) => array.shape[axis]);
    this.axes.show(
      names,
      this.lengths,
      names.map((name) => array.calibration?.[name]),
    );
    const given = view.at?.length === names.length ? view.at : this.lengths.map((n) => (scanned ? n >> 1 : 0));
    view.at = given.map((index, axis) => Math.min(index, this.lengths[axis] - 1));
    this.axes.put(view.at);
    this.frames = new Frames(
      this.array,
      (frame) => this._showFrame(frame),
      (error) => this._broken(this.frame, error),
    );
    this.axes.ready = () => !this.frames?.busy;
    this._prepare(
      this.frame,
      array.shown >= 2 && !this.line ? "picture" : array.shown ? "plot" : "number",
      this.patterns ? "Arrows move the detector." : this.detects ? "Drag a window. Arrows move it." : "",
    );
    if (this.complex) view.frame ??= usual({ map: mapOf(view.part) });
    this.frame.clear("waiting");
    this.frame.use(view.frame || usual({ curve: this.patterns && array.nav > 1 ? "sqrt" : "linear" }));
    if (scanned) this._startScan();
    this.wantFrame();
    this.update();
  }

  _startScan() {
    const { array, view } = this;
    this.images = new ScanImages(
      this.array,
      (image) => this._showScan(image),
      (error) => this._broken(this.scan, error),
    );
    this._prepare(this.scan, this.images.axes === 2 ? "picture" : "plot", "Arrows move the position.");
    this.scan.clear("waiting");
    this.scan.use(view.scan || usual());
    this.images.go(this.within());
    const images = this.images;
    const given = this.detects && this.detecting.possible(view.detector) ? view.detector : null;
    const whole = { kind: this.complex ? "magnitude" : "whole" };
    if (given || array.nav === 1 || !this.patterns) this.detecting.set(given || whole);
    if (!this.patterns) return;
    this._abort = new AbortController();
    const start = (found) => {
      if (this.images !== images) return;
      this.detecting.found(found);
    };
    images
      .findCentre(this._abort.signal)
      .then(start, (error) => this.images === images && this._broken(this.scan, error));
  }

  _prepare(panel, kind, hint) {
    panel.become(kind, hint);
    panel.rename(panel === this.frame ? this._frameName(kind) : this._scanName());
    panel.axis = this._axisOf[panel.id]();
    this.profiles[panel.id].leave();
    if (panel.view) panel.view.down = panel === this.frame && this.array.upward ? -1 : 1;
    if (!panel.view || panel.view.listens) return;
    panel.view.listens = true;
    const tools =
      panel.id === "scan" ? [(place) => this.selecting.press(place)] : [(place) => this.detecting.press(place)];
    listen(panel.view, [(place) => this.profiles[panel.id].press(place), ...tools], (place) => readOut(panel, place));
    panel.view.moved = () => panel.id === "frame" && this._zoomed();
  }

  _frameName(kind) {
    if (kind === "plot") return ENERGY.test(this._across()) ? "Spectrum" : "Line";
    return this.scanned && this.array.nav > 0 && kind === "picture" ? "Frame" : { picture: "Image", number: "Number" }[kind];
  }

  _scanName() {
    const { dims, nav } = this.array;
    return nav === 1 ? `Along ${dims[0]}` : "Scan";
  }

  /** @returns {?string} the axis of frames that goes from left to right. */
  _across() {
    const { picture, dims, shape } = this.array;
    const last = picture[picture.length - 1];
    return dims[this.line && shape[picture[0]] > shape[last] ? picture[0] : last];
  }

  /** Stop all work. */
  close() {
    this._abort?.abort();
    this.axes.stop();
    this.frames?.stop();
    this.images?.stop();
    this.frames = this.images = null;
    for (const panel of [this.scan, this.frame]) panel.clear("");
    this.element.hidden = true;
  }

  /** Show the state in toolbars and above the pictures. */
  update() {
    for (const bar of this._toolbars) bar.update();
    this.scan.view?.draw();
    this.frame.view?.draw();
  }

  _changed() {
    if (!this.array) return;
    this.view.scan = this.images ? this.scan.contrast : null;
    this.view.frame = this.frame.contrast;
    this.changed();
  }

  _broken(panel, error) {
    panel.say("failed");
    this.failed(error);
  }

  // Where in the scan

  /** @returns {?[number, number]} the position in the scan's picture: (y, x); null without a scan. */
  position() {
    if (!this.images) return null;
    const at = this.view.at.slice(0, this.array.nav);
    return this.images.axes === 2 ? at.slice(-2) : [0, at[at.length - 1]];
  }

  /** @returns {number[]} indices of the scan axes before those of its picture. */
  within() {
    return this.images ? this.view.at.slice(0, this.array.nav - this.images.axes) : [];
  }

  _slid(axis, index) {
    const at = [...this.view.at];
    at[axis] = index;
    const { nav } = this.array;
    if (this.images && axis < nav && axis >= nav - this.images.axes) this.view.selection = null;
    this.go(at);
  }

  /** Go to indices of the leading axes. */
  go(at) {
    this.view.at = at;
    this.axes.put(at);
    if (this.images && String(this.within()) !== String(this.images.within)) {
      this.images.go(this.within());
      if (this.detecting.shape) this.images.want(this.detecting.shape);
    }
    this.wantFrame();
    this.update();
    this.changed();
  }

  /** Go to a position of the scan's picture, and leave a selection. */
  goTo([y, x]) {
    const [height, width] = this.images.axes === 2 ? this.images.shape : [1, this.images.shape[0]];
    const [row, column] = [y, x].map((n, axis) => Math.max(0, Math.min([height, width][axis] - 1, Math.round(n))));
    this.view.selection = null;
    const place = this.images.axes === 2 ? [row, column] : [column];
    this.go([...this.within(), ...place, ...this.view.at.slice(this.array.nav)]);
  }

  /** Move the position, the selection or the index of the last axes. */
  step(dy, dx) {
    const { selection, at } = this.view;
    const size = this.scanSize();
    if (selection) return this.selecting.set(moved(selection, dy, dx, size));
    if (this.images) return this.goTo(this.position().map((n, axis) => n + [dy, dx][axis]));
    if (!at?.length) return undefined;
    const axis = at.length - (dy && at.length > 1 ? 2 : 1);
    return this._slid(axis, Math.max(0, Math.min(this.lengths[axis] - 1, at[axis] + (dx || dy))));
  }

  /** @returns {[number, number]} height and width of the scan's picture; a line has height 1. */
  scanSize() {
    return this.images?.axes === 2 ? this.images.shape : [1, this.images?.shape[0] ?? 1];
  }

  /** Show another number of centres of mass. */
  setSide(side) {
    this.view.side = side;
    this._showScan(this._image);
    this.changed();
  }

  /** Show another part of complex numbers; phases in colours that go round, unless others were chosen. */
  setPart(part) {
    const { contrast } = this.frame;
    if (contrast.map === mapOf(this.view.part)) this.frame.use({ ...contrast, map: mapOf(part) });
    this.view.part = part;
    this.wantFrame();
    this.changed();
  }

  // What arrives

  /** Want the frame of the position or selection. */
  wantFrame() {
    if (!this.frames) return;
    const { selection, at, how, part } = this.view;
    if (selection && this.images) this.frame.say("waiting");
    if (selection && this.images) this.frames.select(selection, how, at, this.images.axes);
    else this.frames.want(at, this._most(), this.complex ? part : "");
  }

  /** @returns {number} pixels of a frame, along y and x, that can be seen: a power of two. */
  _most() {
    const { view, kind } = this.frame;
    if (kind === "plot") return LONGEST;
    const seen = view ? Math.max(...view.box) * view.ratio * Math.min(view.zoom, 64) : 512;
    return Math.min(8192, Math.max(256, 2 ** Math.ceil(Math.log2(Math.max(1, seen * 0.75)))));
  }

  _zoomed() {
    const most = this._most();
    if (this.frame.shown.bin > 1 && most > (this._lastMost || 0) && !this.view.selection) this.wantFrame();
    this._lastMost = most;
  }

  _showFrame(frame) {
    if (!this.frames) return;
    const { selection, how } = this.view;
    const caption = frame.at // what is shown, not what is wanted: a frame on the way there may come first
      ? frame.at.filter((_, axis) => this.lengths[axis] > 1).join(", ")
      : `${{ mean: "mean", sum: "sum", max: "maximum" }[how]} of ${toText(selection)}`;
    const flat = this.line ? { ...asLines(frame), size: [1, Math.max(...frame.size)] } : {};
    this.frame.show({ ...frame, ...flat, caption });
    this.profiles.frame.update();
  }

  _showScan(image) {
    if (!this.images || !image) return;
    if (image.waiting) {
      this.scan.say("waiting");
      return;
    }
    this._image = image;
    const { side } = this.view;
    const size = this.scanSize();
    const com = image.detector.kind === "com";
    const pairs = com ? image.data : null;
    const made = pairs && side === "wheel" && this.images.axes === 2 ? wheel(pairs, this.array.upward ? -1 : 1) : null;
    this._wheel = made ? made.most : null;
    const caption = com
      ? `centre of mass, ${SIDES[side]}${made ? " (from the mean)" : ""}`
      : this._window(image.detector) || NAMED[image.detector.kind] || toText(image.detector);
    this.scan.show({
      ...image,
      data: pairs ? oneOf(pairs, side) : image.data,
      shape: this.images.shape,
      size,
      caption,
      paint: made ? made.colours : null,
      pairs,
    });
    this.profiles.scan.update();
  }

  /** @returns {string} the energies of a window in spectra: "520 to 560 eV"; "" where nobody knows them. */
  _window({ kind, x0, x1 }) {
    const { axis } = this.frame;
    if (!this.curves || kind !== "rectangle" || !axis) return "";
    const { factor, unit } = fitting(Math.abs(axis.scale) * this.images.size[1], axis.unit);
    const [from, to] = [x0, x1 - 1].map((x) => short((x * axis.scale + (axis.offset || 0)) * factor));
    return `${from} to ${to} ${unit}`;
  }

  /** Begin or leave a line profile. */
  toggleProfile(panel) {
    this.profiles[panel.id].toggle();
    panel.view?.draw();
  }
}
