/**
 * The size of text, and of lines above pictures: as the window suggests, or as somebody chose it.
 */

const SIZES = [1, 1.25, 1.5, 2];
const KEPT = "vfs.text-size";
const root = document.documentElement;

/** @returns {number} how many times as large as usual. */
export function textSize() {
  return Number(getComputedStyle(root).getPropertyValue("--zoom")) || 1;
}

/** Take the next larger size; after the largest the smallest. */
export function nextSize() {
  const now = textSize();
  use(SIZES.find((size) => size > now) ?? SIZES[0]);
}

function use(size) {
  root.style.setProperty("--zoom", String(size));
  try {
    localStorage.setItem(KEPT, String(size));
  } catch {
    // a browser may keep nothing for this page: it holds until the page is left
  }
}

/** Use the size that was chosen before. */
export function remember() {
  try {
    const kept = Number(localStorage.getItem(KEPT));
    if (SIZES.includes(kept)) use(kept);
  } catch {
    // as above
  }
}
