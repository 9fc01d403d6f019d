/**
 * Takes away what a viewer shows: as a picture, numbers, Python, an address.
 */

import { address, alone, encoded, fileOf, frame, mail, recipe } from "./api.js";
import { axesOf } from "./axesof.js";
import { command } from "./command.js";
import { bytes } from "./dom.js";
import { serving, snippet } from "./python.js";
import * as take from "./take.js";
import { tiff } from "./tiff.js";

const MOST = 1 << 30; // numbers of a frame that are saved as a file
const LARGEST = 8192; // pixels along y and x of a channel in a TIFF
const MOST_SIGNAL = 63 << 20; // bytes of numbers that the server writes as a file

function partOf(viewer) {
  return viewer.complex ? viewer.view.part : "";
}

/** Save the picture of a panel as PNG. */
export async function takePicture(viewer, panel) {
  if (panel.view) take.save(await take.png(panel.view), `${take.nameOf(viewer, panel)}.png`);
}

/** Save the numbers of a panel as .npy: of a frame all of them; of a selection those that are shown, whose file says if they are means. */
export async function takeNumbers(viewer, panel) {
  try {
    const { data, shape, bin, pairs } = panel.shown;
    if (panel.id === "frame" && bin > 1 && !viewer.view.selection && !alone) {
      take.save(await wholeFrame(viewer, shape.slice(2)), `${take.nameOf(viewer, panel)}.npy`);
      return;
    }
    const means = panel.id === "frame" && bin > 1 ? `_means_of_${bin}x${bin}` : "";
    const both = viewer.view.side === "potential" ? null : pairs;
    take.save(take.npy([both || data], both ? [...shape, 2] : shape), `${take.nameOf(viewer, panel)}${means}.npy`);
  } catch (error) {
    viewer.failed(error);
  }
}

/** Save the numbers of a picture as a TIFF with its calibration, the top row first; of a large frame, the means that are shown. */
export async function takeTiff(viewer, panel) {
  const layers = panel.id === "frame" && viewer.mixing.on && !panel.shown.projected ? viewer.mixing.layers() : [];
  try {
    const shown = layers.length ? await channelsOf(viewer, panel, layers) : panel.shown;
    saveTiff(viewer, panel, shown, layers);
  } catch (error) {
    viewer.failed(error);
  }
}

/** @returns {Promise<{data: TypedArray, shape: number[], bin: number}>} numbers of all channels, one after the other. */
async function channelsOf({ set, array, view }, panel, layers) {
  const most = LARGEST;
  const parts = await Promise.all(layers.map(({ at }) => frame(set.key, array.path, at(view.at), { most })));
  const [{ data: first, shape, bin }] = parts;
  const data = new first.constructor(first.length * parts.length);
  parts.forEach((part, k) => {
    data.set(part.data, k * first.length);
    [layers[k].lo, layers[k].hi] = layers[k].fitted(part.data);
  });
  return { data, shape, bin };
}

function saveTiff(viewer, panel, { data, shape, bin }, layers) {
  if (!data || shape.length !== 2) return viewer.failed(new Error("A TIFF holds one number for each pixel: of colours, take the picture as PNG."));
  const [height, width] = shape;
  const axes = axesOf(viewer, panel).map((axis) => ({ ...axis, scale: axis.scale * bin, offset: axis.offset + (axis.scale * (bin - 1)) / 2 }));
  let rows = data;
  if (panel.view.down < 0) {
    rows = data.slice();
    for (let from = 0; from < data.length; from += height * width) {
      for (let y = 0; y < height; y++) rows.set(data.subarray(from + (height - 1 - y) * width, from + (height - y) * width), from + y * width);
    }
    axes[0].offset = -(axes[0].offset + axes[0].scale * (height - 1));
  }
  const means = panel.id === "frame" && bin > 1 ? `_means_of_${bin}x${bin}` : "";
  return take.save(tiff(rows, shape, axes, layers), `${take.nameOf(viewer, panel)}${means}.tif`);
}

/** Save the numbers of a panel as a signal of HyperSpy, with its calibration; of a large frame, the means that are shown. */
export async function takeHyperspy(viewer, panel) {
  const { set, array, view } = viewer;
  const { data, shape, bin, pairs } = panel.shown;
  const axes = panel.id === "scan" ? [array.nav - 2, array.nav - 1].filter((axis) => axis >= 0) : array.picture;
  const both = view.side === "potential" ? null : pairs;
  try {
    if (!data || shape.length !== axes.length || (viewer.line && panel.id === "frame" && axes.length > 1))
      throw new Error("A signal holds one number for each pixel or channel: of others, take the numbers as .npy.");
    const numbers = both || data;
    if (numbers.byteLength > MOST_SIGNAL)
      throw new Error(`These are ${bytes(numbers.byteLength)}, expected at most ${bytes(MOST_SIGNAL)}: the command that reduces all to a file writes .hspy, too.`);
    const head = {
      name: take.nameOf(viewer, panel),
      kind: panel.id === "scan" ? "nav" : "sig",
      dtype: take.dtypeOf(numbers),
      shape: both ? [...shape, 2] : shape,
      axes: both ? [...axes, null] : axes,
      bin,
      reduction: [panel.shown.caption, panel.shown.status].filter(Boolean).join(" · "),
    };
    const means = panel.id === "frame" && bin > 1 ? `_means_of_${bin}x${bin}` : "";
    take.save(await fileOf(set.key, array.path, head, numbers), `${head.name}${means}.hspy`);
  } catch (error) {
    viewer.failed(error);
  }
}

/** Save the scan as one file that a browser opens without vfs: frames in bins, and images of the usual detectors. */
export async function takePage(viewer) {
  const { set, array } = viewer;
  try {
    take.save(await mail(set.key, array.path), `${set.name}.html`);
  } catch (error) {
    viewer.failed(error);
  }
}

/** @returns {Promise<Blob>} all numbers of a frame, of which the browser keeps in memory only those on their way. */
async function wholeFrame({ frames, view, complex, backscatter }, samples) {
  const [height, width] = frames.size;
  const count = height * width * (samples[0] ?? 1);
  if (count > MOST) throw new Error(`This frame has ${bytes(count)} or more: the Python that makes it reads all of it.`);
  const parts = [];
  let kind = null;
  for await (const part of frames.rows(view.at, complex ? view.part : "", backscatter.removed)) {
    kind ??= part;
    parts.push(new Blob([part]));
  }
  return take.npy(parts, [height, width, ...samples], kind);
}

/** @returns {Object} what makes the numbers of a panel, see `snippet`. */
function madeOf(viewer, panel) {
  const { array } = viewer;
  const { selection, how, at } = viewer.view;
  const { bin, order, data } = panel.shown;
  const { shape: detector, channels: several, more } = viewer.detecting;
  const channels = { channels: more ? several : null, axis: viewer.frame.axis };
  const com = { degrees: viewer.showing.degrees || 0, side: viewer.view.side, upward: array.upward };
  const { project } = viewer.view;
  const where = { selection, how, at, project, box: project && viewer.projecting.boxOf(at), within: viewer.within(), part: partOf(viewer), ground: viewer.backscatter.removed, skipna: viewer.skipsNan };
  return { kind: panel.id, detector, ...channels, com, ...where, bin, order, blank: data?.some(Number.isNaN) };
}

/** Show the Python that makes the numbers of a panel. */
export async function takeSnippet(viewer, panel) {
  const { set, array } = viewer;
  const title = `Python that makes the ${panel.id === "scan" ? "scan" : panel.heading.textContent.toLowerCase()}`;
  try {
    take.showText(title, snippet(await recipe(set.key), array, madeOf(viewer, panel)));
  } catch (error) {
    viewer.failed(error);
  }
}

/** Show the Python that makes the radial mean of the frame. */
export async function takeRadial(viewer) {
  const { set, array } = viewer;
  try {
    take.showText("Python that makes the radial mean", snippet(await recipe(set.key), array, { ...madeOf(viewer, viewer.frame), kind: "radial" }));
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

/** Show the command that reduces all that is shown to a file. */
export async function takeCommand(viewer) {
  const { set, array, detecting, showing, view } = viewer;
  const { presets } = detecting;
  if (!detecting.shape && !view.project) return;
  const channels = view.project ? [] : detecting.channels;
  const com = { degrees: showing.degrees || 0, side: channels.some(({ shape }) => shape.kind === "com") ? view.side : "" };
  const what = { channels, presets, project: view.project, selection: view.selection, how: view.how, skipna: viewer.skipsNan, size: viewer.scanSize(), ...com };
  try {
    const { text, said } = command(await recipe(set.key), array, what);
    take.showText("Command that reduces all that is shown to a file", text, said);
  } catch (error) {
    viewer.failed(error);
  }
}
