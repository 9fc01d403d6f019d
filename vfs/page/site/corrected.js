/**
 * What a correction changes: whether all of an array is looked at anew, or its steps and units alone; and what is missing.
 */

import { ANGLES, across, aspectOf, titles } from "./axesof.js";

/** @returns {boolean} true if two arrays have the same axes, and pictures along the same ones. */
export function sameAxes(one, other) {
  const axes = (array) => JSON.stringify([array?.dims, array?.shape, array?.nav, array?.where, array?.picture, array?.dtype]);
  return axes(one) === axes(other);
}

/** @returns {boolean} true if options differ in nothing but steps and units. */
export function onlySteps(options, before) {
  const others = (given) => JSON.stringify(Object.entries({ ...given, calibration: undefined }).filter(([, value]) => value !== undefined).sort());
  return others(options) === others(before);
}

/**
 * Find the axis that has the same steps as another one, most likely: rows and columns of one picture.
 *
 * @param {string[]} dims @param {string} dim
 * @returns {?string} its name; null: there is none.
 */
export function besideOf(dims, dim) {
  const other = /y$/.test(dim) ? dim.replace(/y$/, "x") : dim.replace(/x$/, "y");
  return other !== dim && dims.includes(other) ? other : null;
}

/**
 * Take other steps and units of the array that is looked at, of which all numbers stay.
 *
 * @returns {boolean} false: it is to be looked at anew, as units may say what it is.
 */
export function recalibrate(viewer, set, array) {
  if (!viewer.frames || viewer.live || array.pattern !== viewer.array.pattern || (viewer.curves && viewer.view.elements)) return false;
  viewer.set = set;
  viewer.array = { ...viewer.array, ...array, set: set.key };
  for (const one of [viewer.frames, viewer.images, viewer.pyramid]) if (one) one.array = viewer.array;
  const patterns = ANGLES.test(viewer.array.calibration?.[across(viewer)]?.unit || "");
  if (viewer.array.nav === 1 && viewer.detects && patterns !== viewer.patterns) return false;
  for (const panel of [viewer.scan, viewer.frame]) {
    if (panel.element.hidden || !panel.view) continue;
    Object.assign(panel, { axis: viewer._axisOf[panel.id](), aspect: aspectOf(viewer, panel), titles: titles(viewer, panel) });
    Object.assign(panel.view, { axis: panel.axis, titles: panel.titles, aspect: panel.aspect });
    panel.view.moved();
  }
  viewer.axes.calibrations = array.where.map((axis) => array.calibration?.[array.dims[axis]]);
  viewer.axes.put(viewer.view.at);
  viewer.showing.again();
  if (viewer._whole) viewer._showFrame(viewer._whole);
  viewer.update();
  return true;
}

/** @returns {boolean} true if files are missing, and the array that is first without them is no picture. */
export function lacksFrames({ warnings, arrays }) {
  const first = arrays.find(({ main }) => main) ?? arrays[0];
  return warnings.some((text) => /missing/.test(text)) && arrays.length > 1 && first.shown < 2;
}
