/**
 * Takes away what a viewer shows: as a picture, numbers, Python, an address.
 */

import { address, encoded, recipe } from "./api.js";
import { toText } from "./detectors.js";
import { serving, snippet } from "./python.js";
import * as take from "./take.js";

function nameOf(viewer, panel) {
  const { shape } = viewer.detecting;
  const what = panel.id === "scan" ? (shape ? toText(shape) : "scan") : panel.shown.caption || "frame";
  return `${viewer.set.name} ${viewer.array.path} ${what}`
    .replace(/[^\w.+-]+/g, "_")
    .replace(/_+$/, "")
    .slice(0, 120);
}

function partOf(viewer) {
  return viewer.complex ? viewer.view.part : "";
}

/** Save the picture of a panel as PNG. */
export async function takePicture(viewer, panel) {
  if (panel.view) take.save(await take.png(panel.view), `${nameOf(viewer, panel)}.png`);
}

/** Save the numbers of a panel as .npy: of a frame all of them; of a selection those that are shown, whose file says if they are means. */
export async function takeNumbers(viewer, panel) {
  try {
    const { shown } = panel;
    const binned = panel.id === "frame" && shown.bin > 1 && !viewer.view.selection;
    const { data, shape, bin } = binned ? await viewer.frames.whole(viewer.view.at, partOf(viewer)) : shown;
    if (binned && bin > 1) throw new Error("This frame is too large to be saved here: the Python that makes it reads all of it.");
    const means = panel.id === "frame" && bin > 1 ? `_means_of_${bin}x${bin}` : "";
    const pairs = viewer.view.side === "potential" ? null : shown.pairs;
    take.save(take.npy(pairs || data, pairs ? [...shape, 2] : shape), `${nameOf(viewer, panel)}${means}.npy`);
  } catch (error) {
    viewer.failed(error);
  }
}

/** Show the Python that makes the numbers of a panel. */
export async function takeSnippet(viewer, panel) {
  const { set, array } = viewer;
  const { selection, how, at } = viewer.view;
  const { bin, order, data } = panel.shown;
  const { shape: detector, channels: several, more } = viewer.detecting;
  const channels = { channels: more ? several : null, axis: viewer.frame.axis };
  const com = { degrees: viewer.showing.degrees || 0, side: viewer.view.side, upward: array.upward };
  const where = { selection, how, at, within: viewer.within(), part: partOf(viewer) };
  const what = { kind: panel.id, detector, ...channels, com, ...where, bin, order, blank: data?.some(Number.isNaN) };
  const title = `Python that makes the ${panel.id === "scan" ? "scan" : panel.heading.textContent.toLowerCase()}`;
  try {
    take.showText(title, snippet(await recipe(set.key), array, what));
  } catch (error) {
    viewer.failed(error);
  }
}

/** Show the address of the array for clients of zarr. */
export function takeAddress(viewer) {
  take.showText("Address of the zarr array", address(`${encoded(viewer.set.key)}/${encoded(viewer.array.path)}`));
}

/** Show the Python that serves the scan's image as an array of zarr. */
export async function takeServing(viewer) {
  const { set, array } = viewer;
  const { shape } = viewer.detecting;
  if (!shape) return;
  try {
    take.showText("Python that serves the image as zarr", serving(await recipe(set.key), array, shape));
  } catch (error) {
    viewer.failed(error);
  }
}
