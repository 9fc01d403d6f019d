/**
 * What is known of an array, readable, and a tree of its metadata that can be searched.
 */

import { bytes, el, short } from "./dom.js";
import { fitting, symbol } from "./units.js";

const MOST = 500; // entries of one level that are shown

/**
 * Fill the side with what is known.
 *
 * @param {HTMLElement} side
 * @param {Object} set as the API describes it.
 * @param {Object} array as the API describes it, with attrs.
 */
export function show(side, set, array) {
  const axes = array.dims.map((name, axis) => `${name} ${array.shape[axis]}`).join(" · ");
  const facts = [
    ["Name", array.label || null],
    ["Array", array.path],
    ["Axes", axes || "none: one number"],
    ["Type", array.dtype + (array.units ? `, in ${array.units}` : "")],
    ["Size", bytes(array.nbytes)],
    ["Files", array.files === undefined ? null : String(array.files)],
    ...Object.entries(array.calibration || {}).map(([name, { scale, offset, unit }]) => [
      `Along ${name}`,
      scale === null
        ? `uneven steps, ${symbol(unit)}`
        : steps(scale, offset, unit),
    ]),
    ...set.sources.map((source, i) => [i ? "" : "From", source]),
  ].filter(([, value]) => value !== null);
  const list = el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  const tree = el("div.tree", { role: "group", "aria-label": "Metadata" });
  const search = el("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search metadata",
    oninput: () => fill(tree, array.attrs, search.value),
  });
  side.replaceChildren(list, ...(set.warnings || []).map((text) => el("p.warning", {}, text)), search, tree);
  fill(tree, array.attrs, "");
}

/** @returns {string} the steps of an axis, in another unit where their numbers would need powers of ten: "3.6 nm a step, from −32.4 nm". */
function steps(scale, offset, unit) {
  const size = Math.abs(scale);
  const { factor, unit: own } = size >= 1e-3 && size < 1e4 ? { factor: 1, unit: symbol(unit) } : fitting(size, unit);
  const said = (number) => [short(number * factor), own].filter(Boolean).join("\u00a0");
  return `${said(scale)} a step${offset ? `, from ${said(offset)}` : ""}`;
}

function fill(tree, attrs, wanted) {
  const words = wanted.trim().toLowerCase();
  const found = words ? only(attrs, words) : attrs;
  const empty = found === undefined || (typeof found === "object" && found !== null && !Object.keys(found).length);
  tree.replaceChildren(
    ...(empty ? [el("p.quiet", {}, words ? "Nothing found." : "No metadata.")] : entries(found, words ? 9 : 1)),
  );
}

/** @returns {*} the part of a value whose names or values hold some words; undefined: none. */
function only(value, words, name = "") {
  if (name.toLowerCase().includes(words)) return value;
  if (value === null || typeof value !== "object")
    return String(value).toLowerCase().includes(words) ? value : undefined;
  const kept = Object.entries(value)
    .map(([key, inner]) => [key, only(inner, words, key)])
    .filter(([, inner]) => inner !== undefined);
  return kept.length ? Object.fromEntries(kept) : undefined;
}

/** @returns {HTMLElement[]} rows of a level; those below are made when they are opened, or `depth` levels at once. */
function entries(value, depth) {
  const all = Object.entries(value ?? {});
  const rows = all.slice(0, MOST).map(([name, inner]) => entry(name, inner, depth));
  return all.length > MOST ? [...rows, el("p.quiet", {}, `and ${all.length - MOST} more`)] : rows;
}

function entry(name, value, depth) {
  if (value === null || typeof value !== "object" || simple(value)) {
    return el("div.leaf", {}, el("span.key", {}, name), el("span.value", {}, written(value)));
  }
  const below = el("div.below-level");
  const count = Object.keys(value).length;
  const made = el("details", {}, el("summary", {}, el("span.key", {}, name), el("span.quiet", {}, ` ${count}`)), below);
  const open = () => below.childElementCount || below.append(...entries(value, depth - 1));
  made.addEventListener("toggle", open);
  if (depth > 0 && count <= 40) {
    made.open = true;
    open();
  }
  return made;
}

function simple(value) {
  return Array.isArray(value) && value.length <= 16 && value.every((one) => one === null || typeof one !== "object");
}

function written(value) {
  if (Array.isArray(value)) return value.map(written).join(", ") || "none";
  if (typeof value === "number") return short(value, 10);
  return value === null ? "none" : String(value);
}
