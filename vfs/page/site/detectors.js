/**
 * Shapes: detectors in a frame, and selections in a scan. Plain values, changed by making new ones.
 *
 * A shape is {kind, …}: polygon {y: [], x: []}, its vertices; point {y, x}; disk {cy, cx, r}; ring {cy, cx, r0, r1}; rectangle
 * {y0, x0, y1, x1}, half-open; whole {}: everything; com {cy, cx, r}: the centre of mass in a disk; radial {cy, cx, bins: 1,
 * ratio, angle, r0, r1}: the mean between two ellipses, see `vfs.RadialMean`; magnitude {}: everything, of complex numbers. In
 * pixels; pixel (0, 0) has its centre at (0, 0).
 */

const WORDS = {
  point: "point",
  disk: "disk",
  ring: "ring",
  rectangle: "rectangle",
  whole: "frame_sum",
  com: "center_of_mass",
  radial: "radial_mean",
  magnitude: "magnitude_sum",
  polygon: "polygon",
};
const TAKES = {
  point: ["y", "x"],
  disk: ["cy", "cx", "r"],
  ring: ["cy", "cx", "r0", "r1"],
  rectangle: ["y0", "x0", "y1", "x1"],
  whole: [],
  com: ["cy", "cx", "r"],
  radial: ["cy", "cx", "bins", "ratio", "angle", "r0", "r1"],
  magnitude: [],
  polygon: ["y", "x"],
};
const USUAL = { radial: { ratio: 1, angle: 0 } }; // what need not be said
const FAR = 1e9; // pixels: nothing is so large
const LEAST = 0.8; // pixels: a smaller disk may hold no pixel's centre

/** @returns {string} a shape as the API's reduction: "ring(64, 64, 10, 30)". */
export function toText(shape) {
  if (shape.kind === "polygon") return `polygon((${shape.y.join(", ")}), (${shape.x.join(", ")}))`;
  return `${WORDS[shape.kind]}(${TAKES[shape.kind].map((name) => shape[name]).join(", ")})`;
}

/**
 * @returns {string} a shape as Python writes the reduction: "vfs.Ring(cy=64, cx=64, r0=10, r1=30)".
 * @param {Object} shape @param {number} masked pixels that the set's own mask marks, which do not count.
 */
export function toPython(shape, masked) {
  const name = WORDS[shape.kind].replace(/(^|_)([a-z])/g, (_, __, letter) => letter.toUpperCase());
  const given = TAKES[shape.kind].map((key) => `${key}=${shape.kind === "polygon" ? `(${shape[key].join(", ")})` : shape[key]}`);
  return `vfs.${name}(${[...given, ...(masked ? ["masked=True"] : [])].join(", ")})`;
}

/**
 * Read a shape.
 *
 * @param {string} text as `toText` writes it; names of arguments and other spellings of words are taken, too.
 * @param {string[]} kinds that are possible here.
 * @returns {Object} the shape.
 * @throws {Error} with a message for people.
 */
export function fromText(text, kinds = Object.keys(WORDS)) {
  const polygon = /^\s*polygon\s*\(\s*(?:y\s*=\s*)?\(([^()]*)\)\s*,\s*(?:x\s*=\s*)?\(([^()]*)\)\s*\)\s*$/i.exec(text);
  if (polygon && kinds.includes("polygon")) return polygonOf(text, polygon.slice(1));
  const [, word, inside] = /^\s*(\w+)\s*(?:\(([^()]*)\))?\s*$/.exec(text) || [];
  const plain = (word || "").toLowerCase().replaceAll("_", "");
  const kind = kinds.find((one) => [one, WORDS[one].replaceAll("_", "")].includes(plain));
  if (!kind)
    throw new Error(
      `“${text.trim()}”: expected ${kinds.map((one) => `${WORDS[one]}(${TAKES[one].join(", ")})`).join(", ")}`,
    );
  const given = (inside || "")
    .split(",")
    .map((piece) => piece.trim())
    .filter(Boolean);
  const shape = { kind, ...USUAL[kind] };
  given.forEach((piece, place) => {
    const [name, value] = piece.includes("=")
      ? piece.split("=").map((part) => part.trim())
      : [TAKES[kind][place], piece];
    shape[name] = value === "" ? NaN : Number(value);
  });
  const expected = TAKES[kind];
  if (given.length > expected.length || !expected.every((name) => Number.isFinite(shape[name]))) {
    throw new Error(`“${text.trim()}”: expected ${WORDS[kind]}(${expected.join(", ")}), all numbers`);
  }
  if (["r", "r0", "r1"].some((name) => shape[name] < 0))
    throw new Error(`“${text.trim()}”: expected radii of 0 or more`);
  if (kind === "radial" && !(shape.bins === 1 && shape.ratio >= 1 && shape.r0 < shape.r1))
    throw new Error(`“${text.trim()}”: expected 1 for bins, a ratio of 1 or more, r0 less than r1`);
  if (!Object.values(shape).every((value) => value === kind || Math.abs(value) < FAR))
    throw new Error(`“${text.trim()}”: expected numbers of pixels`);
  return shape;
}

/** @returns {Object} the polygon of two texts with numbers. @throws {Error} with a message for people. */
function polygonOf(text, sides) {
  const [y, x] = sides.map((side) => side.split(",").filter((piece) => piece.trim()).map(Number));
  if (y.length !== x.length || y.length < 3 || ![...y, ...x].every((n) => Math.abs(n) < FAR))
    throw new Error(`“${text.trim()}”: expected polygon((y, …), (x, …)), numbers of three vertices or more`);
  return { kind: "polygon", y, x };
}

/** @returns {Object|null} the region of the API that a selection is; `axes`: how many the scan's picture has. */
export function toRegion(shape, axes) {
  if (shape.kind === "whole") return null;
  if (axes === 1) return { range: shape.kind === "point" ? [shape.x, shape.x + 1] : [shape.x0, shape.x1] };
  if (shape.kind === "polygon") return { polygon: [shape.y, shape.x] };
  return { [shape.kind]: TAKES[shape.kind].map((name) => shape[name]) };
}

/**
 * Find what a press at a place takes hold of.
 *
 * @param {Object} shape
 * @param {[number, number]} place
 * @param {[number, number]} near how far off the edge still counts, along y and x.
 * @returns {?string} "r", "r0", "r1"; "axis": the end of an ellipse's longer axis; a rectangle's sides such as "y0x1"; a polygon's vertex "vertex 2" or edge "edge 2"; "all"; null: nothing.
 */
export function hold(shape, [y, x], [ny, nx]) {
  const n = Math.max(ny, nx);
  if (shape.kind === "point")
    return Math.abs(y - shape.y) <= Math.max(ny, 0.5) && Math.abs(x - shape.x) <= Math.max(nx, 0.5) ? "all" : null;
  if (shape.kind === "rectangle") return sides(shape, y, x, ny, nx);
  if (shape.kind === "polygon") return partOf(shape, y, x, n);
  if (!("cy" in shape)) return null;
  if (shape.kind === "radial") {
    const end = onEllipse(shape, shape.r1, 0);
    if (Math.hypot(y - end[0], x - end[1]) <= n) return "axis";
  }
  const far = distance(shape)(y, x);
  const radii = "r1" in shape ? ["r1", "r0"] : ["r"];
  const edge = radii.filter((name) => Math.abs(far - shape[name]) <= n);
  if (edge.length && far > Math.min(n, shape[edge[0]] / 3)) {
    return edge.reduce((a, b) => (Math.abs(far - shape[a]) <= Math.abs(far - shape[b]) ? a : b));
  }
  return far < shape[radii[0]] ? "all" : null;
}

/**
 * Say how far places are from the centre of a shape, along the shorter axis of its ellipses, with the operations of
 * `vfs.RadialMean`: both put each pixel into the same ring.
 *
 * @returns {function(number, number): number} of y and x.
 */
export function distance({ cy, cx, ratio = 1, angle = 0 }) {
  const turn = angle * (Math.PI / 180);
  const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  return (y, x) => {
    const along = ((x - cx) * cos + (y - cy) * sin) / ratio;
    const across = (y - cy) * cos - (x - cx) * sin;
    return Math.sqrt(along * along + across * across);
  };
}

/** @returns {[number, number]} a place of the ellipse with a radius: 0 degrees is the end of its longer axis, 90 that of the shorter one. */
export function onEllipse({ cy, cx, ratio, angle }, radius, degrees) {
  const [turn, at] = [angle, degrees].map((one) => one * (Math.PI / 180));
  const [along, across] = [radius * ratio * Math.cos(at), radius * Math.sin(at)];
  return [cy + along * Math.sin(turn) + across * Math.cos(turn), cx + along * Math.cos(turn) - across * Math.sin(turn)];
}

/** @returns {Object} ellipses whose longer axis ends at a place. */
function tilted(shape, [y, x]) {
  const [dy, dx] = [y - shape.cy, x - shape.cx];
  return elliptic(shape, Math.max(1, Math.hypot(dy, dx) / shape.r1), (Math.atan2(dy, dx) * 180) / Math.PI);
}

/** @returns {Object} ellipses with another axis ratio, and another angle, degrees: from -90, left out, to 90. */
export function elliptic(shape, ratio, angle) {
  const tenths = Math.round(angle * 10) / 10;
  return { ...shape, ratio: Number(ratio.toFixed(4)), angle: tenths - 180 * Math.ceil((tenths - 90) / 180) };
}

/** @returns {?string} the nearest vertex or edge of a polygon that is near; else "all" inside of it. */
function partOf(shape, y, x, near) {
  const count = shape.y.length;
  const vertex = shape.y.findIndex((at, k) => Math.hypot(at - y, shape.x[k] - x) <= near);
  if (vertex >= 0) return `vertex ${vertex}`;
  const edge = shape.y.findIndex((at, k) => {
    const [dy, dx] = [shape.y[(k + 1) % count] - at, shape.x[(k + 1) % count] - shape.x[k]];
    const part = Math.max(0, Math.min(1, ((y - at) * dy + (x - shape.x[k]) * dx) / (dy * dy + dx * dx || 1)));
    return Math.hypot(at + part * dy - y, shape.x[k] + part * dx - x) <= near / 2;
  });
  if (edge >= 0) return `edge ${edge}`;
  return inside(shape)(y, x) ? "all" : null;
}

/** @returns {Object} a polygon with a vertex elsewhere; on another one it becomes one with that. An edge gets a new vertex. */
function bent(shape, part, [toY, toX], [height, width]) {
  const [what, k] = [part.split(" ")[0], Number(part.split(" ")[1])];
  const [y, x] = [[...shape.y], [...shape.x]];
  const at = what === "edge" ? k + 1 : k;
  y.splice(at, what === "edge" ? 0 : 1, tidy(Math.max(-0.5, Math.min(height - 0.5, toY))));
  x.splice(at, what === "edge" ? 0 : 1, tidy(Math.max(-0.5, Math.min(width - 0.5, toX))));
  const near = Math.max(height, width) / 100;
  const other = y.findIndex((_, j) => j !== at && Math.hypot(y[j] - y[at], x[j] - x[at]) < near);
  if (other >= 0 && y.length > 3) for (const one of [y, x]) one.splice(at, 1);
  return { ...shape, y, x };
}

/** @returns {[number, number]} the mean of a polygon's vertices. */
function middleOf({ y, x }) {
  return [y, x].map((one) => one.reduce((a, b) => a + b, 0) / one.length);
}

function sides({ y0, x0, y1, x1 }, y, x, ny, nx) {
  if (y < y0 - 0.5 - ny || y > y1 - 0.5 + ny || x < x0 - 0.5 - nx || x > x1 - 0.5 + nx) return null;
  const one = (at, a, b, n, names) =>
    Math.abs(at - b + 0.5) <= n ? names[1] : Math.abs(at - a + 0.5) <= n ? names[0] : "";
  return one(y, y0, y1, ny, ["y0", "y1"]) + one(x, x0, x1, nx, ["x0", "x1"]) || "all";
}

/**
 * Drag a shape.
 *
 * @param {Object} shape as it was when the drag began.
 * @param {string} part what `hold` has found.
 * @param {[number, number]} from where the drag began.
 * @param {[number, number]} to where it is.
 * @param {[number, number]} size of the picture, pixels.
 * @returns {Object} the shape now.
 */
export function dragged(shape, part, from, to, size) {
  if (part === "all") return moved(shape, to[0] - from[0], to[1] - from[1], size);
  if (shape.kind === "polygon") return bent(shape, part, to, size);
  if (shape.kind === "rectangle") {
    const [y, x] = [Math.round(to[0] + 0.5), Math.round(to[1] + 0.5)];
    const made = { ...shape };
    if (part.includes("y0")) made.y0 = Math.max(0, Math.min(y, shape.y1 - 1));
    if (part.includes("y1")) made.y1 = Math.min(size[0], Math.max(y, shape.y0 + 1));
    if (part.includes("x0")) made.x0 = Math.max(0, Math.min(x, shape.x1 - 1));
    if (part.includes("x1")) made.x1 = Math.min(size[1], Math.max(x, shape.x0 + 1));
    return made;
  }
  if (part === "axis") return tilted(shape, to);
  return sized(shape, part, distance(shape)(...to));
}

/** @returns {Object} a disk, a ring or ellipses with another radius. */
function sized(shape, part, radius) {
  const r = tidy(radius);
  if (part === "r") return { ...shape, r: Math.max(LEAST, r) };
  if (part === "r0") return { ...shape, r0: Math.max(0, Math.min(r, tidy(shape.r1 - LEAST))) };
  return { ...shape, r1: Math.max(r, tidy(shape.r0 + LEAST)) };
}

/** @returns {Object} a shape moved by some pixels, its centre inside of the picture. */
export function moved(shape, dy, dx, [height, width]) {
  const keep = (at, count) => Math.max(0, Math.min(count - 1, at));
  if (shape.kind === "point") {
    return { ...shape, y: keep(Math.round(shape.y + dy), height), x: keep(Math.round(shape.x + dx), width) };
  }
  if (shape.kind === "rectangle") {
    const by = Math.max(-shape.y0, Math.min(height - shape.y1, Math.round(dy)));
    const bx = Math.max(-shape.x0, Math.min(width - shape.x1, Math.round(dx)));
    return { ...shape, y0: shape.y0 + by, y1: shape.y1 + by, x0: shape.x0 + bx, x1: shape.x1 + bx };
  }
  if (shape.kind === "polygon") {
    const [cy, cx] = middleOf(shape);
    const [by, bx] = [keep(cy + dy, height) - cy, keep(cx + dx, width) - cx];
    return { ...shape, y: shape.y.map((n) => tidy(n + by)), x: shape.x.map((n) => tidy(n + bx)) };
  }
  if (!("cy" in shape)) return shape;
  return { ...shape, cy: tidy(keep(shape.cy + dy, height)), cx: tidy(keep(shape.cx + dx, width)) };
}

/** @returns {Object} a shape that is larger by some pixels; `inner`: that of a ring's inner radius. */
export function grown(shape, by, inner, size) {
  if (shape.kind === "rectangle") return dragged(shape, "y1x1", null, [shape.y1 - 0.5 + by, shape.x1 - 0.5 + by], size);
  if (shape.kind === "polygon") {
    const middle = middleOf(shape);
    const far = Math.max(...shape.y.map((n, k) => Math.hypot(n - middle[0], shape.x[k] - middle[1])), LEAST);
    const times = Math.max(LEAST, far + by) / far;
    const wider = (one, axis) => one.map((n) => tidy(middle[axis] + (n - middle[axis]) * times));
    return { ...shape, y: wider(shape.y, 0), x: wider(shape.x, 1) };
  }
  if (!("cy" in shape)) return shape;
  const part = "r1" in shape ? (inner ? "r0" : "r1") : "r";
  return sized(shape, part, Math.max(0, shape[part] + by));
}

/**
 * Draw a new shape from one place to another.
 *
 * @param {string} kind
 * @param {[number, number]} from
 * @param {[number, number]} to
 * @param {[number, number]} size of the picture, pixels.
 * @returns {Object} the shape.
 */
export function drawn(kind, from, to, [height, width]) {
  const keep = ([y, x]) => [Math.max(0, Math.min(height - 1, y)), Math.max(0, Math.min(width - 1, x))];
  const [[ay, ax], [by, bx]] = [keep(from), keep(to)];
  if (kind === "point") return { kind, y: Math.round(by), x: Math.round(bx) };
  if (kind === "rectangle") {
    const [rows, columns] = [[ay, by].map(Math.round), [ax, bx].map(Math.round)];
    return {
      kind,
      y0: Math.min(...rows),
      x0: Math.min(...columns),
      y1: Math.max(...rows) + 1,
      x1: Math.max(...columns) + 1,
    };
  }
  if (kind === "polygon") {
    const [y0, y1, x0, x1] = [Math.min(ay, by), Math.max(ay, by), Math.min(ax, bx), Math.max(ax, bx)].map(tidy);
    return { kind, y: [y0, y0, y1, y1].map((n, k) => tidy(n + (k < 2 ? -LEAST : LEAST))), x: [x0, x1, x1, x0].map((n, k) => tidy(n + (k % 3 ? LEAST : -LEAST))) };
  }
  const r = Math.max(LEAST, tidy(Math.hypot(to[0] - ay, to[1] - ax)));
  const centre = { cy: tidy(ay), cx: tidy(ax) };
  const radii = { r0: tidy(r / 2), r1: Math.max(r, tidy(r / 2 + LEAST)) };
  if (kind === "radial") return { kind, ...centre, bins: 1, ratio: 1, angle: 0, ...radii };
  return kind === "ring" ? { kind, ...centre, ...radii } : { kind, ...centre, r };
}

/**
 * Make the usual detectors around the centre of a pattern.
 *
 * @param {{cy: number, cx: number, r: number}} found centre and radius of the bright-field disk.
 * @param {[number, number]} size of the frame, pixels.
 * @returns {Object<string, Object>} BF, ABF, ADF, HAADF.
 */
export function presets({ cy, cx, r }, [height, width]) {
  const edge = Math.max(1, Math.min(cy, cx, height - 1 - cy, width - 1 - cx) + 0.5);
  const inner = Math.min(r, edge * 0.6);
  const middle = Math.min(2 * inner, (inner + edge) / 2);
  const centre = { cy: tidy(cy), cx: tidy(cx) };
  const ring = (r0, r1) => ({ kind: "ring", ...centre, r0: tidy(r0), r1: Math.max(tidy(r1), tidy(r0 + LEAST)) });
  return {
    BF: { kind: "disk", ...centre, r: Math.max(LEAST, tidy(r)) },
    ABF: ring(r / 2, r),
    ADF: ring(inner, middle),
    HAADF: ring(middle, Math.max(edge, middle + 1)),
  };
}

/**
 * Say which pixels count.
 *
 * @param {Object} shape
 * @returns {function(number, number): boolean} of y and x.
 */
export function inside(shape) {
  const { kind, cy, cx } = shape;
  if (kind === "whole") return () => true;
  if (kind === "point") return (y, x) => y === shape.y && x === shape.x;
  if (kind === "rectangle") return (y, x) => y >= shape.y0 && y < shape.y1 && x >= shape.x0 && x < shape.x1;
  if (kind === "polygon") return within(shape);
  if (kind === "radial") {
    const far = distance(shape);
    return (y, x) => far(y, x) >= shape.r0 && far(y, x) < shape.r1;
  }
  const [from, to] = kind === "ring" ? [shape.r0 ** 2, shape.r1 ** 2] : [0, shape.r ** 2];
  return (y, x) => {
    const far = (y - cy) ** 2 + (x - cx) ** 2;
    return far >= from && far < to;
  };
}

/** @returns {function(number, number): boolean} as `vfs.Polygon` has it: even-odd. */
function within({ y: ys, x: xs }) {
  return (y, x) => {
    let found = false;
    for (let k = 0, j = ys.length - 1; k < ys.length; j = k++) {
      if (y >= ys[k] !== y >= ys[j] && x < xs[j] + (y - ys[j]) * ((xs[k] - xs[j]) / (ys[k] - ys[j]))) found = !found;
    }
    return found;
  };
}

/** @returns {?[number, number]} the middle of a shape; null: it has none. */
export function centreOf(shape) {
  if (shape.kind === "polygon") return middleOf(shape);
  if (shape.kind === "rectangle") return [(shape.y0 + shape.y1 - 1) / 2, (shape.x0 + shape.x1 - 1) / 2];
  return shape.kind === "point" ? [shape.y, shape.x] : "cy" in shape ? [shape.cy, shape.cx] : null;
}

function tidy(value) {
  return Math.round(value * 10) / 10;
}
