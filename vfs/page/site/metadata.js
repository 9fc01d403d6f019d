/**
 * What is known of an array, readable, and a tree of its metadata that can be searched.
 */

import * as api from "./api.js";
import { button, bytes, el, short } from "./dom.js";
import { copyText } from "./take.js";
import { fitting, symbol } from "./units.js";

const MOST = 500; // entries of one level that are shown
const AT_ONCE = 2000; // entries that are made before somebody opens more
const WHOLE = "All that the files say";

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
  const status = el("span.said", { role: "status" });
  const said = new SaidTree(set, array, tree, status);
  const search = el("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search metadata",
    oninput: () => said.fill(search.value),
  });
  const copy = button("Copy what is shown", "copy", () => said.copy("Metadata", said.shown), { class: "plain" });
  side.replaceChildren(
    list,
    ...(set.warnings || []).map((text) => el("p.warning", {}, text)),
    el("div.searched", {}, search, copy),
    tree,
    status,
  );
  said.fill("");
}

/** @returns {string} the steps of an axis, in another unit where their numbers would need powers of ten: "3.6 nm a step, from −32.4 nm". */
function steps(scale, offset, unit) {
  const size = Math.abs(scale);
  const { factor, unit: own } = size >= 1e-3 && size < 1e4 ? { factor: 1, unit: symbol(unit) } : fitting(size, unit);
  const said = (number) => [short(number * factor), own].filter(Boolean).join("\u00a0");
  return `${said(scale)} a step${offset ? `, from ${said(offset)}` : ""}`;
}

/**
 * What files say, in parts: of the acquisition, in one vocabulary; the format's metadata; all, in the files' own words,
 * which is asked for when somebody opens it or searches.
 */
class SaidTree {
  constructor(set, array, tree, status) {
    Object.assign(this, { set, tree, status, words: "", asked: null, shown: {} });
    this.parts = { Acquisition: array.recorded ?? {}, Metadata: array.attrs };
  }

  /** Fill the tree with what has some words in it; "": with all. */
  fill(wanted) {
    this.words = wanted.trim().toLowerCase();
    if (this.words && this.set.original) this.ask();
    this.draw();
  }

  draw() {
    const { words } = this;
    const found = Object.entries(this.parts).map(([name, value]) => [name, words ? only(value, words) : value]);
    const some = found.filter(([, value]) => value && Object.keys(value).length);
    this.shown = Object.fromEntries(some);
    this.room = AT_ONCE;
    const made = some.map(([name, value]) => this.part(name, value));
    const waiting = this.set.original && !(WHOLE in this.parts);
    if (!made.length && !waiting) made.push(el("p.quiet", {}, words ? "Nothing found." : "No metadata."));
    if (waiting && words) made.push(el("p.quiet", {}, "reading all that the files say …"));
    if (waiting && !words) made.push(this.whole());
    this.tree.replaceChildren(...made);
  }

  part(name, value) {
    const open = this.words || name !== WHOLE;
    return this.entry(name, value, open ? (this.words ? 9 : 2) : 0, "details.part");
  }

  /** @returns {HTMLElement} what opens all that the files say. */
  whole() {
    const below = el("div.below-level", {}, el("p.quiet", {}, "reading …"));
    const made = el("details.part", {}, el("summary", {}, el("span.key", {}, WHOLE)), below);
    made.addEventListener("toggle", () => made.open && this.ask(true));
    return made;
  }

  /** Ask for all that the files say, once. @param {boolean} [opened] show it open. */
  ask(opened = false) {
    this.asked ??= api.original(this.set.key).then(
      (found) => {
        this.parts[WHOLE] = found;
        this.draw();
        const part = [...this.tree.children].find((one) => one.dataset.name === WHOLE);
        if (!opened || !part) return;
        part.querySelector("details").open = true;
        part.querySelector("summary").focus();
      },
      (error) => {
        this.set = { ...this.set, original: false };
        this.draw();
        this.status.textContent = error.message;
      },
    );
  }

  async copy(name, value) {
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
    if (await copyText(name, text)) this.status.textContent = `${name}: copied`;
  }

  /** @returns {HTMLElement[]} rows of a level; those below are made when they are opened, or `depth` levels at once. */
  entries(value, depth) {
    const all = Object.entries(value ?? {});
    const rows = all.slice(0, MOST).map(([name, inner]) => this.entry(name, inner, depth));
    return all.length > MOST ? [...rows, el("p.quiet", {}, `and ${all.length - MOST} more`)] : rows;
  }

  entry(name, value, depth, tag = "details") {
    this.room -= 1;
    const copy = button(`Copy ${name}`, "copy", () => this.copy(name, value), { class: "plain" });
    if (value === null || typeof value !== "object" || simple(value)) {
      return el("div.leaf", {}, el("span.key", {}, name), el("span.value", {}, written(value)), copy);
    }
    const below = el("div.below-level");
    const count = Object.keys(value).length;
    const head = el("summary", {}, el("span.key", {}, name), el("span.quiet", {}, ` ${count}`));
    const made = el(tag, {}, head, below);
    const open = () => below.childElementCount || below.append(...this.entries(value, depth - 1));
    made.addEventListener("toggle", open);
    if (depth > 0 && (count <= 40 || tag !== "details") && this.room > 0) {
      made.open = true;
      open();
    }
    return el("div.branch", { "data-name": name }, copy, made);
  }
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

function simple(value) {
  return Array.isArray(value) && value.length <= 16 && value.every((one) => one === null || typeof one !== "object");
}

function written(value) {
  if (Array.isArray(value)) return value.map(written).join(", ") || "none";
  if (typeof value === "number") return short(value, 10);
  return value === null ? "none" : String(value);
}
