/**
 * Projections of a stack along chosen axes: of each channel by itself, of a range, by the reductions that `vfs reduce` has.
 */

import { select } from "./dom.js";

/** What is made of the frames along the axes. Name of the reduction -> word. */
export const PROJECTIONS = { mean: "mean", sum: "sum", max: "maximum", min: "minimum", std: "standard deviation" };

const SCALED = ["sum", "std"]; // whose numbers are others than those of frames, which contrasts of the file are for

/** Read a projection as `vfs reduce` has it: "max(z=3:9, t)". @returns {?{how: string, over: Object}} null: it is none. */
export function projectionOf(text) {
  const [, how, axes] = /^([a-z]+)\((.+)\)$/.exec(text || "") || [];
  if (!Object.hasOwn(PROJECTIONS, how)) return null;
  const found = axes.split(",").map((one) => /^\s*([^=:\s]+?)(?:=(\d+):(\d+))?\s*$/.exec(one));
  if (found.includes(null)) return null;
  const over = found.map(([, name, first, stop]) => [name, first === undefined ? null : [Number(first), Number(stop)]]);
  return { how, over: Object.fromEntries(over) };
}

/** Write a projection. */
export function projectionText({ how, over }) {
  return `${how}(${Object.entries(over).map(([name, range]) => (range ? `${name}=${range.join(":")}` : name)).join(", ")})`;
}

export class Projecting {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.how = select("Projection", Object.entries(PROJECTIONS), "max", (how) => this._use({ ...this.viewer.view.project, how }));
    this.places = []; // in the indices of frames: the axes along which this array can be projected
  }

  /** Begin with the array and view of the viewer. */
  begin() {
    const { viewer } = this;
    const { array, scanned, complex, view, lengths } = viewer;
    const able = !complex && !(scanned && array.nav > 1) && array.shown > 0;
    const long = (axis, place) => able && axis < array.nav && lengths[place] > 1 && axis !== array.channels?.axis;
    this.places = array.where.map((axis, place) => (long(axis, place) ? place : -1)).filter((place) => place >= 0);
    const names = this.places.map((place) => this._name(place));
    const given = Object.entries(view.project?.over ?? {});
    const holds = ([name, range]) => names.includes(name) && (!range || (range[0] < range[1] && range[1] <= lengths[this._place(name)]));
    if (scanned || !given.length || !given.every(holds)) view.project = null;
    this.show();
    if (view.project) viewer.mixing.rescale(SCALED.includes(view.project.how));
  }

  get on() {
    return Boolean(this.viewer.view?.project);
  }

  _name(place) {
    const { array } = this.viewer;
    return array.dims[array.where[place]];
  }

  _place(name) {
    return this.places.find((place) => this._name(place) === name);
  }

  /** Project along an axis, or no longer. Of a stack whose frames are a trace, that is its selection. */
  toggle(place) {
    const { viewer } = this;
    if (!this.places.includes(place)) return;
    viewer.axes.stop();
    if (viewer.scanned) {
      if (viewer.view.selection) return viewer.selecting.pick("point");
      viewer.view.how = "max";
      return viewer.selecting.pick("whole");
    }
    const over = { ...viewer.view.project?.over };
    const name = this._name(place);
    if (name in over) delete over[name];
    else over[name] = null;
    return this._use({ how: viewer.view.project?.how ?? "max", over });
  }

  /** Project along the last axis, or along none. */
  toggleLast() {
    if (this.on) this._use({ over: {} });
    else if (this.places.length) this.toggle(this.places[this.places.length - 1]);
  }

  /** Leave projections. */
  leave() {
    if (this.on) this._use({ over: {} });
  }

  /** Take other frames along an axis. @param {number} first @param {number} last included. */
  range(place, first, last) {
    const count = this.viewer.lengths[place];
    const [from, to] = [first, last].map((n) => Math.max(0, Math.min(count - 1, Math.round(n)))).sort((a, b) => a - b);
    const { how, over } = this.viewer.view.project;
    this._use({ how, over: { ...over, [this._name(place)]: from === 0 && to === count - 1 ? null : [from, to + 1] } });
  }

  _use({ how, over }) {
    const { viewer } = this;
    viewer.view.project = Object.keys(over).length ? { how, over } : null;
    if (this.on && viewer.orthogonal.on) viewer.orthogonal.toggle();
    viewer.mixing.rescale(this.on && SCALED.includes(how));
    this.show();
    viewer.wantFrame();
    viewer.update();
    viewer.changed();
  }

  /** Say along which axes it goes. */
  show() {
    const { axes, scanned, view } = this.viewer;
    if (!view) return;
    const whole = scanned && view.selection && view.how !== "mean";
    axes.projected(this.places, (place) => (whole ? [] : this.on ? this.rangeOf(place) : null));
    this.how.hidden = !this.on;
    this.how.value = view.project?.how ?? "max";
  }

  /** @returns {?[number, number]} the frames along an axis that are taken, half-open; null: it does not go along this axis. */
  rangeOf(place) {
    const { over } = this.viewer.view.project;
    const name = this._name(place);
    return name in over && this.places.includes(place) ? over[name] ?? [0, this.viewer.lengths[place]] : null;
  }

  /** @returns {number[][]} the first and stop index along each axis of frames of what is projected at indices. */
  boxOf(at) {
    const { array } = this.viewer;
    return Array.from({ length: array.nav }, (_, axis) => {
      const place = array.where.indexOf(axis);
      return this.rangeOf(place) ?? [at[place], at[place] + 1];
    });
  }

  /** @returns {string} what is shown: "maximum along z 3 to 8". */
  get caption() {
    const { how, over } = this.viewer.view.project;
    const along = Object.entries(over).map(([name, range]) => (range ? `${name} ${range[0]} to ${range[1] - 1}` : name));
    return `${PROJECTIONS[how]} along ${along.join(" and ")}`;
  }
}
