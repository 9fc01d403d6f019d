/**
 * Backgrounds of spectra: fitted in a window before an edge, and taken away below a window behind it.
 *
 * A fit is {model, from, to}: samples, half-open. The window is cut into halves of equal length, and the model goes
 * through the sums of both: the two-area method (R. F. Egerton, Electron Energy-Loss Spectroscopy in the Electron
 * Microscope, 3rd ed., section 4.4.2). So a background needs two sums at each position, which the server makes of all
 * samples. Energies are those of the calibration, where it says them and they are above 0, else 1, 2, 3 … of samples.
 *
 * power: see `powerlaw.js`; linear: the line whose sums these are.
 */

import { powerLaw } from "./powerlaw.js";

const LEAST = 4; // samples of a fit

/** Models and their words. */
export const MODELS = { "": "no background", power: "power law", linear: "linear" };

/** @returns {boolean} true if a fit lies in a line of so many samples. */
export function possible({ from, to }, size) {
  return from >= 0 && to <= size && to - from >= LEAST && (to - from) % 2 === 0;
}

/** @returns {?Object} the fit before a window: as wide as it is, at most; null where there is no room. */
export function before({ x0, x1 }, model, size) {
  const gap = Math.max(1, Math.round((x1 - x0) / 20));
  const to = Math.max(0, x0 - gap);
  return tidy({ model, from: to - Math.max(LEAST, x1 - x0), to }, size, x0);
}

/** Make a fit of whole samples, of an even number of them, in front of sample `most`. */
function tidy({ model, from, to }, size, most = size) {
  const end = Math.max(LEAST, Math.min(size, most, Math.round(to)));
  if (end > most) return null;
  const start = Math.max(0, Math.min(end - LEAST, Math.round(from)));
  return { model, from: start + ((end - start) % 2), to: end };
}

/** @returns {?Object} a fit moved by samples, as far as there is room. */
export function moved(fit, by, size) {
  const most = Math.max(-fit.from, Math.min(size - fit.to, by));
  return { ...fit, from: fit.from + most, to: fit.to + most };
}

/** @returns {?string} what a press at a sample takes hold of: "from", "to", "all". */
export function hold({ from, to }, x, near) {
  if (Math.abs(x - from + 0.5) <= near) return "from";
  if (Math.abs(x - to + 0.5) <= near) return "to";
  return x > from && x < to ? "all" : null;
}

/** @returns {Object} a fit of which a side, or all, is dragged to a sample; it stays in front of its window. */
export function dragged(fit, side, at, { x0 }, size) {
  const wide = fit.to - fit.from;
  if (side === "from") return tidy({ ...fit, from: Math.min(at, fit.to - LEAST) }, size, x0) || fit;
  if (side === "to") return tidy({ ...fit, to: Math.max(at, fit.from + LEAST) }, size, x0) || fit;
  const from = Math.max(0, Math.min(x0 - wide, Math.round(at)));
  return { ...fit, from, to: from + wide };
}

/** @returns {Object[]} the halves of a fit, as detectors. */
export function halves({ from, to }) {
  const middle = (from + to) / 2;
  return [
    [from, middle],
    [middle, to],
  ].map(([x0, x1]) => ({ kind: "rectangle", y0: 0, x0, y1: 1, x1 }));
}

/**
 * Make the energies of samples.
 *
 * @param {?{scale: number, offset: number}} axis @param {number} size samples.
 * @returns {function(number): number} energy of a sample; the sample may be a fraction.
 */
export function energies(axis, size) {
  const at = (x) => x * axis.scale + (axis.offset || 0);
  const good = axis && axis.scale > 0 && at(size - 1) > 0;
  return good ? at : (x) => x + 1;
}

/**
 * Find the parameters of a background.
 *
 * @param {Object} fit @param {number} a sum over its first half. @param {number} b over its second half.
 * @param {function(number): number} energy of a sample.
 * @returns {{value: function(number): number, sum: function(number, number): number}} the background at a sample,
 *   and its sum over samples from one to another, half-open. NaN where there is none: a power law needs energies and
 *   sums above 0.
 */
export function fitted({ model, from, to }, a, b, energy) {
  const half = (to - from) / 2;
  const middle = from + half;
  if (model === "linear") {
    const slope = (b - a) / half / half; // a sample
    const start = a / half - slope * (from + (half - 1) / 2);
    const value = (x) => start + slope * x;
    return { value, sum: (x0, x1) => (x1 - x0) * value((x0 + x1 - 1) / 2) };
  }
  const edge = (x) => energy(x - 0.5);
  const sum = powerLaw(a, b, [edge(from), edge(middle), edge(to)]);
  return { value: (x) => sum(edge(x), edge(x + 1)), sum: (x0, x1) => sum(edge(x0), edge(x1)) };
}

/**
 * Take backgrounds away.
 *
 * @param {Object} fit @param {{x0: number, x1: number}} shape the window. @param {TypedArray[]} sums of the window and
 *   of both halves of the fit, a number a position. @param {function(number): number} energy
 * @returns {Float64Array} what is left, a number a position; NaN where no background can be fitted.
 */
export function subtracted(fit, { x0, x1 }, [all, first, second], energy) {
  return Float64Array.from(all, (value, p) => value - fitted(fit, first[p], second[p], energy).sum(x0, x1));
}
