/**
 * What is measured in the pictures of a viewer: a line profile or a region in each, not both, and the radial mean of the frame.
 */

import { channelsLayer, lineLayer } from "./layers.js";
import { Profile } from "./profile.js";
import { Radial } from "./radial.js";
import { COLOUR, Region } from "./region.js";
import { nameOf } from "./take.js";

export class Measuring {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    const { scan, frame } = viewer;
    this.profiles = { scan: new Profile(scan, this._how(scan)), frame: new Profile(frame, this._how(frame)) };
    this.regions = { scan: new Region(scan, this._how(scan)), frame: new Region(frame, this._how(frame)) };
    this.radial = new Radial(viewer, this._how(frame));
  }

  /** @returns {Object} what is measured needs, see `Region`. */
  _how(panel) {
    const { viewer } = this;
    const frame = panel === viewer.frame;
    return {
      box: (box) => (frame && !viewer.view.selection && !viewer.backscatter.removed ? viewer.frames.box(viewer.view.at, viewer.complex ? viewer.view.part : "", box) : null),
      name: () => nameOf(viewer, panel),
      centre: () => this._centre(panel),
      units: () => (frame ? viewer.array.units : ""),
      failed: viewer.failed,
    };
  }

  /** @returns {[number, number]} the centre of a pattern: that of the beam, else that of the chosen detector, else of the disk that was found, else of the picture. */
  _centre(panel) {
    const { frame, detects, patterns, detecting } = this.viewer;
    const beam = panel.xray?.()?.centre;
    if (beam) return beam;
    const { shape, presets } = detecting;
    const of = panel === frame && detects ? [shape, patterns && presets?.BF].find((one) => one && "cy" in one) : null;
    return of ? [of.cy, of.cx] : panel.view.size.map((count) => (count - 1) / 2);
  }

  /** @returns {Function[]} layers of a panel. */
  layers({ id }) {
    const [profile, region] = [this.profiles[id], this.regions[id]];
    const shape = () => ({ channels: region.on ? [{ shape: region.shape }] : [], active: 0, colours: [COLOUR] });
    return [lineLayer(() => profile.drawn), channelsLayer(shape)].map((layer) => Object.assign(layer, { tiled: false }));
  }

  /** @returns {Function[]} what takes presses in a panel, see gestures.js. */
  tools({ id }) {
    return [this.profiles, this.regions].map((each) => (place) => each[id].press(place));
  }

  /** Begin or leave a line profile; a region is left. */
  toggleProfile(panel) {
    this.regions[panel.id].leave();
    this.profiles[panel.id].toggle();
  }

  /** Begin or leave a region; a line profile is left. */
  toggleRegion(panel) {
    this.profiles[panel.id].leave();
    this.regions[panel.id].toggle();
  }

  /** Leave what is measured in a panel. @returns {boolean} false: nothing was. */
  leave({ id }) {
    const active = this._active({ id });
    active?.leave();
    return Boolean(active);
  }

  /** @returns {?Measured} what is measured in a panel. */
  _active({ id }) {
    return [this.profiles[id], this.regions[id]].find((one) => one.on);
  }

  /** Move what is measured in a panel by pixels. @returns {boolean} false: nothing is. */
  nudge(panel, dy, dx) {
    const active = this._active(panel);
    active?.nudge(dy * panel.view.down, dx);
    return Boolean(active);
  }

  /** Make what is measured larger by pixels, where that panel has the focus. @returns {boolean} false: nothing is. */
  grow(panel, by, inner) {
    const active = panel.stage.contains(document.activeElement) && this._active(panel);
    if (active) active.grow(by, inner);
    return Boolean(active);
  }

  /** Measure again, as there are other numbers. */
  update({ id }) {
    this.profiles[id].update();
    this.regions[id].update();
    if (id === "frame") this.radial.follow();
  }
}
