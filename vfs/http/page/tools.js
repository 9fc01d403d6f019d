/**
 * Toolbars below the pictures. They show a viewer's state and call its methods; they keep nothing themselves.
 */

import { fromText, toText } from "./detectors.js";
import { button, el, select, sheet } from "./dom.js";
import { takeAddress, takeNumbers, takePicture, takeServing, takeSnippet } from "./taking.js";
import { SIDES } from "./wheel.js";

const DETECTORS = {
  point: "Point detector",
  disk: "Disk detector",
  ring: "Ring detector",
  rectangle: "Rectangle detector",
  whole: "All of the frame",
  com: "Centre of mass",
};
const WINDOWS = { point: "One channel", rectangle: "Window of channels", whole: "All of the spectrum" }; // of lines
const SELECTIONS = { point: "Position: its frame", rectangle: "Rectangle of positions", disk: "Disk of positions" };
const PRESETS = {
  BF: "BF: bright field",
  ABF: "ABF: annular bright field",
  ADF: "ADF: annular dark field",
  HAADF: "HAADF: high-angle annular dark field",
};
const HOW = [
  ["mean", "mean"],
  ["sum", "sum"],
  ["max", "maximum"],
];
const PARTS = [
  ["abs", "magnitude"],
  ["phase", "phase"],
  ["real", "real"],
  ["imag", "imaginary"],
];

/** A field in which a shape is shown and typed. */
function shapeField(label, kinds, typed) {
  const input = el("input.shape", {
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    "aria-label": label,
    title: label,
  });
  input.addEventListener("change", () => {
    try {
      typed(fromText(input.value, kinds));
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
    viewer.detecting.set(shape);
  });
  const part = select("Part of the complex numbers", PARTS, "abs", (value) => viewer.setPart(value));
  const own = el("div.own", {}, tools.element, presets.element, field);
  panel.tools.replaceChildren(own, part, common(viewer, panel));
  return {
    update() {
      own.hidden = !viewer.detects;
      presets.element.hidden = !viewer.patterns;
      tools.offer(viewer.curves ? WINDOWS : DETECTORS);
      part.hidden = !viewer.complex;
      part.value = viewer.view.part;
      const { shape: detector, presets: usual, armed } = viewer.detecting;
      if (document.activeElement !== field) field.value = detector ? toText(detector) : "";
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
  const how = select("Frames of the selection", HOW, "mean", (value) => viewer.selecting.how(value));
  const side = select("Centre of mass", Object.entries(SIDES), "wheel", (value) => viewer.setSide(value));
  const field = shapeField("Selection", ["point", "rectangle", "disk"], (shape) => {
    if (viewer.complex && shape.kind !== "point") throw new Error("expected point(y, x): of complex numbers one frame");
    viewer.selecting.set(shape);
  });
  const more = common(viewer, panel);
  panel.tools.replaceChildren(el("div.own", {}, tools.element, field, how, side), more);
  const served = [...more.querySelectorAll(".item")].pop();
  return {
    update() {
      const { selection } = viewer.view;
      tools.element.hidden = viewer.complex; // of which there are neither means nor maxima
      served.hidden = viewer.complex;
      tools.element.children[2].hidden = viewer.images?.axes === 1;
      tools.mark(viewer.selecting.kind);
      field.hidden = viewer.images?.axes === 1;
      how.hidden = !selection;
      how.value = viewer.view.how;
      side.hidden = viewer.detecting.shape?.kind !== "com";
      side.value = viewer.view.side;
      const at = viewer.position();
      if (document.activeElement !== field)
        field.value = selection ? toText(selection) : at ? `point(${at.join(", ")})` : "";
    },
  };
}

function common(viewer, panel) {
  const { title } = panel;
  const profile = button(`${title}: line profile`, "profile", () => viewer.toggleProfile(panel), {
    "aria-pressed": "false",
    class: "profile-button",
  });
  panel.profileButton = profile;
  const chosen = (what) => () => {
    menu.open = false;
    what();
  };
  const item = (word, what) => el("button.item", { type: "button", onclick: chosen(what) }, word);
  const menu = sheet(
    `${title}: take away`,
    "take",
    item("Picture (PNG)", () => takePicture(viewer, panel)),
    item("Numbers (.npy)", () => takeNumbers(viewer, panel)),
    item("Python that makes it", () => takeSnippet(viewer, panel)),
    item("Address of the zarr array", () => takeAddress(viewer)),
    panel.id === "scan" ? item("Python that serves it as zarr", () => takeServing(viewer)) : null,
  );
  return el("div.common", {}, profile, panel.sheet, menu);
}
