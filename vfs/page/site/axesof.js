/**
 * What an array and its axes are to those who look at it: scans, lines, steps, names.
 */

import { factorBetween } from "./units.js";

export const ANGLES = /^(1\/([pnum]?m|angstrom)|[mu]?rad|deg)$/; // units of diffraction patterns
const LINES = 3; // rows or columns of a picture that is drawn as so many lines, if it is long
const EQUAL = 1e-4; // of a step: those that differ less are the same, which files round
const OBLONG = 16; // times: pixels that are longer are drawn as squares
const PLAIN = /^(t|c|z|s|time|channel|frame|slice|depth|page|image|series|position)$/i; // axes of stacks, not of scans
const ENERGY = /^(energy|e|ev|kev|eloss|energy.?loss|wavelength)$/i; // axes of spectra

/** @returns {boolean} true for a picture of a few long rows or columns, which are better drawn as lines. */
export function isLine([height, width]) {
  return Math.min(height, width) <= LINES && Math.max(height, width) > 64;
}

/**
 * @param {Object} set as the API describes it. @param {Object} array as the API describes it.
 * @returns {{complex: boolean, scanned: boolean, line: boolean, curves: boolean, patterns: boolean, detects: boolean}}
 *   what is looked at: complex numbers; frames at positions of a scan; a line; frames that are lines, in which a window
 *   is a detector; patterns in which a bright-field disk may be; frames of which a part can be a detector.
 */
export function kindsOf(set, array) {
  const { shape, nav, shown, dims, dtype, where } = array;
  const complex = dtype.startsWith("complex");
  const plain = nav === where.length && shown < 3 && !complex; // frames of one axis or two, of real numbers
  const scanned =
    where.slice(0, nav).every((axis) => axis < nav) &&
    where.length >= nav &&
    shape.slice(0, nav).some((n) => n > 1) &&
    shown > 0 &&
    (plain || nav > 1) &&
    (nav === 1 ? array.channels?.axis !== 0 : !dims.slice(nav - 2, nav).some((name) => PLAIN.test(name)));
  const sizes = array.picture.map((axis) => shape[axis]);
  const line = shown === 2 && isLine(sizes);
  const curves = shown === 1 || (line && sizes[0] === 1);
  const areas = scanned && plain && shown === 2 && !line;
  const disked = areas && !(set.backscatter && array.main);
  const unit = array.calibration?.[across({ array, line })]?.unit || "";
  return { complex, scanned, line, curves, patterns: disked && (nav > 1 || ANGLES.test(unit)), detects: areas || (scanned && plain && curves) };
}

/** @returns {string} indices of a frame along axes that have a length; those of images with several of these have names. */
export function placeOf({ array, lengths, scanned, projecting }, at, projected = false) {
  const taken = (axis) => projected && projecting.rangeOf(axis);
  const long = at.map((index, axis) => [index, axis]).filter(([, axis]) => lengths[axis] > 1 && !taken(axis));
  const named = !scanned && (projected || long.length > 1);
  return long.map(([index, axis]) => (named ? `${array.dims[array.where[axis]]} ${index}` : index)).join(", ");
}

/** @returns {?number[]} indices of the newest frame of a set that is written, as frames follow one another in the scan. */
export function newestOf({ array, live }) {
  if (!live || !array.nav || !array.where.slice(0, array.nav).every((axis) => axis < array.nav)) return null;
  let rest = Math.max(0, live.frames - 1);
  const at = array.where.map(() => 0);
  for (let axis = array.nav - 1; axis >= 0; axis--) {
    at[axis] = rest % array.shape[axis];
    rest = Math.floor(rest / array.shape[axis]);
  }
  return rest ? null : at;
}

/** @returns {Object} numbers of a picture [rows, columns] as lines [samples, lines], as plots take them. */
export function asLines({ data, shape: [rows, columns] }) {
  const [count, lines] = [Math.max(rows, columns), Math.min(rows, columns)];
  if (rows > columns || lines === 1) return { data, shape: lines > 1 ? [count, lines] : [count] };
  const turned = new data.constructor(data.length);
  for (let i = 0; i < count; i++) for (let k = 0; k < lines; k++) turned[i * lines + k] = data[k * count + i];
  return { data: turned, shape: [count, lines] };
}

/** @returns {?Object} the contrast of a picture of phases; null where there is none, or its colours do not go around. */
export function phases(viewer) {
  const { kind, contrast } = viewer.frame;
  return viewer.complex && viewer.view.part === "phase" && kind === "picture" && contrast.map === "cyclic" ? contrast : null;
}

/** @returns {Array<{scale: number, offset: number, unit: string}>} the axes of rows and columns of a panel; a unit of "" is none. */
export function axesOf(viewer, panel) {
  const { array } = viewer;
  const along = panel === viewer.scan ? [array.nav - 2, array.nav - 1] : array.picture;
  return along.map((axis) => {
    const { scale, offset, unit } = array.calibration?.[array.dims[axis]] || {};
    return scale && unit ? { scale, offset: offset || 0, unit } : { scale: 1, offset: 0, unit: "" };
  });
}

/** @returns {?{x: Object, y: ?Object}} the steps of a picture for its bars; y null where they are those of x; null: it is no picture. */
export function steps(viewer, panel) {
  if (panel.kind !== "picture") return null;
  const [y, x] = axesOf(viewer, panel).map((axis) => (axis.unit ? axis : {}));
  const larger = Math.abs((y.scale ?? 1) / (x.scale ?? 1));
  const same = y.unit === x.unit && Math.abs(larger - 1) < EQUAL;
  return { x, y: same ? null : y };
}

/** @returns {?{cy: number, cx: number}} where the file says that the middle of a pattern is; null: nowhere in the picture. */
export function origin(viewer) {
  const { array, frames } = viewer;
  const [y, x] = array.picture.map((axis) => array.calibration?.[array.dims[axis]]);
  if (!frames || ![y, x].every((axis) => axis?.unit?.startsWith("1/") && axis.scale && axis.offset)) return null;
  const [cy, cx] = [y, x].map(({ scale, offset }) => -offset / scale);
  const inside = [cy, cx].every((at, axis) => at >= 0 && at < frames.size[axis]);
  return inside ? { cy, cx } : null;
}

/** @returns {number} height of a pixel over its width, where both are known in like units and differ by less than OBLONG. */
export function aspectOf(viewer, panel) {
  const { array } = viewer;
  const along = panel === viewer.scan ? [array.nav - 2, array.nav - 1] : array.picture;
  const [y, x] = along.map((axis) => array.calibration?.[array.dims[axis]]);
  const found = y?.unit && x?.unit ? Math.abs((y.scale * factorBetween(y.unit, x.unit)) / x.scale) : 1;
  return found > 1 / OBLONG && found < OBLONG ? found : 1;
}

/** @returns {{x: string, y: string}} what the axes of a plot are. */
export function titles(viewer, panel) {
  const { array } = viewer;
  if (panel === viewer.scan) return { x: array.dims[array.nav - 1] || "", y: "" };
  const name = across(viewer) || "";
  return { x: ENERGY.test(name) && panel.axis ? viewer.spectra.word : name, y: array.units || "intensity" };
}

export function frameName(viewer, kind) {
  if (kind === "plot") return ENERGY.test(across(viewer)) ? "Spectrum" : "Line";
  return viewer.scanned && viewer.array.nav > 0 && kind === "picture" ? "Frame" : { picture: "Image", number: "Number" }[kind];
}

export function scanName(viewer) {
  const { dims, nav } = viewer.array;
  return nav === 1 ? `Along ${dims[0]}` : "Scan";
}

/** @returns {?string} the axis of frames that goes from left to right. */
export function across(viewer) {
  const { picture, dims, shape } = viewer.array;
  const last = picture[picture.length - 1];
  return dims[viewer.line && shape[picture[0]] > shape[last] ? picture[0] : last];
}
