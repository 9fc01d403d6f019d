/**
 * Toolbars of several detectors, and of spectra. They show a viewer's state and call its methods.
 */

import { MODELS } from "./background.js";
import { MOST } from "./detecting.js";
import { toText } from "./detectors.js";
import { button, el, select } from "./dom.js";
import { KINDS } from "./spectra.js";

/**
 * Make the buttons that choose, add and leave out a detector, and the choice of the background of a window.
 *
 * @param {Viewer} viewer
 * @returns {{element: HTMLElement, background: HTMLElement, update: function()}}
 */
export function channelTools(viewer) {
  const { detecting } = viewer;
  const chips = Array.from({ length: MOST }, (_, k) =>
    button("", String(k + 1), () => detecting.choose(k), { "aria-pressed": "false", class: "chip" }),
  );
  const add = button("Another detector, beside this one", "add", () => detecting.add());
  const remove = button("Leave this detector out", "close", () => {
    detecting.remove();
    if (remove.hidden) add.focus(); // what is hidden loses the focus
  });
  const element = el("div.group.chips", { role: "group", "aria-label": "Detectors" }, ...chips, add, remove);
  const background = select("Background", Object.entries(MODELS), "", (model) => detecting.setModel(model));
  return {
    element,
    background,
    update() {
      const { channels, active, shape, fit } = detecting;
      const colours = viewer.colours();
      chips.forEach((chip, k) => {
        chip.hidden = k >= channels.length || channels.length < 2;
        chip.setAttribute("aria-pressed", String(k === active));
        if (chip.hidden) return;
        chip.style.setProperty("--own", colours[k]);
        const name = `Detector ${k + 1}: ${toText(channels[k].shape)}`;
        for (const where of ["aria-label", "title"]) chip.setAttribute(where, name);
      });
      add.disabled = channels.length >= MOST;
      remove.hidden = channels.length < 2;
      background.hidden = !viewer.curves || shape?.kind !== "rectangle";
      background.value = fit?.model ?? "";
    },
  };
}

/**
 * Make the tools of spectra: elements that are marked, and spectra that are kept.
 *
 * @param {Viewer} viewer
 * @returns {{element: HTMLElement, update: function()}}
 */
export function spectrumTools(viewer) {
  const { spectra } = viewer;
  const field = el("input.elements", {
    type: "text",
    placeholder: "Elements",
    "aria-label": "Elements to mark",
    title: "Elements to mark",
    spellcheck: "false",
    autocomplete: "off",
  });
  field.addEventListener("input", () => field.setCustomValidity(""));
  field.addEventListener("change", () => {
    try {
      spectra.mark(field.value);
    } catch (error) {
      field.setCustomValidity(error.message);
      field.reportValidity();
    }
  });
  const offered = button("Mark the elements that the file lists", "", () => spectra.mark(listed()), { class: "word" });
  const listed = () => viewer.array?.recorded?.elements ?? "";
  const kinds = select("Marks", Object.entries(KINDS), "edges", (kind) => spectra.setKind(kind));
  const windows = button("A window on each marked element, up to four", "Maps", () => spectra.windows(), { class: "word" });
  const keep = button("Keep this spectrum, to compare", "Keep", () => spectra.keep(), { class: "word" });
  const clear = button("Leave kept spectra out", "Clear", () => {
    spectra.clear();
    keep.focus();
  }, { class: "word" });
  const element = el("div.own", { role: "group", "aria-label": "Spectrum" }, field, offered, kinds, windows, keep, clear);
  return {
    element,
    update() {
      const plot = viewer.frame.kind === "plot";
      element.hidden = !plot;
      field.hidden = !spectra.unit;
      offered.hidden = !spectra.unit || !listed() || viewer.view.elements === listed();
      offered.textContent = listed();
      kinds.hidden = !spectra.unit || !viewer.view.elements;
      kinds.value = spectra.kind;
      windows.hidden = kinds.hidden || !viewer.detects;
      keep.hidden = !viewer.scanned;
      clear.hidden = !spectra.kept.length;
      if (document.activeElement !== field) field.value = viewer.view.elements;
    },
  };
}
