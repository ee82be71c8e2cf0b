// One mode with a constant lag of N steps (model B), from its characteristic function
//     D(z) = (z - 1)(z - mu) + f b(z) (fresh + z^-N stale),    f = eta gain,  b(z) = z, nesterov: (1 + mu) z - mu,
// without the matrix of N + 2 dimensions (theory/long_lag.py).

import { brent, byModulus, geometric, modulus, quadratic } from "./algebra.js";
import { gain } from "./threshold.js";

/** z^N D(z) = z^N (z^2 + linear z + level) + stale (slope z + offset): its numbers. */
function polynomial(loop, mode, rate, lag) {
  const mu = loop.momentum, f = rate * gain(mu, loop.convention), ahead = loop.convention === "nesterov";
  const slope = ahead ? 1 + mu : 1, offset = ahead ? -mu : 0;
  return { lag, linear: f * slope * mode.fresh - 1 - mu, level: mu + f * offset * mode.fresh, slope: f * mode.stale * slope, offset: f * mode.stale * offset };
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

function findRoots(p) {
  if (p.lag === 0 || (p.slope === 0 && p.offset === 0)) {
    const two = quadratic(-(p.linear + (p.lag === 0 ? p.slope : 0)), p.level + (p.lag === 0 ? p.offset : 0));
    return byModulus([...two, ...Array.from({ length: p.lag }, () => [0, 0])]);
  }
  const zeros = p.offset === 0 ? 1 : 0; // of one step of lag and more
  const found = aberth(p, zeros).map((z) => (Math.abs(z[1]) <= 1e-12 * modulus(z) ? [z[0], 0] : z));
  return byModulus([...found, ...Array.from({ length: zeros }, () => [0, 0])]);
}

/** The roots other than 0: Newton's iteration for all, the others divided out. Each rests once it no longer moves. */
function aberth(p, zeros) {
  const n = p.lag + 2 - zeros, re = new Float64Array(n), im = new Float64Array(n), resting = new Uint8Array(n), slope = [0, 0];
  const radius = Math.pow(Math.abs(zeros ? p.slope + (p.lag === 1 ? p.level : 0) : p.offset) || 1e-3, 1 / n);
  for (let i = 0; i < n; i++) {
    const w = (2 * Math.PI * (i + 0.25)) / n;
    re[i] = radius * Math.cos(w);
    im[i] = radius * Math.sin(w);
  }
  for (let round = 0, moving = n; round < 120 && moving > 0; round++) {
    const enough = round < 60 ? 1e-14 : 1e-8;
    for (let i = 0; i < n; i++) {
      if (resting[i]) continue;
      const x = re[i], y = im[i];
      logSlope(p, zeros, x, y, slope);
      let [ar, ai] = slope, sure = Number.isFinite(ar) && Number.isFinite(ai);
      for (let j = 0; sure && j < n; j++) {
        if (j === i) continue;
        const dr = x - re[j], di = y - im[j], d = dr * dr + di * di || 1e-300;
        ar -= dr / d;
        ai += di / d;
      }
      const size = ar * ar + ai * ai || 1e-300, mr = ar / size, mi = -ai / size;
      sure &&= Number.isFinite(mr) && Number.isFinite(mi);
      if (sure) {
        re[i] -= mr;
        im[i] -= mi;
      }
      if (!sure || mr * mr + mi * mi <= enough * enough * (re[i] * re[i] + im[i] * im[i])) {
        resting[i] = 1;
        moving--;
      }
    }
  }
  return Array.from({ length: n }, (_, i) => [re[i], im[i]]);
}

/** p'/p at one point, its zeros at 0 taken off; outside of the unit circle over z^N, so that no power overflows. */
function logSlope({ lag, linear, level, slope, offset }, zeros, x, y, found) {
  const inside = x * x + y * y <= 1, size = x * x + y * y || 1e-300, ir = x / size, ii = -y / size;
  let ur = 1, ui = 0, sr = inside ? x : ir, si = inside ? y : ii; // u = z^N inside, z^-N outside, by squaring
  for (let left = lag; left > 0; left >>= 1) {
    if (left & 1) [ur, ui] = [ur * sr - ui * si, ur * si + ui * sr];
    [sr, si] = [sr * sr - si * si, 2 * sr * si];
  }
  const ar = x * x - y * y + linear * x + level, ai = 2 * x * y + linear * y; // A
  const br = slope * x + offset, bi = slope * y; // B
  const cr = lag * (ar * ir - ai * ii) + 2 * x + linear, ci = lag * (ar * ii + ai * ir) + 2 * y; // N A / z + A'
  let pr, pi, dr, di;
  if (inside) {
    [pr, pi] = [ur * ar - ui * ai + br, ur * ai + ui * ar + bi];
    [dr, di] = [ur * cr - ui * ci + slope, ur * ci + ui * cr];
  } else {
    [pr, pi] = [ar + ur * br - ui * bi, ai + ur * bi + ui * br];
    [dr, di] = [cr + ur * slope, ci + ui * slope];
  }
  const q = pr * pr + pi * pi;
  found[0] = (dr * pr + di * pi) / q - zeros * ir;
  found[1] = (di * pr - dr * pi) / q - zeros * ii;
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

/** l(w) = gain b (fresh + z^-N stale)/((z-1)(z-mu)) at z = radius e^{iw}: eta = -1/l where l is real and negative. */
function opened(loop, mode, lag, radius) {
  const mu = loop.momentum, g = gain(mu, loop.convention), ahead = loop.convention === "nesterov", old = mode.stale * Math.pow(radius, -lag);
  return (cosine, sine, cosineOfLag, sineOfLag, found) => {
    const c = radius * cosine, s = radius * sine, br = ahead ? (1 + mu) * c - mu : c, bi = ahead ? (1 + mu) * s : s;
    const hr = mode.fresh + old * cosineOfLag, hi = -old * sineOfLag, nr = g * (br * hr - bi * hi), ni = g * (br * hi + bi * hr);
    const dr = (c - 1) * (c - mu) - s * s, di = s * (2 * c - 1 - mu), d = dr * dr + di * di;
    found[0] = (nr * dr + ni * di) / d;
    found[1] = (ni * dr - nr * di) / d;
    return found;
  };
}

const grids = new Map();

/** Angles in (0, pi), near 0 even in the logarithm, then 48 per turn of z^N; and cos w, sin w, cos N w, sin N w. */
function gridOf(lag) {
  if (!grids.has(lag)) {
    const near = [...geometric(1e-8, 1e-2 / (lag + 1), 48)], count = 48 * (lag + 2), from = near[47];
    for (let i = 1; i < count; i++) if ((Math.PI * i) / count > from) near.push((Math.PI * i) / count);
    const angles = Float64Array.from(near), of = (f) => angles.map(f);
    grids.set(lag, [angles, of(Math.cos), of(Math.sin), of((w) => Math.cos(lag * w)), of((w) => Math.sin(lag * w))]);
  }
  return grids.get(lag);
}

/** Calls `met(rate, w)` for every crossing of a circle by a complex pair or, at w = pi, by a negative root. */
function circleCrossings(loop, mode, lag, radius, met) {
  const open = opened(loop, mode, lag, radius), [angles, cosines, sines, ofLag, sineOfLag] = gridOf(lag), value = [0, 0];
  const at = (w) => open(Math.cos(w), Math.sin(w), Math.cos(lag * w), Math.sin(lag * w), value);
  let side = open(cosines[0], sines[0], ofLag[0], sineOfLag[0], value)[1];
  for (let i = 1; i < angles.length; i++) {
    const now = open(cosines[i], sines[i], ofLag[i], sineOfLag[i], value)[1];
    if (side * now < 0) {
      const place = brent((w) => at(w)[1], angles[i - 1], angles[i]), real = at(place)[0];
      if (real < 0) met(-1 / real, place);
    }
    side = now;
  }
  const flip = at(Math.PI)[0];
  if (flip < 0) met(-1 / flip, Math.PI);
}

function findCrossings(loop, mode, lag) {
  const found = [];
  circleCrossings(loop, mode, lag, 1, (rate, w) => {
    const flip = w === Math.PI;
    found.push({ rate, flip, leaves: (flip ? 1 : 2) * direction(loop, mode, lag, rate, w) });
  });
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

/**
 * The smallest learning rate at which the dominant multiplier is not real and positive; null where there is none.
 *
 * The dominant root starts at 1 and moves down the real axis as the learning rate grows, until it meets its neighbour. By
 * then another root may have a larger modulus. A circle of radius r is first reached by a complex or negative root at a
 * learning rate that rises with r; the real root is at r at one that falls with r. So they are even at one radius at most.
 */
export function lagOnset(loop, mode, lag) {
  if (mode.stale === 0 || lag === 0) return scannedOnset(loop, mode, lag);
  const { rateAt, gap, met } = meeting(loop, mode, lag);
  const lead = (behind) => {
    let first = Infinity;
    circleCrossings(loop, mode, lag, 1 - behind, (rate) => (first = Math.min(first, rate)));
    return Math.log(Math.min(first, 1e300)) - Math.log(rateAt(behind));
  };
  const last = met ? gap * (1 - 1e-3) : gap; // closer to the meeting the pair that it makes would count
  if (lead(last) > 0) return met ? rateAt(gap) : null;
  const even = brent(lead, 1e-9 * last, last), found = rateAt(even);
  // A jump is no meeting: a root was out there once and has come back. Then by a scan.
  if (Math.abs(lead(even)) > 1e-6) return scannedOnset(loop, mode, lag, met ? rateAt(gap) : undefined);
  return found < 2e3 * (1 + loop.momentum) * unitRate(loop, mode) ? found : null;
}

const unitRate = (loop, mode) => 1 / (Math.max(Math.abs(mode.fresh), Math.abs(mode.stale)) * gain(loop.momentum, loop.convention));

/** The same by a scan up to a learning rate. */
function scannedOnset(loop, mode, lag, end = 2e3 * (1 + loop.momentum) * unitRate(loop, mode)) {
  const rings = (rate) => {
    const top = lagMultipliers(loop, mode, rate, lag)[0];
    return Math.abs(top[1]) > 1e-8 * modulus(top) || top[0] < 0;
  };
  const low = (1e-3 * (1 - loop.momentum) ** 2 * unitRate(loop, mode)) / (lag + 1);
  let before = low;
  for (const rate of geometric(low, end, Math.max(2, Math.ceil(24 * Math.log10(end / low))))) {
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
 * How far below 1 the real root that starts there gets before it meets another (`met`), or before a pole of the learning
 * rate, which it never reaches. On the real axis the learning rate `rateAt` is a function of this gap, with a maximum there.
 */
function meeting(loop, mode, lag) {
  const mu = loop.momentum, g = gain(mu, loop.convention), ahead = loop.convention === "nesterov";
  const felt = (gap) => mode.fresh + mode.stale * Math.pow(1 - gap, -lag);
  const rateAt = (gap) => (gap * (1 - gap - mu)) / (g * (ahead ? (1 + mu) * (1 - gap) - mu : 1 - gap) * felt(gap));
  const grid = geometric(1e-7 * (1 - mu), 1 - mu, 600);
  let best = 0;
  for (let i = 1; i < grid.length; i++) {
    const value = rateAt(grid[i]);
    if (value < 0 || !Number.isFinite(value)) return { rateAt, gap: brent(felt, grid[i - 1], grid[i]) * (1 - 1e-9), met: false };
    if (value < best) return { rateAt, gap: maximum(rateAt, grid[Math.max(i - 2, 0)], grid[i]), met: true };
    best = value;
  }
  return { rateAt, gap: grid[grid.length - 2], met: false };
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
