/**
 * Looks at one array: its frame, its scan where it has one, sliders for the axes in front.
 */

import { Axes } from "./axes.js";
import { across, asLines, aspectOf, frameName, kindsOf, newestOf, origin, phases, placeOf, scanName, steps, titles } from "./axesof.js";
import { Backscatter } from "./backscatter.js";
import { Companions } from "./companions.js";
import { isEmpty, mapOf, usual } from "./contrast.js";
import { Detecting } from "./detecting.js";
import { moved, toText } from "./detectors.js";
import { el } from "./dom.js";
import { Frames, NOT_STORED } from "./frame.js";
import { listen } from "./gestures.js";
import { GROUNDS } from "./grounds.js";
import {
  channelsLayer,
  cursorLayer,
  labelLayer,
  marksLayer,
  phaseLayer,
  scaleBarLayer,
  shapeLayer,
  wheelLayer,
} from "./layers.js";
import { ARRANGED, colourOf } from "./maps.js";
import { Measuring } from "./measuring.js";
import { Mixing } from "./mixing.js";
import { Orthogonal } from "./orthogonal.js";
import { Panel, nothing } from "./panel.js";
import { PROJECTIONS, Projecting } from "./projecting.js";
import { Pyramid } from "./pyramid.js";
import { readOut } from "./readout.js";
import { ScanImages } from "./scan.js";
import { Selecting } from "./selecting.js";
import { leftOut, Showing } from "./showing.js";
import { Spectra } from "./spectra.js";
import { frameTools, scanTools } from "./tools.js";

const LONGEST = 8192; // numbers of a line that are fetched
const FEWEST = 256; // pixels of a frame, along y and x, that are fetched at least
const PATTERN = { curve: "gamma", gamma: 0.4, high: 99.5 }; // contrast of a single one: few spots have most counts

export class Viewer {
  /**
   * @param {function()} changed called when the view was changed.
   * @param {function(Error)} failed shows what went wrong.
   * @param {function(string)} told shows what one should know.
   */
  constructor(changed, failed, told) {
    Object.assign(this, { changed, failed, told, set: null, array: null, view: null, live: null, newest: false });
    this.scan = new Panel("scan", "Scan", () => this._changed());
    this.frame = new Panel("frame", "Frame", () => this._changed());
    this.projecting = new Projecting(this);
    this.axes = new Axes((axis, index) => this._slid(axis, index), this.projecting);
    this.frame.middle = () => (this.patterns ? this.detecting.presets?.BF : origin(this));
    this.frame.xray = () => (this.array.picture.length === 2 ? this.array.geometry : null);
    this.companions = new Companions(() => this.axes.put(this.view.at));
    this.axes.told = (at) => this.companions.at(at);
    this.measuring = new Measuring(this);
    this.mixing = new Mixing(this);
    this.note = el("p.note", { hidden: true });
    this.element = el(
      "div.viewer",
      { hidden: true },
      el("div.panels", {}, this.scan.element, this.frame.element, this.note),
      this.axes.element,
    );
    this.detecting = new Detecting(this);
    this.backscatter = new Backscatter(this);
    this.selecting = new Selecting(this);
    this.spectra = new Spectra(this);
    this.showing = new Showing(this);
    this.orthogonal = new Orthogonal(this);
    this._toolbars = [frameTools(this), scanTools(this)];
    this._layers();
    this.images = this.frames = this.pyramid = null;
    this.moved = () => {}; // called when somebody goes to another frame
  }

  _layers() {
    const sig = () => this.array.calibration?.[across(this)];
    const nav = () => this.array.calibration?.[this.array.dims[this.array.nav - 1]];
    const usable = (one) => (one?.scale && one.unit ? one : null);
    this.frame.layers.push(
      this.backscatter.layer(),
      channelsLayer(() => ({ ...this.detecting, channels: this.detects ? this.detecting.channels : [], colours: this.colours() })),
      marksLayer(() => this.spectra.marks()),
      labelLayer(() => this.mixing.legend()),
      ...this.measuring.layers(this.frame),
      scaleBarLayer(() => steps(this, this.frame)),
      phaseLayer(() => phases(this)),
    );
    this.scan.layers.push(
      shapeLayer(() => this.view.selection),
      cursorLayer(() => (this.view.selection ? null : this.position())),
      ...this.measuring.layers(this.scan),
      channelsLayer(() => this.spectra.places()),
      scaleBarLayer(() => steps(this, this.scan)),
      Object.assign(wheelLayer(() => this.showing.wheel), { tiled: false }),
      labelLayer((place) => this.showing.labels(place)),
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
    const { shape, nav } = array;
    const { scanned } = Object.assign(this, kindsOf(set, array));
    const empty = shape.includes(0);
    this.mixing.begin();
    this.note.hidden = !empty;
    this.note.textContent = empty ? `This array is empty: its shape is ${shape.join(" × ")}.` : "";
    this.element.hidden = false;
    this.frame.element.hidden = empty;
    this.scan.element.hidden = empty || !scanned;
    this.detecting.begin();
    this.backscatter.begin();
    this.showing.begin();
    this.spectra.begin();
    this.element.dataset.scan = !scanned || empty ? "false" : nav === 1 && !this.curves ? "trace" : "true";
    if (empty) return this.axes.show([], [], []);
    this._start(scanned);
    return undefined;
  }

  /** Show a sentence, and nothing else. */
  say(text) {
    this.close();
    this.array = null;
    this.axes.show([], [], []);
    for (const panel of [this.scan, this.frame]) panel.element.hidden = true;
    Object.assign(this.note, { hidden: false, textContent: text });
    this.element.dataset.scan = "false";
    this.element.hidden = false;
  }

  /** Take what the files say of the array, which comes after what its pictures need. */
  know({ recorded }) {
    this.array.recorded = recorded;
    this.update();
  }

  _start(scanned) {
    const { array, view } = this;
    const names = array.where.map((axis) => array.dims[axis]);
    this.lengths = array.where.map((axis) => array.shape[axis]);
    this.axes.show(
      names,
      this.lengths,
      names.map((name) => array.calibration?.[name]),
      array.where.map((axis) => (axis === array.channels?.axis ? array.channels.of.map(({ name }) => name) : null)),
    );
    const first = () => newestOf(this) || (scanned ? [...array.middle] : names.map((name, k) => (name === "z" ? this.lengths[k] >> 1 : 0))); // the plane that NGFF calls the default
    const fresh = view.at?.length !== names.length;
    const given = fresh ? first() : view.at;
    view.at = given.map((index, axis) => Math.min(index, this.lengths[axis] - 1));
    this.companions.begin(this.set, this.array);
    this.axes.put(view.at);
    this.frames = new Frames(
      this.array,
      (frame) => this._showFrame(frame),
      (error) => this._broken(this.frame, error),
    );
    this.pyramid = this.frames.large ? new Pyramid(this.array, () => this._finer(), (error) => this._broken(this.frame, error)) : null;
    this.axes.ready = () => !this.frames?.busy && !this.pyramid?.busy;
    this._prepare(
      this.frame,
      array.shown >= 2 && !this.line ? "picture" : array.shown ? "plot" : "number",
      this.detects && !this.curves ? "Arrows move the detector." : this.detects ? "Drag a window. Arrows move it." : "",
    );
    if (this.complex) view.frame ??= usual({ map: mapOf(view.part) });
    this.frame.clear("waiting");
    this.frame.use(view.frame || usual({ ...(this.patterns ? { curve: "sqrt" } : array.pattern ? PATTERN : {}), invert: array.inverted }));
    this.mixing.choose();
    if (scanned) this._startScan(fresh);
    this.projecting.begin();
    this.orthogonal.begin();
    this.wantFrame();
    this.update();
  }

  /** @param {boolean} fresh nobody has said which position is wanted. */
  _startScan(fresh) {
    const { array, view } = this;
    this.images = new ScanImages(
      this.array,
      (image) => this.showing.show(image),
      (error) => this._broken(this.scan, error),
    );
    this._prepare(this.scan, this.images.axes === 2 ? "picture" : "plot", "Arrows move the position.");
    if (fresh && !view.selection && !this.live && (array.events || (this.curves && this.spectra.sparse))) {
      Object.assign(view, { selection: this.selecting.all(), how: "sum" });
    }
    this.selecting.begin();
    this.scan.clear("waiting");
    this.scan.use(view.scan || usual());
    this.images.go(this.within());
    const images = this.images;
    const given = this.detects && this.detecting.possible(view.detector) ? view.detector : null;
    const whole = { kind: this.complex ? "magnitude" : "whole" };
    const several = this.detects && view.channels && this.detecting.start(view.channels, view.active);
    if (!several && (given || array.nav === 1 || !this.patterns)) this.detecting.set(given || whole);
    if (!this.patterns) {
      const [height, width] = images.size;
      if (this.detects && height > 1) images.centre = { cy: (height - 1) / 2, cx: (width - 1) / 2 }; // of rings for previews
      return;
    }
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
    panel.rename(panel === this.frame ? frameName(this, kind) : scanName(this));
    panel.axis = this._axisOf[panel.id]();
    panel.aspect = aspectOf(this, panel);
    panel.titles = titles(this, panel);
    if (panel.kind === "plot") panel.view.noise = panel === this.frame ? this.spectra.noise : 0;
    this.measuring.leave(panel);
    if (panel.view) Object.assign(panel.view, { aspect: panel.aspect, down: panel === this.frame && this.array.upward ? -1 : 1 });
    if (!panel.view || panel.view.listens) return;
    panel.view.listens = true;
    const tools =
      panel.id === "scan"
        ? [(place) => this.selecting.press(place)]
        : [this.orthogonal, this.backscatter, this.detecting].map((one) => (place) => one.press(place));
    listen(panel.view, [...this.measuring.tools(panel), ...tools], (place) => readOut(panel, place));
    panel.view.moved = () => (panel.id === "frame" ? (this._zoomed(), this.orthogonal.follow()) : this.showing.tiles.follow());
  }

  /** Stop all work. */
  close() {
    this._abort?.abort();
    this.axes.stop();
    this.companions.stop();
    this.frames?.stop();
    this.images?.stop();
    this.pyramid?.stop();
    this.orthogonal.leave();
    this.pyramid = this.frames = this.images = null;
    for (const panel of [this.scan, this.frame]) panel.clear("");
    this.element.hidden = true;
  }

  /** Show the state in toolbars and above the pictures. */
  update() {
    for (const bar of this._toolbars) bar.update();
    this.projecting.show();
    this.scan.view?.draw();
    this.showing.tiles.draw();
    this.spectra.curves();
    this.frame.view?.draw();
  }

  /** How several images are shown: "one", "tiles" or "colours". */
  get arranged() {
    return this.view.arrange || (this.curves ? "colours" : "tiles");
  }

  /** @returns {string[]} the colours of detectors. */
  colours() {
    const mixed = this.arranged === "colours" && this.detecting.channels.length > 1;
    return this.detecting.channels.map((_, k) => colourOf(k, mixed));
  }

  /** Show several images in another way. */
  arrange(how) {
    this.view.arrange = how;
    this.showing.again();
    this.update();
    this.changed();
  }

  /** Show several images in the next other way. */
  arrangeNext() {
    const words = Object.keys(ARRANGED);
    if (this.detecting.channels.length > 1) this.arrange(words[(words.indexOf(this.arranged) + 1) % words.length]);
  }

  _changed() {
    if (!this.array) return;
    this.view.scan = this.images ? this.scan.contrast : null;
    this.view.frame = this.mixing.on ? null : this.frame.contrast;
    this.view.layers = this.mixing.state();
    this.changed();
  }

  _broken(panel, error) {
    if (this.live && /not written yet|is whole yet/.test(error?.message)) return panel.say("not written yet");
    panel.say("failed");
    this.failed(error);
    return undefined;
  }

  // A set that is still being written

  /** Go to the newest frame. */
  goNewest() {
    const at = this.frames && newestOf(this);
    if (!at) return;
    this.view.selection = null;
    this.go(at);
  }

  /** Go on with a set that has more frames by now. */
  grown(live) {
    this.live = live;
    if (!this.frames) return;
    this.images?.grown();
    if (this.images && this.detecting.shape) this.images.want(this.detecting.wanted());
    if (this.newest) this.goNewest();
    else if (this.frame.shown.status === "not written yet") this.wantFrame();
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
    this.moved();
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
    this.mixing.choose();
    this.orthogonal.update();
    if (this.images && String(this.within()) !== String(this.images.within)) {
      this.images.go(this.within());
      if (this.detecting.shape) this.images.want(this.detecting.wanted());
    }
    this.wantFrame();
    this.update();
    this.changed();
  }

  /** Go to a position of the scan's picture, and leave a selection. */
  goTo([y, x]) {
    this.moved();
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
    if (selection && !this.selecting.whole) return this.selecting.set(moved(selection, dy, dx, size));
    if (this.images) return this.goTo(this.position().map((n, axis) => n + [dy, dx][axis]));
    if (!at?.length) return undefined;
    const slides = this.axes.slides();
    const axis = slides[Math.max(0, slides.length - (dy ? 2 : 1))] ?? at.length - 1;
    return this._slid(axis, Math.max(0, Math.min(this.lengths[axis] - 1, at[axis] + (dx || dy))));
  }

  /** @returns {[number, number]} height and width of the scan's picture; a line has height 1. */
  scanSize() {
    return this.images?.axes === 2 ? this.images.shape : [1, this.images?.shape[0] ?? 1];
  }

  /** Show another number of centres of mass. */
  setSide(side) {
    this.view.side = side;
    this.showing.again();
    this.update();
    this.changed();
  }

  /** Turn centres of mass by degrees; null: as is usual. */
  setTurn(turn) {
    this.view.turn = turn;
    this.showing.again();
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
    this.frames.skipna = this.skipsNan;
    if (selection && this.images) this.frame.say("waiting");
    if (selection && this.images) this.frames.select(selection, how, at, this.images.axes, this.selecting.whole);
    else if (this.projecting.on) {
      this.frame.say("waiting");
      this.frames.project(this.view.project.how, at, this.mixing.ats(at), (one) => this.projecting.boxOf(one));
    } else this.frames.want(at, this._most(), this.complex ? part : "", this.mixing.ats(at), this.backscatter.removed);
  }

  /** True if numbers may be NaN, and sums and projections of frames are what is shown. */
  get mayHaveNan() {
    return this.array.dtype.startsWith("float") && Boolean((this.view.selection && this.images) || this.projecting.on);
  }

  get skipsNan() {
    return this.view.skipna && this.mayHaveNan;
  }

  /** Leave NaN out of sums and projections of frames, or not. */
  skipNan(skipna) {
    this.view.skipna = skipna;
    this.wantFrame();
    this.update();
    this.changed();
  }

  /** @returns {number} pixels of a frame, along y and x, that can be seen: a power of two. */
  _most() {
    const { view, kind } = this.frame;
    if (kind === "plot") return LONGEST;
    if (Math.max(...this.frames.size) <= FEWEST) return FEWEST; // all of it, before there is a layout
    const seen = view ? Math.max(...view.box) * view.ratio * Math.min(view.zoom, 64) : 512;
    return Math.min(8192, Math.max(FEWEST, 2 ** Math.ceil(Math.log2(Math.max(1, seen * 0.75)))));
  }

  _zoomed() {
    if (this.pyramid || !this.frames) return;
    const most = this._most();
    if (this.frame.shown.bin > 1 && most > (this._lastMost || 0) && !this.view.selection) this.wantFrame();
    this._lastMost = most;
  }

  /** Say how fine what is seen of a large frame is. */
  _finer() {
    const { pyramid, frame, _whole: whole } = this;
    if (!pyramid || frame.view?.tiles !== pyramid || !whole) return;
    const said = whole.status === NOT_STORED ? "" : pyramid.status();
    frame.say(said || whole.status, said ? pyramid.part : whole.part);
    frame.hatch(said ? nothing(said, () => pyramid.empty) : nothing(whole.status, () => isEmpty(whole.data)));
  }

  _showFrame(frame) {
    if (!this.frames) return;
    const { selection, how } = this.view;
    const plain = frame.at && !frame.projected;
    const caption = frame.at // what is shown, not what is wanted: a frame on the way there may come first
      ? [frame.projected && this.projecting.caption, placeOf(this, frame.at, frame.projected), GROUNDS[frame.ground]?.[1]].filter(Boolean).join("; ")
      : `${PROJECTIONS[how]} of ${this.selecting.whole ? "all positions" : toText(selection)}`;
    const mixed = this.mixing.on && frame.at ? () => this.mixing.how(frame.parts) : null;
    if (this.pyramid && plain) this.pyramid.show(mixed ? mixed().ats : [frame.at], this.complex ? this.view.part : "", frame.bin);
    if (this.frame.view) this.frame.view.tiles = plain ? this.pyramid : null;
    this._whole = frame;
    if (this.pyramid && plain && frame.part === 1 && frame.status !== NOT_STORED) this.images?.glimpse(frame);
    const flat = this.line ? { ...asLines(frame), size: [1, Math.max(...frame.size)] } : {};
    this.frame.show({ ...frame, ...flat, caption: caption + leftOut(this.array), mixed });
    this._finer();
    this.spectra.curves();
    this.measuring.update(this.frame);
    this.orthogonal.update();
  }
}
