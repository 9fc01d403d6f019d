/**
 * The order of axes as text, as `axes=` takes it: "scan_y, scan_x | -y, x". Plain values.
 */

/**
 * Read an order.
 *
 * @param {string} text
 * @returns {{scan: Object[], frame: Object[]}} for each axis {name, old, over}: `old` is its name in the file,
 *   `over` true where it is turned over.
 */
export function read(text) {
  const [scan, frame] = text.split("|");
  const words = (part) => (part || "").split(",").map((word) => word.trim()).filter(Boolean).map(axis);
  return frame === undefined ? { scan: [], frame: words(scan) } : { scan: words(scan), frame: words(frame) };
}

function axis(word) {
  const cut = word.lastIndexOf("=");
  const old = word.slice(cut + 1).trim();
  const over = old.startsWith("-");
  const plain = over ? old.slice(1).trim() : old;
  return { name: cut < 0 ? plain : word.slice(0, cut).trim(), old: plain, over };
}

/** @returns {string} an order as text. */
export function write({ scan, frame }) {
  const words = (axes) => axes.map(({ name, old, over }) => `${name === old ? "" : `${name}=`}${over ? "-" : ""}${old}`);
  return `${words(scan).join(", ")} | ${words(frame).join(", ")}`.trim();
}

/** @returns {Object} the order of axes that nobody changed. */
export function plain(dims, nav) {
  const axes = dims.map((name) => ({ name, old: name, over: false }));
  return { scan: axes.slice(0, nav), frame: axes.slice(nav) };
}

const over = (one) => ({ ...one, over: !one.over });

/** What can be done with the last two axes of a scan or frame: a picture's rows and columns. */
const WAYS = {
  flipX: ([y, x]) => [y, over(x)],
  flipY: ([y, x]) => [over(y), x],
  swap: ([y, x]) => [x, y],
  turn: ([y, x]) => [x, over(y)],
};

/**
 * Turn the picture of a scan or frame.
 *
 * @param {Object} order @param {string} part "scan" or "frame".
 * @param {string} way flipX (left and right), flipY (top and bottom), swap (rows and columns), turn (clockwise).
 * @returns {Object} the new order.
 */
export function turned(order, part, way) {
  const axes = order[part];
  return { ...order, [part]: [...axes.slice(0, -2), ...WAYS[way](axes.slice(-2))] };
}

/** @returns {Object} what was the frame as the scan, and the scan as the frame. As many axes keep the names of their places. */
export function exchanged({ scan, frame }) {
  const named = (axes, names) => (axes.length === names.length ? axes.map((one, k) => ({ ...one, name: names[k].name })) : axes);
  return { scan: named(frame, scan), frame: named(scan, frame) };
}

/** @returns {Object} the same order of axes, of which the first `count` are the scan. */
export function split(order, count) {
  const axes = [...order.scan, ...order.frame];
  return { scan: axes.slice(0, count), frame: axes.slice(count) };
}
