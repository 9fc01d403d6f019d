/** The widget of `vfs.show`: the page in a frame. Its view travels to Python and back. `reach` stands before it. */

const NOWHERE =
  "vfs: this browser does not reach the page. Either its kernel has ended: run the cell again. Or the kernel runs on " +
  "another machine: install jupyter-server-proxy beside JupyterLab there (pip install jupyter-server-proxy), and start " +
  "JupyterLab again. a.plot() and a.reduce(…) show pictures without it.";

/** @returns {boolean} whether the notebook is dark: whether its text is light. */
function dark(el) {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(el).color;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  return red + green + blue > 384;
}

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "vfs";
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; box-sizing: border-box; border: 1px solid #8888; border-radius: 4px`;
  const link = document.createElement("a");
  Object.assign(link, { target: "_blank", rel: "noreferrer", textContent: "open in a tab" });
  link.style.fontSize = "small";
  let origin = ""; // of the page, once it has said what it shows, so that it listens
  const early = [];
  const ask = (want) => (origin ? frame.contentWindow.postMessage({ vfs: 1, want }, origin) : early.push(want));
  const wear = () => frame.contentWindow?.postMessage({ vfs: 1, want: { dark: dark(el) } }, "*");
  const heard = (event) => {
    if (event.source !== frame.contentWindow || event.data?.vfs !== 1) return;
    if (event.data.wheel) return turn(event.data.wheel);
    model.set("view", event.data.view);
    model.set("detector", event.data.detector);
    model.save_changes();
    origin = event.origin;
    early.splice(0).forEach(ask);
  };
  const turn = (wheel) => {
    // a browser scrolls what is around a frame; VS Code itself scrolls its notebook, when it hears of a wheel
    if (document.body.dataset.vscodeThemeKind) frame.dispatchEvent(new WheelEvent("wheel", { ...wheel, bubbles: true }));
  };
  window.addEventListener("message", heard);
  frame.addEventListener("load", wear);
  const themes = new MutationObserver(wear);
  for (const one of [document.documentElement, document.body]) themes.observe(one, { attributes: true });
  model.on("msg:custom", ask);
  const style = document.createElement("style");
  style.textContent = ".cell-output-ipywidget-background:has(.vfs) { background: none !important }"; // VS Code: white
  el.classList.add("vfs");
  el.append(frame, link, style);
  reach(model.get("url")).then((address) => {
    if (!address) return el.replaceChildren(NOWHERE, style);
    frame.src = `${address}#${model.get("view")}`;
    link.href = address;
  });
  return () => {
    themes.disconnect();
    window.removeEventListener("message", heard);
    model.off("msg:custom", ask);
  };
}

export default { render };
