/**
 * Keys that work anywhere on the page, but where something is typed.
 */

import { el } from "./dom.js";
import { dialog } from "./take.js";

const OWN = "input, [role=slider], .cells, .facts"; // what arrows, Page, Home and End move themselves

/** What each key does, for people. */
const HELP = [
  ["← → ↑ ↓", "move the scan position; with Shift by ten"],
  ["in the frame: ← → ↑ ↓", "move the detector; with Shift by ten"],
  ["[ ]", "make the detector smaller, larger; with Shift a ring's hole"],
  ["in a picture that is measured: ← → ↑ ↓ [ ]", "move the line or region, make it shorter or longer; with Shift a line's width"],
  ["1 2 3 4", "bright field, annular bright field, annular dark field, high angle"],
  ["5 6 7", "all of the frame, centre of mass, radial mean"],
  ["n Delete , .", "add a detector, leave the chosen one out; choose the one before, the next (up to four)"],
  ["t", "of several detectors: the chosen one, tiles, in colours"],
  ["o", "of a stack: views along it through one place, which a drag moves"],
  ["j", "of a stack: the projection along its last axis, and frames again"],
  ["c", "of an image with channels: these as layers in their colours, or one of them"],
  ["g v", "of backscatter patterns: the next background that is taken away; three cells of a grid in red, green and blue"],
  ["b < >", "of a window in spectra: its background; make the window of that smaller, larger"],
  ["k", "keep the spectrum that is shown, to compare"],
  ["l", "logarithm on and off, of the picture that has the focus"],
  ["a", "fit the contrast to what is shown"],
  ["i", "invert the colours"],
  ["f", "of a set that is still being written: stay at the newest frame"],
  ["Space", "play along the last axis, and stop"],
  ["+ − 0", "closer, farther, all of the picture"],
  ["PageUp PageDown Home End", "move a picture that is larger than its place up, down, left, right; arrows, too, if there is nothing else to move"],
  ["p", "line profile: drag a line in the picture, or type its ends, for its length, angle and numbers"],
  ["r", "measure a region: statistics, histogram, radial mean, Fourier transform"],
  ["m", "metadata"],
  ["z", "larger text and lines; after the largest the usual size"],
  ["d", "data: correct the scan shape, axes, steps, or what raw bytes are"],
  ["s", "arrays of this set"],
  ["Esc", "leave a selection, profile or region; close what is open, also the panel that has the focus (in a field: twice)"],
  ["?", "this list"],
  ["wheel, two fingers, drag, double click", "zoom, move, show all; Shift-drag always moves the picture"],
];

/** Show what the keys do. */
export function help() {
  dialog("Keys", el("dl.keys", {}, ...HELP.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])));
}

/**
 * Listen to keys.
 *
 * @param {function(): ?Object} actions gives functions by the name of a key; `arrow` gets (dy, dx).
 */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=range]):not([type=checkbox]), textarea, select")) return;
    const arrow = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const able = actions() || {};
    if (/^(Arrow|Page|Home|End)/.test(event.key) && event.target.closest(OWN)) return;
    if (arrow) {
      if (!able.arrow) return;
      const by = event.shiftKey ? 10 : 1;
      able.arrow(arrow[0] * by, arrow[1] * by);
    } else if (event.key === " " && event.target.closest("button, summary, input, a")) return;
    else if (able[event.key]) able[event.key]();
    else return;
    event.preventDefault();
  });
}
