/**
 * Toolbars below the pictures. They show a viewer's state and call its methods; they keep nothing themselves.
 */

import { alone } from "./api.js";
import { channelTools, spectrumTools } from "./channels.js";
import { fromText, toText } from "./detectors.js";
import { button, el, select, sheet, short } from "./dom.js";
import { openFigure } from "./figuredialog.js";
import { ARRANGED } from "./maps.js";
import { layerTools } from "./mixing.js";
import { PROJECTIONS } from "./projecting.js";
import { radiiTools } from "./radii.js";
import { takeAddress, takeCommand, takeHyperspy, takeNumbers, takePage, takePicture, takeServing, takeSnippet, takeTiff } from "./taking.js";
import { curvesOf, takeLines, takeMsa } from "./takespectra.js";
import { SIDES } from "./wheel.js";

const DETECTORS = {
  point: "Point detector",
  disk: "Disk detector",
  ring: "Ring detector",
  rectangle: "Rectangle detector",
  polygon: "Polygon detector: drag its corners; an edge gets a new one, a corner on another goes away",
  whole: "All of the frame",
  com: "Centre of mass",
  radial: "Radial mean: between two rings or ellipses",
};
const WINDOWS = { point: "One channel", rectangle: "Window of channels", whole: "All of the spectrum" }; // of lines
const SELECTIONS = { point: "Position: its frame", rectangle: "Rectangle of positions", disk: "Disk of positions", polygon: "Polygon of positions", whole: "All positions" };
const PRESETS = {
  BF: "BF: bright field",
  ABF: "ABF: annular bright field",
  ADF: "ADF: annular dark field",
  HAADF: "HAADF: high-angle annular dark field",
};
const PARTS = [
  ["abs", "magnitude"],
  ["phase", "phase"],
  ["real", "real"],
  ["imag", "imaginary"],
];

/** A field in which a shape is shown and typed. */
function shapeField(label, kinds, typed, read = fromText) {
  const input = el("input.shape", {
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    "aria-label": label,
    title: label,
  });
  input.addEventListener("change", () => {
    try {
      typed(read(input.value, kinds));
      input.setCustomValidity("");
    } catch (error) {
      input.setCustomValidity(error.message);
      input.reportValidity();
    }
  });
  input.addEventListener("input", () => input.setCustomValidity(""));
  return input;
}

/** A row of buttons of which one is pressed. */
function group(label, words, pressed, face) {
  const buttons = Object.entries(words).map(([key, word]) => [
    key,
    button(word, face(key), () => pressed(key), { "aria-pressed": "false" }),
  ]);
  const element = el("div.group", { role: "group", "aria-label": label }, ...buttons.map(([, made]) => made));
  return {
    element,
    /** Offer the buttons that have one of these words. */
    offer: (some) => {
      for (const [key, made] of buttons) {
        made.hidden = !(key in some);
        for (const name of ["aria-label", "title"]) made.setAttribute(name, some[key] ?? words[key]);
      }
    },
    mark: (on) => buttons.forEach(([key, made]) => made.setAttribute("aria-pressed", String(key === on))),
  };
}

/**
 * Make the toolbar of the frame.
 *
 * @param {Viewer} viewer
 * @returns {{update: function()}} shows the state again.
 */
export function frameTools(viewer) {
  const panel = viewer.frame;
  const tools = group(
    "Detector",
    DETECTORS,
    (kind) => viewer.detecting.pick(kind),
    (kind) => kind,
  );
  const presets = group(
    "Usual detectors",
    PRESETS,
    (name) => viewer.detecting.preset(name),
    (name) => name,
  );
  presets.element.classList.add("presets");
  const field = shapeField("Detector", Object.keys(DETECTORS), (shape) => {
    if (!viewer.detecting.possible(shape)) throw new Error(`“${field.value}”: a line has no such detector`);
    viewer.detecting.armed = null;
    viewer.detecting.set(shape);
  }, (text, kinds) => viewer.showing.windowOf(text) || (viewer.curves && /^\s*all\s*$/i.test(text) ? { kind: "whole" } : fromText(text, kinds)));
  const part = select("Part of the complex numbers", PARTS, "abs", (value) => viewer.setPart(value));
  const radii = radiiTools(viewer);
  const channels = channelTools(viewer);
  const spectrum = spectrumTools(viewer);
  const layers = layerTools(viewer);
  const nan = button("Sums and projections leave NaN out", "skip NaN", () => viewer.skipNan(!viewer.view.skipna), { class: "word", "aria-pressed": "false" });
  const own = el("div.own", {}, channels.element, tools.element, presets.element, el("div.typed", {}, field, radii.element), channels.background, viewer.backscatter.element);
  panel.tools.replaceChildren(el("div.rows", {}, own, spectrum.element, layers.element), nan, part, common(viewer, panel));
  return {
    update() {
      own.hidden = !viewer.detects;
      channels.update();
      layers.update();
      radii.update();
      viewer.measuring.radial.follow();
      spectrum.update();
      viewer.backscatter.update();
      if (panel.planesButton) {
        panel.planesButton.hidden = viewer.orthogonal.place < 0;
        panel.planesButton.setAttribute("aria-pressed", String(viewer.orthogonal.on));
      }
      presets.element.hidden = !viewer.patterns;
      tools.offer(viewer.curves ? WINDOWS : DETECTORS);
      nan.hidden = !viewer.mayHaveNan;
      nan.setAttribute("aria-pressed", String(viewer.view.skipna));
      part.hidden = !viewer.complex;
      part.value = viewer.view.part;
      const { shape: detector, presets: usual, armed } = viewer.detecting;
      const all = viewer.curves && detector?.kind === "whole" ? "all" : "";
      const words = detector && (viewer.showing.window(detector) || all || toText(detector));
      if (document.activeElement !== field) field.value = words || "";
      field.title = `Detector: ${field.value}`;
      tools.mark(armed || detector?.kind);
      const text = detector && toText(detector);
      presets.mark(Object.keys(PRESETS).find((name) => usual && toText(usual[name]) === text));
    },
  };
}

/**
 * Make the toolbar of the scan.
 *
 * @param {Viewer} viewer
 * @returns {{update: function()}} shows the state again.
 */
export function scanTools(viewer) {
  const panel = viewer.scan;
  const tools = group(
    "Selection",
    SELECTIONS,
    (kind) => viewer.selecting.pick(kind),
    (kind) => kind,
  );
  const how = select("Frames of the selection", Object.entries(PROJECTIONS), "mean", (value) => viewer.selecting.how(value));
  const side = select("Centre of mass", Object.entries(SIDES), "wheel", (value) => viewer.setSide(value));
  const turn = el("input.turn", {
    type: "number",
    step: "any",
    "aria-label": "Scan turned against frames, degrees",
    title: "Scan turned against frames, degrees; empty: of a potential the one with the least curl",
    onchange: () => viewer.setTurn(Number.isFinite(turn.valueAsNumber) ? turn.valueAsNumber % 360 : null),
  });
  const field = shapeField("Selection", ["point", "rectangle", "disk", "polygon"], (shape) => {
    if (viewer.complex && shape.kind !== "point") throw new Error("expected point(y, x): of complex numbers one frame");
    viewer.selecting.set(shape);
  });
  const arranged = select("Several detectors", Object.entries(ARRANGED), "tiles", (value) => viewer.arrange(value));
  panel.tools.replaceChildren(el("div.own", {}, tools.element, field, how, side, turn, arranged), common(viewer, panel));
  return {
    update() {
      const { selection } = viewer.view;
      tools.element.hidden = viewer.complex; // of which there are neither means nor maxima
      for (const k of [2, 3]) tools.element.children[k].hidden = viewer.images?.axes === 1;
      tools.mark(viewer.selecting.whole ? "whole" : viewer.selecting.kind);
      field.hidden = viewer.images?.axes === 1;
      how.hidden = !selection;
      how.value = viewer.view.how;
      arranged.hidden = viewer.detecting.channels.length < 2 || viewer.images?.axes === 1;
      arranged.value = viewer.arranged;
      side.hidden = viewer.detecting.shape?.kind !== "com";
      side.value = viewer.view.side;
      turn.hidden = side.hidden || viewer.images?.axes === 1;
      if (document.activeElement !== turn) turn.value = viewer.view.turn ?? "";
      turn.placeholder = `${short(viewer.showing.degrees || 0)}°`;
      const at = viewer.position();
      if (document.activeElement !== field)
        field.value = selection ? toText(selection) : at ? `point(${at.join(", ")})` : "";
    },
  };
}

function common(viewer, panel) {
  const { title } = panel;
  const profile = button(`${title}: line profile`, "profile", () => viewer.measuring.toggleProfile(panel), {
    "aria-pressed": "false",
    class: "profile-button",
  });
  panel.profileButton = profile;
  const region = button(`${title}: measure a region`, "region", () => viewer.measuring.toggleRegion(panel), {
    "aria-pressed": "false",
    class: "profile-button",
  });
  panel.regionButton = region;
  const chosen = (what) => () => {
    menu.open = false;
    menu.firstElementChild.focus(); // where a dialog gives the focus back to
    what();
  };
  const item = (word, what) => el("button.item", { type: "button", onclick: chosen(what) }, word);
  const sums = () => panel.id === "scan" && !alone && !viewer.complex;
  const reduces = () => sums() || (panel.id === "frame" && viewer.projecting.on);
  const menu = sheet(`${title}: take away`, "take", () => [
    item("Figure with bars and caption …", () => openFigure(viewer, panel)),
    item("Picture (PNG)", () => takePicture(viewer, panel)),
    item("Numbers (.npy)", () => takeNumbers(viewer, panel)),
    panel.kind === "plot" ? item("All lines (CSV)", () => takeLines(viewer, panel)) : null,
    ...(alone ? [] : curvesOf(viewer, panel)).map((one, k) => item(k ? `${one.name} (EMSA .msa)` : "Spectrum (EMSA .msa)", () => takeMsa(viewer, panel, one))),
    panel.shown.shape.length === 2 ? item("Image with its scale (TIFF)", () => takeTiff(viewer, panel)) : null,
    alone || panel.shown.shape.length > 2 ? null : item("Signal of HyperSpy (.hspy)", () => takeHyperspy(viewer, panel)),
    item("Python that makes it", () => takeSnippet(viewer, panel)),
    alone ? null : item("Address of the zarr array", () => takeAddress(viewer)),
    sums() ? item("Python that serves it as zarr", () => takeServing(viewer)) : null,
    sums() && viewer.array.nav === 2 ? item("Page for a mail (HTML)", () => takePage(viewer)) : null,
    reduces() ? item("Command that reduces all to a file", () => takeCommand(viewer)) : null,
  ]);
  const across = button("Orthogonal views of the stack", "planes", () => viewer.orthogonal.toggle(), { "aria-pressed": "false" });
  if (panel.id === "frame" && !alone) panel.planesButton = across;
  return el("div.common", {}, panel.planesButton ? across : null, profile, region, panel.sheet, menu);
}
