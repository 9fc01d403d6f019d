/**
 * Makes elements. Text always becomes a text node: a name with markup in it stays a name.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Icons, 16 x 16: drawn with the colour of the text around them. Name -> path. */
const ICONS = {
  point: "M8 2.5v4M8 9.5v4M2.5 8h4M9.5 8h4",
  disk: "M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10z",
  ring: "M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6zM8 5.4a2.6 2.6 0 1 0 0 5.2a2.6 2.6 0 1 0 0-5.2z",
  rectangle: "M2.7 4h10.6v8H2.7z",
  polygon: "M2.5 5.5 8 2.5l5.5 4-2 7h-7z",
  whole: "M2.5 5.5v-3h3M10.5 2.5h3v3M13.5 10.5v3h-3M5.5 13.5h-3v-3M5.5 8h5M8 5.5v5",
  com: "M8 8l4-4.5M12 7V3.5H8.5M8 2.2a5.8 5.8 0 1 0 5.8 5.8",
  radial: "M2 10.5a6.5 4.2 -25 1 0 12-5a6.5 4.2 -25 1 0-12 5zM5 9.3a3.2 2 -25 1 0 6-2.6a3.2 2 -25 1 0-6 2.6z",
  profile: "M2.5 13.5l11-11M2.5 10v3.5H6M10 2.5h3.5V6",
  region: "M2.5 2.5h11v11h-11zM5.2 11V8.5M8 11V5M10.8 11V7",
  contrast: "M8 2.4a5.6 5.6 0 1 0 0 11.2zM8 2.4a5.6 5.6 0 0 1 0 11.2M8 5.5h4M8 8h5M8 10.5h4",
  take: "M8 2.5v7.5M4.8 7L8 10.2L11.2 7M2.8 13.3h10.4",
  list: "M2.5 4h11M2.5 8h11M2.5 12h11",
  info: "M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6zM8 7.3v3.7M8 5v.1",
  play: "M5 3.2l8 4.8l-8 4.8z",
  pause: "M5.2 3.5v9M10.8 3.5v9",
  close: "M4 4l8 8M12 4l-8 8",
  newest: "M3 4l4.5 4L3 12M8 4l4.5 4L8 12M13.5 3.5v9",
  folder: "M2.3 12.6V3.8h4l1.4 1.7h6v7.1z",
  up: "M8 13V3.5M4.2 7.2L8 3.4l3.8 3.8",
  adjust: "M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.2v3.6M6 9.2v3.6",
  flipX: "M8 2.5v11M6 5L2.5 8L6 11zM10 5l3.5 3L10 11z",
  flipY: "M2.5 8h11M5 6L8 2.5L11 6zM5 10l3 3.5L11 10z",
  swap: "M3 3l10 10M9.5 3H13v3.5M3 9.5V13h3.5",
  turn: "M12.8 8a4.8 4.8 0 1 1-1.6-3.6M12.8 2.2v3H9.8",
  add: "M8 3v10M3 8h10",
  project: "M2.5 2.5h11M2.5 5.5h11M8 7.2v4.3M5.8 9.6L8 11.7l2.2-2.1M2.5 13.6h11",
  planes: "M2.5 2.5h7v7h-7zM11.5 2.5h2v7h-2zM2.5 11.5h7v2h-7z",
  size: "M1.5 12.5l3-8l3 8M2.6 9.8h3.8M9 12.5l2.2-5.5l2.3 5.5M9.8 10.8h2.9",
  help: "M5.7 6.2a2.3 2.3 0 1 1 3.3 2c-.7.4-1 .8-1 1.6M8 12v.1",
  copy: "M6 6h7.5v7.5H6zM10 3.5V2.5H2.5V10h1",
  link: "M6.8 9.2l2.6-2.6M7.2 4.6l1-1a2.9 2.9 0 0 1 4.1 4.1l-1.1 1.1M8.8 11.4l-1 1a2.9 2.9 0 0 1-4.1-4.1l1.1-1.1",
};

/**
 * Make an element.
 *
 * @param {string} tag its name, with classes behind dots: "div.row.slim".
 * @param {Object} [how] attributes; "on…" functions listen to events; null and false leave one out.
 * @param {...(Node|string|number|null)} children texts and elements.
 * @returns {HTMLElement}
 */
export function el(tag, how = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(how)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  return made;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/**
 * Make an icon.
 *
 * @param {string} name one of `ICONS`.
 * @returns {SVGElement} hidden from screen readers: what it stands for must have a name.
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/**
 * Make a button with an icon or a word.
 *
 * @param {string} label what it does: read by screen readers, shown as a hint.
 * @param {string|Node} face an icon's name where there is such an icon, else the word on it.
 * @param {Function} pressed called when it is pressed.
 * @param {Object} [how] more attributes.
 * @returns {HTMLButtonElement}
 */
export function button(label, face, pressed, how = {}) {
  const inside = typeof face === "string" && face in ICONS ? icon(face) : face;
  return el("button", { type: "button", "aria-label": label, title: label, onclick: pressed, ...how }, inside);
}

/**
 * Make a field of a whole number.
 *
 * @param {string} label its name.
 * @param {number} min @param {number} max
 * @param {function(number)} typed called with what was typed; NaN where that is no number.
 * @returns {HTMLInputElement}
 */
export function number(label, min, max, typed) {
  const made = el("input", { type: "number", min, max, step: 1, "aria-label": label, title: label, onchange: () => typed(made.valueAsNumber) });
  made.style.minWidth = `calc(${String(max).length}ch + 20px)`; // of 10^10 frames all digits are seen
  return made;
}

/**
 * Make a choice of a few.
 *
 * @param {string} label its name.
 * @param {Array<[string, string]>} options value and word of each.
 * @param {string} value the one that is chosen.
 * @param {function(string)} chosen called with the value.
 * @returns {HTMLSelectElement}
 */
export function select(label, options, value, chosen) {
  const made = el("select", { "aria-label": label, title: label, onchange: () => chosen(made.value) });
  for (const [key, word] of options) made.append(el("option", { value: key }, word));
  made.value = value;
  return made;
}

/**
 * Make a button that opens a small sheet above it. Escape and a click elsewhere close it. What is on the sheet is made
 * when it is opened.
 *
 * @param {string} label what the sheet is for.
 * @param {string|Node} face icon's name, or what is on the button.
 * @param {function(): Array<?Node>} fill makes what is on the sheet.
 * @returns {HTMLDetailsElement}
 */
export function sheet(label, face, fill) {
  const body = el("div.sheet-body", { role: "group", "aria-label": label });
  const pressed = () => made.open || body.replaceChildren(...fill().filter(Boolean));
  const head = el("summary", { "aria-label": label, title: label, role: "button", onclick: pressed }, ICONS[face] ? icon(face) : face);
  const made = el("details.sheet", {}, head, body);
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !made.open) return;
    made.open = false;
    head.focus();
    event.stopPropagation();
  });
  made.addEventListener("toggle", () => {
    if (!made.open) return;
    for (const other of document.querySelectorAll("details.sheet[open]")) if (other !== made) other.open = false;
  });
  return made;
}

document.addEventListener("pointerdown", (event) => {
  for (const open of document.querySelectorAll("details.sheet[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

/**
 * Write a number as short as it can be read.
 *
 * @param {number} value
 * @param {number} [digits] significant ones.
 * @returns {string}
 */
export function short(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "no value" : value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value).replace("-", "−");
  const size = Math.abs(value);
  if (size < 1e6 && size >= 1e-3) return String(Number(value.toPrecision(digits))).replace("-", "−");
  const [number, ten] = value.toExponential(digits - 1).split("e");
  return `${String(Number(number)).replace("-", "−")}${power(Number(ten))}`;
}

/** @returns {string} a power of ten that something is times: "×10⁸". */
export function power(ten) {
  return `×10${String(ten).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])}`;
}

/**
 * Write a number of bytes.
 *
 * @param {number} count
 * @returns {string}
 */
export function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let size = count;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}
