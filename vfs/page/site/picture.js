/**
 * One picture: numbers in a canvas, coloured through a table, that can be zoomed and moved.
 *
 * Places are (y, x) in pixels of the whole picture; the pixel (0, 0) has its centre at (0, 0). A
 * picture that the server has binned still counts in pixels of the whole one. A picture whose bottom row
 * comes first is drawn upwards; places count its rows as they are stored. What lies above the
 * picture (cursor, detector, scale bar) is drawn on a second canvas by functions in `layers`.
 */

import { el } from "./dom.js";
import { toLevels } from "./contrast.js";
import { textSize } from "./textsize.js";

const FARTHEST = 64; // screen pixels for one pixel of a picture
const THINNEST = 28; // screen pixels: a line scan is drawn at least so high

export class Picture {
  /**
   * @param {HTMLElement} stage what the picture fills.
   * @param {string} id of its canvas.
   * @param {string} label its name.
   */
  constructor(stage, id, label) {
    this.stage = stage;
    this.canvas = el("canvas", { id, role: "img", "aria-label": label });
    this.over = el("canvas.over", { "aria-hidden": "true" });
    this.layers = [];
    this.size = [0, 0]; // height and width of the whole picture, pixels
    this.zoom = 1;
    this.down = 1; // -1 if rows are drawn upwards
    this.aspect = 1; // height of a pixel over its width
    this.middle = null; // (y, x) in the middle of the stage; null: the picture's
    this.numbers = null;
    this.tiles = null; // of a large picture: a Pyramid
    this.painter = null; // colours numbers: see `use`
    this.parts = [];
    this.stamp = 0; // another one with each painter
    this.moved = () => {}; // called when zoom or place change
    this._image = document.createElement("canvas");
    this._levels = new Uint8Array(0);
    stage.append(this.canvas, this.over);
    this.fitted = null; // {box, ratio} of the stage; null: they are not known
    new ResizeObserver(() => this._resized()).observe(stage);
  }

  /** Height and width of the stage, screen pixels. */
  get box() {
    return this._fit().box;
  }

  /** Pixels of the canvas in a screen pixel. */
  get ratio() {
    return this._fit().ratio;
  }

  /** Take the size of the stage, when it is wanted: to ask for it has the browser lay out the page. */
  _fit() {
    if (this.fitted) return this.fitted;
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.stage;
    for (const canvas of [this.canvas, this.over]) {
      canvas.width = Math.max(1, Math.round(width * ratio));
      canvas.height = Math.max(1, Math.round(height * ratio));
    }
    const size = this.stage.closest("dialog") ? 1 : textSize(); // dialogs are as large as their text already
    this.fitted = { box: [height / size, width / size], ratio: ratio * size }; // screen pixels here are so much larger, with lines and texts in them
    return this.fitted;
  }

  _resized() {
    this.fitted = null;
    this.draw();
    this.moved();
  }

  /**
   * Show numbers.
   *
   * @param {TypedArray} data C order.
   * @param {number[]} shape height and width of the data; with a third axis of 3 or 4: colours.
   * @param {number[]} size height and width of the whole picture, pixels.
   * @param {number} bin pixels of the whole picture, along y and x, in one of the data.
   */
  show(data, shape, size, bin) {
    this.numbers = { data, shape, bin };
    if (size[0] !== this.size[0] || size[1] !== this.size[1]) {
      this.size = size;
      this.reset();
    }
  }

  /** Show nothing. */
  clear() {
    this.numbers = this.tiles = null;
    this._image.width = this._image.height = 0;
    this.draw();
  }

  /**
   * Colour the numbers.
   *
   * @param {Object} contrast see contrast.js.
   * @param {Uint32Array} table uint32[256]
   */
  colour(contrast, table) {
    const { data, shape } = this.numbers;
    if (shape.length === 3) this.use(coloursOf(data, shape[2]));
    else this.use(([{ data: numbers }], image) => this._look(numbers, new Uint32Array(image.data.buffer), contrast, table));
  }

  _look(data, out, contrast, table) {
    if (this._levels.length < data.length) this._levels = new Uint8Array(data.length);
    const holes = toLevels(data, this._levels, contrast);
    for (let i = 0; i < out.length; i++) out[i] = table[this._levels[i]];
    if (holes) for (let i = 0; i < out.length; i++) if (data[i] !== data[i]) out[i] = 0;
  }

  /**
   * Colour numbers in some way, also those of tiles.
   *
   * @param {function(Object[], ImageData)} painter fills an image from numbers: {data, shape} of each picture that is shown.
   * @param {Object[]} [parts] numbers of the whole of each picture, with one shape.
   */
  use(painter, parts = [this.numbers]) {
    Object.assign(this, { painter, parts });
    this.stamp += 1;
    const image = this._pixels(...this.numbers.shape);
    painter(parts, image);
    this._put(image);
  }

  /**
   * Show colours that were made elsewhere of the numbers.
   *
   * @param {Uint32Array} colours uint32[height * width]
   */
  paint(colours) {
    Object.assign(this, { painter: null, parts: [] });
    const [height, width] = this.numbers.shape;
    const image = this._pixels(height, width);
    new Uint32Array(image.data.buffer).set(colours);
    this._put(image);
  }

  _pixels(height, width) {
    if (this._image.width !== width || this._image.height !== height) {
      this._image.width = width;
      this._image.height = height;
    }
    return new ImageData(width, height);
  }

  _put(image) {
    this._image.getContext("2d").putImageData(image, 0, 0);
    this.draw();
  }

  /** @returns {[number, number]} screen pixels for one pixel, along y and x. */
  scale() {
    const [height, width] = this.size;
    const fitting = Math.min(this.box[0] / (height * this.aspect), this.box[1] / width) || 1;
    const thin = (count, s) => (count * s < THINNEST ? Math.max(s, Math.min(THINNEST, this.box[0]) / count) : s);
    const [sy, sx] = [thin(height, fitting * this.aspect), thin(width, fitting)];
    return [sy * this.zoom, sx * this.zoom];
  }

  /** @returns {[number, number]} where in the stage a place of the picture is: (y, x), screen pixels. */
  toStage(y, x) {
    const [sy, sx] = this.scale();
    const [cy, cx] = this.centre();
    return [(y - cy) * sy * this.down + this.box[0] / 2, (x - cx) * sx + this.box[1] / 2];
  }

  /** @returns {[number, number]} the place of the picture at a place of the stage. */
  toPlace(top, left) {
    const [sy, sx] = this.scale();
    const [cy, cx] = this.centre();
    return [((top - this.box[0] / 2) / sy) * this.down + cy, (left - this.box[1] / 2) / sx + cx];
  }

  /** @returns {[number, number]} the place of the picture under a pointer. */
  under(event) {
    const { top, left } = this.stage.getBoundingClientRect();
    const unit = this.unit();
    return this.toPlace((event.clientY - top) / unit, (event.clientX - left) / unit);
  }

  /** @returns {[number, number]} where a place of the picture is in the window: (y, x), CSS pixels. */
  onPage(y, x) {
    const box = this.stage.getBoundingClientRect();
    const unit = this.unit();
    const [top, left] = this.toStage(y, x);
    return [top * unit + box.top, left * unit + box.left];
  }

  /** @returns {number} pixels of the window in one of `box`. */
  unit() {
    return this.stage.getBoundingClientRect().width / this.box[1] || 1;
  }

  /** @returns {[number, number]} the place in the middle of the stage. */
  centre() {
    return this.middle || [(this.size[0] - 1) / 2, (this.size[1] - 1) / 2];
  }

  /** @returns {boolean} true if a place lies in the picture. */
  holds(y, x) {
    return y >= -0.5 && x >= -0.5 && y < this.size[0] - 0.5 && x < this.size[1] - 0.5;
  }

  /** @returns {number|number[]|undefined} the number at a place, or its colours; none outside. */
  value(y, x) {
    if (!this.numbers || !this.holds(y, x)) return undefined;
    if (this.tiles) return this.tiles.value(Math.round(y), Math.round(x), () => this.again?.());
    const { data, shape, bin } = this.numbers;
    const row = Math.min(shape[0] - 1, Math.floor((Math.round(y) + 0.5) / bin));
    const column = Math.min(shape[1] - 1, Math.floor((Math.round(x) + 0.5) / bin));
    const at = row * shape[1] + column;
    if (this.parts.length > 1) return this.parts.map(({ data: one }) => one[at]);
    return shape.length === 3 ? [...data.subarray(at * shape[2], (at + 1) * shape[2])] : data[at];
  }

  /**
   * Zoom around a place, which stays where it is.
   *
   * @param {number} factor above 1: closer.
   * @param {[number, number]} [place] the middle, if not given.
   */
  zoomBy(factor, place = this.centre()) {
    const [sy, sx] = this.scale();
    const most = Math.max(1, FARTHEST / Math.min(sy / this.zoom, sx / this.zoom));
    const zoom = Math.max(1, Math.min(most, this.zoom * factor));
    const [cy, cx] = this.centre();
    const kept = this.zoom / zoom;
    this.zoom = zoom;
    this.moveTo(place[0] + (cy - place[0]) * kept, place[1] + (cx - place[1]) * kept);
  }

  /** Put a place into the middle, as far as the picture still fills the stage. */
  moveTo(y, x) {
    const [sy, sx] = this.scale();
    const keep = (at, count, box, s) => {
      const half = Math.min(count / 2, box / 2 / s);
      return Math.max(half - 0.5, Math.min(count - 0.5 - half, at));
    };
    this.middle = [keep(y, this.size[0], this.box[0], sy), keep(x, this.size[1], this.box[1], sx)];
    if (this.zoom === 1) this.middle = null;
    this.draw();
    this.moved();
  }

  /** Move by so many heights and widths of the stage. */
  moveBy(down, right) {
    const [cy, cx] = this.centre();
    const [sy, sx] = this.scale();
    this.moveTo(cy + (down * this.down * this.box[0]) / sy, cx + (right * this.box[1]) / sx);
  }

  /** Show the whole picture. */
  reset() {
    this.zoom = 1;
    this.middle = null;
    this.draw();
    this.moved();
  }

  /** Draw again, once, before the next frame of the screen. */
  draw() {
    this._drawn ??= requestAnimationFrame(() => {
      this._drawn = null;
      this._draw();
    });
  }

  _draw() {
    this._fit();
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.numbers && this._image.width) {
      context.save();
      context.scale(1, this.down);
      this.drawWhole(context, this);
      if (this.tiles && this.painter) this.tiles.draw(context, this);
      context.restore();
    }
    this._drawOver();
  }

  /** Draw the numbers of the whole picture, as far as a picture that is this one or a part of it (`seen`) shows them. */
  drawWhole(context, seen) {
    const { shape, bin } = this.numbers;
    const [sy, sx] = seen.scale();
    const [top, left] = seen.toStage(-0.5, -0.5);
    const at = [left, top * this.down, shape[1] * bin * sx, shape[0] * bin * sy].map((n) => n * seen.ratio);
    context.beginPath();
    context.rect(at[0], at[1], this.size[1] * sx * seen.ratio, this.size[0] * sy * seen.ratio);
    context.clip(); // the last bins may reach beyond the edge
    context.imageSmoothingEnabled = Math.max(sy, sx) * bin * seen.ratio < 1;
    context.imageSmoothingQuality = "medium";
    context.drawImage(this._image, ...at);
  }

  _drawOver() {
    const context = this.over.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.over.width, this.over.height);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.numbers) for (const layer of this.layers) layer(context, this);
  }
}

/**
 * Take samples as red, green, blue (and opacity); others than those of 8 bits are scaled by the largest. Where nothing
 * is opaque the fourth sample means something else: DigitalMicrograph leaves it 0.
 *
 * @param {TypedArray} whole samples of the whole picture.
 * @returns {function(Object[], ImageData)} see `Picture.use`.
 */
function coloursOf(whole, channels) {
  const bytes = whole instanceof Uint8Array || whole instanceof Uint8ClampedArray;
  const most = bytes ? 255 : whole.reduce((a, b) => (b > a && b < Infinity ? b : a), 0) || 1;
  const opaque = channels < 4 || !whole.some((value, i) => i % 4 === 3 && value > 0);
  return ([{ data }], { data: out }) => {
    for (let i = 0, j = 0; i < data.length; i += channels, j += 4) {
      for (let k = 0; k < 3; k++) out[j + k] = (data[i + k] * 255) / most;
      out[j + 3] = Number.isNaN(data[i]) ? 0 : opaque ? 255 : (data[i + 3] * 255) / most;
    }
  };
}
