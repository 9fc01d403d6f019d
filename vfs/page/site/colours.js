/**
 * Colour maps: tables of 256 colours, computed from a few anchor colours each.
 */

const ANCHORS = {
  grey: ["000000", "ffffff"],
  viridis: ["440154", "482878", "3e4a89", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"],
  magma: ["000004", "180f3d", "440f76", "721f81", "9e2f7f", "cd4071", "f1605d", "fd9668", "feca8d", "fcfdbf"],
  inferno: ["000004", "1b0c41", "4a0c6b", "781c6d", "a52c60", "cf4446", "ed6925", "fb9b06", "f7d13d", "fcffa4"],
  diverging: ["1f3a6e", "3f6fb0", "8fb4d8", "f2f1ee", "e3a385", "bf5340", "701c28"],
};

const tables = new Map(); // that were made: name and if it is inverted -> table

/** Names of the maps, in the order in which they are offered. */
export const MAPS = [...Object.keys(ANCHORS), "cyclic"];

/**
 * Get the table of a map, which nobody may change.
 *
 * @param {string} name one of `MAPS`; others are grey.
 * @param {boolean} inverted
 * @returns {Uint32Array} uint32[256], each the bytes r, g, b, 255 in memory.
 */
export function table(name, inverted) {
  const key = `${name} ${inverted}`;
  if (!tables.has(key)) tables.set(key, made(name, inverted));
  return tables.get(key);
}

function made(name, inverted) {
  const out = new Uint32Array(256);
  const anchors = name === "cyclic" ? null : (ANCHORS[name] || ANCHORS.grey).map(fromHex);
  for (let i = 0; i < 256; i++) {
    const [r, g, b] = anchors ? between(anchors, i / 255) : around(i / 256, 0.72, 0.13);
    out[inverted ? 255 - i : i] = packed(r, g, b);
  }
  return out;
}

/** @returns {number} the bytes r, g, b, 255 as one number. */
export function packed(r, g, b) {
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

function fromHex(text) {
  return [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** Follow a smooth curve through the anchors; t from 0 to 1. */
function between(anchors, t) {
  const last = anchors.length - 1;
  const k = Math.min(last - 1, Math.floor(t * last));
  const u = t * last - k;
  const [a, b, c, d] = [k - 1, k, k + 1, k + 2].map((i) => anchors[Math.max(0, Math.min(last, i))]);
  return [0, 1, 2].map((j) => {
    if (last === 1) return b[j] + u * (c[j] - b[j]);
    const bent = 2 * a[j] - 5 * b[j] + 4 * c[j] - d[j] + u * (3 * (b[j] - c[j]) + d[j] - a[j]);
    return Math.max(0, Math.min(255, b[j] + 0.5 * u * (c[j] - a[j] + u * bent)));
  });
}

/**
 * A colour of a circle of equal lightness (in OKLab).
 *
 * @param {number} turn 0 to 1: once around.
 * @param {number} light 0 (black) to 1 (white).
 * @param {number} chroma 0: grey; 0.13 fits into sRGB.
 * @returns {number[]} r, g, b from 0 to 255.
 */
export function around(turn, light, chroma) {
  const a = chroma * Math.cos(2 * Math.PI * turn);
  const b = chroma * Math.sin(2 * Math.PI * turn);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((x) => 255 * gammaOf(Math.max(0, Math.min(1, x))));
}

function gammaOf(x) {
  return x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
}
