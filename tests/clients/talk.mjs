// Runs a client in JavaScript: node talk.mjs CLIENT.mjs node|chromium [MODULE ...]
//
// Each line of stdin, [NAME, [ARGUMENT, ...]], calls a function that the client exports; a line of
// stdout has {"value": ...} or {"error": text}. Packages are those of the working directory. In Chromium,
// the client is a page of another origin than what it reads; MODULEs (workers) are bundled beside it.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(`${process.cwd()}/`);
const [client, where, ...more] = process.argv.slice(2);
const inBrowser = where === "chromium";
const noIcons = {
    name: "no icons",
    setup(build) {
        build.onResolve({ filter: /\.svg\?raw$/ }, ({ path }) => ({ path, namespace: "icon" }));
        build.onLoad({ filter: /./, namespace: "icon" }, () => ({ contents: "<svg></svg>", loader: "text" }));
    },
};
const { outputFiles } = await require("esbuild").build({
    entryPoints: [{ in: client, out: "client" }, ...more.map((path) => ({ in: path, out: basename(path, ".js") }))],
    outdir: "/",
    write: false,
    bundle: true,
    format: "esm",
    platform: inBrowser ? "browser" : "node",
    external: inBrowser ? ["@zarrita/storage/fs"] : [],
    nodePaths: [`${process.cwd()}/node_modules`],
    plugins: [noIcons],
    logLevel: "error",
});

async function inNode() {
    const file = Buffer.from(outputFiles[0].contents).toString("base64");
    const module = await import(`data:text/javascript;base64,${file}`);
    return [(name, args) => module[name](...args), `Node ${process.versions.node}`, () => {}];
}

async function inPage() {
    const files = new Map(outputFiles.map((file) => [file.path, file.contents]));
    files.set(
        "/",
        '<!doctype html><link rel="icon" href="data:,"><link rel="stylesheet" href="client.css"><body>' +
            '<script type="module">import * as client from "/client.js"; window.client = client;</script>',
    );
    const kinds = { css: "text/css", js: "text/javascript" };
    const server = createServer((request, response) => {
        const found = files.get(request.url);
        const kind = kinds[request.url.split(".").pop()] ?? "text/html";
        response.writeHead(found === undefined ? 404 : 200, { "content-type": kind }).end(found);
    });
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const browser = await require("playwright-core").chromium.launch({
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: [
            "--no-sandbox", // root has no other
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-unsafe-swiftshader", // WebGL without a graphics card
            "--use-angle=swiftshader",
        ],
    });
    const page = await browser.newPage({ viewport: { width: 400, height: 300 } });
    page.on("console", (message) => console.error(message.text()));
    page.on("pageerror", (error) => console.error(error));
    await page.goto(`http://localhost:${server.address().port}/`);
    await page.waitForFunction(() => window.client !== undefined);
    const call = (name, args) => page.evaluate(([name, args]) => window.client[name](...args), [name, args]);
    return [
        call,
        `Chromium ${browser.version()}`,
        async () => {
            await browser.close();
            server.close();
        },
    ];
}

const [call, about, end] = await (inBrowser ? inPage() : inNode());
for await (const line of createInterface({ input: process.stdin })) {
    const [name, args] = JSON.parse(line);
    let answer;
    try {
        answer = { value: name === "about" ? about : await call(name, args) };
    } catch (error) {
        answer = { error: `${error}` };
    }
    console.log(JSON.stringify(answer));
}
await end();
