/**
 * Fields that take options of a set. What is not typed out is kept for a moment, so that a picture follows the typing.
 */

import { el } from "./dom.js";

const DIGITS = 6; // significant ones of a number that is shown; all are kept until another one is typed
const PIXELS = ["u1", "i1", "<u2", ">u2", "<i2", ">i2", "<u4", ">u4", "<i4", ">i4", "<f4", ">f4", "<f8", ">f8"];

/**
 * Make a field.
 *
 * @param {string} label its name.
 * @param {string} kind "text", "number" or "checkbox".
 * @param {*} value what it shows.
 * @param {function(*)} typed called with what is typed: text, number, true or false; null where it is empty.
 * @param {Object} [how] more attributes.
 * @returns {HTMLInputElement}
 */
export function field(label, kind, value, typed, how = {}) {
  const check = kind === "checkbox";
  const shown = kind === "number" ? "text" : kind; // numbers have exponents and signs, for which browsers have no field
  const made = el("input", {
    type: shown,
    "aria-label": label,
    checked: check && Boolean(value),
    value: check ? null : shortened(value),
    inputmode: kind === "number" ? "decimal" : null,
    spellcheck: "false",
    autocomplete: "off",
    ...how,
  });
  made.addEventListener(check ? "change" : "input", () => typed(check ? made.checked : taken(made.value, kind)));
  return made;
}

function shortened(value) {
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(DIGITS))) : (value ?? "");
}

function taken(text, kind) {
  const plain = text.trim();
  if (!plain) return null;
  const number = Number(plain.replace(",", "."));
  return kind === "number" && Number.isFinite(number) ? number : plain;
}

/**
 * Make a row: a name and what stands behind it.
 *
 * @param {string} name @param {string} hint @param {...Node} inside
 */
export function row(name, hint, ...inside) {
  return el("div.field", { title: hint || null }, el("span.field-name", {}, name), ...inside);
}

/**
 * Make the row of an option of a format.
 *
 * @param {Object} option as the API describes it.
 * @param {*} value @param {function(*)} typed
 */
export function optionRow(option, value, typed) {
  const { name, takes, help } = option;
  const words = name.replaceAll("_", " ");
  if (takes === "true or false") {
    return row(words, help, field(words, "checkbox", value ?? option.default, typed));
  }
  const hint = option.default === null || option.default === undefined ? "" : String(option.default);
  const how = { placeholder: hint || (name.endsWith("shape") ? "rows, columns" : "") };
  if (takes === "a dtype") Object.assign(how, { list: "pixels", placeholder: "u2, <f4 …" });
  return row(words, help, field(words, takes === "a whole number" ? "number" : "text", value, typed, how));
}

/** @returns {HTMLElement} the types of pixels that fields propose. */
export function pixels() {
  return el("datalist", { id: "pixels" }, ...PIXELS.map((name) => el("option", { value: name })));
}
