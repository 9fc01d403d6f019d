/**
 * A line profile of a picture: drag a line, and its numbers are shown below.
 */

import { along, strip } from "./plot.js";

export class Profile {
  /** @param {Panel} panel of the picture. */
  constructor(panel) {
    this.panel = panel;
    this.on = false;
    this.line = null;
    this.strip = strip(`${panel.title} profile`);
    panel.below.append(this.strip.element);
  }

  /** Begin, with a line across the middle; or leave. */
  toggle() {
    if (this.on) return this.leave();
    const { view, kind, shown } = this.panel;
    if (kind !== "picture" || shown.shape.length !== 2) return undefined;
    const [height, width] = view.size;
    this.on = true;
    this.line = { from: [(height - 1) / 2, width * 0.15], to: [(height - 1) / 2, width * 0.85] };
    return this._mark();
  }

  leave() {
    this.on = false;
    this.line = null;
    this._mark();
  }

  _mark() {
    this.panel.profileButton?.setAttribute("aria-pressed", String(this.on));
    this.strip.element.hidden = !this.on;
    this.update();
    this.panel.view?.draw();
  }

  /** Take a press in the picture: an end of the line is moved, or a new line drawn. */
  press(place) {
    if (!this.on) return null;
    const { from, to } = this.line;
    const near = 10 / this.panel.view.scale()[1];
    const far = (end) => Math.hypot(end[0] - place[0], end[1] - place[1]);
    const fixed = far(to) <= near ? from : far(from) <= near ? to : place;
    return {
      move: (now) => {
        this.line = { from: fixed, to: now };
        this.update();
        this.panel.view.draw();
      },
    };
  }

  /** Read the numbers along the line again. */
  update() {
    const { view, shown, kind, axis } = this.panel;
    if (!this.on || kind !== "picture" || !shown.data || shown.shape.length !== 2) return;
    this.strip.show(along(view, this.line.from, this.line.to), axis ? { ...axis, offset: 0 } : null);
  }
}
