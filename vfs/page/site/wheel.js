/**
 * Centres of mass as pictures: along x or y, how far, or as colours of a wheel: the direction as hue, how far as light.
 */

import { around, packed, table as colourTable } from "./colours.js";
import { limits, sample, toLevels } from "./contrast.js";

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
  const table = hues();
  return round(size, (angle, far) => tinted(table, angle / (2 * Math.PI), far));
}

/**
 * Make a small wheel that tells which colour is which phase: 0 at the right, growing counterclockwise.
 *
 * @param {number} size pixels.
 * @param {Object} contrast with which phases are coloured.
 * @returns {HTMLCanvasElement}
 */
export function phases(size, contrast) {
  const angles = Float64Array.from({ length: 256 }, (_, i) => ((i - 127.5) * Math.PI) / 128);
  const levels = new Uint8Array(256);
  toLevels(angles, levels, contrast);
  const table = colourTable(contrast.map, contrast.invert);
  return round(size, (angle) => table[levels[Math.floor((-angle / Math.PI + 1) * 128) & 255]]);
}

/** @returns {HTMLCanvasElement} a disk of colours: `coloured` takes the angle, clockwise from the right, and the distance, 0 to 1. */
function round(size, coloured) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = new ImageData(size, size);
  const out = new Uint32Array(image.data.buffer);
  const half = (size - 1) / 2;
  for (let i = 0; i < out.length; i++) {
    const [y, x] = [Math.floor(i / size) - half, (i % size) - half];
    const far = Math.hypot(y, x) / half;
    if (far <= 1) out[i] = coloured(Math.atan2(y, x), far);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
