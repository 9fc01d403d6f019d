/**
 * Things to take away: pictures, numbers, texts.
 */

import { toText } from "./detectors.js";
import { el, button } from "./dom.js";

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

/** @returns {string} the name of a file with what a panel shows, without its ending. */
export function nameOf(viewer, panel) {
  const { shape } = viewer.detecting;
  const what = panel.id === "scan" ? (shape ? toText(shape) : "scan") : panel.shown.caption || "frame";
  return `${viewer.set.name} ${viewer.array.path} ${what}`
    .replace(/[^\w.+-]+/g, "_")
    .replace(/_+$/, "")
    .slice(0, 120);
}

/** @returns {string} the name of the dtype of numbers: float32. */
export function dtypeOf(numbers) {
  return numbers.constructor.name.replace("Array", "").toLowerCase();
}

/**
 * Write numbers as a file of numpy.
 *
 * @param {Array<TypedArray|Blob>} parts that follow one another, in C order.
 * @param {number[]} shape
 * @param {TypedArray} [kind] an array of the type of the numbers.
 * @returns {Blob} the .npy file, version 1.0.
 */
export function npy(parts, shape, kind = parts[0]) {
  const tuple = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const header = `{'descr': '${DESCRIPTIONS[kind.constructor.name]}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const start = new Uint8Array([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8]);
  return new Blob([start, padded, ...parts], { type: "application/octet-stream" });
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

/** @returns {Promise<Blob>} a PNG of a picture, a pixel for each number, the top row first; of a plot, as it is on the screen. */
export function png(view) {
  const canvas = view._image?.width ? upright(view) : view.canvas;
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** @returns {HTMLCanvasElement} the pixels of a picture, with the row first that is drawn at the top. */
function upright({ _image: image, down }) {
  if (down > 0) return image;
  const { width, height } = image;
  const canvas = el("canvas", { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, -1, 0, height);
  context.drawImage(image, 0, 0);
  return canvas;
}

/**
 * Show a text that can be copied.
 *
 * @param {string} title @param {string} content @param {string[]} [about] what one should know of it, a line each.
 */
export function showText(title, content, about = []) {
  const area = el("textarea", {
    readonly: true,
    rows: Math.min(22, content.split("\n").length + 1 + Math.floor(content.length / 90)),
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
  dialog(title, area, ...about.map((line) => el("p.about-text", {}, line)), el("div.row", {}, said, copy));
  area.select();
}

/**
 * Copy a text; where the browser lets nobody, show it, to be copied by hand.
 *
 * @returns {Promise<boolean>} true if it was copied.
 */
export async function copyText(title, content) {
  try {
    await navigator.clipboard.writeText(content);
    return true;
  } catch {
    showText(title, content);
    return false;
  }
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
