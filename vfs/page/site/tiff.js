/**
 * Numbers of a picture as a TIFF with its calibration, as `vfs reduce … OUT.tif` writes it: ImageJ reads resolution and
 * unit from its own description, DigitalMicrograph from its private tags.
 */

import { fitting } from "./units.js";

const SHORT = 3; // types of TIFF
const LONG = 4;
const RATIONAL = 5;
const DOUBLE = 12;
const TEXT = 2;
const BYTE = 1;
const WIDTHS = { [BYTE]: 1, [TEXT]: 1, [SHORT]: 2, [LONG]: 4, [RATIONAL]: 8, [DOUBLE]: 8 };
const FORMATS = { Uint8Array: 1, Uint16Array: 1, Uint32Array: 1, Int8Array: 2, Int16Array: 2, Int32Array: 2, Float32Array: 3 };

/**
 * Write numbers as a TIFF; of several channels as a composite image of ImageJ.
 *
 * @param {TypedArray} data rows from the top to the bottom; doubles become whole numbers, or else floats, of four bytes.
 * @param {number[]} shape rows, columns.
 * @param {Array<{scale: number, offset: number, unit: string}>} axes of rows and columns; a unit of "" is none.
 * @param {Array<{light: number[], lo: number, hi: number}>} [channels] whose numbers follow one another: red, green and blue of
 *   each, and which numbers are black and full.
 * @returns {Blob}
 */
export function tiff(data, [height, width], axes, channels = []) {
  const counts = (value) => value >= 0 && value <= 0xffffffff && Number.isInteger(value);
  const short = data.every(counts) ? Uint32Array : Float32Array; // sums of counts stay what they are
  const numbers = data.constructor.name in FORMATS ? data : short.from(data);
  const known = axes.some(({ unit }) => unit);
  const [rows, columns] = axes.map(people);
  const count = Math.max(1, channels.length);
  const several = channels.length > 1 ? [`channels=${count}`, "hyperstack=true", "mode=composite"] : [];
  const lines = ["ImageJ=1.11a", `images=${count}`, ...several, "loop=false"];
  const tags = [
    [256, LONG, [width]],
    [257, LONG, [height]],
    [258, SHORT, [8 * numbers.BYTES_PER_ELEMENT]],
    [259, SHORT, [1]],
    [262, SHORT, [1]],
    [277, SHORT, [1]],
    [278, LONG, [height]],
    [279, LONG, [numbers.byteLength / count]],
    [339, SHORT, [FORMATS[numbers.constructor.name]]],
  ];
  if (known) {
    for (const [k, key, letter, axis] of [[0, "unit", "x", columns], [1, "yunit", "y", rows]]) {
      lines.push(`${key}=${java(axis.unit || "pixel")}`, `${letter}origin=${Number((-axis.offset / axis.scale).toPrecision(9))}`);
      tags.push([282 + k, RATIONAL, rational(1 / Math.abs(axis.scale))]);
      tags.push([65003 + k, TEXT, ascii(`${axis.unit.replace(/[^\x20-\x7e]/g, "?")}\0`)]);
      tags.push([65006 + k, DOUBLE, [axis.offset]], [65009 + k, DOUBLE, [axis.scale]]);
    }
    tags.push([296, SHORT, [1]]);
  }
  if (several.length) tags.push(...looks(channels));
  tags.push([270, TEXT, ascii(`${lines.join("\n")}\n\0`)], [273, LONG, [0]]);
  return new Blob([head(tags.sort((a, b) => a[0] - b[0])), numbers], { type: "image/tiff" });
}

/** @returns {Array} the tags in which ImageJ keeps limits and tables of colours of channels. */
function looks(channels) {
  const sizes = [20, 16 * channels.length, ...channels.map(() => 768)];
  const view = new DataView(new ArrayBuffer(sizes.reduce((a, b) => a + b)));
  [0x494a494a, 0x72616e67, 1, 0x6c757473, channels.length].forEach((word, k) => view.setUint32(4 * k, word, true)); // "IJIJ", "rang", "luts"
  channels.forEach(({ lo, hi, light }, k) => {
    view.setFloat64(20 + 16 * k, lo, true);
    view.setFloat64(28 + 16 * k, hi, true);
    const at = sizes[0] + sizes[1] + 768 * k;
    light.forEach((full, part) => {
      for (let i = 0; i < 256; i++) view.setUint8(at + 256 * part + i, Math.round((full * i) / 255));
    });
  });
  return [[50838, LONG, sizes], [50839, BYTE, new Uint8Array(view.buffer)]];
}

/** @returns {Object} an axis in the unit that people write. */
function people({ scale, offset, unit }) {
  if (!unit) return { scale: 1, offset: 0, unit: "" };
  const fit = fitting(Math.abs(scale), unit);
  return { scale: scale * fit.factor, offset: offset * fit.factor, unit: fit.unit };
}

/** @returns {string} a text as ImageJ reads it, in ASCII. */
function java(text) {
  return text.replace(/[^\x20-\x7e]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

function ascii(text) {
  return Array.from(text, (letter) => letter.charCodeAt(0));
}

/** @returns {[number, number]} a fraction of 32 bits each that is about a number. */
function rational(number) {
  const digits = Math.max(0, Math.min(9, 9 - Math.ceil(Math.log10(number))));
  return [Math.min(0xffffffff, Math.round(number * 10 ** digits)), 10 ** digits];
}

/** @returns {ArrayBuffer} the header, the tags, and what does not fit into them; the numbers follow. */
function head(tags) {
  const size = ([, type, values]) => WIDTHS[type] * (type === RATIONAL ? 1 : values.length);
  const table = 8 + 2 + 12 * tags.length + 4;
  const beyond = tags.map(size).reduce((sum, bytes) => sum + (bytes > 4 ? bytes + (bytes % 2) : 0), 0);
  const start = Math.ceil((table + beyond) / 16) * 16;
  const view = new DataView(new ArrayBuffer(start));
  view.setUint32(0, 0x49492a00);
  view.setUint32(4, 8, true);
  view.setUint16(8, tags.length, true);
  let free = table;
  tags.forEach((tag, k) => {
    const [code, type, values] = tag;
    const at = 10 + 12 * k;
    const bytes = size(tag);
    const place = bytes > 4 ? free : at + 8;
    view.setUint16(at, code, true);
    view.setUint16(at + 2, type, true);
    view.setUint32(at + 4, type === RATIONAL ? 1 : values.length, true);
    if (bytes > 4) {
      view.setUint32(at + 8, free, true);
      free += bytes + (bytes % 2);
    }
    (code === 273 ? [start] : values).forEach((value, i) => {
      if (type === TEXT || type === BYTE) view.setUint8(place + i, value);
      else if (type === SHORT) view.setUint16(place + 2 * i, value, true);
      else if (type === DOUBLE) view.setFloat64(place + 8 * i, value, true);
      else view.setUint32(place + 4 * i, value, true);
    });
  });
  return view.buffer;
}
