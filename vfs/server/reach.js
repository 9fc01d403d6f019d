/** Where a browser finds a server of vfs that runs on the machine of a notebook's kernel. */

const OWN = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Return where the server may be, the nearest first: on this machine, or behind jupyter-server-proxy or code-server,
 * which has such a proxy. A notebook under a name of this machine may be on another one, whose port is forwarded.
 */
function places(url) {
  const config = document.getElementById("jupyter-config-data");
  const frame = location.pathname.match(/^(.*\/)\w+-[0-9a-f]{40}\/static\//); // of code-server, around a cell's output
  const base = frame?.[1] ?? (config ? JSON.parse(config.textContent).baseUrl : document.body.dataset.baseUrl); // nbclassic
  const { port, pathname, hash } = new URL(url);
  const here = OWN.includes(location.hostname) || !location.protocol.startsWith("http"); // VS Code has its own
  return [...(here ? [url] : []), ...(base ? [`${location.origin}${base}proxy/${port}${pathname}${hash}`] : [])];
}

/**
 * Find the server from here.
 *
 * @param {string} url where the kernel reaches it, with its token.
 * @returns {Promise<string>} where the browser does; "" for nowhere.
 */
async function reach(url) {
  for (const place of places(url)) {
    if (!location.protocol.startsWith("http")) return place; // there a page may show what it may not ask for
    const answer = await fetch(place, { method: "HEAD" }).catch(() => null);
    if (answer?.ok && !answer.redirected) return place;
  }
  return "";
}
