/**
 * Puts the page together: which set and array are looked at, lists and metadata beside, errors above.
 */

import * as api from "./api.js";
import { Banners } from "./banners.js";
import { DataPanel } from "./data.js";
import { lacksFrames, onlySteps, recalibrate, sameAxes } from "./corrected.js";
import { fromText, toText } from "./detectors.js";
import { button, el } from "./dom.js";
import * as embedded from "./embedded.js";
import * as keys from "./keys.js";
import { ArrayList, FolderList, plainFolder, plainPath } from "./list.js";
import { Live } from "./live.js";
import * as metadata from "./metadata.js";
import { Panels } from "./panels.js";
import { isLarge } from "./pyramid.js";
import * as state from "./state.js";
import { showText } from "./take.js";
import { nextSize, remember } from "./textsize.js";
import * as theme from "./theme.js";
import { Viewer } from "./viewer.js";

const MANY = 4; // arrays: with more, their list is open at first
const FIRST = 200; // arrays asked for with a set
const AGAIN = 4000; // ms until a folder is looked at again
const SOON = 500; // ms, while the server opens files in it
const SET = ".zarr"; // how keys of sets end; others are files that cannot be opened as they are
const SLOW = 300; // ms until a set that is opened is said to be
const QUIET = 250; // ms without a change before the address is written

const page = {
  view: state.empty(),
  set: null,
  opened: "", // what `set` was opened with
  count: 0, // of sets that are served, as far as known
  order: 0,
  again: 0, // timer
  known: null, // of what is looked at: its set and array, see metadata.js
};

const viewer = new Viewer(written, failed, (text) => banners.show(text, "notice"));
const folders = new FolderList(
  (entry) => (entry.kind === "folder" ? openFolder(entry.key) : go({ set: entry.key, folder: folders.path })),
  failed,
);
const arrays = new ArrayList((array) => {
  const { set, open, folder } = page.view;
  go({ set, open, folder, array: array.path });
}, failed);
const data = new DataPanel(correct, viewer);
const live = new Live(viewer, () => {
  page.opened = "";
  show();
});
const facts = el("aside.side.facts", { "aria-label": "Metadata", hidden: true, tabindex: -1 });
const side = el("aside.side.arrays", { "aria-label": "Arrays", hidden: true, tabindex: -1 }, arrays.element);
const banners = new Banners();
const title = el("h1", {}, "vfs");
const about = el("span.about");
const said = el("div.acquired", { hidden: true });
const toggles = {
  up: button("All sets", "up", () => openFolder(page.view.folder), { class: "plain" }),
  list: button("Arrays of this set", "list", (event) => panels.toggle("list", byKey(event)), { "aria-expanded": "false", class: "plain" }),
  link: button("Copy the address of this view", "link", () => showText("Address of this view", location.href), {
    class: "plain",
  }),
  data: button("Data: correct scan, axes, steps", "adjust", (event) => panels.toggle("data", byKey(event)), {
    "aria-expanded": "false",
    class: "plain",
  }),
  info: button("Metadata", "info", (event) => panels.toggle("info", byKey(event)), { "aria-expanded": "false", class: "plain" }),
  size: button("Larger text and lines", "size", enlarge, { class: "plain" }),
  help: button("Keys", "help", () => keys.help(), { class: "plain" }),
};

document.body.replaceChildren(
  el(
    "header.top",
    {},
    toggles.up,
    toggles.list,
    el("div.names", {}, el("div.name", {}, title, about), said),
    live.element,
    el("span.space"),
    toggles.link,
    toggles.data,
    toggles.info,
    toggles.size,
    toggles.help,
  ),
  banners.element,
  el("main", {}, side, folders.element, viewer.element, data.element, facts),
);

/** What a test or the console can look at. */
window.vfs = {
  get scan() {
    return inside(viewer.scan);
  },
  get frame() {
    return inside(viewer.frame);
  },
  get state() {
    return {
      ...viewer.view,
      detector: viewer.detecting.shape,
      channels: viewer.detecting.channels,
      maps: viewer.showing.maps,
      fragment: location.hash,
      sides: viewer.orthogonal.sides.map(({ view }) => view.numbers),
      summary: Boolean(viewer.images?.summary?.complete),
    };
  },
};

function inside(panel) {
  const { data, shape, size, bin, status, caption, pairs } = panel.shown;
  const { contrast, view } = panel;
  const others = view?.others;
  return { data, shape, size, bin, status, caption, pairs, contrast, others, onPage: (y, x) => view.onPage(y, x) };
}

const panels = new Panels({ list: side, info: facts, data: data.element }, toggles, (which) => {
  if (which === "info") showFacts();
  if (which === "list") arrays.cells.draw();
  if (which === "data" && !data.element.hidden) showData(viewer.array);
});

/** @returns {boolean} true for a button that was pressed by a key. */
function byKey(event) {
  return event.detail === 0;
}

/** Show the metadata of what is looked at, where somebody can see it. */
function showFacts(known = page.known) {
  page.known = known;
  if (!facts.hidden && known) metadata.show(facts, ...known);
}

function enlarge() {
  nextSize();
  panels.fit();
}

/** Show what can be changed of the set that is looked at. */
function showData(array) {
  data.show(page.view.set, array ? page.set : null, array, page.view.open).catch(failed);
}

/** @returns {Promise<Object>} the set with options, as a new set where there are any. */
async function opened(key, options) {
  const made = Object.keys(options || {}).length
    ? await api.reopened(key, options)
    : await api.dataset(key, 0, FIRST);
  return made;
}

/** Open the set that is looked at with other options, and show it. What does not open changes nothing. */
async function correct(options) {
  const order = ++page.order;
  const { view } = page;
  const set = await opened(view.set, options);
  if (order !== page.order) return;
  const now = options.main === view.open?.main && set.arrays.find((one) => one.path === view.array);
  if (!now) view.array = "";
  const steps = now && viewer.array?.own === now.own && onlySteps(options, view.open) && sameAxes(now, viewer.array);
  if (!sameAxes(now, viewer.array) || options.axes !== view.open?.axes) {
    if (view.detector?.kind === "com") viewer.detecting.next = "com"; // frames are turned for its sake
    Object.assign(view, { at: null, detector: null, channels: null, selection: null });
  }
  view.open = Object.keys(options).length ? { ...options } : null;
  banners.remove(".notice"); // they are about the set as it was
  use(set, !side.hidden);
  if (steps && recalibrate(viewer, set, now)) {
    head(set.name, now.path, now);
    showData(viewer.array);
    showFacts([set, { ...page.known?.[1], ...now }]);
    written();
  } else await showArray(order);
}

/** Take a set as the one that is looked at. @param {boolean} [listed] the list of its arrays stays open. */
function use(set, listed = false) {
  page.set = set;
  page.opened = JSON.stringify([page.view.set, page.view.open]);
  arrays.open(set);
  panels.open("list", set.count > MANY || (listed && set.count > 1), false);
  panels.fit();
}

/** Show an error above the page; the rest goes on. A set that the server no longer has open is opened again. */
function failed(error) {
  if (error?.status === 404 && page.view.open && page.opened) {
    page.opened = "";
    show();
    return;
  }
  const made = banners.show(error?.message || String(error), "error");
  if (made && error?.status === 0) made.dataset.silent = "true";
}

/** Take back what was said of a server that did not answer: it does again. */
function answered() {
  banners.remove("[data-silent]");
}

let timer = 0;

/** Write the view into the address, a little later. */
function written() {
  clearTimeout(timer);
  timer = setTimeout(write, QUIET);
}

function write() {
  clearTimeout(timer);
  const text = state.write(page.view);
  const hash = `#${text}`;
  const shape = viewer.array && viewer.detects && viewer.detecting.shape;
  embedded.tell(text, shape ? toText(shape) : "");
  if (hash !== location.hash) history.replaceState(null, "", location.pathname + location.search + hash);
}

/** Look at another set, array or folder: a new place to come back to. */
function go(changes) {
  write();
  page.view = { ...state.empty(), ...changes };
  history.pushState(null, "", `${location.pathname}${location.search}#${state.write(page.view)}`);
  show();
}

function openFolder(folder) {
  go({ folder: folder ?? "" });
}

/** Show what the view says. */
async function show() {
  const order = ++page.order;
  banners.remove();
  try {
    if (page.view.set) await showArray(order);
    else await showFolder(order);
  } catch (error) {
    if (order !== page.order) return;
    failed(error);
    if (page.set === null && page.view.open) await showFile(order, error).catch(() => showFolder(order).catch(failed));
    else if (page.view.set && !viewer.array) showFolder(order).catch(failed);
  }
}

/** Show a file that cannot be opened as it is: what it is can be said in the panel. */
async function showFile(order, error) {
  const { view } = page;
  await api.options(view.set); // else it is no file either
  if (order !== page.order) return;
  viewer.close();
  viewer.array = null;
  folders.close();
  head("", view.set.split("/").pop());
  toggles.up.hidden = toggles.data.hidden = false;
  for (const which of ["list", "info"]) panels.open(which, false);
  panels.open("data", true);
  banners.remove();
  await data.show(view.set, null, null, view.open);
  const why = error || (await api.reopened(view.set, {}).then(() => null, (reason) => reason));
  if (order === page.order && why) data.say(why.message, true);
}

async function showFolder(order) {
  const listing = await folders.open(page.view.folder);
  if (order !== page.order) return undefined;
  page.count = listing.tree ? 2 : Math.max(page.count, listing.entries.length);
  const only = listing.entries.length === 1 && !listing.tree && listing.entries[0];
  if (only && only.kind === "set" && !page.view.set) {
    page.count = 1;
    page.view.set = only.key;
    return showArray(order);
  }
  viewer.close();
  live.begin(null);
  viewer.array = null;
  head("", plainFolder(page.view.folder).split("/").pop() || "Data sets");
  folders.element.hidden = false;
  panels.close();
  folders.cells.draw();
  if (!folders.looking.hidden) soon(SOON);
  return undefined;
}

/** Say that a set is being opened, which may take long. */
function opening(key) {
  title.textContent = key.split("/").pop().replace(/\.zarr$/, "");
  about.textContent = "opening …";
}

/** Find out if there is more than the set that the address names. */
async function learn(order) {
  const { entries, tree, more } = await api.listing("", 0, 2);
  page.count = tree || more ? 2 : entries.length;
  if (order === page.order) toggles.up.hidden = page.count === 1;
}

async function showArray(order) {
  const { view } = page;
  if (!page.count) learn(order).catch(failed);
  if (!view.open && !view.set.endsWith(SET)) return showFile(order);
  if (page.opened !== JSON.stringify([view.set, view.open])) {
    page.set = null;
    setTimeout(() => order === page.order && !page.set && opening(view.set), SLOW);
    const set = await opened(view.set, view.open);
    if (order !== page.order) return;
    use(set);
  }
  const { set } = page;
  const wanted = view.array || (set.arrays.find((one) => one.main) || set.arrays[0])?.path;
  if (wanted === undefined) throw new Error(`${set.name} has no arrays.`);
  if (!view.array && lacksFrames(set)) return showLack(set);
  const known = set.arrays.find((one) => one.path === wanted);
  const plain = known && !isLarge(known) && !known.dims.some((name) => /^c$/i.test(name)); // without levels and channels
  const array = plain ? known : await api.array(set.key, wanted);
  if (order !== page.order) return;
  view.array = wanted;
  folders.close();
  head(set.name, wanted, array);
  const fresh = !view.at;
  viewer.live = set.live || null;
  if (viewer.live && viewer.newest) view.at = null;
  viewer.open(set, array, view);
  live.begin(set, fresh);
  arrays.mark(wanted);
  if (!api.alone) showData(array);
  for (const text of set.warnings) banners.show(text, "notice");
  showFacts([set, { attrs: {}, ...array }]);
  written();
  if (!plain) return;
  const full = await api.array(set.key, wanted); // after what the pictures need
  if (order !== page.order) return;
  showFacts([set, full]);
  viewer.know(full);
}

/** Say what is missing of a set, and which arrays there are nevertheless. */
function showLack(set) {
  folders.close();
  viewer.say(set.warnings.find((text) => /missing/.test(text)));
  live.begin(null);
  head(set.name, "", null);
  title.textContent = set.name;
  toggles.up.hidden = page.count === 1;
  toggles.list.hidden = false;
  panels.open("list", true);
}

function head(name, path, array) {
  title.textContent = array?.label ? `${name} · ${array.label}` : name || path;
  about.title = path;
  about.textContent = array ? `${plainPath(path)} · ${array.shape.join(" × ") || "one number"} · ${array.dtype}` : "";
  said.textContent = said.title = (array && page.set?.said) || "";
  said.hidden = !said.textContent;
  document.title = `${name ? `${name} – ` : ""}${array?.label || path} – vfs`;
  toggles.up.hidden = !array || page.count === 1;
  for (const which of ["list", "info", "link", "data"]) toggles[which].hidden = !array || (api.alone && which !== "info");
  if (array && page.set.count < 2) toggles.list.hidden = true;
}

/** Read the view from the address again, as when somebody has changed it or gone back. */
function arrived() {
  page.view = state.read(location.hash);
  show();
}

function actions() {
  if (!viewer.array || viewer.element.hidden) return { "?": keys.help, z: enlarge };
  const focused = ({ element }) => element.contains(document.activeElement);
  const framed = viewer.frame.stage.contains(document.activeElement);
  const trace = viewer.scan.kind !== "picture" && !focused(viewer.scan); // beside a picture, it is meant where it has the focus
  const panel = viewer.scan.element.hidden || focused(viewer.frame) || (trace && viewer.frame.kind === "picture") ? viewer.frame : viewer.scan;
  const zoom = (by) => () => panel.view?.zoomBy(by);
  const move = (dy, dx) => () => panel.view?.moveBy?.(dy / 2, dx / 2);
  const { contrast } = panel;
  const preset = (name) => () => viewer.detects && viewer.detecting.preset(name);
  const able = {
    arrow: (dy, dx) => {
      if (panel.stage.contains(document.activeElement) && viewer.measuring.nudge(panel, dy, dx)) return undefined;
      if (framed && viewer.orthogonal.on) return viewer.orthogonal.nudge(dy, dx);
      if (framed && viewer.backscatter.nudge(viewer.array.upward ? -dy : dy, dx)) return undefined;
      if (framed && viewer.detects) return viewer.detecting.nudge(viewer.array.upward ? -dy : dy, dx);
      return viewer.array.where.length ? viewer.step(dy, dx) : viewer.frame.view?.moveBy?.(dy / 10, dx / 10);
    },
    "?": keys.help,
    " ": () => (viewer.axes.playing >= 0 ? viewer.axes.stop() : viewer.axes.play()),
    l: () => panel.change({ curve: contrast.curve === "log" ? "linear" : "log" }),
    a: () => panel.autoscale(),
    i: () => panel.change({ invert: !contrast.invert }),
    f: () => viewer.live && live.stay(!viewer.newest),
    p: () => viewer.measuring.toggleProfile(panel),
    r: () => viewer.measuring.toggleRegion(panel),
    m: () => panels.toggle("info", true),
    d: () => api.alone || panels.toggle("data", true),
    s: () => !toggles.list.hidden && panels.toggle("list", true),
    "+": zoom(1.5),
    "=": zoom(1.5),
    "-": zoom(1 / 1.5),
    0: () => panel.view?.reset(),
    PageUp: move(-1, 0),
    PageDown: move(1, 0),
    Home: move(0, -1),
    End: move(0, 1),
    1: preset("BF"),
    2: preset("ABF"),
    3: preset("ADF"),
    4: preset("HAADF"),
    5: () => viewer.detects && viewer.detecting.pick("whole"),
    6: () => viewer.detects && viewer.detecting.pick("com"),
    7: () => viewer.detects && viewer.detecting.pick("radial"),
    n: () => viewer.detects && viewer.detecting.add(),
    Delete: () => viewer.detects && viewer.detecting.remove(),
    ",": () => viewer.detects && viewer.detecting.choose(viewer.detecting.active - 1),
    ".": () => viewer.detects && viewer.detecting.choose(viewer.detecting.active + 1),
    t: () => viewer.arrangeNext(),
    z: enlarge,
    o: () => viewer.orthogonal.toggle(),
    j: () => viewer.projecting.toggleLast(),
    c: () => viewer.mixing.toggle(),
    b: () => viewer.detects && viewer.detecting.nextModel(),
    "<": () => viewer.detects && viewer.detecting.growFit(-2),
    ">": () => viewer.detects && viewer.detecting.growFit(2),
    k: () => viewer.spectra.keep(),
    g: () => viewer.backscatter.next(),
    v: () => viewer.backscatter.images(),
    Escape: () => leave(panel),
  };
  for (const [key, by, inner] of [
    ["[", -1, false],
    ["]", 1, false],
    ["{", -1, true],
    ["}", 1, true],
  ]) {
    able[key] = () => viewer.measuring.grow(panel, by, inner) || (viewer.detects && viewer.detecting.grow(by, inner));
  }
  return able;
}

/** Leave what was begun last. */
function leave(panel) {
  if (viewer.measuring.leave(panel)) return;
  if (viewer.orthogonal.on) return viewer.orthogonal.toggle();
  if (viewer.projecting.on) return viewer.projecting.leave();
  if (viewer.view.selection) viewer.selecting.pick("point");
  else viewer.axes.stop();
}

/** Look again at folders that are shown, while somebody can see them: sets appear while a microscope writes. */
async function lookAgain() {
  const began = performance.now();
  const seen = folders.tree && !folders.element.hidden && document.visibilityState === "visible";
  const good = !seen || (await folders.again());
  const [least, times] = seen && !folders.looking.hidden ? [SOON, 3] : [AGAIN, 20];
  if (good) soon(Math.max(least, times * (performance.now() - began)));
}

/** Look at folders again after some ms. */
function soon(pause) {
  clearTimeout(page.again);
  page.again = setTimeout(lookAgain, pause);
}

/**
 * Do what the page around this one wants.
 *
 * @param {{at: ?number[], selection: ?string, detector: ?string, dark: ?boolean}} change shapes as text; "" for no
 *   selection.
 */
function wanted({ at, selection, detector, dark }) {
  if (typeof dark === "boolean" && theme.wear(dark)) viewer.update();
  if (!viewer.array || viewer.element.hidden) return;
  try {
    if (Array.isArray(at) && at.length === viewer.view.at?.length) viewer.go(at.map(Number));
    if (selection && viewer.images) viewer.selecting.set(fromText(selection, ["rectangle", "disk", "polygon"]));
    if (selection === "" && viewer.images) viewer.selecting.pick("point");
    if (detector && viewer.detects) viewer.detecting.set(fromText(detector));
  } catch (error) {
    failed(error);
  }
}

remember();
api.answering(answered);
embedded.listen(wanted);
keys.listen(actions);
addEventListener("popstate", arrived);
addEventListener("resize", () => panels.fit());
addEventListener("pagehide", write);
addEventListener("focus", lookAgain);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewer.update());
arrived();
soon(AGAIN);
