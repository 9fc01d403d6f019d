/**
 * What is measured in the picture of a panel, with a row of words and a plot below it: it is begun, changed and left.
 */
export class Measured {
  /** @param {Panel} panel of the picture. @param {string} pressed name of the panel's button. */
  constructor(panel, pressed) {
    Object.assign(this, { panel, on: false });
    this._pressed = pressed;
  }

  /** Begin in the middle of the picture (`start` takes its height and width); or leave. */
  toggle() {
    if (this.on) return this.leave();
    const { view, kind, shown } = this.panel;
    if (kind !== "picture" || shown.shape.length !== 2) return undefined;
    this.on = true;
    this.start(view.size);
    return this._mark();
  }

  leave() {
    this.on = false;
    this.clear();
    this._mark();
  }

  _mark() {
    this.panel[this._pressed]?.setAttribute("aria-pressed", String(this.on));
    this.strip.element.hidden = this.row.hidden = !this.on;
    this._changed();
  }

  _changed() {
    this.update();
    this.panel.view?.draw();
  }
}
