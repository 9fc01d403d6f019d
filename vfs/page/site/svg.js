/**
 * Records what is drawn, as SVG: so much of a canvas's context as layers, plots and figures use.
 */

/** A path that also knows its text. */
export class Path extends Path2D {
  d = "";

  moveTo(x, y) {
    super.moveTo(x, y);
    this.d += `M${at(x, y)}`;
  }

  lineTo(x, y) {
    super.lineTo(x, y);
    this.d += `L${at(x, y)}`;
  }

  rect(x, y, width, height) {
    super.rect(x, y, width, height);
    this.d += `M${at(x, y)}h${round(width)}v${round(height)}h${round(-width)}z`;
  }

  roundRect(x, y, width, height, r) {
    super.roundRect(x, y, width, height, r);
    const corner = (dx, dy) => `a${round(r)},${round(r)} 0 0 1 ${at(dx, dy)}`;
    const [w, h] = [width - 2 * r, height - 2 * r].map(round);
    this.d += `M${at(x + r, y)}h${w}${corner(r, r)}v${h}${corner(-r, r)}h${-w}${corner(-r, -r)}v${-h}${corner(r, -r)}z`;
  }

  /** Add a whole circle; others are not drawn here. */
  circle(x, y, r) {
    this.ellipse(x, y, r, r);
  }

  /** Add a whole ellipse. */
  ellipse(x, y, rx, ry) {
    super.moveTo(x + rx, y);
    super.ellipse(x, y, rx, ry, 0, 0, 2 * Math.PI);
    const half = (dx) => `a${round(rx)},${round(ry)} 0 1 0 ${round(dx)},0`;
    this.d += `M${at(x + rx, y)}${half(-2 * rx)}${half(2 * rx)}z`;
  }
}

const STATE = ["font", "textAlign", "textBaseline", "fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "imageSmoothingEnabled"];
const ANCHORS = { left: "start", center: "middle", right: "end" };
const DOWN = { alphabetic: 0, middle: 0.35, top: 0.8 }; // sizes of letters from their middle or top to their foot

export class Svg {
  font = "10px sans-serif";
  textAlign = "left";
  textBaseline = "alphabetic";
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  imageSmoothingEnabled = true;

  constructor() {
    this._parts = [];
    this._stack = [];
    this._groups = 0; // that are open
    this._clips = 0;
    this._dash = [];
    this._measure = document.createElement("canvas").getContext("2d");
  }

  save() {
    this._stack.push([STATE.map((name) => this[name]), this._dash, this._groups]);
  }

  restore() {
    const [state, dash, groups] = this._stack.pop();
    STATE.forEach((name, k) => (this[name] = state[k]));
    this._dash = dash;
    for (; this._groups > groups; this._groups--) this._parts.push("</g>");
  }

  translate(x, y) {
    this._open(`transform="translate(${at(x, y)})"`);
  }

  beginPath() {
    this._path = new Path();
  }

  moveTo(x, y) {
    this._path.moveTo(x, y);
  }

  lineTo(x, y) {
    this._path.lineTo(x, y);
  }

  rect(...box) {
    this._path.rect(...box);
  }

  clip() {
    const id = `clip${++this._clips}`;
    this._parts.push(`<clipPath id="${id}"><path d="${this._path.d}"/></clipPath>`);
    this._open(`clip-path="url(#${id})"`);
  }

  stroke(path = this._path) {
    const dash = this._dash.length ? ` stroke-dasharray="${this._dash}"` : "";
    this._add(`<path d="${path.d}" fill="none" ${this._paint("stroke")} stroke-width="${this.lineWidth}"${dash}/>`);
  }

  fill(path, rule = "nonzero") {
    this._add(`<path d="${path.d}" ${this._paint("fill")} fill-rule="${rule}"/>`);
  }

  fillRect(x, y, width, height) {
    const size = `width="${round(width)}" height="${round(height)}"`;
    this._add(`<rect x="${round(x)}" y="${round(y)}" ${size} ${this._paint("fill")}/>`);
  }

  fillText(text, x, y) {
    this._text(text, x, y, this._paint("fill"));
  }

  strokeText(text, x, y) {
    this._text(text, x, y, `fill="none" ${this._paint("stroke")} stroke-width="${this.lineWidth}"`);
  }

  measureText(text) {
    this._measure.font = this.font;
    return this._measure.measureText(text);
  }

  setLineDash(dash) {
    this._dash = dash;
  }

  drawImage(canvas, x, y, width, height) {
    const size = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    const pixels = this.imageSmoothingEnabled ? "" : ' style="image-rendering:pixelated"';
    this._add(`<image ${size} preserveAspectRatio="none"${pixels} href="${canvas.toDataURL("image/png")}"/>`);
  }

  /** @returns {string} the file. @param {number} [mm] of a pixel; 0: nobody says. */
  text(width, height, mm = 0) {
    const [wide, high] = [width, height].map((n) => (mm ? `${round(n * mm)}mm` : round(n)));
    const size = `width="${wide}" height="${high}" viewBox="0 0 ${round(width)} ${round(height)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n${this._parts.join("\n")}\n</svg>\n`;
  }

  _open(attributes) {
    this._parts.push(`<g ${attributes}>`);
    this._groups += 1;
  }

  _add(element) {
    this._parts.push(element);
  }

  _paint(what) {
    const opaque = this.globalAlpha < 1 ? ` ${what}-opacity="${this.globalAlpha}"` : "";
    return `${what}="${escaped(this[`${what}Style`].trim())}"${opaque}`;
  }

  _text(text, x, y, paint) {
    const [, weight, size, family] = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(this.font);
    const font = `font-family="${escaped(family)}" font-size="${size}"${weight ? ` font-weight="${weight}"` : ""}`;
    const place = `x="${round(x)}" y="${round(y + DOWN[this.textBaseline] * Number(size))}"`;
    this._add(`<text ${place} text-anchor="${ANCHORS[this.textAlign]}" ${font} ${paint}>${escaped(String(text))}</text>`);
  }
}

function round(value) {
  return Math.round(value * 100) / 100;
}

function at(x, y) {
  return `${round(x)},${round(y)}`;
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "�");
}
