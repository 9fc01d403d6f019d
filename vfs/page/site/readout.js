/**
 * Says what is under the pointer: place, calibrated place, value.
 */

import { short } from "./dom.js";
import { length, spacing } from "./profile.js";
import { fitting } from "./units.js";
import { anglesAt } from "./xray.js";

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
  const where = fromMiddle(panel, place) ?? [calibrated(panel, line ? [x] : [y, x])];
  panel.readout.textContent = [line ? x : `${y}, ${x}`, ...where, values].filter((part) => part !== "").join(" · ");
}

function calibrated({ axis, view, aspect }, at) {
  if (!axis) return "";
  const { factor, unit } = fitting(Math.abs(axis.scale) * view.size[1], axis.unit);
  const line = at.length === 1;
  const offset = line ? axis.offset || 0 : 0; // pictures count from their corner, as their scale bar does
  const steps = line ? [axis.scale] : [axis.scale * aspect, axis.scale];
  return `${at.map((n, k) => short((n * steps[k] + offset) * factor, 3)).join(", ")} ${unit}`;
}

/** @returns {?string[]} the angles of a place; or how far it is from the middle of a pattern, and the spacing of planes of which that is the place; null: neither is known. */
function fromMiddle({ axis, aspect, middle, xray }, [y, x]) {
  const geometry = xray?.();
  if (geometry) return anglesAt(geometry, [y, x]);
  const centre = axis && middle?.();
  if (!centre) return null;
  const far = Math.hypot((y - centre.cy) * aspect, x - centre.cx);
  return [`${length(axis, far)} from the middle`, spacing(axis, far)];
}
