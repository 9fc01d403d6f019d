/** The widget of `vfs.show`: the page in a frame. Its view travels to Python and back. */

const OWN = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Find where the page is from here: the kernel's machine is this one, or behind jupyter-server-proxy.
 *
 * @param {string} url where the kernel reaches it.
 * @returns {string}
 */
function reach(url) {
  const config = document.getElementById("jupyter-config-data");
  const base = config && JSON.parse(config.textContent).baseUrl;
  if (OWN.includes(location.hostname) || !base) return url;
  const { port, pathname } = new URL(url);
  return `${location.origin}${base}proxy/${port}${pathname}`;
}

function render({ model, el }) {
  const address = reach(model.get("url"));
  const frame = document.createElement("iframe");
  frame.src = `${address}#${model.get("view")}`;
  frame.title = "vfs";
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; box-sizing: border-box; border: 1px solid #8888; border-radius: 4px`;
  let open = false; // the page has said what it shows, so it listens
  const early = [];
  const ask = (want) =>
    open ? frame.contentWindow.postMessage({ vfs: 1, want }, new URL(address).origin) : early.push(want);
  const heard = ({ source, data }) => {
    if (source !== frame.contentWindow || data?.vfs !== 1) return;
    model.set({ view: data.view, detector: data.detector });
    model.save_changes();
    open = true;
    early.splice(0).forEach(ask);
  };
  window.addEventListener("message", heard);
  model.on("msg:custom", ask);
  const link = document.createElement("a");
  Object.assign(link, { href: address, target: "_blank", rel: "noreferrer", textContent: "open in a tab" });
  link.style.fontSize = "small";
  el.append(frame, link);
  return () => {
    window.removeEventListener("message", heard);
    model.off("msg:custom", ask);
  };
}

export default { render };
