/**
 * Many things in a list or grid, of which only those that can be seen are in the page.
 */

import { el } from "./dom.js";

const BEYOND = 3; // rows above and below that are there, too

export class Cells {
  /**
   * @param {string} label its name.
   * @param {{height: number, width: number}} size of a cell, screen pixels; it may become wider.
   * @param {function(number): HTMLElement} make makes the cell of an index; it must take the focus.
   * @param {function(number, number)} seen called with first and last index (half-open) that can be seen.
   */
  constructor(label, size, make, seen) {
    Object.assign(this, { size, make, seen, count: 0 });
    this.inner = el("div.cells-inner");
    this.element = el("div.cells", { role: "list", "aria-label": label }, this.inner);
    this._made = new Map();
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("keydown", (event) => this._key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Show so many cells, made anew. */
  show(count) {
    this.count = count;
    for (const cell of this._made.values()) cell.remove();
    this._made.clear();
    this.draw();
  }

  /** Make the cell of an index again, if it is in the page. */
  again(index) {
    const old = this._made.get(index);
    if (!old) return;
    const focused = old.contains(document.activeElement);
    this._made.delete(index);
    old.remove();
    this.draw();
    if (focused) this.focus(index);
  }

  get columns() {
    return Math.max(1, Math.floor(this.element.clientWidth / this.size.width));
  }

  /** True while nobody can see it, as far as the page knows without a layout: then there is nothing to be drawn. */
  get _hidden() {
    return Boolean(this.element.closest("[hidden]"));
  }

  /** Put cells where they are seen, remove the others. */
  draw() {
    if (this._hidden) return;
    const { clientHeight, clientWidth, scrollTop } = this.element;
    const { columns } = this;
    const rows = Math.ceil(this.count / columns);
    this.inner.style.height = `${rows * this.size.height}px`;
    if (!clientHeight) return;
    const from = Math.max(0, Math.floor(scrollTop / this.size.height) - BEYOND) * columns;
    const to = Math.min(this.count, (Math.ceil((scrollTop + clientHeight) / this.size.height) + BEYOND) * columns);
    for (const [index, cell] of this._made) {
      if (index >= from && index < to) continue;
      cell.remove();
      this._made.delete(index);
    }
    const width = Math.floor(clientWidth / columns);
    for (let index = from; index < to; index++) {
      const cell = this._made.get(index) || this._add(index);
      const [left, top] = [(index % columns) * width, Math.floor(index / columns) * this.size.height];
      cell.style.transform = `translate(${left}px, ${top}px)`;
      cell.style.width = `${width}px`;
      cell.style.height = `${this.size.height}px`;
    }
    this.seen(from, to);
  }

  _add(index) {
    const cell = el(
      "div.cell",
      { role: "listitem", "aria-setsize": this.count, "aria-posinset": index + 1 },
      this.make(index),
    );
    const after = [...this._made.keys()].filter((other) => other > index).sort((a, b) => a - b)[0];
    this.inner.insertBefore(cell, after === undefined ? null : this._made.get(after));
    this._made.set(index, cell);
    return cell;
  }

  /** Scroll to a cell. */
  reveal(index) {
    if (this._hidden) return;
    const top = Math.floor(index / this.columns) * this.size.height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    if (top + this.size.height > scrollTop + clientHeight)
      this.element.scrollTop = top + this.size.height - clientHeight;
  }

  /** @returns {number|undefined} the index of the cell that has the focus. */
  get focused() {
    return [...this._made].find(([, cell]) => cell.contains(document.activeElement))?.[0];
  }

  _key(event) {
    const { focused } = this;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.size.height)) * this.columns;
    const by = {
      ArrowUp: -this.columns,
      ArrowDown: this.columns,
      ArrowLeft: -1,
      ArrowRight: 1,
      PageUp: -page,
      PageDown: page,
      Home: -this.count,
      End: this.count,
    }[event.key];
    if (focused === undefined || by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.focus(Math.max(0, Math.min(this.count - 1, focused + by)));
  }

  /** Scroll to a cell and give it the focus. */
  focus(index) {
    this.reveal(index);
    this.draw();
    this._made.get(index)?.firstElementChild.focus({ preventScroll: true });
  }
}
