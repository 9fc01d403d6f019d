/**
 * Says what is under the pointer: place, calibrated place, value.
 */

import { short } from "./dom.js";
import { spacing } from "./profile.js";
import { fitting } from "./units.js";

/**
 * Show the value at a place of a panel's picture.
 *
 * @param {Panel} panel
 * @param {?[number, number]} place (y, x), pixels; null: nowhere.
 */
export function readOut(panel, place) {
  const value = place && panel.view.value(place[0], place[1]);
  const coming = value === undefined && panel.view.tiles && panel.view.holds(...place);
  if ((value === undefined && !coming) || value === null) {
    panel.readout.textContent = "";
    return;
  }
  const [y, x] = place.map(Math.round);
  const line = panel.kind === "plot";
  const values = []
    .concat(value)
    .map((one) => (coming ? "…" : short(one)))
    .join(" ");
  panel.readout.textContent = [line ? x : `${y}, ${x}`, calibrated(panel, line ? [x] : [y, x]), spaced(panel, place), values]
    .filter((part) => part !== "")
    .join(" · ");
}

function calibrated({ axis, view, aspect }, at) {
  if (!axis) return "";
  const { factor, unit } = fitting(Math.abs(axis.scale) * view.size[1], axis.unit);
  const line = at.length === 1;
  const offset = line ? axis.offset || 0 : 0; // pictures count from their corner, as their scale bar does
  const steps = line ? [axis.scale] : [axis.scale * aspect, axis.scale];
  return `${at.map((n, k) => short((n * steps[k] + offset) * factor, 3)).join(", ")} ${unit}`;
}

/** @returns {string} what is as far from the middle of a pattern, as a spacing of planes. */
function spaced({ axis, aspect, middle }, [y, x]) {
  const centre = axis && middle?.();
  return centre ? spacing(axis, Math.hypot((y - centre.cy) * aspect, x - centre.cx)) : "";
}
