/**
 * The detector of a viewer: which it is, and how it is picked, dragged and moved.
 */

import { dragged, drawn, grown, hold, moved, presets } from "./detectors.js";

/** Screen pixels around an edge in which it is taken hold of. */
export const NEAR = 9;

const LINEAR = ["whole", "rectangle", "point"]; // what can be a detector of lines

export class Detecting {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.begin();
  }

  /** Begin anew, as for another array. */
  begin() {
    this.shape = null;
    this.presets = null;
    this.armed = null; // the kind that the next drag draws, wherever it begins
    this._dragged = null;
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
      return;
    }
    if (disk.found === false) this.viewer.told("No bright-field disk was found: the detector is in the middle of the frame.");
    this.set(this.presets.BF);
  }

  /**
   * Use a detector.
   *
   * @param {Object} shape @param {boolean} [dragging] true: more will follow soon.
   */
  set(shape, dragging = false) {
    if (!this.viewer.images) return;
    this.shape = this.viewer.view.detector = shape;
    this.viewer.images.want(shape, dragging);
    this.viewer.update();
    this.viewer.changed();
  }

  /** @returns {boolean} true if a shape can be a detector of these frames. */
  possible(shape) {
    return Boolean(shape) && shape.kind !== "magnitude" && (!this.viewer.curves || LINEAR.includes(shape.kind));
  }

  /** Use a detector of another kind where the one before is; the next drag draws a new one. */
  pick(kind) {
    if (!this.possible({ kind })) return;
    const old = this.shape || {};
    const found = this.presets?.BF || {
      cy: (this.viewer.images.size[0] - 1) / 2,
      cx: (this.viewer.images.size[1] - 1) / 2,
      r: 4,
    };
    const cy = old.cy ?? old.y ?? (old.kind === "rectangle" ? (old.y0 + old.y1 - 1) / 2 : found.cy);
    const cx = old.cx ?? old.x ?? (old.kind === "rectangle" ? (old.x0 + old.x1 - 1) / 2 : found.cx);
    const r = old.r1 ?? old.r ?? (this.viewer.curves ? this.viewer.images.size[1] / 16 : found.r);
    this.armed = kind === "whole" ? null : kind;
    if (kind === "whole") this.set({ kind });
    else if (kind === "com")
      this.set({
        kind,
        cy,
        cx,
        r: Math.round(10 * Math.min(found.r * 1.5, Math.max(...this.viewer.images.size))) / 10,
      });
    else if (kind === "rectangle")
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

  /** Take a press in the frame: the detector, its edge, or a new one is dragged. */
  press(place) {
    if (!this.viewer.detects || !this.shape) return null;
    const { view } = this.viewer.frame;
    const detector = this.shape;
    const near = view.scale().map((s) => NEAR / s);
    const part = hold(detector, place, near);
    const end = () => {
      this.armed = null;
      if (this._dragged) this.set(this._dragged);
      this._dragged = null;
    };
    const change = (shape) => this.set((this._dragged = shape), true);
    if (part && !this.armed)
      return { move: (to) => change(dragged(detector, part, place, to, this.viewer.images.size)), end };
    const whole = detector.kind === "whole";
    if (!this.armed && (view.zoom > 1 || (whole && !this.viewer.curves))) return null;
    const kind = this.armed || (whole ? "rectangle" : detector.kind);
    if (kind === "point") change(drawn(kind, place, place, this.viewer.images.size));
    return { move: (to) => change(drawn(kind, place, to, this.viewer.images.size)), end };
  }
}
