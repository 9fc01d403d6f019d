/**
 * Makes what a scan shows of the images of its detectors: a number a position for each of them, and their colours.
 */

import { energies, subtracted } from "./background.js";
import { bend, limits, sample } from "./contrast.js";
import { toText } from "./detectors.js";
import { field, integrated, turn as leastCurl } from "./potential.js";
import { oneOf } from "./wheel.js";

/** Colours of detectors, as red, green, blue: of marks and of what they add to a picture in colours. */
export const COLOURS = [
  [255, 180, 84],
  [64, 200, 255],
  [120, 225, 90],
  [240, 110, 235],
];
const MIXED = [
  [255, 60, 40],
  [40, 210, 60],
  [60, 90, 255],
  [200, 170, 0],
]; // of pictures in colours: nearly red, green and blue, so that their sums can be told from each other

/** How several images are shown. Name -> word. */
export const ARRANGED = { one: "the chosen one", tiles: "tiles", colours: "in colours" };

/** @returns {string} the colour of a detector; of a picture in colours, that which is added there. */
export function colourOf(k, mixed = false) {
  return `rgb(${(mixed ? MIXED : COLOURS)[k].join(" ")})`;
}

/**
 * Make a number a position for each channel.
 *
 * @param {Object[]} channels see detecting.js. @param {Object[]} parts see scan.js.
 * @param {{axis: ?Object, size: number, side: string, turn: ?number, down: number, scan: number[]}} how axis and
 *   samples of spectra; what is shown of centres of mass, see state.js, -1 where frames are drawn upwards; shape of the scan.
 * @returns {Array<{detector: Object, fit: ?Object, data: Float64Array, pairs: ?Float64Array}>}
 */
export function mapsOf(channels, parts, { axis, size, side, turn, down, scan }) {
  let next = 0;
  const energy = energies(axis, size);
  return channels.map(({ shape, fit }) => {
    const needed = fit ? 3 : 1;
    const own = parts.slice(next, (next += needed));
    if (own.length < needed || toText(shape) !== own[0].text) return null; // of channels that were there before
    const { data } = own[0];
    const flat = scan.length === 2;
    const potential = shape.kind === "com" && side === "potential" && flat;
    const found = potential && turn === null ? leastCurl(data, scan, down) : null;
    const degrees = found ? Math.round(10 * found.degrees) / 10 : (flat && turn) || 0; // to a tenth, as they are shown
    const pairs = shape.kind === "com" ? turned(data, degrees, down) : null;
    const numbers = fit
      ? subtracted(fit, shape, own.map((part) => part.data), energy)
      : pairs
        ? potential
          ? integrated(field(data, degrees, down), scan)
          : oneOf(pairs, side)
        : data;
    return { detector: shape, fit, data: numbers, pairs, degrees, mirrored: Boolean(found?.mirrored) };
  });
}

/** @returns {Float64Array} y and x turned by degrees, as they are stored; the mean stays. */
function turned(pairs, degrees, down) {
  if (!degrees) return pairs;
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), down * Math.sin((degrees * Math.PI) / 180)];
  const out = new Float64Array(pairs.length);
  for (let p = 0; p < pairs.length; p += 2) {
    out[p] = s * pairs[p + 1] + c * pairs[p];
    out[p + 1] = c * pairs[p + 1] - s * pairs[p];
  }
  return out;
}

/**
 * Colour several images at once: each adds its colour, as bright as its number is.
 *
 * @param {Array<{data: TypedArray}>} maps numbers a position.
 * @param {Object} contrast curve and percentiles; each image has limits of its own.
 * @returns {Uint32Array} uint32[positions]
 */
export function mixed(maps, contrast) {
  const count = maps[0].data.length;
  const sums = new Float32Array(3 * count);
  const there = new Uint8Array(count);
  maps.forEach(({ data }, k) => {
    const [lo, hi] = limits(sample(data), contrast.low, contrast.high);
    const curve = Float32Array.from({ length: 1024 }, (_, i) => bend(i / 1023, contrast.curve, contrast.gamma));
    const [r, g, b] = MIXED[k];
    for (let i = 0, j = 0; i < count; i++, j += 3) {
      const t = (data[i] - lo) / (hi - lo);
      if (t !== t) continue;
      const level = curve[t <= 0 ? 0 : t >= 1 ? 1023 : (t * 1023) | 0];
      there[i] = 1;
      sums[j] += level * r;
      sums[j + 1] += level * g;
      sums[j + 2] += level * b;
    }
  });
  const out = new Uint32Array(count);
  const bytes = new Uint8ClampedArray(out.buffer);
  for (let i = 0, j = 0; i < count; i++, j += 3) {
    if (!there[i]) continue;
    for (let k = 0; k < 3; k++) bytes[4 * i + k] = contrast.invert ? 255 - sums[j + k] : sums[j + k];
    bytes[4 * i + 3] = 255;
  }
  return out;
}
