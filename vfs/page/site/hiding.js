/**
 * Which arrays of a set are shown: a box for each, and for each group of several.
 */

import { el } from "./dom.js";
import { field } from "./fields.js";

/**
 * Make a box for each array and each group.
 *
 * @param {Array<{path: string, label: string, shape: number[], dtype: string}>} arrays all of the set, also hidden ones.
 * @param {number} count of them; more than `arrays` has are only said.
 * @param {function(): string[]} hidden paths of arrays and of groups. @param {string} main path of an array that stays.
 * @param {function(string[])} changed called with what is hidden from now on.
 * @returns {HTMLElement[]}
 */
export function boxes(arrays, count, hidden, main, changed) {
  const paths = arrays.map(({ path }) => path);
  const groups = groupsOf(paths);
  const box = (name, about, below, label) => {
    const shown = below.filter((path) => !isHidden(path, hidden())).length;
    const made = field(`show ${name}`, "checkbox", shown > 0, (on) => changed(without(paths, groups, hidden(), below, on)), {
      disabled: below.includes(main) && below.length === 1,
    });
    made.indeterminate = shown > 0 && shown < below.length;
    const depth = Math.min(4, name.split("/").length - 1);
    const title = `${name}${about ? ` · ${about}` : ""}`;
    return el("label.field.shown", { title, "data-depth": depth }, made, el("span.shown-name", {}, label || last(name)), el("span.quiet", {}, about));
  };
  const rows = [];
  for (const { path, label, shape, dtype } of arrays) {
    for (const group of groups) {
      if (within(path, group) && !rows.some(({ name }) => name === group)) {
        const below = paths.filter((one) => within(one, group));
        rows.push({ name: group, element: box(group, `${below.length} arrays`, below) });
      }
    }
    rows.push({ name: path, element: box(path, `${shape.join(" × ") || "one number"} · ${dtype}`, [path], label) });
  }
  const more = count - arrays.length;
  return [...rows.map(({ element }) => element), more > 0 ? el("p.quiet", {}, `and ${more} more`) : ""];
}

/** @returns {string[]} groups with several arrays, those above before those within. */
function groupsOf(paths) {
  const count = new Map();
  for (const path of paths) {
    const names = path.split("/");
    for (let k = 1; k < names.length; k++) {
      const group = names.slice(0, k).join("/");
      count.set(group, (count.get(group) || 0) + 1);
    }
  }
  return [...count].filter(([, number]) => number > 1 && number < paths.length).map(([group]) => group);
}

function within(path, name) {
  return path === name || path.startsWith(`${name}/`);
}

function isHidden(path, hidden) {
  return hidden.some((name) => within(path, name));
}

function last(name) {
  return name.slice(name.lastIndexOf("/") + 1);
}

/**
 * Show or hide some arrays.
 *
 * @returns {string[]} what is hidden then: groups of which nothing is shown by their own names; what names none of `paths` stays.
 */
function without(paths, groups, hidden, some, on) {
  const off = new Set(paths.filter((path) => (some.includes(path) ? !on : isHidden(path, hidden))));
  const others = hidden.filter((name) => !paths.some((path) => within(path, name)));
  const whole = groups.filter((group) => paths.every((path) => !within(path, group) || off.has(path)));
  const names = whole.filter((group) => !whole.some((one) => one !== group && within(group, one)));
  return [...others, ...names, ...[...off].filter((path) => !isHidden(path, names))];
}
