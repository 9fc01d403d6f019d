/**
 * The dialog of figures: what is in one, how large it is, and how it is saved.
 */

import { recipe } from "./api.js";
import { button, el } from "./dom.js";
import * as figures from "./figure.js";
import { dialog, nameOf, save } from "./take.js";

const PARTS = {
  caption: "caption",
  marks: "cross, detectors, marks",
  bar: "scale bar",
  names: "names in the picture",
  colours: "colour bar",
};
const PREVIEW = 300; // CSS pixels of the longer side
const how = { caption: true, marks: true, bar: true, names: true, colours: true, length: "", wide: NaN, dpi: 300 }; // as it was chosen last

/** Open the dialog for what a panel shows. */
export async function openFigure(viewer, panel) {
  try {
    if (!panel.view?.numbers) return;
    const { version } = await recipe(viewer.set.key);
    show(viewer, panel, version);
  } catch (error) {
    viewer.failed(error);
  }
}

function show(viewer, panel, version) {
  const preview = el("canvas.figure-preview", { "aria-hidden": "true" });
  const said = el("span.said", { role: "status" });
  const made = () => figures.figure(viewer, panel, version, how);
  const draw = () => {
    const { width, height, draw: paint } = made();
    const scale = (PREVIEW / Math.max(width, height)) * devicePixelRatio;
    Object.assign(preview, { width: Math.round(width * scale), height: Math.round(height * scale) });
    preview.style.width = `${Math.round(preview.width / devicePixelRatio)}px`;
    const context = preview.getContext("2d");
    context.scale(scale, scale);
    paint(context);
    const [x, y] = figures.pixelsOf({ width, height }, how);
    said.textContent = `PNG: ${x} × ${y} pixels`;
  };
  const check = (name) =>
    el("label.check", {}, el("input", { type: "checkbox", checked: how[name], onchange: (event) => ((how[name] = event.target.checked), draw()) }), PARTS[name]);
  const field = (label, name, hint, read) => {
    const input = el("input", { type: name === "length" ? "text" : "number", min: 1, step: "any", placeholder: hint, "aria-label": label, onchange: () => ((how[name] = read(input)), draw()) });
    input.value = Number.isNaN(how[name]) ? "" : how[name];
    return el("label.check", {}, label, input);
  };
  const positive = (input) => (input.valueAsNumber > 0 ? input.valueAsNumber : NaN);
  const take = (kind) => async () => save(await figures[kind](made(), how), `${nameOf(viewer, panel)}_figure.${kind}`);
  dialog(
    `Figure of the ${panel.heading.textContent.toLowerCase()}`,
    el(
      "div.figure-parts",
      {},
      preview,
      el(
        "div.figure-fields",
        {},
        ...Object.keys(PARTS).map(check),
        field("length of the scale bar", "length", "as it fits: 20 nm", (input) => input.value),
        field("width, mm", "wide", "as on the screen", positive),
        field("dpi", "dpi", "300", (input) => positive(input) || 300),
        said,
      ),
    ),
    el("div.row", {}, ...["png", "svg"].map((kind) => button(`Save the figure as ${kind.toUpperCase()}`, kind.toUpperCase(), take(kind), { class: "word" }))),
  );
  draw();
}
