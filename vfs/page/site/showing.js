/**
 * Shows the images of detectors in the scan's panel: one of them, all as tiles, or all in colours.
 */

import { MODELS } from "./background.js";
import { toText } from "./detectors.js";
import { short } from "./dom.js";
import { mapsOf, mixed } from "./maps.js";
import { Tiles } from "./tiles.js";
import { factorBetween, fitting } from "./units.js";
import { SIDES, wheel } from "./wheel.js";

const NAMED = { whole: "sum of all", magnitude: "sum of magnitudes" }; // images of a scan

/** @returns {string} how many pixels are left out, which the set's own mask marks: " · without 331 masked pixels"; "" if none are. */
export function leftOut({ masked }) {
  return masked ? ` · without ${masked.toLocaleString("en")} masked pixel${masked === 1 ? "" : "s"}` : "";
}

/** @returns {string} what a radial mean is of: "mean from 10 to 20 px, ellipses 1.02 at 30°". */
function between({ r0, r1, ratio, angle }) {
  return `mean from ${short(r0)} to ${short(r1)} px${ratio > 1 ? `, ellipses ${ratio} at ${short(angle)}°` : ""}`;
}

export class Showing {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    const press = (place) => viewer.selecting.press(place);
    this.tiles = new Tiles(viewer.scan, (place) => viewer.detecting.choose(place), press);
    viewer.scan.coloured = () => this.tiles.colour();
    this.begin();
  }

  /** Begin anew, as for another array. */
  begin() {
    this._image = null;
    this._maps = [];
    this.wheel = null; // pixels at the rim of the wheel; null: there is none
    this.degrees = 0; // by which centres of mass are turned
    this.tiles.show([], 0);
  }

  /** Show what was shown last, in another way. */
  again() {
    if (this._image) this.show(this._image);
  }

  /** @returns {Object[]} numbers of each detector's image, as they are shown. */
  get maps() {
    return this._maps;
  }

  /** Show images, as scan.js gives them. */
  show(image) {
    const { viewer } = this;
    const { images, detecting, scan, view } = viewer;
    if (!images) return;
    if (image.waiting) {
      scan.say("waiting");
      return;
    }
    const channels = image.parts.length === 1 ? [{ shape: image.parts[0].detector, fit: null }] : detecting.channels;
    const down = viewer.array.upward ? -1 : 1;
    const how = { axis: viewer.frame.axis, size: images.size[1], side: view.side, turn: view.turn, down, scan: images.shape };
    const maps = mapsOf(channels, image.parts, how);
    if (maps.includes(null)) return; // others are wanted by now
    this._image = image;
    const some = ({ data }) => image.part < 1 || !data.every(Number.isNaN);
    this._maps = maps.map((map) => ({ ...map, caption: this.caption(map, some(map)) }));
    const active = Math.min(detecting.active, maps.length - 1);
    const { data, pairs, caption } = this._maps[active];
    const size = viewer.scanSize();
    const picture = images.axes === 2;
    const tiled = picture && viewer.arranged === "tiles" ? this._maps : [];
    const colours = picture && viewer.arranged === "colours" && maps.length > 1;
    const turning = pairs && view.side === "wheel" && picture && !colours;
    const made = turning ? wheel(pairs, down) : null;
    this.wheel = made ? made.most : null;
    if (!picture) scan.view.others = this._maps.filter((_, k) => k !== active).map(this._line, this);
    scan.show({
      status: image.status,
      part: image.part,
      data,
      shape: images.shape,
      size,
      caption: `${caption}${made ? " (from the mean)" : ""}`,
      also: colours ? this._maps.map((map) => map.data) : [],
      paint: made ? made.colours : colours ? (contrast) => mixed(maps, contrast) : null,
      pairs,
    });
    const { degrees } = this._maps[active];
    const turned = degrees !== this.degrees;
    this.degrees = degrees;
    if (turned) viewer.update(); // a field says it
    this.tiles.show(tiled, active, images.shape, size);
    viewer.measuring.update(scan);
  }

  /** @returns {Object} an image of a scan with one axis, as a line of a plot. */
  _line(map) {
    return { data: map.data, bin: 1, colour: this.viewer.colours()[this._maps.indexOf(map)] };
  }

  /** @returns {string} what an image is of. @param {boolean} some false: a background is found at no position. */
  caption({ detector, fit, degrees, mirrored }, some) {
    const turned = (degrees ? `, turned by ${short(degrees)}°` : "") + (mirrored ? "; flip x for less curl" : "");
    if (detector.kind === "com") return `centre of mass, ${SIDES[this.viewer.view.side]}${turned}${leftOut(this.viewer.array)}`;
    const mark = this.viewer.curves && detector.kind === "rectangle" ? this.viewer.spectra.markIn(detector) : "";
    const what = [mark, this.window(detector)].filter(Boolean).join(" · ") || NAMED[detector.kind] || (detector.kind === "radial" ? between(detector) : toText(detector));
    if (fit) return some ? `${what} above ${MODELS[fit.model]}` : `${what}: no background fits`;
    return what + this._angles(detector) + leftOut(this.viewer.array);
  }

  /** @returns {string} the radii of a detector in the unit of frames: " · 2 to 5 mrad"; "" where nobody knows it. */
  _angles({ kind, r, r0, r1 }) {
    const { axis } = this.viewer.frame;
    if (!axis || !["disk", "ring", "radial"].includes(kind)) return "";
    const radii = (kind === "disk" ? [r] : [r0, r1]).map((one) => one * Math.abs(axis.scale));
    const { factor, unit } = fitting(Math.max(...radii), axis.unit);
    return ` · ${radii.map((one) => short(one * factor, 3)).join(" to ")} ${unit}`;
  }

  /** @returns {?Object[]} names and colours of what a tile shows; without a number, of the panel's own picture. */
  labels(place) {
    const { viewer } = this;
    if (this._maps.length < 2 || viewer.arranged === "one" || viewer.images?.axes !== 2) return null;
    const usual = Object.entries(viewer.detecting.presets || {});
    const nameOf = ({ detector, caption }) => usual.find(([, one]) => toText(one) === toText(detector))?.[0] ?? caption;
    const all = this._maps.map((map, k) => ({ text: nameOf(map), colour: viewer.colours()[k] }));
    return viewer.arranged === "colours" ? all : [all[place ?? viewer.detecting.active]].filter(Boolean);
  }

  /** @returns {string} the energies of a window in spectra: "520 to 560 eV"; "" where nobody knows them. */
  window({ kind, x0, x1 }) {
    if (kind !== "rectangle") return "";
    const energies = this._energies();
    if (!energies) return "";
    const [from, to] = [x0, x1 - 1].map((x) => short(energies.at(x)));
    return `${from} to ${to} ${energies.unit}`;
  }

  /**
   * Read a window of spectra: "520 to 560 eV", "520-560" in the unit of the plot.
   *
   * @returns {?Object} the window; null: the text says none.
   * @throws {Error} with a line for people: it lies outside, or its unit is none of the axis.
   */
  windowOf(text) {
    const [, from, to, typed] = /^\s*(-?[\d.]+)\s*(?:to|-|–|…)\s*(-?[\d.]+)\s*([a-zµ]*)\s*$/i.exec(text.replaceAll("−", "-")) || [];
    const energies = this._energies();
    if (to === undefined || !energies) return null;
    const size = this.viewer.images.size[1];
    const factor = factorBetween(typed, energies.unit);
    const ends = [Number(from), Number(to)].map((value) => Math.round(energies.sample(value * factor))).sort((a, b) => a - b);
    if (factor === null || !(ends[0] < size && ends[1] >= 0)) {
      const all = [0, size - 1].map((x) => short(energies.at(x), 4)).join(" to ");
      throw new Error(`“${text.trim()}”: expected a window within ${all} ${energies.unit}`);
    }
    const [x0, last] = ends.map((x) => Math.max(0, Math.min(size - 1, x)));
    return { kind: "rectangle", y0: 0, x0, y1: 1, x1: last + 1 };
  }

  /** @returns {?{at: Function, sample: Function, unit: string}} samples as energies, and back, as people write them. */
  _energies() {
    const { curves, frame, images } = this.viewer;
    const { axis } = frame;
    if (!curves || !axis || !images) return null;
    const { factor, unit } = fitting(Math.abs(axis.scale) * images.size[1], axis.unit);
    const [scale, offset] = [axis.scale * factor, (axis.offset || 0) * factor];
    return { at: (x) => x * scale + offset, sample: (value) => (value - offset) / scale, unit };
  }
}
