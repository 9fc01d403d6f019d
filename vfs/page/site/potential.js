/**
 * Centres of mass as a field over the scan: turned into the scan's directions, and integrated (iCoM, iDPC).
 */

import { transform } from "./fourier.js";

const MIRRORED = 0.5; // of the least curl: with less than this, frames are taken to be mirrored

/**
 * Take the mean away, and turn every vector.
 *
 * @param {Float64Array} pairs float64[positions * 2], y and x. @param {number} degrees from x to y of the scan.
 * @param {number} down -1 where frames are drawn upwards, scans are not.
 * @returns {{fy: Float64Array, fx: Float64Array}} what is no number is 0.
 */
export function field(pairs, degrees, down) {
  const count = pairs.length / 2;
  const [fy, fx] = [new Float64Array(count), new Float64Array(count)];
  const good = (p) => Number.isFinite(pairs[2 * p]) && Number.isFinite(pairs[2 * p + 1]);
  let [my, mx, n] = [0, 0, 0];
  for (let p = 0; p < count; p++) {
    if (!good(p)) continue;
    [my, mx, n] = [my + pairs[2 * p], mx + pairs[2 * p + 1], n + 1];
  }
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  for (let p = 0; p < count; p++) {
    if (!good(p)) continue;
    const [y, x] = [down * (pairs[2 * p] - my / n), pairs[2 * p + 1] - mx / n];
    fx[p] = c * x - s * y;
    fy[p] = s * x + c * y;
  }
  return { fy, fx };
}

/** @returns {{degrees: number, curl: number}} the angle of the least curl, of sums over curls C and divergences D; half of the sum of its squares. */
function least(differ, both, all) {
  return { degrees: differ || both ? (Math.atan2(-both, -differ) * 90) / Math.PI : 0, curl: all - Math.hypot(differ, both) };
}

/**
 * Find the angle between scan and frames: with it the field has the least curl, as the gradient of a potential has none.
 *
 * Of curl C and divergence D the turned field has the curl C cos + D sin, whose squares have their least sum where
 * the double angle is opposite to (sum(C² - D²) / 2, sum(C D)). Half a turn more has as little curl, and the potential
 * with the other sign.
 *
 * @returns {{degrees: number, mirrored: boolean}} degrees, -90 to 90; `mirrored`: frames that are flipped would have far less curl.
 */
export function turn(pairs, [height, width], down) {
  const { fy, fx } = field(pairs, 0, down);
  const sums = [0, 0, 0, 0, 0, 0]; // of (C² - D²) / 2, C D, (C² + D²) / 2; the same of flipped frames
  for (let y = 1; y < height - 1; y++) {
    for (let x = 1; x < width - 1; x++) {
      const p = y * width + x;
      const [yx, xy] = [fy[p + 1] - fy[p - 1], fx[p + width] - fx[p - width]]; // of y along x, of x along y
      const [xx, yy] = [fx[p + 1] - fx[p - 1], fy[p + width] - fy[p - width]];
      const [curl, div, other, otherDiv] = [yx - xy, xx + yy, -yx - xy, xx - yy];
      sums[0] += (curl * curl - div * div) / 2;
      sums[1] += curl * div;
      sums[2] += (curl * curl + div * div) / 2;
      sums[3] += (other * other - otherDiv * otherDiv) / 2;
      sums[4] += other * otherDiv;
      sums[5] += (other * other + otherDiv * otherDiv) / 2;
    }
  }
  const [own, flipped] = [least(...sums.slice(0, 3)), least(...sums.slice(3))];
  return { degrees: own.degrees, mirrored: flipped.curl < MIRRORED * own.curl };
}

/**
 * Integrate a field: the picture whose gradient is nearest to it, of mean 0.
 *
 * The field is mirrored at the edges of the scan, so that the picture need not be the same at opposite edges.
 *
 * @returns {Float64Array} float64[positions], in pixels of the frame times steps of the scan.
 */
export function integrated({ fy, fx }, [height, width]) {
  const [h, w] = [2 * height, 2 * width];
  // The gradient of an even picture is odd along its own axis: y is the real part, x the imaginary one
  const [re, im] = [new Float64Array(h * w), new Float64Array(h * w)];
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const from = (y < height ? y : h - 1 - y) * width + (x < width ? x : w - 1 - x);
      re[y * w + x] = y < height ? fy[from] : -fy[from];
      im[y * w + x] = x < width ? fx[from] : -fx[from];
    }
  }
  transform(re, im, h, w, -1);
  const [outRe, outIm] = [new Float64Array(h * w), new Float64Array(h * w)];
  for (let y = 0; y < h; y++) {
    const ky = (2 * Math.PI * (y < height ? y : y - h)) / h;
    for (let x = 0; x < w; x++) {
      const kx = (2 * Math.PI * (x < width ? x : x - w)) / w;
      const square = ky * ky + kx * kx;
      if (!square) continue;
      // Of real pictures Y and X, the transform of Y + iX gives both: of Y its Hermitian part, of X the other
      const [p, q] = [y * w + x, ((h - y) % h) * w + ((w - x) % w)];
      const [yr, yi] = [(re[p] + re[q]) / 2, (im[p] - im[q]) / 2];
      const [xr, xi] = [(im[p] + im[q]) / 2, (re[q] - re[p]) / 2];
      outRe[p] = (ky * yi + kx * xi) / square; // -i k F / k²
      outIm[p] = -(ky * yr + kx * xr) / square;
    }
  }
  transform(outRe, outIm, h, w, 1);
  return Float64Array.from({ length: height * width }, (_, p) => outRe[Math.floor(p / width) * w + (p % width)] / (h * w));
}
