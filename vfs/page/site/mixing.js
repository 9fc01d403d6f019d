/**
 * Channels of an image as layers: each has a name, a colour and a contrast, is on or off, and adds its light to the
 * picture. The index along the axis of channels says which of them is chosen: that whose contrast is seen and changed,
 * and of which numbers are measured.
 */

import { windows } from "./api.js";
import { bend, limits, sample, usual } from "./contrast.js";
import { button, el } from "./dom.js";

const FIRST = 6; // channels that are on at first: more can hardly be told from each other
const STEPS = 1024; // of a curve
const USUAL = ["#ff0000", "#00ff00", "#0000ff", "#ff00ff", "#00ffff", "#ffff00"]; // where the file gives all one colour

/** @returns {Object} limits that a file says, as part of a contrast. */
function fitted(window) {
  return window ? { mode: "never", lo: window[0], hi: window[1] } : {};
}

/** Make the layer of a channel with its name, colour and contrast: that of the file where it says one. */
function startOf({ name, colour, window }, k) {
  return { name, colour: `#${colour.toLowerCase()}`, on: k < FIRST, contrast: usual(fitted(window)), window };
}

export class Mixing {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    Object.assign(this, { viewer, place: -1, channels: [], on: false });
    this._samples = new WeakMap();
  }

  /** Begin with the array and view of the viewer. */
  begin() {
    const { array, view } = this.viewer;
    this._scaled = false;
    const { axis, of } = array.channels || { axis: -1, of: [] };
    this.place = array.where.indexOf(axis);
    this.channels = this.place < 0 ? [] : of.map(startOf);
    const several = new Set(this.channels.map(({ colour }) => colour)).size > 1;
    if (!several) this.channels.forEach((channel, k) => (channel.colour = USUAL[k % USUAL.length]));
    this.on = this.channels.length > 0 && (view.layers ? view.layers.length === this.channels.length : several);
    if (this.on && view.layers) {
      view.layers.forEach((layer, k) => Object.assign(this.channels[k], layer, { contrast: usual(layer.contrast) }));
    } else if (this.on && array.where.some((one) => one !== axis && array.shape[one] > 1)) this._overStack(array);
  }

  /** Take limits that are made over the stack, for channels of which neither the file nor somebody has said any. */
  async _overStack(array) {
    const { channels, viewer } = this;
    const found = await windows(viewer.set.key, array.path).catch(() => null); // what cannot be read, pictures say
    if (!found || channels !== this.channels) return;
    channels.forEach((channel, k) => {
      channel.window ??= found[k];
      if (channel.contrast.mode === "always" && !this._scaled) Object.assign(channel.contrast, fitted(channel.window));
    });
    viewer.frame.colour();
    viewer.orthogonal.colour();
    viewer.changed();
  }

  /** @returns {Object[]} names and colours of the channels that are on, for the picture. */
  legend() {
    return this.on ? this.channels.filter(({ on }) => on).map(({ name, colour }) => ({ text: name, colour })) : [];
  }

  /** Take the contrast of the chosen channel as that of the panel. */
  choose() {
    if (!this.on) return;
    this.viewer.frame.contrast = this.channels[this._chosen()].contrast;
  }

  _chosen() {
    return this.viewer.view.at[this.place];
  }

  /** @returns {number[][]} indices of the pictures that are needed: of the channels that are on, and the chosen one. */
  ats(at) {
    if (!this.on) return [at];
    return this.channels.map((_, k) => k).filter((k) => this.channels[k].on || k === at[this.place]).map((k) => at.with(this.place, k));
  }

  /** @returns {Object[]} of each channel its light, `at`, which gives the indices of its picture, and `fitted`, its limits. */
  layers() {
    const at = (k) => (given) => given.map((index, place) => (place === this.place ? k : index));
    return this.channels.map(({ colour, contrast, window }, k) => {
      const known = contrast.hi > contrast.lo ? [contrast.lo, contrast.hi] : window;
      return { light: lightOf(colour), at: at(k), fitted: (data) => known ?? limits(this._sample(data), contrast.low, contrast.high) };
    });
  }

  /** @returns {?Object[]} layers as the address holds them; []: they are off; null: as is usual. */
  state() {
    return this.channels.length ? (this.on ? this.channels.map(({ on, colour, contrast }) => ({ on, colour, contrast })) : []) : null;
  }

  /**
   * Say how pictures are mixed.
   *
   * @param {Object[]} pictures {data, shape, at} of each, as `ats` names them.
   * @param {boolean} [fit] limits that follow pictures follow these.
   * @returns {{parts: Object[], ats: number[][], painter: Function, table: Uint32Array}} those that are on; see `Picture.use`; the
   *   colours of the chosen one.
   */
  how(pictures, fit = true) {
    const shown = pictures.filter(({ at }) => this.channels[at[this.place]].on);
    const layers = shown.map(({ data, at }) => this._layer(data, at[this.place], fit));
    const { colour, contrast } = this.channels[this._chosen()];
    const table = new Uint32Array(256);
    const bytes = new Uint8ClampedArray(table.buffer);
    const light = lightOf(colour);
    for (let i = 0; i < 256; i++) {
      for (let k = 0; k < 3; k++) bytes[4 * i + k] = (light[k] * (contrast.invert ? 255 - i : i)) / 255;
      bytes[4 * i + 3] = 255;
    }
    return { parts: shown, ats: shown.map(({ at }) => at), painter: (parts, image) => mix(parts, layers, image.data), table };
  }

  /** @returns {{lo: number, scale: number, curve: Float32Array, light: number[]}} how a channel is drawn. */
  _layer(data, k, fit) {
    const { contrast, colour } = this.channels[k];
    if (fit && k !== this._chosen() && (contrast.mode === "always" || !(contrast.hi > contrast.lo))) {
      [contrast.lo, contrast.hi] = limits(this._sample(data), contrast.low, contrast.high);
    }
    const curve = Float32Array.from({ length: STEPS }, (_, i) => bend(i / (STEPS - 1), contrast.curve, contrast.gamma));
    return { lo: contrast.lo, scale: (STEPS - 1) / (contrast.hi - contrast.lo), curve: contrast.invert ? curve.map((n) => 1 - n) : curve, light: lightOf(colour) };
  }

  _sample(data) {
    const found = this._samples.get(data) ?? sample(data);
    if (!found.some(Number.isNaN)) this._samples.set(data, found);
    return found;
  }

  /** Show layers, or one channel. */
  toggle() {
    if (!this.channels.length) return;
    this.on = !this.on;
    if (this.on) this.choose();
    else this.viewer.frame.use(usual());
    this._changed();
  }

  /** Have limits that suit numbers of another scale than the file's; or, for those of frames, the file's again. */
  rescale(other) {
    if (other === this._scaled) return;
    this._scaled = other;
    for (const { contrast, window } of this.channels) if (window) Object.assign(contrast, other ? { mode: "always" } : fitted(window));
  }

  /** Switch a channel on or off. */
  switch(k) {
    if (!this.on || !this.channels[k]) return;
    this.channels[k].on = !this.channels[k].on;
    this._changed();
  }

  /** Give a channel another colour. */
  colour(k, colour) {
    this.channels[k].colour = colour;
    this._changed();
  }

  _changed() {
    this.viewer.view.layers = this.state();
    this.viewer.wantFrame();
    this.viewer.update();
    this.viewer.changed();
  }

  /** @returns {string} the channels that are shown, with their limits: for captions. */
  caption(short) {
    const shown = this.channels.filter(({ on }) => on);
    return this.on ? shown.map(({ name, colour, contrast: { lo, hi } }) => `${name} (${colour}): ${short(lo)} to ${short(hi)}`).join("; ") : "";
  }
}

function lightOf(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** Add up the light of layers. What is NaN in all of them stays transparent. */
function mix(parts, layers, out) {
  const count = out.length / 4;
  const sums = new Float32Array(3 * count);
  layers.forEach(({ lo, scale, curve, light: [r, g, b] }, layer) => {
    const { data } = parts[layer];
    for (let i = 0, j = 0; i < count; i++, j += 3) {
      const t = (data[i] - lo) * scale;
      if (t !== t) continue;
      const level = curve[t <= 0 ? 0 : t >= STEPS - 1 ? STEPS - 1 : t | 0];
      out[4 * i + 3] = 255;
      sums[j] += level * r;
      sums[j + 1] += level * g;
      sums[j + 2] += level * b;
    }
  });
  for (let i = 0, j = 0; j < sums.length; i += 4, j += 3) for (let k = 0; k < 3; k++) out[i + k] = sums[j + k]; // clamped
}

/**
 * Make the toolbar of channels.
 *
 * @param {Viewer} viewer
 * @returns {{element: HTMLElement, update: function()}} shows the state again.
 */
export function layerTools(viewer) {
  const toggle = button("Channels as layers, mixed in their colours", "Layers", () => viewer.mixing.toggle(), { class: "word", "aria-pressed": "false" });
  const rows = el("div.layers", { role: "group", "aria-label": "Layers" });
  const element = el("div.own", { role: "group", "aria-label": "Channels" }, toggle, rows);
  let made = null;
  let inputs = [];
  const row = ({ name }, k) => {
    const on = el("input", { type: "checkbox", "aria-label": `${name}: shown`, title: `${name}: shown`, onchange: () => viewer.mixing.switch(k) });
    const colour = el("input", { type: "color", "aria-label": `${name}: colour`, title: `${name}: colour`, oninput: () => viewer.mixing.colour(k, colour.value) });
    const chosen = button(`${name}: its contrast and numbers`, name, () => viewer.go(viewer.view.at.with(viewer.mixing.place, k)), { class: "word", "aria-pressed": "false" });
    return { on, colour, chosen, element: el("div.layer", {}, on, colour, chosen) };
  };
  return {
    element,
    update() {
      const { channels, on, place } = viewer.mixing;
      element.hidden = !channels.length;
      if (channels.length) viewer.axes.without(place, on); // of layers, none but those here is to be chosen
      if (made !== channels) {
        made = channels;
        inputs = channels.map(row);
        rows.replaceChildren(...inputs.map((one) => one.element));
      }
      rows.hidden = !on;
      toggle.setAttribute("aria-pressed", String(on));
      inputs.forEach((one, k) => {
        one.on.checked = channels[k].on;
        one.colour.value = channels[k].colour;
        one.chosen.setAttribute("aria-pressed", String(viewer.view.at?.[place] === k));
      });
    },
  };
}
