/**
 * Errors and notices above the page, each until somebody dismisses it.
 */

import { button, el, icon } from "./dom.js";

const MOST = 3; // banners; the oldest goes

export class Banners {
  constructor() {
    this.element = el("div.banners", { role: "alert" });
  }

  /** @returns {?HTMLElement} the banner; null where there is one with this text. */
  show(text, kind) {
    const same = [...this.element.children].find((one) => one.dataset.text === text);
    if (same) return null;
    const made = el(
      `div.banner.${kind}`,
      {},
      icon("info"),
      el("span", {}, text),
      button("Dismiss", "close", () => made.remove(), { class: "plain" }),
    );
    made.dataset.text = text;
    this.element.append(made);
    while (this.element.children.length > MOST) this.element.firstChild.remove();
    return made;
  }

  /** Remove those that a selector of CSS matches; all without one. */
  remove(selector = "*") {
    for (const one of this.element.querySelectorAll(`:scope > ${selector}`)) one.remove();
  }
}
