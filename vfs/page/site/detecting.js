/**
 * The detectors of a viewer, up to four: which they are, and how one is picked, dragged and moved.
 *
 * A channel is {shape, fit}: a detector, and of spectra the background below it (see background.js), or null. One
 * channel is the active one, which keys and the pointer change.
 */

import * as background from "./background.js";
import { centreOf, dragged, drawn, grown, hold, moved, presets, toText } from "./detectors.js";

/** Screen pixels around an edge in which it is taken hold of. */
export const NEAR = 9;
/** Most detectors at once. */
export const MOST = 4;

const LINEAR = ["whole", "rectangle", "point"]; // what can be a detector of lines
const ADDED = ["ABF", "ADF", "HAADF", "BF"]; // which usual detector comes next

export class Detecting {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.next = ""; // the kind of the first detector of the array that is opened next; "": a disk
    this.begin();
  }

  /** Begin anew, as for another array. */
  begin() {
    this.channels = [{ shape: null, fit: null }];
    this.active = 0;
    this.presets = null;
    this.first = this.next;
    this.next = "";
    this.armed = null; // the kind that the next drag draws, wherever it begins
    this._changed = null; // what a drag has changed
  }

  /** The detector that keys and the pointer change. */
  get shape() {
    return this.channels[this.active].shape;
  }

  /** The background of the active detector. */
  get fit() {
    return this.channels[this.active].fit;
  }

  /** True if there are several detectors, or one with a background. */
  get more() {
    return this.channels.length > 1 || Boolean(this.fit);
  }

  /** @returns {Object[]} shapes of which images are needed: detectors, and what backgrounds are made of. */
  wanted() {
    return this.channels.flatMap(({ shape, fit }) => [shape, ...(fit ? background.halves(fit) : [])]);
  }

  /** Take channels; those that these frames cannot have are left out. */
  _take(channels, active) {
    const size = this.viewer.images.size[1];
    const good = channels.filter(({ shape }) => this.possible(shape)).slice(0, MOST);
    if (!good.length) return false;
    const fits = (fit) => (fit && this.viewer.curves && background.possible(fit, size) ? fit : null);
    this.channels = good.map(({ shape, fit }) => ({ shape, fit: shape.kind === "rectangle" ? fits(fit) : null }));
    this.active = Math.max(0, Math.min(good.length - 1, active || 0));
    return true;
  }

  /**
   * Take the bright-field disk that was found: presets are made of it, and it is the first detector.
   *
   * @param {Object} disk its `found` is false where there is none, and it is in the middle.
   */
  found(disk) {
    this.presets = presets(disk, this.viewer.images.size);
    if (this.shape) {
      this.viewer.update();
      return undefined;
    }
    if (disk.found === false) this.viewer.told("No bright-field disk was found: the detector is in the middle of the frame.");
    if (!this.first) return this.set(this.presets.BF);
    this.pick(this.first);
    this.armed = null;
    return undefined;
  }

  /**
   * Use a detector in the place of the active one.
   *
   * @param {Object} shape @param {boolean} [dragging] true: more will follow soon.
   */
  set(shape, dragging = false) {
    const { fit, shape: old } = this.channels[this.active];
    this._use({ shape, fit: fit && shape.kind === "rectangle" ? this._fitBefore(shape, old, fit) : null }, dragging);
  }

  /** @returns {?Object} the background for a window that was another one: moved with it; where it is, if only one side was moved. */
  _fitBefore(shape, old, fit) {
    const elsewhere = shape.x0 !== old.x0 && shape.x1 !== old.x1;
    const made = elsewhere ? background.moved(fit, shape.x0 - old.x0, this._across()) : fit;
    return made.to <= shape.x0 ? made : background.before(shape, fit.model, this._across());
  }

  _use(channel, dragging = false) {
    if (!this.viewer.images) return;
    this.channels = this.channels.map((one, k) => (k === this.active ? channel : one));
    this._want(dragging);
  }

  /** Have the images of all detectors. */
  _want(dragging = false) {
    const { viewer } = this;
    const { view } = viewer;
    view.detector = this.shape;
    view.channels = this.more ? this.channels : null;
    view.active = this.active;
    viewer.images.want(this.wanted(), dragging);
    viewer.update();
    viewer.changed();
  }

  /** Have another background: "", "power" or "linear". */
  setModel(model) {
    const { shape } = this;
    if (!this.viewer.curves || shape?.kind !== "rectangle") return;
    const fit = this.fit || background.before(shape, model, this._across());
    if (model && !fit) this.viewer.told("There is no room for a background before this window.");
    this._use({ shape, fit: model && fit ? { ...fit, model } : null });
  }

  /** Have the next other background. */
  nextModel() {
    const models = Object.keys(background.MODELS);
    this.setModel(models[(models.indexOf(this.fit?.model ?? "") + 1) % models.length]);
  }

  /** @returns {number} samples of a line. */
  _across() {
    return this.viewer.images.size[1];
  }

  /** Add a detector, and make it the active one. */
  add() {
    if (this.channels.length >= MOST || !this.shape) return;
    const { shape, fit } = this.channels[this.active];
    this.channels = [...this.channels, { shape: this._next(shape), fit: null }];
    this.active = this.channels.length - 1;
    this.armed = null;
    if (fit) this.channels[this.active].fit = background.before(this.shape, fit.model, this._across());
    this._want();
  }

  /** @returns {Object} what a new detector is at first: a usual one that is not there yet, or one beside the last. */
  _next(shape) {
    const there = this.channels.map((one) => toText(one.shape));
    const usual = ADDED.map((name) => this.presets?.[name]).find((one) => one && !there.includes(toText(one)));
    if (this.viewer.patterns && usual) return usual;
    const [height, width] = this.viewer.images.size;
    if (shape.kind !== "rectangle") {
      const half = Math.max(1, Math.round(width / 16));
      const x0 = Math.max(0, Math.min(width - 2 * half, Math.round((width * this.channels.length) / MOST)));
      return { kind: "rectangle", y0: 0, x0, y1: height, x1: x0 + 2 * half };
    }
    const wide = shape.x1 - shape.x0;
    const right = shape.x1 + 2 * wide <= width;
    return moved(shape, 0, right ? 2 * wide : -2 * wide, [height, width]);
  }

  /** Leave out the active detector. */
  remove() {
    if (this.channels.length < 2) return;
    this.channels = this.channels.filter((_, k) => k !== this.active);
    this.active = Math.min(this.active, this.channels.length - 1);
    this._want();
  }

  /** Make another detector the active one. */
  choose(k) {
    if (k < 0 || k >= this.channels.length || k === this.active) return;
    this.active = k;
    this.armed = null;
    this._want();
  }

  /** Begin with channels of a view. @returns {boolean} false: these frames can have none of them. */
  start(channels, active) {
    if (!this._take(channels, active)) return false;
    this._want();
    return true;
  }

  /** @returns {boolean} true if a shape can be a detector of these frames. */
  possible(shape) {
    return Boolean(shape) && shape.kind !== "magnitude" && (!this.viewer.curves || LINEAR.includes(shape.kind));
  }

  /** Use a detector of another kind where the one before is; the next drag draws a new one. */
  pick(kind) {
    if (!this.possible({ kind })) return;
    const old = (kind !== "com" || !this.presets ? this.shape : null) || {}; // centres of mass are of the pattern, not of a detector beside it
    const found = this.presets?.BF || {
      cy: (this.viewer.images.size[0] - 1) / 2,
      cx: (this.viewer.images.size[1] - 1) / 2,
      r: 4,
    };
    const peak = kind === "rectangle" && old.kind !== "point" ? this.viewer.spectra.peak() : null;
    const [cy, cx] = (old.kind && centreOf(old)) || [found.cy, found.cx];
    const r = old.r1 ?? old.r ?? (this.viewer.curves ? this.viewer.images.size[1] / 16 : found.r);
    this.armed = kind === "whole" ? null : kind;
    if (peak && old.kind !== "rectangle")
      this.set(drawn(kind, [0, peak.at - peak.half], [0, peak.at + peak.half], this.viewer.images.size));
    else if (kind === "whole") this.set({ kind });
    else if (kind === "com")
      this.set({
        kind,
        cy,
        cx,
        r: Math.round(10 * Math.min(found.r * 1.5, Math.max(...this.viewer.images.size))) / 10,
      });
    else if (kind === "radial") {
      const { r0, r1 } = old.r1 ? old : (this.presets?.ADF ?? { r0: r, r1: 2 * r });
      this.set({ ...drawn(kind, [cy, cx], [cy, cx + r1], this.viewer.images.size), r0, r1 });
    } else if (kind === "rectangle" || kind === "polygon")
      this.set(drawn(kind, [cy - r * 0.7, cx - r * 0.7], [cy + r * 0.7, cx + r * 0.7], this.viewer.images.size));
    else this.set(drawn(kind, [cy, cx], kind === "point" ? [cy, cx] : [cy, cx + r], this.viewer.images.size));
  }

  /** Use one of the usual detectors. */
  preset(name) {
    this.armed = null;
    if (this.presets) this.set(this.presets[name]);
  }

  /** Move the detector by pixels. */
  nudge(dy, dx) {
    if (this.shape) this.set(moved(this.shape, dy, dx, this.viewer.images.size), true);
  }

  /** Make the detector larger by pixels. */
  grow(by, inner) {
    if (this.shape) this.set(grown(this.shape, by, inner, this.viewer.images.size), true);
  }

  /** Make the window of the background larger by samples, to the left. */
  growFit(by) {
    if (!this.fit) return;
    const fit = background.dragged(this.fit, "from", this.fit.from - by, this.shape, this._across());
    this._use({ shape: this.shape, fit }, true);
  }

  /** Take a press in the frame: a detector, its edge, its background, or a new one is dragged. */
  press(place) {
    if (!this.viewer.detects || !this.shape) return null;
    const { view } = this.viewer.frame;
    const near = view.scale().map((s) => NEAR / s);
    if (!this.armed) this._chooseAt(place, near);
    const start = this.channels[this.active];
    const end = () => {
      this.armed = null;
      if (this._changed) this._use(this._changed);
      this._changed = null;
    };
    const use = (channel) => this._use((this._changed = channel), true);
    const change = (shape) => {
      this.set(shape, true);
      this._changed = this.channels[this.active];
    };
    const part = this.armed ? null : hold(start.shape, place, near);
    if (part) return { move: (to) => change(dragged(start.shape, part, place, to, this.viewer.images.size)), end };
    const side = !this.armed && start.fit && background.hold(start.fit, place[1], near[1]);
    if (side) {
      const { shape, fit } = start;
      const at = (to) => (side === "all" ? to[1] - place[1] + fit.from : to[1] + 0.5);
      return { move: (to) => use({ shape, fit: background.dragged(fit, side, at(to), shape, this._across()) }), end };
    }
    const whole = start.shape.kind === "whole";
    if (!this.armed && (view.zoom > 1 || (whole && !this.viewer.curves))) return null;
    const kind = this.armed || (whole ? "rectangle" : start.shape.kind);
    if (kind === "point") change(drawn(kind, place, place, this.viewer.images.size));
    const { ratio, angle } = start.shape;
    const shaped = kind === "radial" && ratio ? { ratio, angle } : {};
    return { move: (to) => change({ ...drawn(kind, place, to, this.viewer.images.size), ...shaped }), end };
  }

  /** Make the detector the active one that a press takes hold of, if that is not the active one. */
  _chooseAt(place, near) {
    const holds = ({ shape, fit }) => hold(shape, place, near) || (fit && background.hold(fit, place[1], near[1]));
    if (holds(this.channels[this.active])) return;
    const other = this.channels.findIndex(holds);
    if (other >= 0) this.choose(other);
  }
}
