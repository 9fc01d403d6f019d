/**
 * What is drawn above pictures: shapes with their handles, the cursor, scale bars, profile lines.
 *
 * Each function makes a layer for `Picture.layers`. Lines are light with a dark rim, to be seen on any colour.
 */

import { legend } from "./wheel.js";
import { short } from "./dom.js";
import { fitting } from "./units.js";

const ACCENT = "#ffb454";
const RIM = "rgba(0, 0, 0, 0.55)";
const TALL = 60; // screen pixels of one row: it is a plot

function stroke(context, path, colour = ACCENT, width = 1.5) {
  context.strokeStyle = RIM;
  context.lineWidth = width + 2;
  context.stroke(path);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.stroke(path);
}

function knob(context, top, left) {
  const path = new Path2D();
  path.arc(left, top, 3.5, 0, 7);
  context.fillStyle = ACCENT;
  stroke(context, path, "#201503", 1);
  context.fill(path);
}

/** @param {function(): ?Object} get the shape to draw. */
export function shapeLayer(get) {
  return (context, picture) => {
    const shape = get();
    if (!shape || shape.kind === "whole" || shape.kind === "magnitude") return;
    const [sy, sx] = picture.scale();
    const path = new Path2D();
    if (picture.size[0] === 1 && sy > TALL) return strokeWindow(context, picture, shape);
    if (shape.kind === "point") {
      const [top, left] = picture.toStage(shape.y, shape.x);
      cross(path, top, left, Math.max(7, sx / 2 + 4));
      return stroke(context, path);
    }
    if (shape.kind === "rectangle") {
      const [top, left] = picture.toStage(shape.y0 - 0.5, shape.x0 - 0.5);
      const [bottom, right] = picture.toStage(shape.y1 - 0.5, shape.x1 - 0.5);
      path.rect(left, top, right - left, bottom - top);
      stroke(context, path);
      for (const [y, x] of [
        [top, left],
        [top, right],
        [bottom, left],
        [bottom, right],
      ])
        knob(context, y, x);
      return undefined;
    }
    const [top, left] = picture.toStage(shape.cy, shape.cx);
    const radii = shape.kind === "ring" ? [shape.r0, shape.r1] : [shape.r];
    for (const r of radii) {
      path.moveTo(left + r * sx, top);
      path.ellipse(left, top, r * sx, r * sy, 0, 0, 2 * Math.PI);
    }
    context.fillStyle = "rgba(255, 180, 84, 0.06)";
    context.fill(path, "evenodd");
    stroke(context, path);
    for (const r of radii) knob(context, top, left + r * sx);
    const middle = new Path2D();
    cross(middle, top, left, 6);
    stroke(context, middle, ACCENT, 1);
    return undefined;
  };
}

/** Draw a window of a line, or a sample of it, from top to bottom. */
function strokeWindow(context, picture, { kind, x, x0, x1 }) {
  const [from, to] = kind === "point" ? [x, x] : [x0 - 0.5, x1 - 0.5];
  const [[top, left], [bottom, right]] = [picture.toStage(-0.5, from), picture.toStage(0.5, to)];
  context.fillStyle = "rgba(255, 180, 84, 0.12)";
  context.fillRect(left, top, right - left, bottom - top);
  const path = new Path2D();
  for (const edge of left === right ? [left] : [left, right]) {
    path.moveTo(edge, top);
    path.lineTo(edge, bottom);
  }
  stroke(context, path, ACCENT, 1);
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
    const [sy, sx] = picture.scale();
    const [top, left] = picture.toStage(at[0], at[1]);
    const path = new Path2D();
    if (picture.size[0] === 1 && sy > TALL) {
      path.moveTo(left, picture.toStage(-0.5, 0)[0]);
      path.lineTo(left, picture.toStage(0.5, 0)[0]);
      stroke(context, path, ACCENT, 1);
      return;
    }
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

/** @param {function(): ?{scale?: number, unit?: string}} get calibration along x, {}: pixels; null: no bar. */
export function scaleBarLayer(get) {
  return (context, picture) => {
    const [, sx] = picture.scale();
    const given = get();
    if (given === null) return;
    const wide = Math.min(picture.box[1], picture.size[1] * sx);
    const about = wide * 0.3 * Math.abs(given.scale ?? 1);
    const { factor, unit } = fitting(about / sx, given.unit ?? "px");
    const scale = (given.scale ?? 1) * factor;
    const most = (about * factor) / sx;
    const length = round(most);
    if (!(length > 0) || wide < 80 || (unit === "px" && length < 1)) return;
    const pixels = (length / Math.abs(scale)) * sx;
    const right = (picture.box[1] + wide) / 2 - 14;
    const bottom = Math.min(picture.box[0], edges(picture)[1]) - 14;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    const text = `${short(length)} ${unit}`;
    const breadth = Math.max(pixels, context.measureText(text).width);
    const middle = Math.min(right - pixels / 2, picture.box[1] - breadth / 2 - 12);
    const back = new Path2D();
    back.roundRect(middle - breadth / 2 - 8, bottom - 27, breadth + 16, 34, 6);
    context.fillStyle = "rgba(0, 0, 0, 0.6)";
    context.fill(back);
    context.fillStyle = "#fff";
    context.fillRect(middle - pixels / 2, bottom - 2, pixels, 3);
    context.fillText(text, middle, bottom - 10);
  };
}

/** @returns {number} the largest of 1, 2, 5 times a power of ten that is not above. */
function round(most) {
  const ten = 10 ** Math.floor(Math.log10(most));
  return Number(([5, 2, 1].find((n) => n * ten <= most * 1.0001) * ten).toPrecision(3));
}

/** @param {function(): ?{from: [number, number], to: [number, number]}} get the line of a profile. */
export function lineLayer(get) {
  return (context, picture) => {
    const line = get();
    if (!line) return;
    const [a, b] = [picture.toStage(...line.from), picture.toStage(...line.to)];
    const path = new Path2D();
    path.moveTo(a[1], a[0]);
    path.lineTo(b[1], b[0]);
    stroke(context, path, "#7fd3ff");
    for (const [top, left] of [a, b]) {
      const end = new Path2D();
      end.arc(left, top, 3, 0, 7);
      stroke(context, end, "#7fd3ff");
    }
  };
}

/** @param {function(): ?number} get pixels at the rim of the wheel; null: no wheel. */
export function wheelLayer(get) {
  let wheel = null;
  return (context, picture) => {
    const most = get();
    if (most === null || most === undefined) return;
    wheel ??= legend(96);
    const size = Math.max(36, Math.min(64, picture.box[0] / 7));
    const [top, left] = [edges(picture)[0], picture.toStage(0, -0.5)[1]].map((n) => Math.max(0, n) + 10);
    context.drawImage(wheel, left, top, size, size);
    context.font = "600 11px system-ui, sans-serif";
    context.textAlign = "left";
    context.strokeStyle = RIM;
    context.lineWidth = 3;
    context.fillStyle = "#fff";
    context.strokeText(`${short(most, 2)} px`, left + size + 6, top + size / 2 + 4);
    context.fillText(`${short(most, 2)} px`, left + size + 6, top + size / 2 + 4);
  };
}
