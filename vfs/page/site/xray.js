/**
 * Angles of the pixels of an X-ray detector: where its file says the centre of the beam, the distance, the size of a
 * pixel and the wavelength, a place of the picture has 2θ, q = 4π sin θ / λ, and the spacing d of planes that scatter to it.
 *
 * A geometry is {centre: [y, x], pixel: [height, width], distance, wavelength}, in pixels and m; without a wavelength
 * only 2θ is known. The detector stands upright on the beam.
 */

import { short } from "./dom.js";

const NANO = 1e9;

/** What a radial mean can be over, besides the distance: name -> word, unit, and what it is at an angle 2θ in rad. */
export const OVER = {
  q: { word: "q", unit: "1/nm", at: (angle, { wavelength }) => (4 * Math.PI * Math.sin(angle / 2)) / (wavelength * NANO) },
  angle: { word: "2θ", unit: "°", at: (angle) => (angle * 180) / Math.PI },
};

/** @returns {number} 2θ of a place, rad. */
export function angleAt({ centre, pixel, distance }, [y, x]) {
  return Math.atan2(Math.hypot((y - centre[0]) * pixel[0], (x - centre[1]) * pixel[1]), distance);
}

/** @returns {string[]} names in `OVER` of what is known. */
export function known(geometry) {
  return geometry ? Object.keys(OVER).filter((name) => name !== "q" || geometry.wavelength) : [];
}

/** @returns {string[]} 2θ, q and d of a place, as the readout has them. */
export function anglesAt(geometry, place) {
  const angle = angleAt(geometry, place);
  const said = known(geometry).map((name) => `${OVER[name].word} ${short(OVER[name].at(angle, geometry))} ${OVER[name].unit}`);
  const apart = (geometry.wavelength * NANO) / (2 * Math.sin(angle / 2));
  return Number.isFinite(apart) && apart > 0 ? [...said, `d ${short(apart)} nm`] : said;
}

/**
 * Find the ring of each place of a radial mean over something.
 *
 * @param {string} name in `OVER`. @param {Object} geometry @param {number} bin pixels of a ring at the centre of the beam.
 * @returns {{step: number, ring: function(number, number): number}} what a ring is wide, and its number at a place.
 */
export function rings(name, geometry, bin) {
  const { at } = OVER[name];
  const { centre } = geometry;
  const over = (y, x) => at(angleAt(geometry, [y, x]), geometry);
  const step = over(centre[0], centre[1] + bin);
  return { step, ring: (y, x) => over(y, x) / step };
}
