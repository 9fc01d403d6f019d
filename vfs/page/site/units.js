/**
 * Lengths, times and energies in the unit that people would write them in: 1 nm, not 0.001 µm or 1e-9 m.
 *
 * The server spells units as `vfs.model.units` does: um, 1/nm, angstrom.
 */

const PREFIXES = { p: -12, n: -9, u: -6, m: -3, "": 0 }; // in which lengths are shown
const POWERS = { f: -15, ...PREFIXES, c: -2, k: 3 };
const ATOMS = 1e-11; // m: from here lengths are written in nm and not in pm,
const ANGSTROM = 1e-8; // m: and to here in Å where the file has these
const CRYSTALS = [7, 13]; // powers of ten of 1/m: patterns of crystals are in 1/nm, 0.2 1/nm and not 200 1/µm
const ANGLES = { urad: 1e-3, mrad: 1, rad: 1e3 }; // in mrad, in which those below 1 rad are shown
/** Units of which the last is taken that a size reaches: name, value of one, least size; those of a ladder in one unit. */
const LADDERS = [
  [["ns", 1e-9, 1e-9], ["us", 1e-6, 1e-6], ["ms", 1e-3, 1e-3], ["s", 1, 1]],
  [["meV", 1e-3, 1e-3], ["eV", 1, 1], ["keV", 1e3, 1e4]], // energy losses of 1500 eV, X-rays of 20 keV
];
const OTHERS = { angstrom: -10, inch: Math.log10(0.0254) };

/** @param {string} unit @returns {string} as people write it: µm, Å. */
export function symbol(unit) {
  return (unit || "").replace(/^(1\/)?u(?=m$|s$|rad$|eV$)/, "$1µ").replace("angstrom", "Å");
}

/**
 * Choose the unit for numbers of about some size.
 *
 * @param {number} size in the unit.
 * @param {string} unit as the server gives it.
 * @returns {{factor: number, unit: string}} multiply by `factor` to have numbers of `unit`. Units that are neither
 *   angles, times, energies nor lengths nor one over lengths stay what they are.
 */
export function fitting(size, unit) {
  if (unit in ANGLES && Math.abs(size) * ANGLES[unit] < ANGLES.rad) return { factor: ANGLES[unit], unit: "mrad" };
  for (const ladder of LADDERS) {
    const own = ladder.find(([name]) => name === unit);
    const reached = own && ladder.findLast(([, , least]) => Math.abs(size) * own[1] >= least * (1 - 1e-9));
    if (reached) return { factor: own[1] / reached[1], unit: symbol(reached[0]) };
  }
  const { inverse, exponent } = parsed(unit);
  if (exponent === undefined) return { factor: 1, unit: symbol(unit) };
  const sign = inverse ? -1 : 1;
  const metres = Math.log10(Math.abs(size) || 1) + sign * exponent; // of the size, or of one over it
  if (inverse && metres >= CRYSTALS[0] && metres < CRYSTALS[1]) return { factor: 10 ** -(exponent + 9), unit: "1/nm" };
  const long = 10 ** metres;
  if (!inverse && unit === "angstrom" && long >= ATOMS && long < ANGSTROM) return { factor: 1, unit: symbol(unit) };
  if (!inverse && long >= ATOMS && long < 1e-9) return { factor: 10 ** (exponent + 9), unit: "nm" };
  const beyond = ([, power]) => Math.max(-1e-9 - (metres - sign * power), metres - sign * power - 3 + 1e-9, 0);
  const [prefix, power] = Object.entries(PREFIXES).reduce((best, one) => (beyond(one) < beyond(best) ? one : best));
  return { factor: 10 ** (sign * (exponent - power)), unit: symbol(`${inverse ? "1/" : ""}${prefix}m`) };
}

/**
 * Find what numbers in a unit that somebody typed are in another one.
 *
 * @param {string} typed eV, keV, nm, …; "" for `unit` itself. @param {string} unit as people write it.
 * @returns {?number} the factor; null: the one cannot be turned into the other.
 */
export function factorBetween(typed, unit) {
  const plain = (text) => symbol(text).toLowerCase();
  if (!typed || plain(typed) === plain(unit)) return 1;
  for (const ladder of LADDERS) {
    const [from, to] = [typed, unit].map((name) => ladder.find(([one]) => plain(one) === plain(name)));
    if (from && to) return from[1] / to[1];
  }
  const [from, to] = [typed, unit].map((name) => parsed(name.replace("µ", "u")));
  if (from.exponent === undefined || to.exponent === undefined || from.inverse !== to.inverse) return null;
  return 10 ** ((from.inverse ? -1 : 1) * (from.exponent - to.exponent));
}

/** Read a unit of length, or of one over a length. */
function parsed(unit) {
  const [, over, plain] = /^(1\/)?(.*)$/.exec(unit || "");
  const prefix = /^([fpnumck]?)m$/.exec(plain)?.[1];
  return { inverse: Boolean(over), exponent: prefix === undefined ? OTHERS[plain] : POWERS[prefix] };
}
