/**
 * What people do with backscatter patterns: their background taken away, and virtual detectors in the cells of a grid.
 */

import { button, el, select } from "./dom.js";
import { GRIDS, GROUNDS } from "./grounds.js";
import { outlined } from "./layers.js";

const USUAL = 5; // rows and columns of a grid

export class Backscatter {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.able = false;
    this.ground = select("Background of patterns", Object.entries(GROUNDS).map(([name, [word]]) => [name, word]), "", (ground) => this._remove(ground));
    this.grid = select("Grid of detectors", [[0, "no grid"], ...GRIDS.map((n) => [n, `${n} × ${n} grid`])], 0, (n) => this._cut(Number(n)));
    const three = button("Virtual backscatter images: three cells of a grid in red, green and blue", "VBSE", () => this.images(), { class: "word" });
    this.element = el("div.backscatter", { role: "group", "aria-label": "Backscatter patterns" }, this.ground, this.grid, three);
  }

  /** Begin with the array and view of the viewer. */
  begin() {
    const { set, array, view, detects, curves } = this.viewer;
    this.able = Boolean(set.backscatter && array.main && detects && !curves);
    if (!this.able) Object.assign(view, { ground: "", grid: 0 });
  }

  /** Show the state. */
  update() {
    const { view } = this.viewer;
    this.element.hidden = !this.able;
    Object.assign(this.ground, { value: view.ground, disabled: Boolean(view.selection || this.viewer.frames?.large) });
    this.grid.value = view.grid;
  }

  /** The background that the frame is shown without; "": it is shown as it was recorded. */
  get removed() {
    const { view, frames } = this.viewer;
    return view.selection || frames?.large ? "" : view.ground;
  }

  _remove(ground) {
    const { viewer } = this;
    viewer.view.ground = ground;
    viewer.wantFrame();
    viewer.update();
    viewer.changed();
  }

  /** Take the next background away. */
  next() {
    const words = Object.keys(GROUNDS);
    if (this.able && !this.ground.disabled) this._remove(words[(words.indexOf(this.viewer.view.ground) + 1) % words.length]);
  }

  _cut(grid) {
    const { viewer } = this;
    viewer.view.grid = grid;
    viewer.detecting.armed = null;
    viewer.update();
    viewer.changed();
  }

  /** Have the images of three cells in red, green and blue. */
  images() {
    const { viewer } = this;
    if (!this.able) return;
    viewer.view.grid ||= USUAL;
    const [row, middle] = [0.6, 0.5].map((part) => Math.floor(viewer.view.grid * part));
    viewer.view.arrange = "colours";
    viewer.detecting.armed = null;
    viewer.detecting.start([-1, 0, 1].map((off) => ({ shape: this._cell(row, middle + off), fit: null })), 0);
  }

  /** @returns {number[]} pixels at which the cells of the grid begin along an axis, and its end, as `vfs.Grid` has them. */
  _edges(length) {
    const count = this.viewer.view.grid;
    return Array.from({ length: count + 1 }, (_, k) => roundHalfEven((k * length) / count));
  }

  _cell(row, column) {
    const [rows, columns] = this.viewer.images.size.map((n) => this._edges(n));
    return { kind: "rectangle", y0: rows[row], x0: columns[column], y1: rows[row + 1], x1: columns[column + 1] };
  }

  /** @returns {number[]} row and column of the cell at a place. */
  _at(place) {
    return this.viewer.images.size.map((n, axis) => {
      const edges = this._edges(n);
      return Math.max(0, edges.findLastIndex((edge, k) => k < edges.length - 1 && place[axis] >= edge - 0.5));
    });
  }

  /** Take a press in the frame where there is a grid: the detector in that cell is chosen, or the chosen one comes there. */
  press(place) {
    const { detecting, frame } = this.viewer;
    if (!this.able || !this.viewer.view.grid || detecting.armed || frame.view.zoom > 1) return null;
    const to = (at) => {
      const cell = this._cell(...this._at(at));
      const holder = detecting.channels.findIndex(({ shape }) => same(shape, cell));
      if (holder >= 0) detecting.choose(holder);
      else detecting.set(cell, true);
    };
    to(place);
    return { move: to };
  }

  /** Move the detector by cells. @returns {boolean} false: there is no grid. */
  nudge(dy, dx) {
    const { detecting, view, images } = this.viewer;
    const { shape } = detecting;
    if (!this.able || !view.grid || shape?.kind !== "rectangle") return false;
    const cell = this._at([shape.y0, shape.x0]).map((n, axis) => Math.max(0, Math.min(view.grid - 1, n + Math.sign([dy, dx][axis]))));
    if (images) detecting.set(this._cell(...cell), true);
    return true;
  }

  /** Makes a layer of the lines of the grid. */
  layer() {
    return (context, picture) => {
      if (!this.able || !this.viewer.view.grid || !this.viewer.images) return;
      const [rows, columns] = this.viewer.images.size.map((n) => this._edges(n));
      const [last, end] = [rows.at(-1), columns.at(-1)].map((n) => n - 0.5);
      outlined(context, [
        ...rows.map((y) => [picture.toStage(y - 0.5, -0.5), picture.toStage(y - 0.5, end)]),
        ...columns.map((x) => [picture.toStage(-0.5, x - 0.5), picture.toStage(last, x - 0.5)]),
      ]);
    };
  }
}

function same(a, b) {
  return ["kind", "y0", "x0", "y1", "x1"].every((name) => a[name] === b[name]);
}

/** @returns {number} rounded as Python and numpy do. */
function roundHalfEven(value) {
  const down = Math.floor(value);
  return value - down === 0.5 ? down + (down % 2) : Math.round(value);
}
