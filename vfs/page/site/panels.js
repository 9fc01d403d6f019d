/**
 * Panels beside the pictures: which of them are open, and what room they leave.
 */

import { textSize } from "./textsize.js";

const ROOM = 280; // CSS pixels that panels leave for pictures, times the size of text

export class Panels {
  /**
   * @param {Object<string, HTMLElement>} elements the panels by name. @param {Object<string, HTMLElement>} buttons that open them.
   * @param {function(string)} toggled called when somebody opened or closed one, before it gets the focus.
   */
  constructor(elements, buttons, toggled) {
    Object.assign(this, { elements, buttons, toggled });
    this.shown = []; // names of those that are open, in the order in which they were opened
    this.before = {}; // what had the focus before a panel was opened
    for (const [which, element] of Object.entries(elements)) {
      element.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || event.target.matches("[type=search]:not(:placeholder-shown)")) return;
        if (event.target.matches("input[type=text], input[type=search]")) element.focus({ focusVisible: true }); // leaves the field first
        else this.toggle(which);
        event.stopPropagation();
      });
    }
  }

  /** Open or close a panel. @param {boolean} [keys] true: by keys, which go on in it; when it is closed, where they were before. */
  toggle(which, keys = false) {
    const panel = this.elements[which];
    const inside = panel.contains(document.activeElement);
    const before = document.activeElement;
    this.open(which, panel.hidden);
    this.fit();
    this.toggled(which);
    if (!panel.hidden) {
      this.before[which] = before === document.body ? null : before;
      if (keys) panel.focus({ focusVisible: true });
    } else if (inside) (this.before[which]?.checkVisibility() ? this.before[which] : this.buttons[which]).focus();
  }

  /** Open or close a panel. @param {boolean} [asked] false: it opens by itself, and is the first that makes room. */
  open(which, wanted, asked = true) {
    this.elements[which].hidden = !wanted;
    this.buttons[which].setAttribute("aria-expanded", String(wanted));
    const others = this.shown.filter((one) => one !== which);
    this.shown = !wanted ? others : asked ? [...others, which] : [which, ...others];
  }

  /** Close all. */
  close() {
    for (const which of Object.keys(this.elements)) this.open(which, false);
  }

  /** Close panels, those that were opened first, until pictures have room beside them, or one panel is left. */
  fit() {
    const wide = (which) => this.elements[which].getBoundingClientRect().width;
    const left = () => innerWidth - this.shown.reduce((sum, which) => sum + wide(which), 0);
    while (this.shown.length > 1 && left() < ROOM * textSize()) this.open(this.shown[0], false);
  }
}
