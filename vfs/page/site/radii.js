/**
 * Radii of a detector in the unit of the pattern, as fields: 10 to 30 mrad, 2 to 5 1/nm.
 */

import { el } from "./dom.js";
import { fitting } from "./units.js";

const FIELDS = { disk: ["r"], com: ["r"], ring: ["r0", "r1"], radial: ["r0", "r1"] };
const WORDS = { r: "Radius", r0: "Inner radius", r1: "Outer radius" };
const DIGITS = 7; // significant ones of a radius in pixels: what was typed comes back

/**
 * Make the fields.
 *
 * @param {Viewer} viewer
 * @returns {{element: HTMLElement, update: function()}} `update` shows the state again.
 */
export function radiiTools(viewer) {
  const word = el("span.unit");
  const fields = Object.fromEntries(Object.keys(WORDS).map((name) => [name, field(name)]));
  const element = el("span.radii", { role: "group", "aria-label": "Radii of the detector" }, ...Object.values(fields), word);

  function field(name) {
    const made = el("input.radius", { type: "number", min: 0, step: "any", onchange: () => typed(name, made) });
    return made;
  }

  /** @returns {?{factor: number, unit: string}} numbers of the unit in a pixel; null where nobody knows it. */
  function unitOf() {
    const { axis, view } = viewer.frame;
    if (!axis || !view || !viewer.detects || viewer.curves) return null;
    const scale = Math.abs(axis.scale);
    const { factor, unit } = fitting((scale * view.size[1]) / 4, axis.unit);
    return { factor: scale * factor, unit };
  }

  function typed(name, input) {
    const { shape } = viewer.detecting;
    const r = Number((input.valueAsNumber / unitOf().factor).toPrecision(DIGITS));
    const made = { ...shape, [name]: r };
    const good = r > 0 || (name === "r0" && r === 0);
    if (good && (!("r1" in made) || made.r0 < made.r1)) {
      input.setCustomValidity("");
      viewer.detecting.set(made);
      return;
    }
    const expected = { r: "above 0", r0: "0 or more, and less than the outer radius", r1: "more than the inner radius" }[name];
    input.setCustomValidity(`expected a number ${expected}`);
    input.reportValidity();
  }

  return {
    element,
    update() {
      const { shape } = viewer.detecting;
      const [known, names] = [unitOf(), FIELDS[shape?.kind] || []];
      element.hidden = !known || !names.length;
      if (element.hidden) return;
      word.textContent = known.unit;
      for (const [name, input] of Object.entries(fields)) {
        input.hidden = !names.includes(name);
        if (input.hidden || document.activeElement === input) continue;
        input.value = Number((shape[name] * known.factor).toPrecision(4));
        input.setCustomValidity("");
        for (const key of ["aria-label", "title"]) input.setAttribute(key, `${WORDS[name]}, ${known.unit}`);
      }
    },
  };
}
