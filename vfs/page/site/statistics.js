/**
 * Numbers about a part of a picture: statistics, a histogram, a radial mean, a Fourier transform.
 */

import { inside } from "./detectors.js";
import { transform } from "./fourier.js";

const BINS = 100; // of a histogram, at most, but for whole numbers
const WHOLE = 256; // bins of whole numbers, at most: one for each

/**
 * Take the numbers of a picture that lie in a shape.
 *
 * @param {{data: TypedArray, shape: number[], bin: number, from: ?number[]}} numbers of a picture; bin: pixels of it, along
 *   y and x, in one; from: the place of the first, where they are not of all of it.
 * @param {Object} shape see detectors.js, in pixels.
 * @returns {Float64Array} in C order; NaN is left out.
 */
export function within({ data, shape: [height, width], bin, from: [top, left] = [0, 0] }, shape) {
  const holds = inside(shape);
  const out = [];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const value = data[y * width + x];
      if (value === value && holds(top + middle(y, bin), left + middle(x, bin))) out.push(value);
    }
  }
  return Float64Array.from(out);
}

/** @returns {number} the place of the middle of a bin, pixels. */
function middle(k, bin) {
  return k * bin + (bin - 1) / 2;
}

/** @returns {{n: number, mean: number, std: number, min: number, max: number, sum: number}} NaN where there are none; std as of all. */
export function statistics(values) {
  let [min, max, sum] = [Infinity, -Infinity, 0];
  for (const value of values) {
    if (value < min) min = value;
    if (value > max) max = value;
    sum += value;
  }
  const n = values.length;
  const mean = sum / n;
  let square = 0;
  for (const value of values) square += (value - mean) ** 2;
  const none = n ? {} : { min: NaN, max: NaN };
  return { n, mean, std: Math.sqrt(square / n), min, max, sum, ...none };
}

/** @returns {{counts: Float64Array, first: number, step: number}} counts of bins; `first`: the middle of the first; `step`: their width. */
export function counted(values) {
  const { min, max } = statistics(values);
  if (!(max - min < Infinity)) return { counts: new Float64Array(1), first: 0, step: 1 };
  const whole = max - min < WHOLE && values.every(Number.isInteger);
  const bins = whole ? max - min + 1 : max > min ? BINS : 1;
  const step = whole ? 1 : (max - min) / bins || 1;
  const from = whole ? min - 0.5 : min;
  const counts = new Float64Array(bins);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - from) / step))] += 1;
  return { counts, first: from + step / 2, step };
}

/**
 * Mean of a picture over rings.
 *
 * @param {{data: TypedArray, shape: number[], bin: number}} numbers see `within`.
 * @param {function(number, number): number} ring of a place y, x in pixels of the picture: 0, 1, … in the middle of a ring.
 * @returns {Float64Array} the mean of each ring: that of ring k holds those from k - 0.5 to k + 0.5; NaN where there are none.
 */
export function radial({ data, shape: [height, width], bin }, ring) {
  const [sums, counts] = [[], []];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const value = data[y * width + x];
      if (value !== value) continue;
      const k = Math.round(ring(middle(y, bin), middle(x, bin)));
      sums[k] = (sums[k] || 0) + value;
      counts[k] = (counts[k] || 0) + 1;
    }
  }
  return Float64Array.from(sums, (sum, k) => (counts[k] ? sum / counts[k] : NaN));
}

/**
 * Magnitudes of the Fourier transform of a rectangle, whose mean is taken away.
 *
 * @param {{data: TypedArray, shape: number[]}} numbers @param {number[]} box y0, x0, y1, x1, half-open, of the numbers.
 * @returns {Float64Array} the frequency 0 at [height >> 1, width >> 1].
 */
export function spectrum({ data, shape }, [y0, x0, y1, x1]) {
  const [height, width] = [y1 - y0, x1 - x0];
  const [re, im] = [new Float64Array(height * width), new Float64Array(height * width)];
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) re[y * width + x] = data[(y + y0) * shape[1] + x + x0] || 0;
  const mean = re.reduce((a, b) => a + b, 0) / re.length;
  for (let i = 0; i < re.length; i++) re[i] -= mean;
  transform(re, im, height, width, -1);
  const out = new Float64Array(re.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const to = ((y + (height >> 1)) % height) * width + ((x + (width >> 1)) % width);
      out[to] = Math.hypot(re[y * width + x], im[y * width + x]);
    }
  }
  return out;
}
