/**
 * From numbers to levels 0 to 255: limits, and the curve between them.
 *
 * NaN has no level and is left transparent. Infinities are the ends.
 */

/** How numbers between the limits are spread over the colours. Name -> word. */
export const CURVES = { linear: "linear", log: "logarithm", sqrt: "square root", gamma: "gamma" };

/** When the limits follow the numbers. Name -> word. */
export const MODES = { always: "for every picture", once: "once", never: "by hand" };

const MARK = 65535; // the least number that marks pixels without a measurement: one less than a power of two
const APART = 8; // times as large as all measured numbers
const SEVERAL = 8; // different numbers below a mark
const PLATEAU = 0.005; // of all numbers: so many are −1 or −2 in gaps between modules
const DECADES = 3; // of the logarithm, from the upper limit down
const SAMPLE = 1 << 15; // numbers that percentiles and histograms are made of

/**
 * Make the contrast that a picture starts with.
 *
 * @param {Object} [changes]
 * @returns {{map: string, invert: boolean, curve: string, gamma: number, mode: string, low: number, high: number,
 *   lo: number, hi: number}} low, high: percentiles; lo, hi: limits.
 */
export function usual(changes = {}) {
  const start = { map: "grey", invert: false, curve: "linear", gamma: 0.5, mode: "always", low: 0.1, high: 99.9 };
  return { ...start, lo: NaN, hi: NaN, ...changes };
}

/** @returns {string} the usual colour map of a part of complex numbers: phases go round. */
export function mapOf(part) {
  return part === "phase" ? "cyclic" : "grey";
}

/**
 * Take finite numbers evenly spread over an array, sorted, without those that mark pixels of a detector.
 *
 * @param {TypedArray} data
 * @returns {Float64Array} all that are finite where there are few.
 */
export function sample(data) {
  let step = Math.max(1, Math.ceil(data.length / SAMPLE));
  if (step > 1 && step % 2 === 0) step += 1; // else it may always meet the same columns
  const some = new Float64Array(Math.ceil(data.length / step));
  let count = 0;
  for (let i = 0; i < data.length; i += step) {
    const value = data[i];
    if (value - value === 0) some[count++] = value;
  }
  return measured(some.subarray(0, count).sort());
}

/**
 * Leave out what X-ray detectors write where they measure nothing: all bits set in gaps and dead pixels (means of these and others
 * in a frame of means, too), or −1 and −2.
 */
function measured(sorted) {
  const { length } = sorted;
  const most = sorted[length - 1];
  let [from, to] = [0, length];
  if (most >= MARK && [most, most + 1].some((n) => Number.isInteger(Math.log2(n)))) {
    const gap = widestGap(sorted, length >> 1);
    if (new Set(sorted.subarray(0, gap)).size >= SEVERAL) to = gap;
  }
  if ([0, PLATEAU].every((share) => [-1, -2].includes(sorted[Math.floor(share * length)])) && sorted[to - 1] >= SEVERAL) {
    from = sorted.findIndex((value) => value >= 0);
  }
  return sorted.subarray(from, to);
}

/** @returns {number} where numbers begin that are most times as large as those before, from `start` on; the length where none are. */
function widestGap(sorted, start) {
  let [found, times] = [sorted.length, APART];
  for (let at = start + 1; at < sorted.length; at++) {
    const apart = sorted[at] / Math.max(1, sorted[at - 1]);
    if (apart >= times) [found, times] = [at, apart];
  }
  return found;
}

/** @returns {boolean} true for numbers that are all NaN. */
export function isEmpty(data) {
  return data.length > 0 && data.every(Number.isNaN);
}

/**
 * Find limits.
 *
 * @param {Float64Array} sorted
 * @param {number} low percentile.
 * @param {number} high percentile.
 * @returns {[number, number]} the first below the second.
 */
export function limits(sorted, low, high) {
  if (!sorted.length) return [0, 1];
  const last = sorted.length - 1;
  const lo = sorted[Math.floor((last * low) / 100)];
  const hi = sorted[Math.ceil((last * high) / 100)];
  if (hi > lo) return [lo, hi];
  if (sorted[last] > sorted[0]) return [sorted[0], sorted[last]];
  return lo === 0 ? [0, 1] : [Math.min(0, lo), Math.max(0, lo)];
}

/**
 * Turn numbers into levels.
 *
 * @param {TypedArray} data
 * @param {Uint8Array} levels filled, of the same length; what has no level has 0.
 * @param {Object} how a contrast.
 * @returns {boolean} true if a number is NaN.
 */
export function toLevels(data, levels, how) {
  const { lo, hi } = how;
  const curve = curveOf(how);
  const scale = (STEPS - 1) / (hi - lo);
  let holes = false;
  for (let i = 0; i < data.length; i++) {
    const t = (data[i] - lo) * scale;
    if (t > 0) levels[i] = t < STEPS ? curve[t | 0] : 255;
    else {
      levels[i] = 0;
      if (t !== t) holes = holes || Number.isNaN(data[i]);
    }
  }
  return holes;
}

const STEPS = 1 << 14; // of a curve: enough for the dark end of a logarithm
const curves = new Map(); // name of a curve -> that which was made last: {gamma, levels}

/** @returns {Uint8Array} uint8[STEPS], the level of each step from the lower limit to the upper one; nobody may change it. */
function curveOf({ curve, gamma }) {
  if (!curves.has(curve) || curves.get(curve).gamma !== gamma) {
    const levels = new Uint8Array(STEPS);
    for (let i = 0; i < STEPS; i++) levels[i] = Math.round(255 * bend(i / (STEPS - 1), curve, gamma));
    curves.set(curve, { gamma, levels });
  }
  return curves.get(curve).levels;
}

/**
 * Follow the curve of a contrast.
 *
 * @param {number} t 0 to 1: from the lower limit to the upper one.
 * @param {string} curve one of `CURVES`.
 * @param {number} gamma exponent, for that curve.
 * @returns {number} 0 to 1.
 */
export function bend(t, curve, gamma) {
  if (curve === "log") return Math.log1p(t * 10 ** DECADES) / Math.log1p(10 ** DECADES);
  if (curve === "sqrt") return Math.sqrt(t);
  return curve === "gamma" ? t ** gamma : t;
}

/**
 * Count how many numbers lie in each of some equal steps from 0 to 1.
 *
 * @param {Float64Array} sorted
 * @param {function(number): number} place of a number, 0 to 1: the larger it is, the farther. It is asked for few of them.
 * @param {number} bins
 * @returns {Float64Array} float64[bins]
 */
export function histogram(sorted, place, bins) {
  const counts = new Float64Array(bins);
  let first = 0;
  for (let bin = 1; bin <= bins; bin++) {
    let [low, high] = [first, sorted.length]; // of the first number beyond this bin
    while (low < high && bin < bins) {
      const middle = (low + high) >> 1;
      if (place(sorted[middle]) * bins < bin) low = middle + 1;
      else high = middle;
    }
    counts[bin - 1] = high - first;
    first = high;
  }
  return counts;
}
