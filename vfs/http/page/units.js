/**
 * Lengths in the unit that people would write them in: 1 nm, not 0.001 µm or 1e-9 meters.
 */

const PREFIXES = { p: -12, n: -9, µ: -6, m: -3, "": 0 };

/**
 * Choose the unit for lengths of about some size.
 *
 * @param {number} size in the unit.
 * @param {string} unit as a file gives it.
 * @returns {{factor: number, unit: string}} multiply by `factor` to have numbers of `unit`. Units that are neither
 *   lengths nor one over lengths stay what they are.
 */
export function fitting(size, unit) {
  const { inverse, exponent } = parsed(unit);
  if (exponent === null) return { factor: 1, unit };
  const sign = inverse ? -1 : 1;
  const metres = Math.log10(Math.abs(size) || 1) + sign * exponent; // of the size, or of one over it
  const possible = Object.entries(PREFIXES).filter(
    ([, power]) => metres - sign * power >= -1e-9 && metres - sign * power < 3,
  );
  const [prefix, power] = possible[0] || [
    Object.keys(PREFIXES).find((key) => PREFIXES[key] === exponent) ?? "",
    exponent,
  ];
  return { factor: 10 ** (sign * (exponent - power)), unit: `${inverse ? "1/" : ""}${prefix}m` };
}

/** Read a unit of length, or of one over a length. */
function parsed(unit) {
  const text = (unit || "").trim().replace(/[μu](?=m)/, "µ");
  const inverse = /^1\s*\/|\^?-1$/.test(text);
  const plain = text
    .replace(/^1\s*\//, "")
    .replace(/\^?-1$/, "")
    .trim();
  const symbol = plain.replace("nanom", "nm").replace("microm", "µm");
  const [, prefix] = /^(p|n|µ|m|)m(?:et(?:er|re)s?)?$/.exec(symbol) || [];
  return { inverse, exponent: prefix === undefined ? null : PREFIXES[prefix] };
}
