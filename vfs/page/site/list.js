/**
 * Lists: the folders and sets that are served, and the arrays of a set, with small pictures as they come.
 */

import * as api from "./api.js";
import { Cells } from "./cells.js";
import { table } from "./colours.js";
import { limits, sample, toLevels } from "./contrast.js";
import { button, bytes, el, icon, select, short } from "./dom.js";

const SINGLE = "single~"; // the folder that is served with numbered images each by itself, see reopened.py
const PAGE = 1000; // entries fetched at once
const FIRST = 100; // of a folder: to know more, their files are opened
const TOGETHER = 24; // small pictures fetched at once
const END = 12; // letters of a name of which the end stays readable
const NOT_YET = "\u00a0"; // in the line of what is not known yet: others keep their places
const STREAMS = 2; // requests for small pictures at once

/** Orders of a folder. Folders come first, files that cannot be opened last. */
const SORTS = {
  name: () => 0, // as the server has them: by their numbers
  newest: (a, b) => (b.time || 0) - (a.time || 0),
  largest: (a, b) => (b.size || 0) - (a.size || 0),
};
const KINDS = ["folder", "set", "unopened", "file"];
const TILE = { height: 252, width: 226 };
const LINE = { height: 46, width: 1e9 };

/** Small pictures, fetched for what can be seen. */
class Thumbnails {
  /**
   * @param {number} size pixels. @param {function(number|string)} came called with the name of one that came.
   * @param {boolean} whole those that are made of some pixels of a large picture are replaced: all of it is read once.
   */
  constructor(size, came, whole = false) {
    Object.assign(this, { size, came, whole, under: 0 });
    this._begin();
  }

  /** Forget all. */
  stop() {
    this.abort.abort();
    this._begin();
  }

  _begin() {
    Object.assign(this, { pictures: new Map(), known: new Map(), asked: new Set(), waiting: [], sampled: [] });
    this.abort = new AbortController();
  }

  /**
   * Want pictures of some arrays of a set.
   *
   * @param {string} key of the set. @param {number|string} first array, or "main". @param {number} count
   * @param {function(number): number|string} named gives the name of each, by its place after the first.
   */
  want(key, first, count, named) {
    const asked = `${key} ${first}`;
    if (this.asked.has(asked)) return;
    this.asked.add(asked);
    this.waiting.push({ key, first, count, named });
    this._next();
  }

  async _next() {
    if (this.under >= STREAMS) return;
    // What was asked for last is what is seen now. One pass over a large picture at a time, when nothing else is wanted
    const next = this.waiting.pop() || (!this.under && this.sampled.pop());
    if (!next) return;
    const { key, first, count, named, whole } = next;
    const { abort } = this;
    this.under += 1;
    try {
      let place = 0;
      for await (const one of api.thumbnails(key, first, count, this.size, abort.signal, whole)) {
        this.pictures.set(named(place), one.data && one.of.shape.length ? coloured(one) : null); // one number is no picture
        this.known.set(named(place), one.of ? `${one.of.shape.join(" × ") || short(one.data[0], 6)} · ${one.of.dtype}` : one.error);
        this.came(named(place));
        if (one.sampled && this.whole && !whole) this.sampled.push({ ...next, whole: true });
        place += 1;
      }
    } catch {
      // A list without small pictures is still a list; what is wrong with a set is said when it is opened
    } finally {
      this.under -= 1;
      this._next();
    }
  }

  /** @returns {string} shape and type of the array of that name, or why it has no picture. */
  about(name) {
    return this.known.get(name) ?? "";
  }

  /** @returns {?HTMLCanvasElement} the picture of that name. */
  get(name) {
    return this.pictures.get(name) ?? null;
  }
}

/** Colour a small picture, or draw numbers along a line, with what lies below it filled. */
function coloured({ data, shape, of }) {
  const line = shape.length < 2 || (shape.length === 2 && Math.min(...shape) === 1);
  const [height, width] = line ? [data.length || 1, data.length || 1] : shape;
  const canvas = el("canvas", { width, height, "aria-hidden": "true" });
  const image = new ImageData(width, height);
  const out = new Uint32Array(image.data.buffer);
  const sorted = sample(data);
  const [lo, hi] = limits(sorted, 0.2, line ? 97 : 99.8); // of a spectrum, a peak of noise may be far above all else
  if (line) {
    for (let x = 0; x < width; x++) {
      const high = Math.sqrt(Math.max(0, Math.min(1, (data[x] - lo) / (hi - lo))));
      for (let y = Math.round((1 - high) * (height - 1)); y < height; y++) out[y * width + x] = 0xff999999;
    }
  } else if (shape.length === 3) {
    for (let i = 0; i < out.length; i++)
      for (let k = 0; k < 4; k++) image.data[4 * i + k] = k < shape[2] ? data[i * shape[2] + k] : 255;
  } else {
    const levels = new Uint8Array(data.length);
    toLevels(data, levels, { lo, hi, curve: "sqrt" });
    const grey = table("grey", of.inverted);
    for (let i = 0; i < out.length; i++) out[i] = grey[levels[i]];
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Write a path of which the end stays readable where there is no room. */
function nameOf(path) {
  const slash = path.lastIndexOf("/");
  const cut = slash > 0 ? slash : path.length - END;
  if (cut < 4) return el("span.name", {}, path);
  return el("span.name", {}, el("span.before", {}, path.slice(0, cut)), el("span.end", {}, path.slice(cut)));
}

function cell(name, about, picture, symbol, current, pressed, hint = name) {
  return el(
    "button.entry",
    {
      type: "button",
      title: hint,
      "aria-current": current ? "true" : null,
      onclick: pressed,
    },
    el("span.thumb", {}, picture || (symbol ? icon(symbol) : null)),
    el("span.words", {}, nameOf(name), ...[about].flat().filter(Boolean).map((line) => el("span.about", {}, line))),
  );
}

/** The arrays of one set. */
export class ArrayList {
  /** @param {function(Object)} chosen called with an array. @param {function(Error)} failed */
  constructor(chosen, failed) {
    Object.assign(this, { chosen, failed, arrays: [], shown: [], current: "", key: "" });
    this.thumbnails = new Thumbnails(96, (index) => this._again(index));
    this.search = el("input", {
      type: "search",
      placeholder: "Find an array",
      "aria-label": "Find an array",
      oninput: () => this._filter(),
    });
    this.cells = new Cells(
      "Arrays",
      { height: 60, width: 1e9 },
      (i) => this._cell(this.shown[i]),
      (from, to) => this._seen(from, to),
    );
    this.element = el("div.array-list", {}, this.search, this.cells.element);
  }

  /**
   * Show the arrays of a set; those beyond the first are fetched.
   *
   * @param {Object} set as the API describes it.
   */
  async open(set) {
    this.thumbnails.stop();
    this.key = set.key;
    this.arrays = [...set.arrays];
    this._filter();
    try {
      while (this.key === set.key && this.arrays.length < set.count) {
        const more = await api.dataset(set.key, this.arrays.length, PAGE);
        if (this.key !== set.key || !more.arrays.length) return;
        this.arrays.push(...more.arrays);
        this._filter();
      }
    } catch (error) {
      this.failed(error);
    }
  }

  /** Mark the array that is looked at. */
  mark(path) {
    this.current = path;
    this.cells.show(this.shown.length);
    const index = this.shown.findIndex((at) => this.arrays[at].path === path);
    if (index >= 0) this.cells.reveal(index);
  }

  _filter() {
    const words = this.search.value.trim().toLowerCase();
    this.search.hidden = this.arrays.length < 8;
    const said = ({ label, path }) => `${label ?? ""} ${plainPath(path)}`.toLowerCase();
    this.shown = this.arrays.map((_, at) => at).filter((at) => said(this.arrays[at]).includes(words));
    this.cells.show(this.shown.length);
  }

  _cell(at) {
    const array = this.arrays[at];
    const path = plainPath(array.path);
    const shape = array.shape.join(" × ");
    const facts = (!shape && this.thumbnails.about(at)) || `${shape || "one number"} · ${array.dtype}`;
    const about = array.label && path === array.path ? `${facts} · ${path}` : facts;
    const table = array.beside && !isPicture(array);
    const [picture, symbol] = table ? [null, "info"] : [this.thumbnails.get(at), ""];
    return cell(array.label || path, about, picture, symbol, array.path === this.current, () => this.chosen(array), [array.label, array.path].filter(Boolean).join("\n"));
  }

  _again(at) {
    const index = this.shown.indexOf(at);
    if (index >= 0) this.cells.again(index);
  }

  _seen(from, to) {
    if (!this.element.offsetParent) return;
    const groups = new Set(this.shown.slice(from, to).map((at) => Math.floor(at / TOGETHER) * TOGETHER));
    for (const first of groups) this.thumbnails.want(this.key, first, TOGETHER, (place) => first + place);
  }
}

/** @returns {boolean} true for an array of frames with rows and columns, false for lines, tables and texts of bytes. */
function isPicture({ picture, shape }) {
  return picture.length === 2 && picture.every((axis) => shape[axis] > 3);
}

/** @returns {string} the path of an array; numbers that only programs read are left out. */
export function plainPath(path) {
  return path.replace(/(^|\/)[0-9a-f]{32}(?=\/|$)/g, "$1…");
}

/** @returns {boolean} true for a folder whose numbered images are shown each by itself. */
function isSingle(path) {
  return path?.split("/")[0] === SINGLE;
}

/** @returns {string} the path of a folder as it is served: "" for the first. */
export function plainFolder(path) {
  return isSingle(path) ? path.slice(SINGLE.length + 1) : path || "";
}

/** The first page: folders and sets. */
export class FolderList {
  /** @param {function(Object)} chosen called with an entry. @param {function(Error)} failed */
  constructor(chosen, failed) {
    Object.assign(this, { chosen, failed, entries: [], all: [], path: null, sort: "name", lines: false });
    this.thumbnails = new Thumbnails(256, (key) => this.cells.again(this._indexOf(key)), true);
    this.cells = new Cells(
      "Folders and sets",
      TILE,
      (i) => this._cell(i),
      (from, to) => this._seen(from, to),
    );
    this.crumbs = el("nav.crumbs", { "aria-label": "Folder" });
    this.empty = el("p.note", { hidden: true }, "Nothing here can be shown.");
    this.looking = el("p.note.looking", { hidden: true, role: "status" });
    this.search = el("input", {
      type: "search",
      placeholder: "Find a set",
      "aria-label": "Find a set",
      oninput: () => this._show(),
    });
    const orders = Object.keys(SORTS).map((name) => [name, name]);
    this.order = select("Order", orders, this.sort, (name) => this._sorted(name));
    this.how = button("As a list", "list", () => this._turn(), { "aria-pressed": "false", class: "plain" });
    this.files = button("Numbered images each by itself, not as one stack", "single files", () => this._singly(), { "aria-pressed": "false", class: "word" });
    this.bar = el("div.folder-bar", {}, this.crumbs, el("span.space"), this.files, this.search, this.order, this.how);
    this.element = el("div.folder-list", { hidden: true }, this.bar, this.looking, this.cells.element, this.empty);
  }

  /**
   * Show a folder.
   *
   * @param {string} path "" for the first.
   * @returns {Promise<Object>} what the API says of it.
   */
  async open(path) {
    const first = await api.listing(path, 0, FIRST);
    this.thumbnails.stop();
    this.path = path;
    this.all = first.entries;
    this.tree = first.tree;
    this._crumbs();
    this._show();
    for (let more = first.more; more && this.path === path;) {
      const next = await api.listing(path, this.all.length, PAGE);
      this.all = [...this.all, ...next.entries];
      more = next.more && next.entries.length > 0;
      this._show();
    }
    return first;
  }

  /** Hide it, and fetch no more small pictures. */
  close() {
    this.element.hidden = true;
    this.thumbnails.stop();
  }

  /**
   * Look at the folder again, and show what has appeared or gone since. Where that fails nothing changes: what is
   * wrong is said when something is opened.
   *
   * @returns {Promise<boolean>} false: it failed.
   */
  async again() {
    const { path } = this;
    const entries = [];
    try {
      for (let more = true; more; ) {
        const next = await api.listing(path, entries.length, PAGE);
        entries.push(...next.entries);
        more = next.more && next.entries.length > 0;
      }
    } catch {
      return false;
    }
    if (this.path !== path || JSON.stringify(entries) === JSON.stringify(this.all)) return true;
    const focused = this.entries[this.cells.focused]?.key;
    this.all = entries;
    this._show();
    if (focused !== undefined) this.cells.focus(this._indexOf(focused));
    return true;
  }

  _indexOf(key) {
    return this.entries.findIndex((entry) => entry.key === key);
  }

  _show() {
    const words = this.search.value.trim().toLowerCase();
    this.entries = this.all
      .filter(({ name }) => name.toLowerCase().includes(words))
      .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || SORTS[this.sort](a, b));
    const left = this.all.filter(({ kind }) => kind === "unopened").length;
    this.looking.hidden = !left;
    this.looking.textContent = left ? `Still looking; files not opened yet: ${left.toLocaleString("en")}` : "";
    this.empty.hidden = this.entries.length > 0;
    this.empty.textContent = words && this.all.length ? "No set is called so." : "Nothing here can be shown.";
    for (const one of [this.search, this.order, this.how]) one.hidden = this.all.length < 2;
    const single = isSingle(this.path);
    this.files.hidden = !single && !this.all.some(({ stack }) => stack);
    this.files.setAttribute("aria-pressed", String(single));
    const pictures = this.entries.some((entry) => entry.kind !== "folder");
    this.element.classList.toggle("plain-list", !pictures || this.lines);
    this.element.classList.toggle("table", pictures && this.lines);
    this.cells.size = !pictures ? { height: 60, width: 260 } : this.lines ? LINE : TILE;
    this.cells.show(this.entries.length);
  }

  _sorted(name) {
    this.sort = name;
    this._show();
  }

  /** Turn tiles into lines, or back. */
  _turn() {
    this.lines = !this.lines;
    this.how.setAttribute("aria-pressed", String(this.lines));
    this._show();
  }

  /** Show the files of stacks each by itself, or stacks again. */
  _singly() {
    const key = isSingle(this.path) ? plainFolder(this.path) : [SINGLE, this.path].filter(Boolean).join("/");
    this.search.value = ""; // names are others there
    this.chosen({ kind: "folder", key });
  }

  _crumbs() {
    const single = isSingle(this.path) ? [SINGLE] : [];
    const parts = plainFolder(this.path).split("/").filter(Boolean);
    const to = (count) => () => this.chosen({ kind: "folder", key: [...single, ...parts.slice(0, count)].join("/") });
    const all = ["All", ...parts].map((name, count) =>
      el(
        "button.crumb",
        { type: "button", onclick: to(count), "aria-current": count === parts.length ? "page" : null },
        name,
      ),
    );
    this.crumbs.hidden = !parts.length;
    this.crumbs.replaceChildren(...all);
  }

  _cell(index) {
    const entry = this.entries[index];
    const { name, kind, key, format, size, time, reason, stack } = entry;
    const file = kind === "file";
    const day = time ? new Date(time).toISOString().slice(0, 10) : "";
    const known = kind === "unopened" ? ["not opened yet"] : [stack && `stack of ${stack.toLocaleString("en")} files`, format, bytes(size), day];
    const facts = kind === "folder" ? "folder" : known.filter(Boolean).join(" · ");
    const made = cell(
      name,
      [file ? reason : this.thumbnails.about(key) || (kind === "set" ? NOT_YET : ""), facts],
      this.thumbnails.get(key),
      kind === "folder" ? "folder" : file ? "help" : "",
      false,
      () => this._choose(entry),
      [name, reason || this.thumbnails.about(key), facts].filter(Boolean).join("\n"),
    );
    made.classList.toggle("broken", file);
    return made;
  }

  /** Choose an entry. A set that was not opened yet is asked for by one of its files. */
  async _choose(entry) {
    const { path } = this;
    const key = entry.kind === "unopened" ? await api.setOf(entry.key).catch(() => entry.key) : entry.key;
    if (this.path === path && !this.element.hidden) this.chosen({ ...entry, key });
  }

  _seen(from, to) {
    if (!this.element.offsetParent) return;
    for (let index = to - 1; index >= from; index--) {
      const entry = this.entries[index];
      if (entry?.kind === "set") this.thumbnails.want(entry.key, "main", 1, () => entry.key);
    }
  }
}
