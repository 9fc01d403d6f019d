/**
 * Centres of mass as pictures: along x or y, how far, or as colours of a wheel: the direction as hue, how far as light.
 */

import { around, packed } from "./colours.js";
import { limits, sample } from "./contrast.js";

const CHROMA = 0.13;

/** What can be shown of centres of mass. Name -> word. */
export const SIDES = { wheel: "wheel", x: "x", y: "y", magnitude: "magnitude", potential: "potential (iCoM)" };

/**
 * Take one number a position.
 *
 * @param {Float64Array} pairs float64[positions * 2], y and x.
 * @param {string} side "x", "y", "magnitude"; "wheel" and "potential" are the magnitude, too.
 * @returns {Float64Array} float64[positions]
 */
export function oneOf(pairs, side) {
  const out = new Float64Array(pairs.length / 2);
  for (let i = 0; i < out.length; i++) {
    const [y, x] = [pairs[2 * i], pairs[2 * i + 1]];
    out[i] = side === "y" ? y : side === "x" ? x : Math.hypot(y, x);
  }
  return out;
}

/**
 * Colour the differences from the mean of all positions.
 *
 * @param {Float64Array} pairs float64[positions * 2], y and x.
 * @param {number} down -1 where frames are drawn upwards: the colour of a direction is that which the frame shows.
 * @returns {{colours: Uint32Array, most: number}} `most`: the distance, in pixels, that has the full colour.
 */
export function wheel(pairs, down) {
  const [my, mx] = means(pairs);
  const count = pairs.length / 2;
  const far = new Float64Array(count);
  for (let i = 0; i < count; i++) far[i] = Math.hypot(pairs[2 * i] - my, pairs[2 * i + 1] - mx);
  const most = limits(sample(far), 0, 99)[1];
  const colours = new Uint32Array(count);
  const wheelTable = hues();
  for (let i = 0; i < count; i++) {
    if (far[i] !== far[i]) continue;
    const turn = Math.atan2(down * (pairs[2 * i] - my), pairs[2 * i + 1] - mx) / (2 * Math.PI);
    colours[i] = tinted(wheelTable, turn, Math.min(1, far[i] / most));
  }
  return { colours, most };
}

function means(pairs) {
  let [y, x, count] = [0, 0, 0];
  for (let i = 0; i < pairs.length; i += 2) {
    if (!(pairs[i] - pairs[i] === 0)) continue;
    y += pairs[i];
    x += pairs[i + 1];
    count += 1;
  }
  return count ? [y / count, x / count] : [0, 0];
}

/** @returns {number[][]} colours around the wheel, 256 of them. */
function hues() {
  return Array.from({ length: 256 }, (_, i) => around(i / 256, 0.74, CHROMA));
}

function tinted(table, turn, strength) {
  const [r, g, b] = table[Math.floor((turn - Math.floor(turn)) * 256) & 255];
  return packed(r * strength, g * strength, b * strength);
}

/**
 * Make a small wheel that tells which colour is which direction.
 *
 * @param {number} size pixels.
 * @returns {HTMLCanvasElement}
 */
export function legend(size) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = new ImageData(size, size);
  const out = new Uint32Array(image.data.buffer);
  const table = hues();
  const half = (size - 1) / 2;
  for (let i = 0; i < out.length; i++) {
    const [y, x] = [Math.floor(i / size) - half, (i % size) - half];
    const far = Math.hypot(y, x) / half;
    if (far <= 1) out[i] = tinted(table, Math.atan2(y, x) / (2 * Math.PI), far);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
