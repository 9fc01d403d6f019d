/**
 * The selection of a viewer in the scan: a position, or a rectangle or disk of them.
 */

import { NEAR } from "./detecting.js";
import { dragged, drawn, hold } from "./detectors.js";

export class Selecting {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.kind = "point"; // what the next drag makes
  }

  /** Begin with what the view says. */
  begin() {
    const { selection } = this.viewer.view;
    this.kind = !selection || this._isWhole(selection) ? "point" : selection.kind;
  }

  /** True while all positions are selected, so that the next press chooses one of them. */
  get whole() {
    const { selection } = this.viewer.view;
    return this.kind === "point" && Boolean(selection);
  }

  _isWhole({ kind, y0, x0, y1, x1 }) {
    const [height, width] = this.viewer.scanSize();
    return kind === "rectangle" && y0 <= 0 && x0 <= 0 && y1 >= height && x1 >= width;
  }

  /** @returns {Object} all positions. */
  all() {
    const [height, width] = this.viewer.scanSize();
    return { kind: "rectangle", y0: 0, x0: 0, y1: height, x1: width };
  }

  /** Select positions: a rectangle or disk of them, or a point. */
  set(shape) {
    const { viewer } = this;
    if (shape.kind === "point") return viewer.goTo([shape.y, shape.x]);
    this.kind = shape.kind;
    return this._use(shape);
  }

  _use(shape) {
    const { viewer } = this;
    viewer.view.selection = shape;
    viewer.wantFrame();
    viewer.update();
    return viewer.changed();
  }

  /** Make a selection of some kind where the position is. */
  pick(kind) {
    const { viewer } = this;
    this.kind = kind === "whole" ? "point" : kind;
    if (kind === "point") return viewer.goTo(viewer.position());
    if (kind === "whole") return this._use(this.all());
    const [height, width] = viewer.scanSize();
    const [y, x] = viewer.position();
    const r = Math.max(1, Math.round(Math.min(Math.max(height, 2), width) / 8));
    if (kind === "disk") return this.set(drawn(kind, [y, x], [y, x + r], [height, width]));
    const far = height === 1 ? 0 : r; // a polygon begins as a rectangle, too
    return this.set(drawn(kind, [y - far, x - r], [y + far, x + r], [height, width]));
  }

  /** Have the mean, sum or maximum of the frames. */
  how(how) {
    const { viewer } = this;
    viewer.view.how = how;
    viewer.wantFrame();
    viewer.changed();
  }

  /** Take a press in the scan: the position follows, or the selection, its edge or a new one is dragged. */
  press(place) {
    const { viewer } = this;
    const size = viewer.scanSize();
    const { selection } = viewer.view;
    const near = viewer.scan.view.scale().map((s) => Math.min(NEAR / s, 2));
    const part = selection && !this.whole && hold(selection, place, viewer.images.axes === 1 ? [0, near[1]] : near);
    if (part) return { move: (to) => this.set(dragged(selection, part, place, to, size)) };
    if (this.kind === "point") {
      viewer.goTo(place);
      return { move: (to) => viewer.goTo(to) };
    }
    return { move: (to) => this.set(drawn(this.kind, place, to, size)) };
  }
}
