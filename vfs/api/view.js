/** The widget of `vfs.show`: the page in a frame. Its view travels to Python and back. `reach` stands before it. */

const NOWHERE =
  "vfs: this browser does not reach the page. Either its kernel has ended: run the cell again. Or the kernel runs on " +
  "another machine: install jupyter-server-proxy beside JupyterLab there (pip install jupyter-server-proxy), and start " +
  "JupyterLab again. a.plot() and a.reduce(…) show pictures without it.";

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
  const heard = (event) => {
    if (event.source !== frame.contentWindow || event.data?.vfs !== 1) return;
    model.set("view", event.data.view);
    model.set("detector", event.data.detector);
    model.save_changes();
    origin = event.origin;
    early.splice(0).forEach(ask);
  };
  window.addEventListener("message", heard);
  model.on("msg:custom", ask);
  el.append(frame, link);
  reach(model.get("url")).then((address) => {
    if (!address) return el.replaceChildren(NOWHERE);
    frame.src = `${address}#${model.get("view")}`;
    link.href = address;
  });
  return () => {
    window.removeEventListener("message", heard);
    model.off("msg:custom", ask);
  };
}

export default { render };
