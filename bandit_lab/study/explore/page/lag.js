// One mode with a constant lag of N steps (model B), from its characteristic function
//     D(z) = (z - 1)(z - mu) + f b(z) (fresh + z^-N stale),    f = eta gain,  b(z) = z, nesterov: (1 + mu) z - mu,
// without the matrix of N + 2 dimensions (theory/long_lag.py).

import { brent, byModulus, geometric, modulus } from "./algebra.js";
import { gain } from "./threshold.js";

/** Coefficients of z^N D(z), lowest power first. */
function polynomial(loop, mode, rate, lag) {
  const mu = loop.momentum, f = rate * gain(mu, loop.convention), ahead = loop.convention === "nesterov";
  const slope = ahead ? 1 + mu : 1, level = ahead ? -mu : 0, found = new Float64Array(lag + 3);
  found[lag] += mu + f * level * mode.fresh;
  found[lag + 1] += -1 - mu + f * slope * mode.fresh;
  found[lag + 2] += 1;
  found[0] += f * level * mode.stale;
  found[1] += f * slope * mode.stale;
  return found;
}

const known = new Map();

/** All N + 2 multipliers, largest modulus first. The last ones that were asked for are kept. */
export function lagMultipliers(loop, mode, rate, lag) {
  const key = [loop.momentum, loop.convention, mode.fresh, mode.stale, rate, lag].join();
  if (!known.has(key)) {
    if (known.size > 50) known.clear();
    known.set(key, findRoots(polynomial(loop, mode, rate, lag)));
  }
  return known.get(key).map((z) => [...z]);
}

function findRoots(coefficients) {
  let zeros = 0;
  while (zeros < coefficients.length - 1 && coefficients[zeros] === 0) zeros++;
  const found = aberth(coefficients.subarray(zeros)).map((z) => (Math.abs(z[1]) <= 1e-12 * modulus(z) ? [z[0], 0] : z));
  return byModulus([...found, ...Array.from({ length: zeros }, () => [0, 0])]);
}

/** The roots of a polynomial with leading coefficient 1: Newton's iteration for all, the others divided out. */
function aberth(c) {
  const n = c.length - 1, re = new Float64Array(n), im = new Float64Array(n);
  const radius = Math.pow(Math.abs(c[0]), 1 / n);
  for (let i = 0; i < n; i++) {
    const w = (2 * Math.PI * (i + 0.25)) / n;
    re[i] = radius * Math.cos(w);
    im[i] = radius * Math.sin(w);
  }
  for (let round = 0; round < 120; round++) {
    let farthest = 0;
    for (let i = 0; i < n; i++) {
      const [sr, si] = logSlope(c, re[i], im[i]);
      if (!Number.isFinite(sr) || !Number.isFinite(si)) continue;
      let ar = sr, ai = si;
      for (let j = 0; j < n; j++) {
        if (j === i) continue;
        const dr = re[i] - re[j], di = im[i] - im[j], d = dr * dr + di * di || 1e-300;
        ar -= dr / d;
        ai += di / d;
      }
      const size = ar * ar + ai * ai || 1e-300, mr = ar / size, mi = -ai / size;
      re[i] -= mr;
      im[i] -= mi;
      farthest = Math.max(farthest, Math.hypot(mr, mi) / (Math.hypot(re[i], im[i]) + 1e-300));
    }
    if (farthest < (round < 60 ? 1e-14 : 1e-8)) break;
  }
  return Array.from({ length: n }, (_, i) => [re[i], im[i]]);
}

/** p'/p at one point; outside of the unit circle by the reversed polynomial, so that no power overflows. */
function logSlope(c, x, y) {
  const n = c.length - 1, inside = x * x + y * y <= 1, size = x * x + y * y;
  const ur = inside ? x : x / size, ui = inside ? y : -y / size;
  let pr = 0, pi = 0, dr = 0, di = 0;
  for (let k = 0; k <= n; k++) {
    const d = dr * ur - di * ui + pr, p = pr * ur - pi * ui + (inside ? c[n - k] : c[k]);
    di = dr * ui + di * ur + pi;
    pi = pr * ui + pi * ur;
    dr = d;
    pr = p;
  }
  const q = pr * pr + pi * pi, r = (dr * pr + di * pi) / q, s = (di * pr - dr * pi) / q;
  if (inside) return [r, s];
  // p = z^n reversed(1/z): p'/p = n/z - (reversed'/reversed)/z^2.
  const vr = n - (r * ur - s * ui), vi = -(r * ui + s * ur);
  return [vr * ur - vi * ui, vr * ui + vi * ur];
}

const crossings = new Map();

/**
 * Learning rates with a multiplier on the unit circle, in rising order: {rate, flip, leaves}, `leaves` being how many
 * roots go out there (negative: come in). For a mode whose small learning rates are stable.
 */
export function lagCrossings(loop, mode, lag) {
  const key = [loop.momentum, loop.convention, mode.fresh, mode.stale, lag].join();
  if (!crossings.has(key)) {
    if (crossings.size > 2000) crossings.clear();
    crossings.set(key, findCrossings(loop, mode, lag));
  }
  return crossings.get(key);
}

function findCrossings(loop, mode, lag) {
  const mu = loop.momentum, g = gain(mu, loop.convention), ahead = loop.convention === "nesterov";
  // l(w) = gain b (fresh + z^-N stale)/((z-1)(z-mu)) at z = e^{iw}: eta = -1/l where l is real and negative.
  const open = (w) => {
    const c = Math.cos(w), s = Math.sin(w), br = ahead ? (1 + mu) * c - mu : c, bi = ahead ? (1 + mu) * s : s;
    const hr = mode.fresh + mode.stale * Math.cos(lag * w), hi = -mode.stale * Math.sin(lag * w);
    const nr = g * (br * hr - bi * hi), ni = g * (br * hi + bi * hr);
    const dr = (c - 1) * (c - mu) - s * s, di = s * (2 * c - 1 - mu), d = dr * dr + di * di;
    return [(nr * dr + ni * di) / d, (ni * dr - nr * di) / d];
  };
  const count = 48 * (lag + 2), found = [];
  const grid = [...geometric(1e-8, 1e-2 / (lag + 1), 48)];
  const from = grid[grid.length - 1];
  for (let i = 1; i < count; i++) if ((Math.PI * i) / count > from) grid.push((Math.PI * i) / count);
  let before = grid[0], side = open(before)[1];
  for (const w of grid.slice(1)) {
    const now = open(w)[1];
    if (side * now < 0) {
      const place = brent((x) => open(x)[1], before, w), real = open(place)[0];
      if (real < 0) found.push({ rate: -1 / real, flip: false, leaves: 2 * direction(loop, mode, lag, -1 / real, place) });
    }
    before = w;
    side = now;
  }
  const flip = open(Math.PI)[0];
  if (flip < 0) found.push({ rate: -1 / flip, flip: true, leaves: direction(loop, mode, lag, -1 / flip, Math.PI) });
  return found.sort((a, b) => a.rate - b.rate);
}

/** Whether the root at e^{iw} leaves the circle (1) or enters it (-1) as the learning rate grows. */
function direction(loop, mode, lag, rate, w) {
  const mu = loop.momentum, f = rate * gain(mu, loop.convention), ahead = loop.convention === "nesterov";
  const z = [Math.cos(w), Math.sin(w)], old = [Math.cos(lag * w), -Math.sin(lag * w)];
  const b = ahead ? [(1 + mu) * z[0] - mu, (1 + mu) * z[1]] : z, bend = ahead ? 1 + mu : 1;
  const h = [mode.fresh + mode.stale * old[0], mode.stale * old[1]];
  const times = (p, q) => [p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]];
  const bh = times(b, h);
  // z D'(z): the derivative in z, times z; and the derivative in the learning rate.
  const first = times(z, [2 * z[0] - 1 - mu, 2 * z[1]]), second = times(z, [bend * h[0], bend * h[1]]);
  const third = times(b, [-lag * mode.stale * old[0], -lag * mode.stale * old[1]]);
  const slope = [first[0] + f * (second[0] + third[0]), first[1] + f * (second[1] + third[1])];
  // d log z / d eta = -(d D / d eta) / (z D').
  return Math.sign(-(bh[0] * slope[0] + bh[1] * slope[1])) || 1;
}

/** The smallest learning rate at which the dominant multiplier is not real and positive; null where a scan finds none. */
export function lagOnset(loop, mode, lag) {
  const rings = (rate) => {
    const top = lagMultipliers(loop, mode, rate, lag)[0];
    return Math.abs(top[1]) > 1e-8 * modulus(top) || top[0] < 0;
  };
  const met = meeting(loop, mode, lag);
  if (met !== null && !rings(met * (1 - 1e-6))) return met;
  // Another root overtakes the real one before it meets its neighbour: then by a scan.
  const unit = 1 / (Math.max(Math.abs(mode.fresh), Math.abs(mode.stale)) * gain(loop.momentum, loop.convention));
  const low = (1e-3 * (1 - loop.momentum) ** 2 * unit) / (lag + 1), high = met ?? 2e3 * (1 + loop.momentum) * unit;
  let before = low;
  for (const rate of geometric(low, high, Math.ceil(24 * Math.log10(high / low)))) {
    if (rings(rate)) return bisect(rings, before, rate);
    before = rate;
  }
  return null;
}

function bisect(holds, low, high) {
  let [a, b] = [low, high];
  while (b - a > 1e-14 * b) {
    const middle = 0.5 * (a + b);
    if (middle === a || middle === b) break;
    if (holds(middle)) b = middle;
    else a = middle;
  }
  return b;
}

/**
 * The learning rate at which the real root that starts at 1 meets another. On the real axis the learning rate is a
 * function of the root: its first maximum below 1.
 */
function meeting(loop, mode, lag) {
  const mu = loop.momentum, g = gain(mu, loop.convention), ahead = loop.convention === "nesterov";
  const rateAt = (gap) => {
    const z = 1 - gap, felt = mode.fresh + mode.stale * Math.pow(z, -lag);
    return (gap * (z - mu)) / (g * (ahead ? (1 + mu) * z - mu : z) * felt);
  };
  const grid = geometric(1e-7 * (1 - mu), 1 - mu, 600);
  let best = 0;
  for (let i = 1; i < grid.length; i++) {
    const value = rateAt(grid[i]);
    if (value < 0) return null; // a pole: there is no maximum before it
    if (value < best) return rateAt(maximum(rateAt, grid[Math.max(i - 2, 0)], grid[i]));
    best = value;
  }
  return null;
}

function maximum(f, low, high) {
  const golden = (Math.sqrt(5) - 1) / 2;
  let a = low, b = high;
  while (b - a > 1e-9 * b) {
    const c = b - golden * (b - a), d = a + golden * (b - a);
    if (f(c) > f(d)) b = d;
    else a = c;
  }
  return 0.5 * (a + b);
}
