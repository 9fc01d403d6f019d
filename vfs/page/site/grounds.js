/**
 * Words for what is done with backscatter patterns: backgrounds that are taken away, and grids of detectors.
 */

/** Backgrounds that can be taken away: the name in the view -> arguments of the reduction. */
const ARGUMENTS = {
  "static-subtract": { static: "subtract" },
  "static-divide": { static: "divide" },
  "dynamic-subtract": { dynamic: "subtract" },
  "dynamic-divide": { dynamic: "divide" },
  "both-subtract": { static: "subtract", dynamic: "subtract" },
  "both-divide": { static: "divide", dynamic: "divide" },
};
/** How patterns are shown. The name in the view -> [words of a choice, words of a caption]. */
export const GROUNDS = {
  "": ["with background", ""],
  "static-subtract": ["− static", "static background subtracted"],
  "static-divide": ["÷ static", "divided by the static background"],
  "dynamic-subtract": ["− dynamic", "dynamic background subtracted"],
  "dynamic-divide": ["÷ dynamic", "divided by the dynamic background"],
  "both-subtract": ["− static − dynamic", "static, then dynamic background subtracted"],
  "both-divide": ["÷ static ÷ dynamic", "divided by the static, then the dynamic background"],
};
/** Rows and columns of the grids that are offered. */
export const GRIDS = [3, 5, 7, 10];

/** @returns {string} the arguments of `WithoutBackground` that a background stands for. @param {function(string): string} quoted writes a word. */
export function argumentsOf(ground, quoted = String) {
  return Object.entries(ARGUMENTS[ground]).map(([name, way]) => `${name}=${quoted(way)}`).join(", ");
}

/** @returns {number} rows and columns of a grid that a text says; 0: none. */
export function gridOf(text) {
  return GRIDS.includes(Number(text)) ? Number(text) : 0;
}
