/**
 * What is drawn above pictures: shapes with their handles, the cursor, scale bars, profile lines.
 *
 * Each function makes a layer for `Picture.layers`. Lines are light with a dark rim, to be seen on any colour; in plots, whose
 * ground is known, they have none.
 */

import { onEllipse } from "./detectors.js";
import { legend, phases } from "./wheel.js";
import { short } from "./dom.js";
import { readable } from "./plot.js";
import { Path } from "./svg.js";
import { factorBetween, fitting, symbol } from "./units.js";

const ACCENT = "#ffb454";
const CORNERS = 90; // of an ellipse that is turned
const RIM = "rgba(0, 0, 0, 0.55)";

function stroke(context, path, colour = ACCENT, width = 1.5) {
  context.strokeStyle = RIM;
  context.lineWidth = width + 2;
  context.stroke(path);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.stroke(path);
}

/** Stroke a line of a plot. */
function strokeInPlot(context, plot, path, colour, width) {
  context.strokeStyle = readable(colour, plot.colours().ground);
  context.lineWidth = width;
  context.stroke(path);
}

/** Draw thin lines, each between two places of the stage (top, left). */
export function outlined(context, lines) {
  const path = new Path();
  for (const [[top, left], [bottom, right]] of lines) {
    path.moveTo(left, top);
    path.lineTo(right, bottom);
  }
  context.globalAlpha = 0.55;
  stroke(context, path, "#fff", 0.75);
  context.globalAlpha = 1;
}

function knob(context, top, left, colour = ACCENT) {
  const path = new Path();
  path.circle(left, top, 3.5);
  context.fillStyle = colour;
  stroke(context, path, "#201503", 1);
  context.fill(path);
}

/** @param {function(): ?Object} get the shape to draw. */
export function shapeLayer(get) {
  return (context, picture) => {
    const shape = get();
    if (shape) strokeShape(context, picture, shape, ACCENT, true);
  };
}

/**
 * Draw detectors, each in its colour; the active one with what it is taken hold of by, above the others.
 *
 * @param {function(): {channels: Object[], active: number, colours: string[]}} get see detecting.js.
 */
export function channelsLayer(get) {
  return (context, picture) => {
    const { channels, active, colours } = get();
    const order = channels.map((_, k) => k).sort((a, b) => (a === active) - (b === active));
    context.save();
    picture.clip?.(context);
    for (const k of order) {
      const { shape, fit } = channels[k];
      if (fit) strokeFit(context, picture, fit, colours[k]);
      if (shape) strokeShape(context, picture, shape, colours[k], k === active);
    }
    context.restore();
  };
}

function strokeShape(context, picture, shape, colour, held) {
  if (shape.kind === "whole" || shape.kind === "magnitude") return;
  const path = new Path();
  if (picture.colours) return strokeWindow(context, picture, shape, colour, held);
  const [sy, sx] = picture.scale();
  const knobs = (places) => held && places.forEach(([y, x]) => knob(context, y, x, colour));
  if (shape.kind === "point") {
    const [top, left] = picture.toStage(shape.y, shape.x);
    cross(path, top, left, Math.max(7, sx / 2 + 4));
    return stroke(context, path, colour);
  }
  if (shape.kind === "rectangle") {
    const [top, left] = picture.toStage(shape.y0 - 0.5, shape.x0 - 0.5);
    const [bottom, right] = picture.toStage(shape.y1 - 0.5, shape.x1 - 0.5);
    path.rect(left, top, right - left, bottom - top);
    stroke(context, path, colour);
    return knobs([top, bottom].flatMap((y) => [left, right].map((x) => [y, x])));
  }
  if (shape.kind === "polygon") {
    const places = shape.y.map((y, k) => picture.toStage(y, shape.x[k]));
    closed(path, places);
    stroke(context, path, colour);
    return knobs(places);
  }
  const [top, left] = picture.toStage(shape.cy, shape.cx);
  const radii = "r1" in shape ? [shape.r0, shape.r1] : [shape.r];
  const turned = shape.kind === "radial";
  const places = (r) => Array.from({ length: CORNERS }, (_, k) => picture.toStage(...onEllipse(shape, r, (k * 360) / CORNERS)));
  for (const r of radii) {
    if (turned) closed(path, places(r));
    else path.ellipse(left, top, r * sx, r * sy);
  }
  context.globalAlpha = 0.06;
  context.fillStyle = colour;
  context.fill(path, "evenodd");
  context.globalAlpha = 1;
  stroke(context, path, colour);
  knobs(turned ? [...radii.map((r) => onEllipse(shape, r, 90)), onEllipse(shape, shape.r1, 0)].map((place) => picture.toStage(...place)) : radii.map((r) => [top, left + r * sx]));
  const middle = new Path();
  cross(middle, top, left, 6);
  return stroke(context, middle, colour, 1);
}

/** Add a closed line through places of the stage. */
function closed(path, places) {
  places.forEach(([top, left], k) => (k ? path.lineTo(left, top) : path.moveTo(left, top)));
  path.lineTo(places[0][1], places[0][0]);
}

/** Draw a window of a line, or a sample of it, from top to bottom of a plot. */
function strokeWindow(context, picture, { kind, x, x0, x1 }, colour, held) {
  const [from, to] = kind === "point" ? [x, x] : [x0 - 0.5, x1 - 0.5];
  const [[top, left], [bottom, right]] = [picture.toStage(-0.5, from), picture.toStage(0.5, to)];
  context.globalAlpha = held ? 0.2 : 0.1;
  context.fillStyle = colour;
  context.fillRect(left, top, right - left, bottom - top);
  context.globalAlpha = 1;
  const path = new Path();
  for (const edge of left === right ? [left] : [left, right]) {
    path.moveTo(edge, top);
    path.lineTo(edge, bottom);
  }
  strokeInPlot(context, picture, path, colour, held ? 2 : 1);
}

/** Draw the window of a background in a plot: dashed, with a bar at its top. */
function strokeFit(context, picture, { from, to }, colour) {
  const [[top, left], [bottom, right]] = [picture.toStage(-0.5, from - 0.5), picture.toStage(0.5, to - 0.5)];
  const path = new Path();
  for (const edge of [left, right]) {
    path.moveTo(edge, top);
    path.lineTo(edge, bottom);
  }
  context.setLineDash([5, 4]);
  strokeInPlot(context, picture, path, colour, 1.25);
  context.setLineDash([]);
  context.globalAlpha = 0.5;
  context.fillStyle = colour;
  context.fillRect(left, top, right - left, 4);
  context.globalAlpha = 1;
}

function cross(path, top, left, size) {
  path.moveTo(left - size, top);
  path.lineTo(left - 2.5, top);
  path.moveTo(left + 2.5, top);
  path.lineTo(left + size, top);
  path.moveTo(left, top - size);
  path.lineTo(left, top - 2.5);
  path.moveTo(left, top + 2.5);
  path.lineTo(left, top + size);
}

/** @param {function(): ?[number, number]} get the position of the scan whose frame is shown. */
export function cursorLayer(get) {
  return (context, picture) => {
    const at = get();
    if (!at) return;
    const [top, left] = picture.toStage(at[0], at[1]);
    const path = new Path();
    if (picture.colours) {
      path.moveTo(left, picture.toStage(-0.5, 0)[0]);
      path.lineTo(left, picture.toStage(0.5, 0)[0]);
      strokeInPlot(context, picture, path, ACCENT, 1.5);
      return;
    }
    const [sy, sx] = picture.scale();
    const [h, w] = [Math.max(4, sy / 2), Math.max(4, sx / 2)];
    path.rect(left - w, top - h, 2 * w, 2 * h);
    for (const [y, x] of [
      [0, 1],
      [0, -1],
      [1, 0],
      [-1, 0],
    ]) {
      path.moveTo(left + x * w, top + y * h);
      path.lineTo(left + x * (w + 7), top + y * (h + 7));
    }
    stroke(context, path);
  };
}

/** @returns {[number, number]} where in the stage the upper and the lower edge of a picture are. */
function edges(picture) {
  const both = [-0.5, picture.size[0] - 0.5].map((y) => picture.toStage(y, 0)[0]);
  return [Math.min(...both), Math.max(...both)];
}

/**
 * Draw a bar along x, and one along y where another length is as long there.
 *
 * @param {function(): ?{x: Object, y: ?Object}} get calibration (`scale`, `unit`) of both axes, {}: pixels; y null: as that of x; null: no bars.
 */
export function scaleBarLayer(get) {
  const layer = (context, picture) => {
    const { x, y } = get() || {};
    const wide = Math.min(picture.box[1], picture.size[1] * picture.scale()[1]);
    const bottom = Math.min(picture.box[0], edges(picture)[1]) - 14;
    context.font = "600 12px system-ui, sans-serif";
    const along = x && barOf(picture, 1, x);
    if (along) {
      const breadth = Math.max(along.pixels, context.measureText(along.text).width);
      const middle = (picture.box[1] + wide) / 2 - 14 - breadth / 2;
      ground(context, middle - breadth / 2 - 8, bottom - 27, breadth + 16, 34);
      context.fillRect(middle - along.pixels / 2, bottom - 2, along.pixels, 3);
      context.textAlign = "center";
      context.fillText(along.text, middle, bottom - 10);
    }
    const down = y && barOf(picture, 0, y);
    if (down) {
      const left = (picture.box[1] - wide) / 2 + 14;
      const height = Math.max(down.pixels, 16);
      ground(context, left - 7, bottom + 7 - height - 14, context.measureText(down.text).width + 27, height + 14);
      context.fillRect(left, bottom - height / 2 - down.pixels / 2, 3, down.pixels);
      context.textAlign = "left";
      context.fillText(down.text, left + 11, bottom - height / 2 + 4);
    }
  };
  return Object.assign(layer, { what: "bar" });
}

/** Draw what makes a bar readable on any picture. */
function ground(context, left, top, width, height) {
  const back = new Path();
  back.roundRect(left, top, width, height, 6);
  context.fillStyle = "rgba(0, 0, 0, 0.6)";
  context.fill(back);
  context.fillStyle = "#fff";
}

/** @returns {?{pixels: number, text: string}} a bar along an axis of a picture; null: there is no room for it. */
function barOf(picture, axis, given) {
  const step = picture.scale()[axis];
  const shown = Math.min(picture.box[axis], picture.size[axis] * step);
  const [, wanted, named] = /^\s*([\d.]+)\s*(.*?)\s*$/.exec(picture.barLength || "") || [];
  const times = wanted > 0 ? factorBetween(named, symbol(given.unit ?? "px")) : null;
  if (times) return { pixels: ((wanted * times) / Math.abs(given.scale ?? 1)) * step, text: `${wanted} ${named || symbol(given.unit ?? "px")}` };
  const about = shown * 0.3 * Math.abs(given.scale ?? 1);
  const { factor, unit } = fitting(about / step, given.unit ?? "px");
  const length = round((about * factor) / step);
  if (!(length > 0) || shown < 80 || (unit === "px" && length < 1)) return null;
  return { pixels: (length / Math.abs((given.scale ?? 1) * factor)) * step, text: `${short(length)} ${unit}` };
}

/** @returns {number} the largest of 1, 2, 5 times a power of ten that is not above. */
function round(most) {
  const ten = 10 ** Math.floor(Math.log10(most));
  return Number(([5, 2, 1].find((n) => n * ten <= most * 1.0001) * ten).toPrecision(3));
}

/**
 * Draw the line of a profile, and the band across which means are taken.
 *
 * @param {function(): ?{from: [number, number], to: [number, number], beside: [number, number]}} get places, and the way from the line to
 *   one side of the band, pixels.
 */
export function lineLayer(get) {
  return (context, picture) => {
    const line = get();
    if (!line) return;
    const [a, b] = [picture.toStage(...line.from), picture.toStage(...line.to)];
    const path = new Path();
    path.moveTo(a[1], a[0]);
    path.lineTo(b[1], b[0]);
    stroke(context, path, "#7fd3ff");
    const [dy, dx] = line.beside;
    if (dy || dx) {
      const band = new Path();
      const at = ([y, x], side) => picture.toStage(y + side * dy, x + side * dx).toReversed();
      for (const side of [1, -1]) {
        band.moveTo(...at(line.from, side));
        band.lineTo(...at(line.to, side));
      }
      context.setLineDash([5, 4]);
      stroke(context, band, "#7fd3ff", 1);
      context.setLineDash([]);
    }
    for (const [top, left] of [a, b]) {
      const end = new Path();
      end.circle(left, top, 3);
      stroke(context, end, "#7fd3ff");
    }
  };
}

/** @param {function(): ?number} get pixels at the rim of the wheel; null: no wheel. */
export function wheelLayer(get) {
  let wheel = null;
  const layer = (context, picture) => {
    const most = get();
    if (most === null || most === undefined) return;
    wheel ??= legend(96);
    drawWheel(context, picture, wheel, `${short(most, 2)} px`);
  };
  return Object.assign(layer, { what: "colours" });
}

/**
 * Draw the wheel that tells which colour is which phase.
 *
 * @param {function(): ?Object} get the contrast of phases; null for none.
 */
export function phaseLayer(get) {
  let [wheel, made] = [null, ""];
  const layer = (context, picture) => {
    const contrast = get();
    if (!contrast) return;
    const now = JSON.stringify(contrast);
    if (now !== made) [wheel, made] = [phases(96, contrast), now];
    drawWheel(context, picture, wheel, "0 rad");
  };
  return Object.assign(layer, { what: "colours" });
}

function drawWheel(context, picture, wheel, text) {
  const size = Math.max(36, Math.min(64, picture.box[0] / 7));
  const [top, left] = [edges(picture)[0], picture.toStage(0, -0.5)[1]].map((n) => Math.max(0, n) + 10);
  context.drawImage(wheel, left, top, size, size);
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "left";
  context.strokeStyle = RIM;
  context.lineWidth = 3;
  context.fillStyle = "#fff";
  context.strokeText(text, left + size + 6, top + size / 2 + 4);
  context.fillText(text, left + size + 6, top + size / 2 + 4);
}

/**
 * Draw vertical marks with a text above a plot.
 *
 * @param {function(): Array<{x: number, text: string}>} get in samples, from left to right.
 */
export function marksLayer(get) {
  const size = 13; // screen pixels of a row of texts
  return (context, picture) => {
    const marks = get();
    if (!marks.length) return;
    const rows = [];
    const colours = picture.colours();
    context.font = "600 11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    const [top, bottom] = [picture.toStage(-0.5, 0)[0], picture.toStage(0.5, 0)[0]];
    const seen = marks.map(({ x, text }) => ({ text, left: picture.toStage(0, x)[1], more: [] })).filter(({ left }) => left >= picture.left && left <= picture.box[1] - 12);
    for (const { text, left, more } of together(seen, (words) => context.measureText(words).width)) {
      const wide = context.measureText(text).width;
      const begin = Math.min(left + 3, picture.box[1] - wide - 2);
      const free = rows.findIndex((end) => end < begin);
      const row = free < 0 ? rows.length : free;
      rows[row] = begin + wide + 6;
      const y = top + size * (row + 1);
      if (y > bottom) continue;
      context.strokeStyle = colours.accent;
      context.lineWidth = 1;
      context.setLineDash([2, 3]);
      context.beginPath();
      for (const at of [left, ...more]) {
        context.moveTo(Math.round(at) + 0.5, y - size + 3);
        context.lineTo(Math.round(at) + 0.5, bottom);
      }
      context.stroke();
      context.setLineDash([]);
      context.strokeStyle = colours.ground;
      context.lineWidth = 3;
      context.strokeText(text, begin, y);
      context.fillStyle = colours.line;
      context.fillText(text, begin, y);
    }
  };
}

/** @returns {Object[]} marks; those of one shell that lie too close for two texts have one: "Fe Lα Lβ", and `more`: where the others are. */
function together(marks, wide) {
  const made = [];
  for (const mark of marks) {
    const [element, name] = mark.text.split(" ");
    const near = made.findLast(({ text }) => text.startsWith(`${element} ${name[0]}`));
    if (near && mark.left - near.left < wide(near.text) + 6) {
      near.text = `${near.text} ${name}`;
      near.more.push(mark.left);
    } else made.push(mark);
  }
  return made;
}

/**
 * Name what a picture shows, in its upper left corner.
 *
 * @param {function(number): ?{text: string, colour: string}[]} get lines of a tile; of the panel's own without a number.
 */
export function labelLayer(get) {
  const layer = (context, picture, place) => {
    const lines = get(place) || [];
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    const left = Math.max(0, picture.toStage(0, -0.5)[1]) + 8;
    const top = Math.max(0, edges(picture)[0]) + 8;
    lines.forEach(({ text: whole, colour }, k) => {
      const text = cut(context, whole, picture.box[1] - left - 34);
      const back = new Path();
      back.roundRect(left, top + 22 * k, context.measureText(text).width + 26, 20, 5);
      context.fillStyle = "rgba(0, 0, 0, 0.6)";
      context.fill(back);
      context.fillStyle = colour;
      context.fillRect(left + 6, top + 22 * k + 5, 10, 10);
      context.fillStyle = "#fff";
      context.fillText(text, left + 20, top + 22 * k + 14);
    });
  };
  return Object.assign(layer, { what: "names" });
}

/** @returns {string} the first parts of a text that have room: "Ca Kα" of "Ca Kα · 3.59 to 3.79 keV". */
function cut(context, text, room) {
  let [parts, shown] = [text.split(/(?= · | above )/), text];
  while (parts.length > 1 && context.measureText(shown).width > room) {
    parts = parts.slice(0, -1);
    shown = parts.join("");
  }
  return shown;
}
