/**
 * Things to take away: pictures, numbers, a snippet of Python.
 */

import { el, button } from "./dom.js";
import { toPython } from "./detectors.js";

const DESCRIPTIONS = {
  Uint8Array: "|u1",
  Int8Array: "|i1",
  Uint16Array: "<u2",
  Int16Array: "<i2",
  Uint32Array: "<u4",
  Int32Array: "<i4",
  Float32Array: "<f4",
  Float64Array: "<f8",
};

/**
 * Write numbers as a file of numpy.
 *
 * @param {TypedArray} data C order.
 * @param {number[]} shape
 * @returns {Blob} the .npy file, version 1.0.
 */
export function npy(data, shape) {
  const tuple = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const header = `{'descr': '${DESCRIPTIONS[data.constructor.name]}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const start = new Uint8Array([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8]);
  return new Blob([start, padded, data], { type: "application/octet-stream" });
}

/**
 * Let the browser save a file.
 *
 * @param {Blob} blob @param {string} name
 */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @returns {Promise<Blob>} a PNG of a picture, a pixel for each number; of a plot, as it is on the screen. */
export function png(view) {
  const canvas = view._image?.width ? view._image : view.canvas;
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/**
 * Write Python that makes the same numbers.
 *
 * @param {Object} set as the API describes it: sources, and options as Python writes them.
 * @param {Object} array as the API describes it.
 * @param {Object} what {kind, detector, selection, how, at, within, part}: see state.js; kind "scan": the image of
 *   `detector`; "frame": that of `selection`, or at `at`.
 * @returns {string}
 */
export function snippet(set, array, what) {
  const options = Object.entries(set.options || {}).map(([name, value]) => `, ${name}=${value}`);
  const opened = [`data = vfs.open_group(${pathsOf(set)}${options.join("")})[${text(array.path)}]`];
  const lines = what.kind === "scan" ? scanLines(array, what) : frameLines(array, what);
  const numpy = lines.some((line) => line.includes("np."));
  return [...(numpy ? ["import numpy as np"] : []), "import vfs", "", ...opened, ...lines, ""].join("\n");
}

/**
 * Write Python that serves the image of a detector as an array, for any client of zarr.
 *
 * @param {Object} set @param {Object} array as the API describes them. @param {Object} detector
 * @returns {string}
 */
export function serving(set, array, detector) {
  const own = Object.entries({ ...set.options, ...(array.main ? {} : { array: text(array.path) }) });
  const options = own.filter(([name]) => name !== "derive").map(([name, value]) => `${name}=${value}, `);
  const name = set.key.split("/").pop();
  return [
    "import vfs",
    "",
    `with vfs.serve(${pathsOf(set)}, ${options.join("")}derive={"image": ${toPython(detector)}}) as server:`,
    `    print(server.url + ${text(`${encodeURIComponent(name)}/derived/image`)})`,
    '    input("It is served until you press Enter.")',
    "",
  ].join("\n");
}

function pathsOf(set) {
  return set.sources.length === 1 ? text(set.sources[0]) : `[${set.sources.map(text).join(", ")}]`;
}

function scanLines(array, { detector, within }) {
  const made = toPython(detector);
  if (!within.length) return [`image = data.reduce(image=${made})["image"].data`];
  const index = `[${within.join(", ")}]`;
  return [...roi(array, `roi${index} = True`), `image = data.reduce(image=${made}, roi=roi)["image"].data${index}`];
}

function frameLines(array, { selection, how, at, within, part }) {
  if (!selection) {
    const index = at.length ? `[${at.join(", ")}]` : "[...]";
    const whole = `data${index}`;
    const parts = {
      abs: `np.abs(${whole})`,
      phase: `np.angle(${whole})`,
      real: `${whole}.real`,
      imag: `${whole}.imag`,
    };
    return [`frame = ${part ? parts[part] : whole}`];
  }
  const before = within.map((index) => `${index}, `).join("");
  const made = `vfs.${how[0].toUpperCase()}${how.slice(1)}()`;
  const rest = [`frame = data.reduce(frame=${made}, roi=roi)["frame"].data`];
  if (selection.kind === "rectangle") {
    const { y0, y1, x0, x1 } = selection;
    const part = array.nav === 1 ? `${x0}:${x1}` : `${before}${y0}:${y1}, ${x0}:${x1}`;
    return [...roi(array, `roi[${part}] = True`), ...rest];
  }
  const { cy, cx, r } = selection;
  const [height, width] = array.shape.slice(array.nav - 2, array.nav);
  const where = within.length ? `roi[${within.join(", ")}]` : "roi[...]";
  return [
    ...roi(array, `y, x = np.ogrid[:${height}, :${width}]`, `${where} = (y - ${cy}) ** 2 + (x - ${cx}) ** 2 < ${r}**2`),
    ...rest,
  ];
}

function roi(array, ...lines) {
  return [`roi = np.zeros(data.shape[:${array.nav}], bool)`, ...lines];
}

function text(value) {
  return JSON.stringify(value); // also how Python writes it, but for letters that are not there in paths
}

/**
 * Show a text that can be copied.
 *
 * @param {string} title @param {string} content
 */
export function showText(title, content) {
  const area = el("textarea", {
    readonly: true,
    rows: Math.min(18, content.split("\n").length + 1),
    "aria-label": title,
    spellcheck: "false",
  });
  area.value = content;
  const said = el("span.said", { role: "status" });
  const copy = button(
    "Copy",
    "Copy",
    async () => {
      said.textContent = (await copied(content, area)) ? "copied" : "press Ctrl+C to copy";
    },
    { class: "word" },
  );
  dialog(title, area, el("div.row", {}, said, copy));
  area.select();
}

async function copied(content, area) {
  try {
    await navigator.clipboard.writeText(content); // not there where the page came over plain http from elsewhere
    return true;
  } catch {
    area.focus();
    area.select();
    return document.execCommand("copy");
  }
}

/**
 * Open a dialog. Escape closes it.
 *
 * @param {string} title @param {...Node} children
 * @returns {HTMLDialogElement}
 */
export function dialog(title, ...children) {
  document.querySelector("dialog[open]")?.close();
  const close = button("Close", "close", () => made.close(), { class: "plain" });
  const made = el("dialog", { "aria-label": title }, el("header", {}, el("h2", {}, title), close), ...children);
  made.addEventListener("close", () => made.remove());
  made.addEventListener("pointerdown", (event) => event.target === made && made.close());
  document.body.append(made);
  made.showModal();
  return made;
}
