/**
 * Finds the bright-field disk in a mean pattern: the brightest connected spot.
 */

const EDGE = 0.5; // of the brightest: where a disk ends

/**
 * Find centre and radius.
 *
 * @param {Float64Array} pattern float64[height * width]; NaN counts as dark.
 * @param {[number, number]} shape height and width.
 * @param {number} bin pixels of the whole frame in one of the pattern, along y and x.
 * @returns {{cy: number, cx: number, r: number}} pixels of the whole frame. Where all is dark or even: the middle.
 */
export function findDisk(pattern, [height, width], bin) {
  const smooth = smoothed(pattern, height, width);
  const brightest = smooth.reduce((a, b) => Math.max(a, b), -Infinity);
  const darkest = smooth.reduce((a, b) => Math.min(a, b), Infinity);
  const toWhole = (at) => (at + 0.5) * bin - 0.5;
  const middle = {
    cy: toWhole((height - 1) / 2),
    cx: toWhole((width - 1) / 2),
    r: (Math.min(height, width) * bin) / 8,
  };
  if (!(brightest > darkest)) return middle;
  const spot = brightestSpot(smooth, height, width, darkest + EDGE * (brightest - darkest));
  if (spot.count > 0.8 * smooth.length) return middle;
  return { cy: toWhole(spot.y), cx: toWhole(spot.x), r: Math.max(1, Math.sqrt(spot.count / Math.PI) * bin) };
}

/** Mean over 3 x 3 pixels, so that one hot pixel is not the brightest. */
function smoothed(pattern, height, width) {
  const across = new Float64Array(pattern.length);
  const both = new Float64Array(pattern.length);
  const at = (data, i) => (data[i] - data[i] === 0 ? data[i] : 0);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      across[i] = at(pattern, i - (x > 0)) + at(pattern, i) + at(pattern, i + (x < width - 1));
    }
  }
  for (let i = 0; i < both.length; i++) {
    both[i] = (across[i < width ? i : i - width] + across[i] + across[i + width < both.length ? i + width : i]) / 9;
  }
  return both;
}

/** @returns {{count: number, y: number, x: number}} pixels and centroid of the connected spot with the largest sum. */
function brightestSpot(data, height, width, threshold) {
  const seen = new Uint8Array(data.length);
  let best = { sum: -Infinity };
  for (let start = 0; start < data.length; start++) {
    if (seen[start] || data[start] < threshold) continue;
    const spot = { sum: 0, count: 0, y: 0, x: 0 };
    const open = [start];
    seen[start] = 1;
    while (open.length) {
      const i = open.pop();
      const [y, x] = [Math.floor(i / width), i % width];
      spot.sum += data[i];
      spot.count += 1;
      spot.y += y;
      spot.x += x;
      for (const [next, there] of [
        [i - 1, x > 0],
        [i + 1, x < width - 1],
        [i - width, y > 0],
        [i + width, y < height - 1],
      ]) {
        if (there && !seen[next] && data[next] >= threshold) {
          seen[next] = 1;
          open.push(next);
        }
      }
    }
    if (spot.sum > best.sum) best = spot;
  }
  return { count: best.count, y: best.y / best.count, x: best.x / best.count };
}
