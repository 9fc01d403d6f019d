/**
 * What files say of each frame, beside the slider: its tilt, its dose, how long after the first one it was taken.
 */

import * as api from "./api.js";
import { short } from "./dom.js";
import { symbol } from "./units.js";

const MOST = 4096; // positions along each axis
const SHOWN = 3; // of one frame
const SINCE = /^(.*) since /; // a time that counts from a date
const ANGLES = { deg: 1, rad: 180 / Math.PI };

export class Companions {
  /** @param {function()} arrived called when there is more to say. */
  constructor(arrived) {
    this.arrived = arrived;
    this.stop();
  }

  /**
   * Fetch what is said of each frame of an array.
   *
   * @param {Object} set @param {Object} array as the API describes them, the array with the set's key as `set`.
   */
  begin(set, array) {
    this.stop();
    this.lengths = array.shape.slice(0, array.nav);
    if (array.nav < 1 || array.nav > 2 || Math.max(...this.lengths) > MOST) return;
    const folder = (path) => path.slice(0, path.lastIndexOf("/") + 1);
    const own = array.dims.slice(0, array.nav);
    const told = set.arrays
      .filter((one) => one.coordinate && String(one.dims) === String(own) && folder(one.path) === folder(array.path))
      .sort((a, b) => (b.units in ANGLES) - (a.units in ANGLES))
      .slice(0, SHOWN);
    const { signal } = (this._abort = new AbortController());
    for (const one of told) {
      api.frame(array.set, one.path, [], { most: MOST }, signal).then(
        ({ data, bin }) => {
          if (bin > 1 || this._abort?.signal !== signal) return;
          this.found.set(one, data);
          this.arrived();
        },
        () => {}, // the frames are shown without it
      );
    }
  }

  stop() {
    this._abort?.abort();
    this._abort = null;
    this.found = new Map();
  }

  /** @param {number[]} at an index for each axis of frames. @returns {string[]} what is said of a frame. */
  at(at) {
    const place = this.lengths?.reduce((flat, length, axis) => flat * length + at[axis], 0);
    const said = [...this.found].sort(([a], [b]) => (b.units in ANGLES) - (a.units in ANGLES));
    return said.map(([one, data]) => written(one, data[place], data)).filter(Boolean);
  }
}

/** @returns {string} a number as people say it: "−24°", "timestamp +1.5 s"; "" of none. */
function written({ label, path, units }, value, all) {
  if (!Number.isFinite(Number(value))) return "";
  if (units in ANGLES) return `${short(Number(value) * ANGLES[units])}°`;
  const name = label || path.slice(path.lastIndexOf("/") + 1);
  const unit = SINCE.exec(units)?.[1];
  if (unit) return `${name} +${short(Number(value) - Number(all[0]))} ${symbol(unit)}`;
  return [name, short(Number(value)), symbol(units)].filter(Boolean).join(" ");
}
