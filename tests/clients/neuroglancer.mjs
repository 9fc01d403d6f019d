// neuroglancer, for talk.mjs in a browser: elements are what the pixels of its canvas show.
import "neuroglancer";
import { makeMinimalViewer } from "neuroglancer/unstable/ui/minimal_viewer.js";
import "neuroglancer/unstable/ui/default_viewer.css";

const PIXELS = 4; // for an element, in each direction
let patience = 8000; // ms, in which all that can be shown is shown
const SHADER = `void main() {
    uint v = toRaw(getDataValue());
    emitRGB(vec3(float(v & 255u), float(v >> 8u), 0.0) / 255.0);
}`;
let viewer;

const moment = () => new Promise((done) => setTimeout(done, 20));

async function eventually(true_) {
    const end = performance.now() + patience;
    while (!true_() && performance.now() < end) await moment();
    return true_();
}

export async function open(face, path) {
    document.body.innerHTML = '<div id="all" style="width: 400px; height: 300px"></div>';
    viewer = makeMinimalViewer({ target: document.getElementById("all") });
    const format = face.endsWith(".v2.zarr") ? "zarr2" : "zarr3";
    viewer.state.restoreState({
        layers: [{ type: "image", name: "data", source: `${format}://${face}/${path}`, shader: SHADER, opacity: 1 }],
        layout: "xy",
        showAxisLines: false,
        showScaleBar: false,
        crossSectionBackgroundColor: "#0000ff", // no element is blue: what is, was not drawn
    });
    const space = () => viewer.coordinateSpace.value;
    const layer = viewer.layerManager.managedLayers[0].layer;
    const failed = () => layer.dataSources[0].loadState?.error;
    await eventually(() => failed() || (space().valid && space().rank > 0));
    if (failed() || !space().rank) throw new Error(failed() ?? "nothing was opened");
    const { names, bounds } = space();
    viewer.displayDimensions.restoreState(names.slice(-2).reverse());
    viewer.crossSectionScale.restoreState(1 / PIXELS);
    return { shape: Array.from(bounds.upperBounds), dtype: "uint16", dims: names };
}

// The elements [first y, first x] to [last y, last x] of the image at `place`, two bytes each.
async function image(place, [top, left], [bottom, right]) {
    const middle = [(top + bottom) >> 1, (left + right) >> 1];
    viewer.position.value = Float32Array.from([...place.map((i) => i + 0.5), ...middle]);
    await moment();
    await eventually(() => viewer.isReady());
    const panel = document.querySelector(".neuroglancer-rendered-data-panel").getBoundingClientRect();
    viewer.display.draw();
    const gl = viewer.display.gl;
    const { width, height } = gl.canvas;
    const pixels = new Uint8Array(4 * width * height);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
    const center = [panel.y + panel.height / 2, panel.x + panel.width / 2];
    const found = [];
    for (let y = top; y < bottom; y++) {
        for (let x = left; x < right; x++) {
            const row = height - 1 - Math.floor(center[0] + (y - middle[0] + 0.5) * PIXELS);
            const column = Math.floor(center[1] + (x - middle[1] + 0.5) * PIXELS);
            const [low, high, blue] = pixels.subarray(4 * (row * width + column));
            if (blue) {
                patience = 1000; // what fails goes on failing
                throw new Error(`${[...place, y, x]} was not drawn`);
            }
            found.push(low, high);
        }
    }
    return found;
}

export async function get(starts, stops) {
    let places = [[]];
    starts.slice(0, -2).forEach((start, axis) => {
        const along = Array.from({ length: stops[axis] - start }, (_, i) => start + i);
        places = places.flatMap((place) => along.map((i) => [...place, i]));
    });
    const found = [];
    for (const place of places) found.push(...(await image(place, starts.slice(-2), stops.slice(-2))));
    return found;
}
