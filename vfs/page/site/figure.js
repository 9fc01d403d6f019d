/**
 * A figure of what a panel shows: pictures with their marks and scale bar, a colour bar, and a caption.
 */

import { table } from "./colours.js";
import { CURVES, bend } from "./contrast.js";
import { toText } from "./detectors.js";
import { el, short } from "./dom.js";
import { labelled, ticks } from "./plot.js";
import { Svg } from "./svg.js";

const EDGE = 16; // pixels around everything
const LONG = [640, 420]; // of one picture, of several
const PLOT = [360, 640]; // height and width
const BAR = { wide: 14, off: 10, room: 84 }; // the colour bar: its width, how far off it is, all that it takes
const LINE = 18; // of the caption
const SHARP = 2; // pixels of a PNG for one of the figure, where nobody says how wide it is
const INCH = 25.4; // mm
const MOST = 16384; // pixels of a PNG along x and y
const HEAD = 33; // bytes of a PNG before what says its size on paper
const LIGHT = { line: "#1c1f23", grid: "#82878c", text: "#444a50", accent: "#9a5b00", ground: "#ffffff" };

/**
 * Make a figure.
 *
 * @param {Viewer} viewer @param {Panel} panel @param {string} version of vfs.
 * @param {Object} how {caption, marks, bar, names, colours}: what is in it; `length` of the scale bar as text: "20 nm"; "": as it fits.
 * @returns {{width: number, height: number, draw: function(Object)}} `draw` takes a context of a canvas, or an `Svg`.
 */
export function figure(viewer, panel, version, how) {
  const cells = panel.kind === "plot" ? [plotCell(panel.view)] : pictureCells(viewer, panel);
  const columns = Math.ceil(Math.sqrt(cells.length));
  const [cellHeight, cellWidth] = [0, 1].map((axis) => Math.max(...cells.map(({ seen }) => seen.box[axis])) + (cells.length > 1 ? 8 : 0));
  const bar = how.colours && hasBar(panel);
  const wide = Math.max(columns * cellWidth + (bar ? BAR.room : 0), 320);
  const high = Math.ceil(cells.length / columns) * cellHeight;
  const scratch = new Svg();
  scratch.font = "12px system-ui, sans-serif";
  const lines = (how.caption ? captionOf(viewer, panel, version) : []).flatMap((line) => wrapped(scratch, line, wide));
  const [width, height] = [wide + 2 * EDGE, high + 2 * EDGE + (lines.length && 6 + LINE * lines.length)].map(Math.ceil);
  const draw = (context) => {
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, width, height);
    cells.forEach((cell, k) => {
      context.save();
      context.translate(EDGE + (k % columns) * cellWidth, EDGE + Math.floor(k / columns) * cellHeight);
      drawCell(context, cell, how);
      context.restore();
    });
    if (bar) drawBar(context, panel, EDGE + columns * cellWidth + BAR.off, EDGE, cells[0].seen.box[0]);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = LIGHT.line;
    context.textAlign = "left";
    context.textBaseline = "top";
    lines.forEach((line, k) => context.fillText(line, EDGE, EDGE + high + 10 + k * LINE));
  };
  return { width, height, draw };
}

/** @returns {Blob} the figure as SVG; `wide`: its width, mm. */
export function svg({ width, height, draw }, { wide }) {
  const context = new Svg();
  draw(context);
  return new Blob([context.text(width, height, wide > 0 ? wide / width : 0)], { type: "image/svg+xml" });
}

/** @returns {[number, number]} the pixels of a PNG along x and y. */
export function pixelsOf({ width, height }, { wide, dpi }) {
  const times = wide > 0 ? ((wide / INCH) * dpi) / width : SHARP;
  return [width, height].map((n) => Math.max(1, Math.min(MOST, Math.round(n * times))));
}

/** @returns {Promise<Blob>} the figure as PNG; `wide`: its width, mm; `dpi`: pixels on an inch of it. */
export async function png(made, how) {
  const [width, height] = pixelsOf(made, how);
  const canvas = el("canvas", { width, height });
  const context = canvas.getContext("2d");
  context.scale(width / made.width, height / made.height);
  made.draw(context);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  return how.wide > 0 ? new Blob(await withSize(blob, how.dpi)) : blob;
}

/** @returns {Promise<Array<BlobPart>>} a PNG that says how many pixels an inch has. */
async function withSize(blob, dpi) {
  const chunk = new DataView(new ArrayBuffer(21));
  const each = Math.round((1000 * dpi) / INCH); // pixels of a metre
  chunk.setUint32(0, 9);
  [..."pHYs"].forEach((letter, k) => chunk.setUint8(4 + k, letter.charCodeAt(0)));
  chunk.setUint32(8, each);
  chunk.setUint32(12, each);
  chunk.setUint8(16, 1);
  chunk.setUint32(17, checksum(new Uint8Array(chunk.buffer, 4, 13)));
  return [blob.slice(0, HEAD), chunk.buffer, blob.slice(HEAD)];
}

/** @returns {number} the CRC-32 of bytes. */
function checksum(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

function plotCell(view) {
  const seen = Object.create(view);
  return { seen: Object.assign(seen, { fitted: { box: PLOT, ratio: view.ratio }, colours: () => LIGHT }), view };
}

/** @returns {Object[]} the panel's picture, or its tiles in their order, as far as they are seen. */
function pictureCells(viewer, panel) {
  const { made } = viewer.showing.tiles;
  const tiles = panel.id === "scan" ? made : [];
  const own = { view: panel.view, place: Number(panel.stage.dataset.place || 0) };
  const all = [own, ...tiles].sort((a, b) => a.place - b.place);
  return all.map(({ view }) => ({ view, seen: seenOf(view, LONG[all.length > 1 ? 1 : 0]) }));
}

/** @returns {Picture} the part of a picture that is seen, as a picture of its own that fills its box. */
function seenOf(view, long) {
  const { size, box } = view;
  const ends = [view.toPlace(0, 0), view.toPlace(...box)];
  const [from, to] = [0, 1].map((end) =>
    size.map((count, axis) => Math.max(-0.5, Math.min(count - 0.5, Math[end ? "max" : "min"](ends[0][axis], ends[1][axis])))),
  );
  const scale = view.scale();
  const shown = scale.map((s, axis) => s * (to[axis] - from[axis]));
  const larger = long / Math.max(...shown);
  return Object.assign(Object.create(view), {
    from,
    to,
    fitted: { box: shown.map((n) => n * larger), ratio: view.ratio },
    scale: () => scale.map((s) => s * larger),
    centre: () => from.map((start, axis) => (start + to[axis]) / 2),
  });
}

function drawCell(context, { seen, view }, how) {
  seen.barLength = how.length;
  context.beginPath();
  context.rect(0, 0, seen.box[1], seen.box[0]);
  context.clip();
  if (seen.drawLines) seen.drawLines(context);
  else drawPixels(context, seen, view);
  for (const layer of view.layers) if (how[layer.what ?? "marks"] ?? true) layer(context, seen);
}

/** Draw the pixels that are seen, the one first that is at the top. */
function drawPixels(context, seen, view) {
  if (view.tiles?.level >= 0) return drawTiles(context, seen, view);
  const { _image: image, numbers, down } = view;
  const { bin } = numbers;
  const count = [image.height, image.width];
  const first = seen.from.map((at) => Math.max(0, Math.floor((at + 0.5) / bin)));
  const stop = seen.to.map((at, axis) => Math.min(count[axis], Math.ceil((at + 0.5) / bin)));
  const [rows, columns] = stop.map((end, axis) => Math.max(1, end - first[axis]));
  const crop = el("canvas", { width: columns, height: rows });
  const pen = crop.getContext("2d");
  if (down < 0) pen.setTransform(1, 0, 0, -1, 0, rows);
  pen.drawImage(image, -first[1], -first[0]);
  const corners = [first, stop].map((end) => seen.toStage(...end.map((at) => at * bin - 0.5)));
  const [top, bottom] = [corners[0][0], corners[1][0]].sort((a, b) => a - b);
  context.imageSmoothingEnabled = (bottom - top) / rows < 1;
  context.drawImage(crop, corners[0][1], top, corners[1][1] - corners[0][1], bottom - top);
  return undefined;
}

/** Draw what is seen of a large picture, as fine as it is on the screen. */
function drawTiles(context, seen, view) {
  const sharp = Math.max(1, Math.ceil((view.box[1] * view.ratio) / seen.box[1]));
  const [height, width] = seen.box.map((n) => Math.ceil(n * sharp));
  const crop = el("canvas", { width, height });
  const fine = Object.assign(Object.create(seen), { fitted: { box: seen.box, ratio: sharp } });
  const pen = crop.getContext("2d");
  pen.scale(1, view.down);
  view.drawWhole(pen, fine);
  view.tiles.draw(pen, fine, true);
  context.imageSmoothingEnabled = true;
  context.drawImage(crop, 0, 0, width / sharp, height / sharp);
}

/** @returns {boolean} true if colours stand for numbers. */
function hasBar({ kind, shown }) {
  return kind === "picture" && shown.shape.length === 2 && !shown.paint && !shown.mixed;
}

function drawBar(context, { contrast }, left, top, height) {
  const colours = table(contrast.map, contrast.invert);
  const bar = el("canvas", { width: 1, height: 256 });
  const image = new ImageData(1, 256);
  const out = new Uint32Array(image.data.buffer);
  for (let i = 0; i < 256; i++) out[255 - i] = colours[Math.round(255 * bend(i / 255, contrast.curve, contrast.gamma))];
  bar.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(bar, left, top, BAR.wide, height);
  context.fillStyle = LIGHT.text;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  const { lo, hi } = contrast;
  const values = ticks(lo, hi, Math.max(2, height / 80));
  const { texts, power } = labelled(values);
  if (power) context.fillText(power, left, top - EDGE / 2);
  for (const [k, value] of values.entries()) {
    const y = top + height * (1 - (value - lo) / (hi - lo));
    context.fillRect(left + BAR.wide, y - 0.5, 4, 1);
    context.fillText(texts[k], left + BAR.wide + 8, Math.max(top + 6, Math.min(top + height - 6, y)));
  }
}

/** @returns {string[]} which array this is, what of it, how it is coloured, and who made it. */
function captionOf(viewer, panel, version) {
  const { set, array, detecting, view } = viewer;
  const { shown, contrast, kind } = panel;
  const places = array.where.map((axis, k) => (array.shape[axis] > 1 ? `${array.dims[axis]} ${view.at[k]}` : ""));
  const at = places.filter(Boolean).join(", ");
  const what = panel.id === "frame" && (view.selection || view.project) ? shown.caption : panel.id === "scan" ? imagesOf(viewer) : at;
  const detectors = panel.id === "frame" && viewer.detects ? `detectors: ${detecting.channels.map(({ shape }) => toText(shape)).join("; ")}` : "";
  const bend = contrast.curve === "gamma" ? `gamma ${short(contrast.gamma)}` : CURVES[contrast.curve];
  const limits = `${bend}, ${short(contrast.lo, 5)} to ${short(contrast.hi, 5)}`;
  const coloured = hasBar(panel) ? `${contrast.map}${contrast.invert ? ", inverted" : ""}, ${limits}` : "";
  const tiled = kind === "picture" && panel.id === "scan" && viewer.showing.tiles.made.length ? " (bar: of the chosen one)" : "";
  return [
    `${set.name} · ${array.path} · ${what || array.shape.join(" × ")}`,
    detectors,
    shown.mixed ? viewer.mixing.caption((value) => short(value, 5)) : "",
    [coloured && coloured + tiled, shown.status, `vfs ${version}`].filter(Boolean).join(" · "),
  ].filter(Boolean);
}

function imagesOf({ showing, arranged, scan }) {
  return arranged === "one" || showing.maps.length < 2 ? scan.shown.caption : showing.maps.map(({ caption }) => caption).join("; ");
}

/** @returns {string[]} a text in lines that are no wider. */
function wrapped(context, text, wide) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines[lines.length - 1];
    const longer = line ? `${line} ${word}` : word;
    if (line && context.measureText(longer).width > wide) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
