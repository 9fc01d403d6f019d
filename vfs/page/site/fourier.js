/**
 * Fourier transforms of pictures of any size (Bluestein's algorithm where a side is no power of two), float64.
 */

/** Transform in place; sizes are powers of two. `sign`: -1 forwards, 1 backwards, without a factor. */
function radix2(re, im, sign) {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i >= j) continue;
    [re[i], re[j]] = [re[j], re[i]];
    [im[i], im[j]] = [im[j], im[i]];
  }
  for (let size = 2; size <= n; size *= 2) {
    const half = size / 2;
    for (let k = 0; k < half; k++) {
      const [c, s] = [Math.cos((2 * Math.PI * k) / size), sign * Math.sin((2 * Math.PI * k) / size)];
      for (let i = k; i < n; i += size) {
        const [a, b] = [re[i + half] * c - im[i + half] * s, re[i + half] * s + im[i + half] * c];
        re[i + half] = re[i] - a;
        im[i + half] = im[i] - b;
        re[i] += a;
        im[i] += b;
      }
    }
  }
}

/** @returns {function(Float64Array, Float64Array)} transforms lines of n numbers in place. */
function lines(n, sign) {
  if ((n & (n - 1)) === 0) return (re, im) => radix2(re, im, sign);
  const m = 2 ** Math.ceil(Math.log2(2 * n - 1));
  const chirp = Array.from({ length: n }, (_, k) => (sign * Math.PI * ((k * k) % (2 * n))) / n);
  const [c, s] = [Float64Array.from(chirp, Math.cos), Float64Array.from(chirp, Math.sin)];
  const [fr, fi] = [new Float64Array(m), new Float64Array(m)];
  for (let k = 0; k < n; k++) {
    fr[k] = fr[(m - k) % m] = c[k];
    fi[k] = fi[(m - k) % m] = -s[k];
  }
  radix2(fr, fi, -1);
  return (re, im) => {
    const [ar, ai] = [new Float64Array(m), new Float64Array(m)];
    for (let k = 0; k < n; k++) {
      ar[k] = re[k] * c[k] - im[k] * s[k];
      ai[k] = re[k] * s[k] + im[k] * c[k];
    }
    radix2(ar, ai, -1);
    for (let k = 0; k < m; k++) [ar[k], ai[k]] = [ar[k] * fr[k] - ai[k] * fi[k], ar[k] * fi[k] + ai[k] * fr[k]];
    radix2(ar, ai, 1);
    for (let k = 0; k < n; k++) {
      re[k] = (ar[k] * c[k] - ai[k] * s[k]) / m;
      im[k] = (ar[k] * s[k] + ai[k] * c[k]) / m;
    }
  };
}

/**
 * Transform a picture in place.
 *
 * @param {Float64Array} re float64[height * width] @param {Float64Array} im the same.
 * @param {number} sign -1 forwards, 1 backwards; neither has a factor.
 */
export function transform(re, im, height, width, sign) {
  const along = lines(width, sign);
  for (let y = 0; y < height; y++) along(re.subarray(y * width, (y + 1) * width), im.subarray(y * width, (y + 1) * width));
  const down = lines(height, sign);
  const [r, i] = [new Float64Array(height), new Float64Array(height)];
  for (let x = 0; x < width; x++) {
    for (let y = 0; y < height; y++) [r[y], i[y]] = [re[y * width + x], im[y * width + x]];
    down(r, i);
    for (let y = 0; y < height; y++) [re[y * width + x], im[y * width + x]] = [r[y], i[y]];
  }
}
