/**
 * What is measured in the picture of a panel, with a row of words and a plot below it: it is begun, changed and left.
 * Row and plot (`row`, `strip`) are made by `make` when it is first begun.
 */

const SETTLED = 120; // ms without a change before numbers are fetched

export class Measured {
  /**
   * Besides what is here, one has `nudge(dy, dx)`, which moves it by pixels, and `grow(by, inner)`.
   *
   * @param {Panel} panel of the picture. @param {string} pressed name of the panel's button.
   * @param {{box: function(number[]): ?Promise<Object>, failed: function(Error)}} how `box` fetches numbers of which the panel
   *   shows means (see frame.js); null: it does not.
   */
  constructor(panel, pressed, how) {
    Object.assign(this, { panel, how, on: false, row: null, _exact: null });
    this._pressed = pressed;
  }

  /**
   * Give numbers of the picture.
   *
   * @param {number[]} box y0, x0, y1, x1 that they have to hold, half-open.
   * @returns {Object} those that are shown; where these are means, those of all pixels of the box as soon as they are here.
   */
  _numbers(box) {
    const { shown } = this.panel;
    if (shown.bin === 1) return shown;
    const key = String(box);
    if (this._exact?.of !== shown.data || this._exact.key !== key) {
      const exact = (this._exact = { of: shown.data, key, numbers: null });
      const arrived = (numbers) => {
        exact.numbers = numbers;
        if (this._exact === exact) this.update();
      };
      clearTimeout(this._soon);
      this._soon = setTimeout(() => this.on && this.how.box(box)?.then(arrived, (error) => this.how.failed(error)), SETTLED);
    }
    return this._exact.numbers || shown;
  }

  /** Begin in the middle of the picture (`start` takes its height and width); or leave. */
  toggle() {
    if (this.on) return this.leave();
    const { view, kind, shown } = this.panel;
    if (kind !== "picture" || shown.shape.length !== 2) return undefined;
    if (!this.row) {
      this.make();
      this.panel.below.append(this.row, this.strip.element);
    }
    this.on = true;
    this.start(view.size);
    return this._mark();
  }

  leave() {
    if (!this.on) return;
    this.on = false;
    this.clear();
    this._mark();
  }

  _mark() {
    this.panel[this._pressed]?.setAttribute("aria-pressed", String(this.on));
    this.strip.element.hidden = this.row.hidden = !this.on;
    this.panel.element.classList.toggle("measured", [...this.panel.below.children].some((one) => !one.hidden));
    this._changed();
  }

  _changed() {
    this.update();
    this.panel.view?.draw();
  }
}
