/**
 * The power law A·E^-r through the sums over two halves of a window: the one definition, as the page and a page in a mail
 * compute it, and as the Python that the page gives does.
 *
 * The halves lie from e0 to e1 and from e1 to e2, the sums over them are a and b. With t = ln E and p = 1 - r the density is
 * exp(p·t), so that the logarithm of the ratio of both sums is, with q = |p| and the lengths u and v of the halves in t,
 *
 *     ln((1 - exp(-q·u)) / (1 - exp(-q·v))) - (p > 0 ? p·v : p·u)
 *
 * which falls with p and is convex. So each ratio has one p, which Newton's steps reach from the left of it without passing
 * it: they begin where the tangent at p = 0 has the ratio, which is closed where u = v. No sum is a power of an energy, so
 * that none is too large or too small on the way.
 *
 * There is no law, and NaN, where a sum or an energy is not above 0.
 */

const STEPS = 60; // most steps of Newton; of 100,000 random fits none needed more than 13
const NEAR = 1e-9; // a step so small, as a share of |p| + 1/u, is the last: what is left is its square
const FLAT = 1e-6; // p·u below which the slope is taken there: it is a difference of numbers that grow as 1/p
const TINY = 1e-300; // added to q, so that 0/0 is the limit that it has

/**
 * Find the power law through two sums.
 *
 * @param {number} a @param {number} b the sums. @param {number[]} edges e0, e1, e2: energies.
 * @returns {function(number, number): number} its sum from one energy to another one.
 */
export function powerLaw(a, b, [e0, e1, e2]) {
  if (!(a > 0 && b > 0 && e0 > 0)) return () => NaN;
  const [u, v] = [distance(e0, e1), distance(e1, e2)];
  const ratio = 2 * Math.log(Math.sqrt(a) / Math.sqrt(b)); // as a / b may be too large
  let p = (2 * (Math.log(u / v) - ratio)) / (u + v);
  for (let k = 0; k < STEPS; k++) {
    const q = Math.abs(p) + TINY;
    const off = Math.log(Math.expm1(-q * u) / Math.expm1(-q * v)) - p * (p > 0 ? v : u) - ratio;
    const flat = Math.max(q, FLAT / u);
    const bend = u / Math.expm1(flat * u) - v / Math.expm1(flat * v);
    const step = off / (p > 0 ? v - bend : u + bend);
    p += step;
    if (!(Math.abs(step) > NEAR * (Math.abs(p) + 1 / u))) break;
  }
  const q = Math.abs(p) + TINY;
  return (e3, e4) => {
    if (!(e3 > 0)) return NaN;
    const share = Math.expm1(-q * distance(e3, e4)) / Math.expm1(-q * u);
    const root = Math.exp((p / 4) * (p > 0 ? distance(e1, e4) : distance(e0, e3))); // its fourth power may be too large
    return a * root * root * share * root * root;
  };
}

/** The distance of two energies in t, exact also where they are almost equal. */
function distance(e0, e1) {
  return Math.log1p((e1 - e0) / e0);
}

/** The same in Python, line by line: for arrays a and b, and edges e0, e1, e2, e3, e4. */
export const POWER_LAW = `

def power_law(a, b, edges):
    """The sums of A * E**-r over edges[3:], where those over edges[:2] and edges[1:3] are a and b. NaN: there is no law."""
    with np.errstate(all="ignore"):
        ok = (a > 0) & (b > 0) & (min(edges) > 0)
        a, b = (np.where(ok, sums, np.nan).astype(float) for sums in (a, b))
        e0, e1, e2, e3, e4 = np.array(edges)
        u, v, w, up, down = (np.log1p((y - x) / x) for x, y in [(e0, e1), (e1, e2), (e3, e4), (e1, e4), (e0, e3)])
        ratio = 2 * np.log(np.sqrt(a) / np.sqrt(b))
        p = 2 * (np.log(u / v) - ratio) / (u + v)
        for _ in range(${STEPS}):
            q = np.abs(p) + ${TINY}
            off = np.log(np.expm1(-q * u) / np.expm1(-q * v)) - p * np.where(p > 0, v, u) - ratio
            flat = np.maximum(q, ${FLAT} / u)
            bend = u / np.expm1(flat * u) - v / np.expm1(flat * v)
            step = off / np.where(p > 0, v - bend, u + bend)
            p = p + step
            if not (np.abs(step) > ${NEAR} * (np.abs(p) + 1 / u)).any():
                break
        q = np.abs(p) + ${TINY}
        root = np.exp(p / 4 * np.where(p > 0, up, down))
        return a * root * root * (np.expm1(-q * w) / np.expm1(-q * u)) * root * root

`.split("\n");
