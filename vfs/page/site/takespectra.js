/**
 * Takes away what a plot draws: all its lines as one CSV, or one of them as EMSA/MAS.
 */

import { fileOf } from "./api.js";
import { toText } from "./detectors.js";
import { nameOf, save } from "./take.js";
import { symbol } from "./units.js";

/** @returns {Array<{name: string, data: TypedArray, bin: number}>} the lines that a panel draws: that of the array, or each of it, and those beside it. */
export function curvesOf(viewer, panel) {
  const { data, shape, bin, caption } = panel.shown;
  if (!data || panel.kind !== "plot") return [];
  const lines = shape[1] ?? 1;
  const every = (k) => (lines === 1 ? data : data.filter((_, i) => i % lines === k));
  const own = Array.from({ length: lines }, (_, k) => ({ name: lines === 1 ? caption || "value" : `line ${k + 1}`, data: every(k), bin }));
  const images = panel.id === "scan" ? viewer.showing.maps.filter((map) => map.data !== data) : [];
  const more = images.length ? images.map((map) => ({ name: map.caption, data: map.data, bin: 1 })) : viewer.spectra.named(panel);
  return [...own, ...more];
}

/** Save all lines of a plot as text: the place of each sample on the axis, and the value of each line; empty where a line has none. */
export function takeLines(viewer, panel) {
  const { axis, titles, shown } = panel;
  const { scale = 1, offset = 0, unit = "" } = axis ?? {};
  const curves = curvesOf(viewer, panel);
  const count = Math.max(...curves.map(({ data, bin }) => data.length * (bin / shown.bin)));
  const head = [`${titles.x || "sample"}${unit && ` (${symbol(unit)})`}`, ...curves.map(({ name }) => name)].map(cell);
  const at = (i) => Number(((i * shown.bin + (shown.bin - 1) / 2) * scale + (offset || 0)).toPrecision(12));
  const value = ({ data, bin }, i) => data[Math.floor((i * shown.bin) / bin)];
  const rows = Array.from({ length: count }, (_, i) => [at(i), ...curves.map((one) => value(one, i)).map((n) => (n === undefined || Number.isNaN(n) ? "" : n))]);
  save(new Blob([[head, ...rows].map((row) => row.join(",")).join("\n"), "\n"], { type: "text/csv" }), `${nameOf(viewer, panel)}.csv`);
}

/** @returns {string} a text as CSV has it. */
function cell(text) {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Save a line of a plot as EMSA/MAS, from its first number to its last one. */
export async function takeMsa(viewer, panel, { name, data, bin }) {
  const { set, array } = viewer;
  try {
    const first = data.findIndex((n) => !Number.isNaN(n));
    if (first < 0) throw new Error(`${name}: there are no numbers.`);
    const part = data.slice(first, data.findLastIndex((n) => !Number.isNaN(n)) + 1);
    const axis = panel.id === "scan" ? array.nav - 1 : array.picture.findLast((one) => array.shape[one] > 1);
    const dtype = part.constructor.name.replace("Array", "").toLowerCase();
    const head = { name: `${set.name} ${name}`, kind: "sig", dtype, shape: [part.length], axes: [axis], bin, first, reduction: name, ending: ".msa" };
    save(await fileOf(set.key, array.path, head, part), `${nameOf(viewer, { ...panel, shown: { caption: name } })}.msa`);
  } catch (error) {
    viewer.failed(error);
  }
}

/** @returns {string} where in the scan a kept spectrum is of. */
export function placeText(place) {
  const { kind, y0, x0, y1, x1 } = place;
  return kind === "rectangle" && y1 - y0 === 1 && x1 - x0 === 1 ? `${y0}, ${x0}` : toText(place);
}
