/**
 * Says what is under the pointer: place, calibrated place, value.
 */

import { short } from "./dom.js";
import { fitting } from "./units.js";

/**
 * Show the value at a place of a panel's picture.
 *
 * @param {Panel} panel
 * @param {?[number, number]} place (y, x), pixels; null: nowhere.
 */
export function readOut(panel, place) {
  const value = place && panel.view.value(place[0], place[1]);
  if (value === undefined || value === null) {
    panel.readout.textContent = "";
    return;
  }
  const [y, x] = place.map(Math.round);
  const line = panel.kind === "plot";
  const values = []
    .concat(value)
    .map((one) => short(one))
    .join(" ");
  panel.readout.textContent = [line ? x : `${y}, ${x}`, calibrated(panel, line ? [x] : [y, x]), values]
    .filter((part) => part !== "")
    .join(" · ");
}

function calibrated({ axis, view }, at) {
  if (!axis) return "";
  const { factor, unit } = fitting(Math.abs(axis.scale) * view.size[1], axis.unit);
  const offset = at.length === 1 ? axis.offset || 0 : 0; // pictures count from their corner, as their scale bar does
  return `${at.map((n) => short((n * axis.scale + offset) * factor, 3)).join(", ")} ${unit}`;
}
