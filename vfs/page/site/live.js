/**
 * Follows a set that is still being written: says how far it is, and has the viewer go on.
 */

import * as api from "./api.js";
import { button, el } from "./dom.js";

const OFTEN = 1500; // ms between two times that images are computed again
const REOPENED = 3000; // ms between two times that a set whose shape grows is opened again

export class Live {
  /**
   * @param {Viewer} viewer
   * @param {function()} reopen opens the set again, which has another shape by now or is whole.
   */
  constructor(viewer, reopen) {
    Object.assign(this, { viewer, reopen, set: null, _source: null, _timer: 0, _last: 0, _again: false });
    viewer.moved = () => viewer.newest && this.stay(false);
    this.text = el("span.text");
    this.newest = button("Stay at the newest frame (f)", "newest", () => this.stay(!viewer.newest), {
      "aria-pressed": "false",
    });
    this.element = el("span.live", { hidden: true, role: "status" }, el("span.dot"), this.text, this.newest);
  }

  /**
   * Follow a set; one that is whole is not followed.
   *
   * @param {?Object} set as the API describes it. @param {boolean} [fresh] nobody has chosen a frame.
   */
  begin(set, fresh = false) {
    const other = this.set?.key !== set?.key;
    this.set = set;
    if (other) this.stay(Boolean(set?.live) && fresh);
    this._say(set?.live);
    if (!set?.live || api.alone) this.end();
    else if (!this._source) this._listen();
  }

  _close() {
    this._source?.close();
    this._source = null;
  }

  /** Stop following. */
  end() {
    this._close();
    clearTimeout(this._timer);
    this._timer = 0;
  }

  /** Stay at the newest frame, or not. */
  stay(on) {
    this.viewer.newest = on;
    this.newest.setAttribute("aria-pressed", String(on));
    if (on && this.set?.live) this.viewer.goNewest();
  }

  _listen() {
    const source = new EventSource(api.address("api/events"));
    this._source = source;
    const heard = (event) => {
      const news = JSON.parse(event.data);
      if (this._source !== source || news.set !== this.set?.key) return;
      this.set.live = { ...this.set.live, ...news };
      this._say(this.set.live);
      this._soon(event.type);
    };
    for (const kind of ["frames", "changed", "complete"]) source.addEventListener(kind, heard);
    source.addEventListener("end", () => this._close());
  }

  /** Do later what an event asks for; several events in a row are one. */
  _soon(kind) {
    const whole = kind === "complete";
    const again = whole || this.set.live.grows || kind === "changed";
    this._again ||= again;
    if (this._timer) return;
    const wait = Math.max(0, this._last + (this._again && !whole ? REOPENED : OFTEN) - performance.now());
    this._timer = setTimeout(() => {
      this._timer = 0;
      this._last = performance.now();
      const reopen = this._again;
      this._again = false;
      if (reopen) this.reopen();
      else this.viewer.grown(this.set.live);
    }, wait);
  }

  _say(live) {
    this.element.hidden = !live || live.complete;
    if (!live) return;
    const count = (n) => n.toLocaleString("en");
    this.text.textContent = `live · ${count(live.frames)}${live.of ? ` of ${count(live.of)}` : ""} frames`;
  }
}
