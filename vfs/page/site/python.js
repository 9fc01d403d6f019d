/**
 * Python that makes what is on the screen, to the bit, or serves it.
 */

import { energies, halves } from "./background.js";
import { toPython } from "./detectors.js";
import { argumentsOf } from "./grounds.js";
import { quoted } from "./names.js";
import { POWER_LAW } from "./powerlaw.js";

const WIDE = 100; // letters of a line, where it can be cut

/**
 * Write Python that makes the same numbers.
 *
 * @param {Object} recipe how the set was opened, as the API says it. @param {Object} array as the API describes it.
 * @param {Object} what {kind, detector, channels, axis, com, selection, how, at, within, part, bin, order, blank}: see state.js; of kind
 *   "scan" the image of `detector`; of kind "radial" the radial mean of the frame around its centre; of kind "frame" that of `selection`, of `project` and its `box`, or at `at`; bin: pixels along squares
 *   that are shown; order: {parts, workers} in which sums were made; blank: there may be places where no frame is
 *   stored.
 * @returns {string}
 */
export function snippet(recipe, array, what) {
  const { options, absent } = used(recipe, array);
  const opened = call("vfs.open_group", pathsOf(recipe.paths), Object.entries(options));
  const lines = what.kind === "scan" ? scanLines(array, what, "roi" in options) : what.kind === "radial" ? radialLines(array, what) : frameLines(array, what);
  return written(recipe, absent, [`data = ${opened}[${text(array.own)}]`, ...lines]);
}

/**
 * Write Python that serves the image of a detector as an array, for any client of zarr.
 *
 * @param {Object} recipe @param {Object} array see `snippet`. @param {Object} detector
 * @returns {string}
 */
export function serving(recipe, array, detector) {
  const { options, absent } = used(recipe, array);
  const own = { ...options, derive: `{"image": ${toPython(detector, array.masked)}}` };
  if (!array.main) own.array = text(array.own);
  const paths = pathsOf(recipe.paths);
  return written(recipe, absent, [
    `with ${call("vfs.serve", recipe.paths.length > 1 ? list([paths]) : paths, Object.entries(own))} as server:`,
    `    print(server.url + ${text(`${quoted(`${recipe.name}.zarr`)}/derived/image`)})`,
    '    input("It is served until you press Enter.")',
  ]);
}

/** @returns {{options: Object<string, string>, absent: string[]}} what decides the numbers of an array. */
function used({ options, absent }, array) {
  const counts = (name) => name !== "derive" || array.path.startsWith("derived/");
  const given = absent.filter(counts);
  const said = Object.entries(options).filter(([name]) => counts(name));
  return { options: Object.fromEntries([...said, ...given.map((name) => [name, name])]), absent: given };
}

/** Put the imports that lines need in front of them, and say what is not in them. */
function written({ imports }, absent, lines) {
  const body = lines.join("\n");
  const used = imports.filter((line) => body.includes(`${line.split(" ").pop()}.`));
  const needed = new Set([...used, ...(body.includes("np.") ? ["import numpy as np"] : [])]);
  const own = (line) => !line.includes("numpy");
  const said = absent.map((name) => `# ${name} = what was given when this was served: it has no short text`);
  const standard = [...needed].filter(own);
  return [
    ...standard,
    ...(standard.length ? [""] : []),
    ...[...needed].filter((line) => !own(line)),
    "import vfs",
    "",
    ...said,
    body,
    "",
  ].join("\n");
}

function call(name, paths, options) {
  const given = [paths, ...options.map(([key, value]) => `${key}=${value}`)];
  const line = `${name}(${given.join(", ")})`;
  return line.length <= WIDE && !line.includes("\n") ? line : `${name}(\n${given.map(indented).join("")})`;
}

function list(items) {
  const line = `[${items.join(", ")}]`;
  return line.length <= WIDE && !line.includes("\n") ? line : `[\n${items.map(indented).join("")}]`;
}

function indented(item) {
  return `${item.replace(/^/gm, "    ")},\n`;
}

function pathsOf(paths) {
  return paths.length === 1 ? paths[0] : list(paths);
}

function scanLines(array, { detector, channels, axis, com, within, blank }, selected) {
  if (detector.kind === "magnitude") return magnitudeLines(array, within);
  if (channels) return channelLines(array, { channels, axis, within, blank }, selected);
  return [...imageLines(array, { detector, within, blank }, selected), ...(detector.kind === "com" ? comLines(com) : [])];
}

/** @returns {string[]} lines that make one image. */
function imageLines(array, { detector, within, blank }, selected) {
  const made = `image=${toPython(detector, array.masked)}`;
  if (selected) {
    const image = blank ? "np.where(result.filled, result.selected.T, np.nan).T" : "result.selected";
    return [`result = data.reduce(${made})["image"]`, `image = ${image}${oneOf(detector)}`];
  }
  if (!within.length) return [`image = data.reduce(${made})["image"]${numbers(blank)}${oneOf(detector)}`];
  const index = `[${within.join(", ")}]`;
  const image = `data.reduce(${made}, roi=roi)["image"]${numbers(blank, index)}${oneOf(detector)}`;
  return [...roi(array, `roi${index} = True`), `image = ${image}`];
}

/** @returns {string[]} lines that make the images of several detectors, and take backgrounds away. */
function channelLines(array, { channels, axis, within, blank }, selected) {
  const named = channels.flatMap(({ shape, fit }, k) => [
    [`image${k + 1}`, shape],
    ...(fit ? halves(fit).map((half, which) => [`before${k + 1}${"ab"[which]}`, half]) : []),
  ]);
  const index = within.length ? `[${within.join(", ")}]` : "";
  const rois = index ? [["roi", "roi"]] : [];
  const all = [...named.map(([name, shape]) => [name, toPython(shape, array.masked)]), ...rois];
  const given = all.map(([name, made]) => `    ${name}=${made},`);
  const read = ([name, shape]) => {
    const one = `results["${name}"]`;
    if (!selected) return `${name} = ${one}${numbers(blank, index)}${oneOf(shape)}`;
    return `${name} = ${blank ? `np.where(${one}.filled, ${one}.selected.T, np.nan).T` : `${one}.selected`}${oneOf(shape)}`;
  };
  return [
    ...(index ? roi(array, `roi${index} = True`) : []),
    "results = data.reduce(",
    ...given,
    ")",
    ...named.map(read),
    ...(channels.some(({ fit }) => fit?.model === "power") ? POWER_LAW : []),
    ...channels.flatMap(({ shape, fit }, k) => (fit ? [above(fit, shape, axis, array, k + 1)] : [])),
  ];
}

/** @returns {string} the line that takes a background away. */
function above({ model, from, to }, { x0, x1 }, axis, { shape }, k) {
  const [image, a, b] = [`image${k}`, `before${k}a`, `before${k}b`];
  const half = (to - from) / 2;
  if (model === "power") {
    const energy = energies(axis, shape[shape.length - 1]);
    const edges = [from, from + half, to, x0, x1].map((x) => energy(x - 0.5));
    return `${image} = ${image} - power_law(${a}, ${b}, [${edges.join(", ")}])`;
  }
  const off = (x0 + x1 - 1) / 2 - (from + (half - 1) / 2); // samples from the first half's middle to the window's
  return `${image} = ${image} - ${x1 - x0} * (${a} / ${half} + (${b}.astype(float) - ${a}) / ${half * half} * ${off})`;
}

/** @returns {string[]} lines that turn centres of mass, and integrate them, as potential.js does. */
function comLines({ degrees, side, upward }) {
  if (!degrees && side !== "potential") return [];
  const minus = upward ? "-" : "";
  const turned = `turn = np.deg2rad(${degrees})`;
  if (side !== "potential") {
    return [
      turned,
      `y, x = image[..., 0], ${minus}image[..., 1]`,
      `image = np.stack([np.sin(turn) * x + np.cos(turn) * y, ${minus}(np.cos(turn) * x - np.sin(turn) * y)], axis=-1)`,
    ];
  }
  return [
    turned,
    "y, x = np.moveaxis(np.nan_to_num(image - np.nanmean(image, axis=(0, 1))), -1, 0)",
    ...(upward ? ["y = -y  # frames are drawn upwards"] : []),
    "y, x = np.sin(turn) * x + np.cos(turn) * y, np.cos(turn) * x - np.sin(turn) * y",
    "y = np.block([[y, y[:, ::-1]], [-y[::-1], -y[::-1, ::-1]]])  # mirrored at the edges",
    "x = np.block([[x, -x[:, ::-1]], [x[::-1], -x[::-1, ::-1]]])",
    "ky, kx = np.meshgrid(*(2 * np.pi * np.fft.fftfreq(n) for n in y.shape), indexing=\"ij\")",
    "square = ky**2 + kx**2",
    "square[0, 0] = np.inf",
    "image = np.fft.ifft2(-1j * (ky * np.fft.fft2(y) + kx * np.fft.fft2(x)) / square).real",
    "image = image[: len(image) // 2, : image.shape[1] // 2]",
  ];
}

function magnitudeLines({ nav }, within) {
  const scan = `data.shape[${within.length || ""}:${nav}]`;
  const frame = within.length ? `data[(${within.join(", ")}, *at)]` : "data[at]";
  return [`sums = [np.abs(${frame}).sum(dtype=np.float64) for at in np.ndindex(${scan})]`, `image = np.reshape(sums, ${scan})`];
}

/** @returns {string} what turns a result into its numbers, with NaN where no frame is stored. */
function numbers(blank, index = "") {
  return blank ? `.masked${index}.astype(float).filled(np.nan)` : `.data${index}`;
}

/** @returns {string} what takes the only number that a radial mean has at each position. */
function oneOf({ kind }) {
  return kind === "radial" ? "[..., 0]" : "";
}

/** @returns {string[]} lines that make the radial mean of what the frame shows. */
function radialLines(array, what) {
  const { cy, cx, ratio, angle } = what.detector;
  const { selection, project, ground, at } = what;
  if (!selection && !project && !ground) {
    const given = Object.entries({ cy, cx, ratio, angle, ...(array.masked ? { masked: "True" } : {}) }).map((pair) => pair.join("="));
    const made = `means=vfs.RadialMean(${given.join(", ")}), roi=roi`;
    return [...roi(array, `roi[${at.slice(0, array.nav).join(", ")}] = True`), `means = data.reduce(${made})["means"].selected[0]`];
  }
  return [
    ...frameLines(array, what),
    "y, x = np.nonzero(np.isfinite(frame))",
    `turn = np.deg2rad(${angle})`,
    `along = (x - ${bracketed(cx)}) * np.cos(turn) + (y - ${bracketed(cy)}) * np.sin(turn)`,
    `across = (y - ${bracketed(cy)}) * np.cos(turn) - (x - ${bracketed(cx)}) * np.sin(turn)`,
    `ring = np.sqrt((along / ${ratio}) ** 2 + across**2).astype(int)`,
    "means = np.bincount(ring, frame[y, x]) / np.bincount(ring)",
  ];
}

function frameLines(array, what) {
  const masked = array.masked ? ["frame = np.where(data.masked_pixels, np.nan, frame)"] : [];
  if (what.selection) return [...selectedLines(array, what), ...masked];
  if (what.project) return [...projectedLines(array, what), ...masked];
  if (what.ground) return [...cleanedLines(array, what), ...masked];
  return [...binned(what.bin), `frame = ${partOf(whole(array, what.at), what.part)}`, ...masked];
}

/** @returns {string[]} lines that make a pattern without its background. */
function cleanedLines(array, { at, bin, ground }) {
  const made = `frame=vfs.WithoutBackground(${argumentsOf(ground, text)}), roi=roi`;
  return [...roi(array, `roi[${at.slice(0, array.nav).join(", ")}] = True`), ...binned(bin), `frame = data.reduce(${made})["frame"].selected[0]`];
}

function binned(bin) {
  return bin > 1 ? [`# The page shows means of ${bin} × ${bin} of these pixels`] : [];
}

function partOf(values, part) {
  if (!part) return values;
  return part === "abs" || part === "phase" ? `np.${part === "abs" ? "abs" : "angle"}(${values})` : `${values}.${part}`;
}

/** @returns {string} the frame at indices of the axes that are not shown, with its axes in their order. */
function whole(array, at) {
  const index = indices(array, at);
  return coloured(array, `data[${index.join(", ") || "..."}]`);
}

/** @returns {string} the picture at indices of the axes that are not shown, of a whole frame. */
function shownOf(array, frame, at) {
  const index = indices(array, at).slice(array.nav);
  return coloured(array, index.length ? `${frame}[${index.join(", ")}]` : frame);
}

function indices({ shape, where }, at) {
  const index = shape.map((_, axis) => (where.includes(axis) ? at[where.indexOf(axis)] : ":"));
  while (index[index.length - 1] === ":") index.pop();
  return index;
}

/** @returns {string} values with their colours last. */
function coloured({ picture, colour }, values) {
  const last = picture[picture.length - 1];
  if (colour === null || colour > last) return values;
  return `np.moveaxis(${values}, ${picture.filter((axis) => axis < colour).length}, -1)`;
}

function selectedLines(array, { selection, how, within, at, order, blank, skipna }) {
  const reduction = `frame=vfs.${classOf(how)}(${skipna ? "skipna=True" : ""}), roi=roi`;
  const lines = [...chosen(array, selection, within)];
  if (how === "max" || how === "min" || !array.dtype.startsWith("float") || !order?.parts)
    return [...lines, `frame = ${shownOf(array, `data.reduce(${reduction})["frame"]${numbers(blank)}`, at)}`];
  return [
    ...lines,
    "# Sums of floats depend on their order: these are the parts and threads of the page",
    `*_, last = data.reduce_partial(${reduction}, parts=${order.parts}, workers=${order.workers})`,
    `frame = ${shownOf(array, `last["frame"]${numbers(blank)}`, at)}`,
  ];
}

/** @returns {string} the name of a reduction's class. */
function classOf(how) {
  return `${how[0].toUpperCase()}${how.slice(1)}`;
}

/** @returns {string[]} lines that make a projection of the frames that count: `box`, first and stop index along each axis of frames. */
function projectedLines(array, { project, box, at, blank, skipna }) {
  const { how, over } = project;
  const [cut, kept] = [[], []];
  box.forEach(([first, stop], axis) => {
    const along = array.dims[axis] in over;
    cut.push(along ? (over[array.dims[axis]] ? `${first}:${stop}` : ":") : first);
    if (!along) kept.push(first);
  });
  const named = Object.entries(over).map(([name, range]) => `${text(name)}: slice(${range ? range.join(", ") : "None"})`);
  const reduction = `frame=vfs.${classOf(how)}(over={${named.join(", ")}}${skipna ? ", skipna=True" : ""}), roi=roi`;
  const made = `data.reduce(${reduction})["frame"]${numbers(blank, kept.length ? `[${kept.join(", ")}]` : "")}`;
  return [...roi(array, `roi[${cut.join(", ")}] = True`), `frame = ${shownOf(array, made, at)}`];
}

/** @returns {string[]} lines that make the mask of a selection. */
function chosen(array, selection, within) {
  if (selection.kind === "rectangle") {
    const [y0, y1, x0, x1] = ["y0", "y1", "x0", "x1"].map((name) => Math.max(0, Math.ceil(selection[name])));
    const before = within.map((index) => `${index}, `).join("");
    return roi(array, `roi[${array.nav === 1 ? "" : `${before}${y0}:${y1}, `}${x0}:${x1}] = True`);
  }
  const place = within.length ? `roi[${within.join(", ")}]` : "roi[...]";
  if (selection.kind === "polygon") return roi(array, `${place} = ${toPython(selection)}.inside(data.shape[${array.nav - 2}:${array.nav}])`);
  const { cy, cx, r } = selection;
  const [height, width] = array.shape.slice(array.nav - 2, array.nav);
  return roi(
    array,
    `y, x = np.ogrid[:${height}, :${width}]`,
    `${place} = (y - ${bracketed(cy)}) ** 2 + (x - ${bracketed(cx)}) ** 2 < ${bracketed(r)} ** 2`,
  );
}

function bracketed(number) {
  return number < 0 ? `(${number})` : `${number}`;
}

function roi(array, ...lines) {
  return [`roi = np.zeros(data.shape[:${array.nav}], bool)`, ...lines];
}

function text(value) {
  return JSON.stringify(value); // also how Python writes it
}
