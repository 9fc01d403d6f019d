/** The page's colours: light or dark as the system says, or as the page around this one is. */

const DARK = "(prefers-color-scheme: dark)";

let rule = null; // of the style sheet, with the dark colours

/**
 * Take light or dark colours, whatever the system says.
 *
 * @param {boolean} dark
 * @returns {boolean} whether that is a change.
 */
export function wear(dark) {
  const root = document.documentElement;
  const scheme = dark ? "dark" : "light";
  if (root.style.colorScheme === scheme) return false;
  rule ??= [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).find((one) => one.conditionText === DARK);
  rule.media.mediaText = dark ? "all" : "not all";
  root.style.colorScheme = scheme;
  return true;
}
