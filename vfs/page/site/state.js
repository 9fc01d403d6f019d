/**
 * The view as text: what is in the address behind #, so that copying the address copies the view.
 *
 * The token is in the path of the address, not here.
 */

import { MAPS } from "./colours.js";
import { CURVES, MODES, usual } from "./contrast.js";
import { fromText, toText } from "./detectors.js";
import { symbols } from "./elements.js";
import { GROUNDS, gridOf } from "./grounds.js";
import { quoted, unquoted } from "./names.js";
import { PROJECTIONS, projectionOf, projectionText } from "./projecting.js";

/**
 * A view: which array, where in it, how it is looked at.
 *
 * @typedef {Object} View
 * @property {string} folder that the list shows, "" for the first.
 * @property {string} set key of the set; "" for none: the list is shown.
 * @property {?Object} open options with which the set is opened anew; null: as it is served.
 * @property {string} array path of the array.
 * @property {?number[]} at an index for each leading axis; null: the middle.
 * @property {?Object} detector a shape in the frame; null: the automatic bright field.
 * @property {?Object[]} channels several detectors, or one with a background: see detecting.js; null: only `detector`.
 * @property {number} active which of them is `detector`.
 * @property {string} arrange of their images: one, tiles or colours; "": as is usual for such frames.
 * @property {string} elements symbols of elements that are marked in spectra, with spaces between.
 * @property {string} marks of them: edges or lines; "": as is usual for such energies.
 * @property {?Object} selection a rectangle or disk in the scan; null: the position is selected.
 * @property {string} how mean, sum, max, min or std: of the selection.
 * @property {?Object} project {how, over: name of an axis -> [first, stop], null: all}: a projection; null: single frames.
 * @property {boolean} skipna sums and projections of frames leave NaN out.
 * @property {string} side of centres of mass: wheel, x, y, magnitude or potential.
 * @property {?number} turn degrees by which centres of mass are turned; null: 0, of potentials the one with least curl.
 * @property {string} part of complex numbers: abs, phase, real or imag.
 * @property {string} ground the background that patterns are shown without, see grounds.js; "": with it.
 * @property {number} grid rows and columns of the grid that lies over backscatter patterns; 0: none.
 * @property {?number[]} cross row and column through which a stack is looked at in orthogonal views; null: there are none.
 * @property {?Object[]} layers of channels: on, colour, contrast of each; []: one channel is shown; null: as is usual.
 * @property {?Object} scan contrast of the scan. @property {?Object} frame contrast of the frame.
 */

const HOW = Object.keys(PROJECTIONS);
const SIDES = ["wheel", "x", "y", "magnitude", "potential"];
const ARRANGED = ["one", "tiles", "colours"];
const MARKS = ["edges", "lines"];
const MODELS = ["power", "linear"];
const PARTS = ["abs", "phase", "real", "imag"];
const [LEAST, MOST] = [0.1, 3]; // exponents of contrast

/** @returns {View} a view of nothing yet. */
export function empty() {
  return {
    folder: "",
    set: "",
    open: null,
    array: "",
    at: null,
    detector: null,
    channels: null,
    active: 0,
    arrange: "",
    elements: "",
    marks: "",
    selection: null,
    how: "mean",
    side: "wheel",
    turn: null,
    part: "abs",
    ground: "",
    grid: 0,
    cross: null,
    project: null,
    skipna: false,
    layers: null,
    scan: null,
    frame: null,
  };
}

/**
 * Write a view.
 *
 * @param {View} view
 * @returns {string} for behind the #.
 */
export function write(view) {
  const pairs = [];
  const add = (name, value) =>
    value && pairs.push(`${name}=${quoted(value).replace(/%(2F|2C|28|29|20|3A)/g, plain)}`);
  if (!view.set) add("folder", view.folder);
  add("set", view.set);
  if (view.open) add("open", JSON.stringify(view.open));
  add("array", view.array);
  if (view.at?.length) add("at", view.at.join(","));
  if (view.detector && !view.channels) add("detector", toText(view.detector).replaceAll(" ", ""));
  if (view.channels) add("detectors", view.channels.map(channelText).join(";"));
  if (view.channels && view.active) add("active", String(view.active));
  for (const name of ["arrange", "elements", "marks"]) add(name, view[name]);
  if (view.selection) add("selection", toText(view.selection).replaceAll(" ", ""));
  if (view.how !== "mean") add("how", view.how);
  if (view.side !== "wheel") add("side", view.side);
  if (view.turn !== null) add("turn", String(view.turn));
  if (view.part !== "abs") add("part", view.part);
  add("background", view.ground);
  if (view.grid) add("grid", String(view.grid));
  if (view.cross) add("cross", view.cross.join(","));
  if (view.skipna) add("skipna", "1");
  if (view.project) add("project", projectionText(view.project).replaceAll(" ", ""));
  if (view.layers) add("layers", view.layers.map(layerText).join(";") || "off");
  for (const name of ["scan", "frame"]) if (view[name]) add(name, contrastText(view[name]));
  return pairs.join("&");
}

/** @returns {Map<string, string>} the fields of a text: of those with one name the first. */
function fields(text) {
  const pairs = text.split("&").map((piece) => {
    const [name, ...rest] = piece.split("=");
    return [name, unquoted(rest.join("=").replaceAll("+", " "))];
  });
  return new Map(pairs.reverse());
}

function plain(code) {
  return code === "%20" ? "+" : decodeURIComponent(code);
}

/**
 * Read a view. What cannot be read is left as in an empty view.
 *
 * @param {string} text with or without #.
 * @returns {View}
 */
export function read(text) {
  const given = fields(text.replace(/^#/, ""));
  const view = empty();
  for (const name of ["folder", "set", "array"]) view[name] = given.get(name) || "";
  view.open = optionsOr(given.get("open"));
  view.at = indicesOf(given.get("at"));
  view.cross = indicesOf(given.get("cross"));
  if (view.cross?.length !== 2) view.cross = null;
  view.skipna = given.get("skipna") === "1";
  view.project = projectionOf(given.get("project"));
  view.detector = shapeOr(given.get("detector"));
  view.selection = shapeOr(given.get("selection"), ["rectangle", "disk", "polygon"]);
  view.channels = channelsOr(given.get("detectors"));
  view.active = Number.parseInt(given.get("active"), 10) || 0;
  const turn = given.get("turn") ? Number(given.get("turn")) : NaN;
  if (Math.abs(turn) <= 360) view.turn = turn;
  view.grid = gridOf(given.get("grid"));
  view.elements = elementsOr(given.get("elements"));
  for (const [name, words] of [
    ["arrange", ARRANGED],
    ["marks", MARKS],
    ["how", HOW],
    ["side", SIDES],
    ["part", PARTS],
  ]) {
    if (words.includes(given.get(name))) view[name] = given.get(name);
  }
  if (Object.hasOwn(GROUNDS, given.get("background"))) view.ground = given.get("background");
  view.layers = layersOf(given.get("layers"));
  for (const name of ["scan", "frame"]) view[name] = contrastOf(given.get(name));
  return view;
}

/** @returns {?number[]} indices; null where a text holds none. */
function indicesOf(text) {
  const found = (text || "").split(",").filter(Boolean).map(Number);
  return found.length && found.every((index) => Number.isInteger(index) && index >= 0) ? found : null;
}

/** @returns {string} a channel: its detector and, behind -, the background: "rectangle(0,90,1,99)-power(60,88)". */
function channelText({ shape, fit }) {
  const background = fit ? `-${fit.model}(${fit.from},${fit.to})` : "";
  return toText(shape).replaceAll(" ", "") + background;
}

/** @returns {?Object[]} channels; null where a text holds none. */
function channelsOr(text) {
  const found = (text || "").split(";").map((one) => {
    const [, detector, model, from, to] = /^(.*?\))(?:-([a-z]+)\((\d+),(\d+)\))?$/.exec(one) || [];
    const fit = MODELS.includes(model) ? { model, from: Number(from), to: Number(to) } : null;
    return { shape: shapeOr(detector), fit };
  });
  return found.every(({ shape }) => shape) ? found : null;
}

function elementsOr(text) {
  try {
    return symbols(text || "").join(" ");
  } catch {
    return "";
  }
}

/** @returns {?Object} options; null where a text holds none. The server checks them. */
function optionsOr(text) {
  try {
    const found = JSON.parse(text || "null");
    return found && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

function shapeOr(text, kinds) {
  try {
    return text ? fromText(text, kinds) : null;
  } catch {
    return null;
  }
}

/** @returns {string} a layer: "1:ff0000:grey,linear,…"; 0: it is off. */
function layerText({ on, colour, contrast }) {
  return `${on ? 1 : 0}:${colour.slice(1)}:${contrastText(contrast)}`;
}

/** @returns {?Object[]} layers; null where a text holds none. */
function layersOf(text) {
  if (!text) return null;
  if (text === "off") return [];
  const found = text.split(";").map((one) => /^([01]):([0-9a-f]{6}):(.*)$/.exec(one));
  return found.includes(null) ? null : found.map(([, on, colour, contrast]) => ({ on: on === "1", colour: `#${colour}`, contrast: contrastOf(contrast) ?? usual() }));
}

/** @returns {string} "viridis,log,0.5,always,0.1,99.9", with limits behind where they are set by hand; ~: inverted. */
function contrastText({ map, invert, curve, gamma, mode, low, high, lo, hi }) {
  const parts = [map + (invert ? "~" : ""), curve, gamma, mode, low, high];
  return (mode === "always" ? parts : [...parts, lo, hi]).join(",");
}

function contrastOf(text) {
  if (!text) return null;
  const [map, curve, ...rest] = text.split(",");
  const made = usual({ invert: map.endsWith("~") });
  const name = map.replace("~", "");
  if (MAPS.includes(name)) made.map = name;
  if (Object.hasOwn(CURVES, curve)) made.curve = curve;
  const [gamma, low, high, lo, hi] = [0, 2, 3, 4, 5].map((at) => (rest[at] ? Number(rest[at]) : NaN));
  if (gamma >= LEAST && gamma <= MOST) made.gamma = gamma;
  if (low >= 0 && low < high && high <= 100) Object.assign(made, { low, high });
  const ordered = Number.isFinite(hi - lo) && lo < hi;
  if (ordered) Object.assign(made, { lo, hi });
  if (Object.hasOwn(MODES, rest[1]) && (ordered || rest[1] !== "never")) [, made.mode] = rest;
  return made;
}
