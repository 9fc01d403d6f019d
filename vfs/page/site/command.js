/**
 * The command of a shell that reduces all that is shown to one file, with the same numbers.
 */

import { toPython, toText } from "./detectors.js";
import { projectionText } from "./projecting.js";

const PLAIN = /^[\w@%+=:,./-]+$/; // words that no shell changes

/**
 * Write the command.
 *
 * @param {Object} recipe how the set was opened, as the API says it. @param {Object} array as the API describes it.
 * @param {Object} what {channels, presets, selection, how, size, degrees, side}: detectors, see detecting.js; a `project`ion of a stack, of all its channels; usual
 *   detectors by name; a selection of the scan and what is made of its frames, with the scan's height and width;
 *   of centres of mass, see state.js.
 * @returns {{text: string, said: string[]}} the command, and what of the picture it does not make.
 * @throws {Error} with a line for people: there is no such command.
 */
export function command(recipe, array, what) {
  if (!recipe.words)
    throw new Error("This set was opened from several paths, or with options that have no words in a shell: the Python that makes an image opens it so.");
  const { channels, selection, how, size } = what;
  const named = new Map();
  const add = (name, made) => {
    let free = name;
    for (let k = 2; named.has(free); k++) free = `${name}${k}`;
    named.set(free, made);
  };
  for (const { shape } of channels) add(nameOf(shape, what.presets), reduction(shape, array));
  const said = ["A file that ends in .hspy, .tif, .npy or .csv instead holds one of them."];
  if (what.project) add(what.project.how, what.skipna ? projectionText(what.project).replace(/\)$/, ", skipna=true)") : projectionText(what.project));
  if (selection && isAll(selection, size) && array.nav === size.length) add("frame", what.skipna ? `${how}(skipna=true)` : how);
  else if (selection) said.push(`The ${how} of the selected frames is not in it: for that, --roi takes a mask of positions.`);
  if (channels.some(({ fit }) => fit)) said.push("Backgrounds are not taken away: the Python that makes an image does that.");
  if (what.degrees || what.side === "potential") said.push("Centres of mass are neither turned nor integrated.");
  if (what.project) said.push("It is made of all channels, and at every index of the axes that stay.");
  else if (array.nav > 2) said.push("Images are of the whole scan: those that are shown are a part of them.");
  const [path, ...options] = recipe.words;
  if (!array.main) options.push(`--array=${array.own}`);
  const results = [...named].map(([name, made]) => `${name}=${made}`);
  const words = ["vfs", "reduce", path, `${recipe.name}-reduced.zarr`, ...results, ...options];
  return { text: words.map(quoted).join(" "), said };
}

function nameOf(shape, presets) {
  const text = toText(shape);
  const usual = Object.entries(presets || {}).find(([, one]) => toText(one) === text);
  return usual ? usual[0].toLowerCase() : { whole: "sum", com: "com" }[shape.kind] || shape.kind;
}

/** @returns {string} a detector as the command takes it: as Python does, without vfs and capitals. */
function reduction(shape, { masked }) {
  return toPython(shape, masked).replace(/^vfs\.(\w+)/, (_, name) => name.toLowerCase());
}

function isAll({ kind, y0, x0, y1, x1 }, [height, width]) {
  return kind === "rectangle" && y0 <= 0 && x0 <= 0 && y1 >= height && x1 >= width;
}

function quoted(word) {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
