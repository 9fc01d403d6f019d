/**
 * Finds the ellipse that a ring of a pattern is distorted to.
 *
 * Pixels between two radii, each with the weight of what it has above the background there, lie on
 * a u² + b u v + c v² + d u + e v = 1 as nearly as least squares can have it; rings are looked at again around what was found.
 */

import { distance, elliptic } from "./detectors.js";

const ROUNDS = 8;
const EDGE = 0.15; // of the width of the band, at both sides, where the background is
const LONGEST = 2; // of an ellipse's axes: more is no distortion of a pattern

/**
 * Fit centre, axis ratio and angle to a ring.
 *
 * @param {{data: TypedArray, shape: number[], bin: number}} numbers of a picture, see `within` in statistics.js.
 * @param {Object} shape radial, see detectors.js: the ring lies between its radii, all around.
 * @returns {?Object} the shape around the ring, as wide as before; null: there is none.
 */
export function fitted(numbers, shape) {
  let found = shape;
  for (let k = 0; k < ROUNDS && found; k++) found = nearer(numbers, found);
  if (!found) return null;
  const [cy, cx] = [found.cy, found.cx].map((n) => Number(n.toFixed(2)));
  const [r0, r1] = [found.r0, found.r1].map((n) => Number(n.toFixed(1)));
  return elliptic({ ...found, cy, cx, r0, r1 }, found.ratio, found.angle);
}

/** @returns {?Object} ellipses that are nearer to the ring between those of a shape. */
function nearer({ data, shape: [height, width], bin }, shape) {
  const far = distance(shape);
  const { r0, r1, cy, cx } = shape;
  const size = (r0 + r1) / 2;
  const held = []; // of each pixel: v and u from the centre, where it is from 0 to 1 between the radii, and its value
  for (let i = 0; i < data.length; i++) {
    const [y, x] = [Math.floor(i / width), i % width].map((k) => k * bin + (bin - 1) / 2);
    const at = (far(y, x) - r0) / (r1 - r0);
    if (at >= 0 && at < 1 && data[i] === data[i]) held.push([(y - cy) / size, (x - cx) / size, at, data[i]]);
  }
  const [inner, outer] = [(at) => at < EDGE, (at) => at >= 1 - EDGE].map((side) => mean(held.filter(([, , at]) => side(at))));
  const sums = Array.from({ length: 5 }, () => new Float64Array(6));
  for (const [v, u, at, value] of held) {
    const weight = value - inner - at * (outer - inner);
    if (!(weight > 0)) continue;
    const terms = [u * u, u * v, v * v, u, v, 1];
    for (let j = 0; j < 5; j++) for (let k = 0; k < 6; k++) sums[j][k] += weight * terms[j] * terms[k];
  }
  const [a, b, c, d, e] = solved(sums);
  const square = 4 * a * c - b * b;
  const [u, v] = [(b * e - 2 * c * d) / square, (b * d - 2 * a * e) / square]; // the centre
  const level = 1 + a * u * u + b * u * v + c * v * v;
  const spread = Math.hypot(a - c, b);
  const [most, least] = [(a + c + spread) / 2, (a + c - spread) / 2];
  const ratio = Math.sqrt(most / least);
  if (!(square > 0 && ratio < LONGEST && Math.hypot(u, v) < 1)) return null;
  const short = size * Math.sqrt(level / most);
  const half = (r1 - r0) / 2;
  const angle = (Math.atan2(b, a - c) * 90) / Math.PI + 90; // across that in which it is shortest
  return { ...shape, cy: cy + v * size, cx: cx + u * size, ratio, angle, r0: Math.max(0, short - half), r1: short + half };
}

function mean(held) {
  return held.reduce((sum, [, , , value]) => sum + value, 0) / held.length;
}

/** @returns {number[]} what solves linear equations, given as rows that end with their right sides: by elimination. */
function solved(rows) {
  for (let k = 0; k < rows.length; k++) {
    const best = rows.slice(k).reduce((one, other) => (Math.abs(other[k]) > Math.abs(one[k]) ? other : one));
    rows.splice(rows.indexOf(best), 1);
    rows.splice(k, 0, best);
    rows.forEach((row, j) => {
      const part = row[k] / best[k];
      if (j !== k) row.forEach((_, i) => (row[i] -= part * best[i]));
    });
  }
  return rows.map((row, k) => row[rows.length] / row[k]);
}
