/**
 * Several images of a scan beside each other: the panel's own picture in one place, and a picture for each other one.
 */

import { table } from "./colours.js";
import { limits, sample } from "./contrast.js";
import { el } from "./dom.js";
import { listen } from "./gestures.js";
import { Picture } from "./picture.js";
import { readOut } from "./readout.js";

export class Tiles {
  /**
   * @param {Panel} panel of the scan.
   * @param {function(number)} chosen called with the place of a tile that was pressed.
   * @param {function([number, number]): ?Object} tool takes presses, see gestures.js.
   */
  constructor(panel, chosen, tool) {
    Object.assign(this, { panel, chosen, tool, made: [] });
  }

  /**
   * Show images; fewer than two: none but the panel's own.
   *
   * @param {Array<{data: TypedArray, caption: string}>} maps @param {number} active which is the panel's own.
   * @param {number[]} shape @param {[number, number]} size
   */
  show(maps, active, shape, size) {
    const { panel } = this;
    const many = maps.length > 1;
    const box = panel.stage.parentElement;
    if (many) box.dataset.tiles = String(maps.length);
    else delete box.dataset.tiles;
    panel.stage.dataset.place = many ? String(active) : "";
    while (this.made.length > (many ? maps.length - 1 : 0)) this.made.pop().stage.remove();
    if (!many) return;
    while (this.made.length < maps.length - 1) this.made.push(this._tile());
    const others = maps.map((map, place) => ({ ...map, place })).filter(({ place }) => place !== active);
    others.forEach(({ data, caption, place }, k) => {
      const { stage, view } = this.made[k];
      this.made[k].place = place;
      stage.dataset.place = String(place);
      stage.setAttribute("aria-label", `Scan: ${caption}. Enter makes it the one that is changed.`);
      if (view.data !== data) view.show((view.data = data), shape, size, 1);
      view.sorted = sample(data);
      this._colour(view);
    });
    this.follow();
  }

  _tile() {
    const stage = el("div.stage", { tabindex: 0, role: "application" });
    this.panel.stage.after(stage);
    const view = new Picture(stage, null, "Scan");
    view.aspect = this.panel.aspect;
    const tile = { stage, view, place: 0 };
    const marks = this.panel.layers.filter((layer) => layer.tiled !== false);
    view.layers = [(...given) => marks.forEach((layer) => layer(...given, tile.place))];
    listen(view, [this.tool], (place) => readOut({ kind: "picture", view, axis: this.panel.axis, aspect: this.panel.aspect, readout: this.panel.readout }, place));
    stage.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.chosen(tile.place);
    });
    view.moved = () => this._lead(view);
    return tile;
  }

  _colour(view) {
    const { contrast } = this.panel;
    const [lo, hi] = limits(view.sorted, contrast.low, contrast.high);
    view.colour({ ...contrast, lo, hi }, table(contrast.map, contrast.invert));
  }

  /** Take the panel's contrast again. */
  colour() {
    for (const { view } of this.made) if (view.numbers) this._colour(view);
  }

  /** Draw again what lies above the pictures. */
  draw() {
    for (const { view } of this.made) view.draw();
  }

  /** Show the part that the panel's own picture shows. */
  follow() {
    this._lead(this.panel.view);
  }

  _lead(leader) {
    if (this._leading || !leader) return;
    this._leading = true;
    for (const view of [this.panel.view, ...this.made.map((tile) => tile.view)]) {
      if (view === leader || !view) continue;
      if (view.zoom === leader.zoom && String(view.middle) === String(leader.middle)) continue;
      view.zoom = leader.zoom;
      view.middle = leader.middle;
      view.draw();
    }
    this._leading = false;
  }
}
