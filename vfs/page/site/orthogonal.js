/**
 * Orthogonal views of a stack: beside a frame what lies along its rows and columns in all frames, through one place.
 */

import { plane } from "./api.js";
import { table } from "./colours.js";
import { el } from "./dom.js";
import { listen } from "./gestures.js";
import { Latest } from "./latest.js";
import { Picture } from "./picture.js";
import { readOut } from "./readout.js";
import { Path } from "./svg.js";

const MOST = 1024; // numbers along each axis of a view
const OBLONG = 16; // times: steps that differ more are drawn as equal
const THINNEST = 0.25; // of the frame, which a stack of few frames is drawn as at least, where nobody knows how thick it is
const GAP = 6; // CSS pixels between the frame and a view
const WIDEST = 0.4; // of the room, that a view takes
const LINE = "#7fd3ff";
const SIDES = ["right", "below"]; // of the frame: [rows, frames] and [frames, columns]

export class Orthogonal {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    Object.assign(this, { viewer, on: false, place: -1, sides: [] });
    viewer.frame.layers.push(this._lines(() => viewer.view.cross));
    viewer.frame.coloured = () => this.colour();
    this._room = viewer.frame.stage.parentElement;
    new ResizeObserver(() => this.on && this._arrange()).observe(this._room);
  }

  /** Begin with the array and view of the viewer. */
  begin() {
    this.leave();
    const { array, scanned, complex, view } = this.viewer;
    const several = array.where.findLastIndex((axis) => array.shape[axis] > 1 && axis !== array.channels?.axis);
    const stack = array.shown === 2 && array.picture.length === 2 && !complex && !(scanned && array.nav > 1);
    this.place = stack ? several : -1; // in the indices of frames: the axis that is looked along
    if (view.cross && this.place >= 0) this._enter();
  }

  toggle() {
    if (this.place < 0) return;
    const { viewer } = this;
    if (this.on) this.leave();
    else {
      viewer.projecting.leave();
      viewer.view.cross = viewer.frames.size.map((n) => n >> 1);
      this._enter();
      this.update();
    }
    viewer.view.cross = this.on ? viewer.view.cross : null;
    viewer.update();
    viewer.changed();
  }

  _enter() {
    this.on = true;
    const { frame, failed } = { frame: this.viewer.frame, failed: this.viewer.failed };
    this._room.dataset.orthogonal = "true";
    this._arrange();
    this.sides = SIDES.map((where) => {
      const stage = el("div.stage", { tabindex: 0, role: "application", "data-side": where, "aria-label": `Frame: view through all frames, ${where}` });
      frame.stage.after(stage);
      const view = new Picture(stage, null, "Frame");
      const side = { where, stage, view, latest: new Latest(failed), key: "" };
      view.scale = () => this._scaleOf(side); // as large as the frame, and where it is
      view.centre = () => this._centreOf(side);
      view.layers = [this._lines(() => this._crossOf(side))];
      const read = (place) => readOut({ kind: "picture", view, axis: null, aspect: 1, readout: frame.readout }, place);
      listen(view, [(place) => this._drag(place, (to) => this._moved(side, to))], read);
      return side;
    });
  }

  /** Show the frame alone. */
  leave() {
    this.on = false;
    for (const { stage, latest } of this.sides) {
      latest.stop();
      stage.remove();
    }
    this.sides = [];
    delete this._room.dataset.orthogonal;
  }

  /** Make room: frame and views as large as they can be beside one another, in the middle. */
  _arrange() {
    const { frames, frame, lengths } = this.viewer;
    const size = [frames.size[0] * frame.aspect, frames.size[1]]; // in widths of a pixel, as all here
    const deep = lengths[this.place] * this._thick();
    const room = [this._room.clientHeight - GAP, this._room.clientWidth - GAP];
    const scale = Math.min(...size.map((count, axis) => (room[axis] * Math.max(1 - WIDEST, count / (count + deep))) / count));
    const shown = size.map((count) => count * scale);
    const side = shown.map((count, axis) => Math.min(deep * scale, room[axis] - count));
    const start = shown.map((count, axis) => (room[axis] - count - side[axis]) / 2);
    const places = { top: start[0], left: start[1], high: shown[0], wide: shown[1], below: side[0], right: side[1] };
    for (const [name, pixels] of Object.entries(places)) this._room.style.setProperty(`--${name}`, `${pixels}px`);
  }

  /** @returns {number} how thick a frame is in views, in widths of its pixels. */
  _thick() {
    const { array, frames, lengths } = this.viewer;
    const [along, x] = [array.where[this.place], array.picture[1]].map((axis) => array.calibration?.[array.dims[axis]]);
    if (!along?.unit) return Math.max(1, (THINNEST * Math.min(...frames.size)) / lengths[this.place]);
    const found = along.unit === x?.unit ? Math.abs(along.scale / x.scale) : 1;
    return found > 1 / OBLONG && found < OBLONG ? found : 1;
  }

  /** Take a press in the frame: the place through which is looked is moved. */
  press(place) {
    return this.on ? this._drag(place, (to) => this._set(to)) : null;
  }

  /** Move the place through which is looked. */
  nudge(dy, dx) {
    const [y, x] = this.viewer.view.cross;
    this._set([y + dy * this.viewer.frame.view.down, x + dx]);
  }

  _drag(place, move) {
    move(place);
    return { move };
  }

  _set(place) {
    const { viewer } = this;
    viewer.view.cross = viewer.frames.size.map((n, axis) => Math.max(0, Math.min(n - 1, Math.round(place[axis]))));
    this.update();
    viewer.frame.view.draw();
    viewer.changed();
  }

  /** A place in a view was chosen: go to that frame, and to that row or column. */
  _moved({ where }, [down, across]) {
    const { viewer } = this;
    const [y, x] = viewer.view.cross;
    const count = viewer.lengths[this.place];
    const index = Math.max(0, Math.min(count - 1, Math.round(where === "right" ? across : down)));
    this._set(where === "right" ? [down, x] : [y, across]);
    if (index !== viewer.view.at[this.place]) viewer.go(viewer.view.at.with(this.place, index));
  }

  _crossOf({ where }) {
    const { view } = this.viewer;
    if (!view.cross) return null;
    const index = view.at[this.place];
    return where === "right" ? [view.cross[0], index] : [index, view.cross[1]];
  }

  _lines(get) {
    return (context, picture) => {
      const at = this.on && get();
      if (!at) return;
      const [top, left] = picture.toStage(...at);
      const corners = [[-0.5, -0.5], picture.size.map((n) => n - 0.5)].map((corner) => picture.toStage(...corner));
      const ends = [0, 1].map((axis) => corners.map((corner) => Math.max(0, Math.min(picture.box[axis], corner[axis]))));
      const path = new Path();
      path.moveTo(ends[1][0], top);
      path.lineTo(ends[1][1], top);
      path.moveTo(left, ends[0][0]);
      path.lineTo(left, ends[0][1]);
      context.strokeStyle = LINE;
      context.lineWidth = 1;
      context.globalAlpha = 0.7;
      context.stroke(path);
      context.globalAlpha = 1;
    };
  }

  /** Fetch what is not shown yet. */
  update() {
    if (!this.on) return;
    for (const side of this.sides) {
      side.view.draw();
      const { array, mixing, view } = this.viewer;
      const ats = mixing.ats(view.at); // of a picture in colours, a view of each channel
      const wanted = ats.map((at) => this._wanted(side, at));
      const key = JSON.stringify(wanted);
      if (key === side.key) continue;
      side.key = key;
      side.latest.run(async (signal) => {
        const { axes } = wanted[0];
        const got = await Promise.all(wanted.map(({ at }) => plane(array.set, array.path, at, axes, MOST, signal)));
        side.view.down = side.where === "right" ? this.viewer.frame.view.down : 1;
        side.parts = got.map((one, k) => ({ ...one, at: ats[k] }));
        const { data, shape, bin } = side.parts.find(({ at }) => String(at) === String(view.at)) ?? side.parts[0];
        side.view.show(data, shape, axes.map((axis) => array.shape[axis]), bin);
        this.colour();
      });
    }
  }

  /** @returns {{axes: number[], at: number[]}} axes of a view at a frame, and an index along each other one, in their order. */
  _wanted({ where }, frame) {
    const { array, view } = this.viewer;
    const [rows, columns] = array.picture;
    const along = array.where[this.place];
    const axes = where === "right" ? [rows, along] : [along, columns];
    const index = new Map(array.where.map((axis, k) => [axis, frame[k]]));
    index.set(rows, view.cross[0]).set(columns, view.cross[1]);
    const others = [...index.keys()].filter((axis) => !axes.includes(axis)).sort((a, b) => a - b);
    return { axes, at: others.map((axis) => index.get(axis)) };
  }

  _scaleOf({ where }) {
    const [sy, sx] = this.viewer.frame.view.scale();
    const step = sx * this._thick();
    return where === "right" ? [sy, step] : [step, sx];
  }

  _centreOf(side) {
    const { frame, lengths, view } = this.viewer;
    const [cy, cx] = frame.view.centre();
    const right = side.where === "right";
    const [count, step] = [lengths[this.place], this._scaleOf(side)[right ? 1 : 0]];
    const half = Math.min(count / 2, side.view.box[right ? 1 : 0] / 2 / step); // of the frames that are seen
    const middle = Math.max(half - 0.5, Math.min(count - 0.5 - half, view.at[this.place]));
    return right ? [cy, middle] : [middle, cx];
  }

  /** Draw again, as the frame was moved or zoomed. */
  follow() {
    for (const { view } of this.sides) view.draw();
  }

  /** Take the contrast of the frame, or of its layers, again. */
  colour() {
    const { frame, mixing } = this.viewer;
    const { contrast } = frame;
    if (!(contrast.hi > contrast.lo)) return;
    for (const { view, parts } of this.sides) {
      if (!view.numbers) continue;
      if (mixing.on) {
        const { painter, parts: shown } = mixing.how(parts, false);
        view.use(painter, shown);
      } else view.colour(contrast, table(contrast.map, contrast.invert));
    }
  }
}
