// One mode of the linear loop, fresh and stale stiffness mixed in any share: its map, multipliers, thresholds and period
// (theory/block_map.py, theory/stability.py, theory/swing.py). A mode is {fresh, stale}; a loop says {model, momentum,
// convention}. `lag` has a map of N + 2 dimensions: lag.js takes its roots instead.

import { brent, byModulus, eigenvalues, geometric, modulus } from "./algebra.js";
import { lagCrossings, lagMultipliers, lagOnset } from "./lag.js";
import { exactThreshold, gain, leadingOrder, onset } from "./threshold.js";

const PER_DECADE = 48, REAL = 1e-8;

/** Updates that one multiplier stands for. */
export const stepsPerMap = (loop, interval) => (loop.model === "lag" ? 1 : interval);

/** One step of (x, w = eta v, y), the acting deviation y held fixed: the two upper rows of a 3x3 matrix, as six numbers. */
function step(loop, mode, rate) {
  const ahead = loop.convention === "nesterov", mu = loop.momentum;
  const force = -rate * gain(mu, loop.convention), look = ahead ? 1 + mu : 1;
  return [1 + look * force * mode.fresh, ahead ? mu * mu : mu, look * force * mode.stale, force * mode.fresh, mu, force * mode.stale];
}

/** left * right of two such matrices, whose third row is (0, 0, 1). */
function after([a, b, c, d, e, f], [p, q, r, s, t, u]) {
  return [a * p + b * s, a * q + b * t, a * r + b * u + c, d * p + e * s, d * q + e * t, d * r + e * u + f];
}

function power(one, count) {
  let result = null, square = one;
  for (let left = count; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result = result === null ? square : after(result, square);
    if (left > 1) square = after(square, square);
  }
  return result;
}

/** The map of a block: (x, w) for refresh, (x, w, x of the block before) for pipeline. */
function blockMap(model, whole) {
  const [a, b, c, d, e, f] = whole;
  return model === "refresh" ? [[a + c, b], [d + f, e]] : [[a, b, c], [d, e, f], [1, 0, 0]];
}

const mapOf = (loop, mode, rate, interval) => blockMap(loop.model, power(step(loop, mode, rate), interval));
const finite = (matrix) => matrix.every((row) => row.every(Number.isFinite));

/** Multipliers of one mode, largest modulus first, per block (`lag`: per step). */
export function multipliers(loop, mode, rate, interval) {
  if (loop.model === "lag") return lagMultipliers(loop, mode, rate, interval);
  const matrix = mapOf(loop, mode, rate, interval);
  return finite(matrix) ? eigenvalues(matrix) : [[Infinity, 0]];
}

const size = (mode) => Math.max(Math.abs(mode.fresh), Math.abs(mode.stale), Math.abs(mode.fresh + mode.stale));

function scan(loop, mode, interval) {
  const free = 1 - loop.momentum, one = 1 / (size(mode) * gain(loop.momentum, loop.convention));
  const low = (0.02 * free * one) / (interval + 1), high = 2e3 * (1 + loop.momentum) * one;
  return geometric(low, high, Math.max(2, Math.ceil(PER_DECADE * Math.log10(high / low))));
}

function kindOf(z) {
  if (Math.abs(z[1]) > REAL * modulus(z)) return "neimark_sacker";
  return "flip"; // a real multiplier; from step to step a flip, though over an even block it is +1
}

/** {rate, bifurcation}: the first learning rate that loses stability; rate null where a scan finds none. */
function modeThreshold(loop, mode, interval) {
  const total = mode.fresh + mode.stale;
  if (total <= 0) return { rate: 0, bifurcation: null };
  if (mode.fresh === 0) {
    const found = exactThreshold(loop.model, interval, loop.momentum, loop.convention);
    return { rate: found.kappa / total, bifurcation: found.bifurcation };
  }
  if (loop.model === "lag") {
    const first = lagCrossings(loop, mode, interval)[0], grid = scan(loop, mode, interval);
    if (first === undefined || first.rate > grid[grid.length - 1]) return { rate: null, bifurcation: null };
    return { rate: first.rate, bifurcation: first.flip ? "flip" : "neimark_sacker" };
  }
  const excess = (rate) => Math.min(modulus(multipliers(loop, mode, rate, interval)[0]), 1e3) - 1;
  let before = null;
  for (const rate of scan(loop, mode, interval)) {
    if (excess(rate) >= 0) {
      const log = before === null ? Math.log(rate) : brent((x) => excess(Math.exp(x)), Math.log(before), Math.log(rate));
      const found = Math.exp(log);
      return { rate: found, bifurcation: kindOf(multipliers(loop, mode, found, interval)[0]) };
    }
    before = rate;
  }
  return { rate: null, bifurcation: null };
}

/** The first loss of stability of all modes. */
export function threshold(loop, modes, interval) {
  const found = modes.map((mode) => modeThreshold(loop, mode, interval)).filter((one) => one.rate !== null);
  return found.length ? found.reduce((a, b) => (b.rate < a.rate ? b : a)) : { rate: null, bifurcation: null };
}

/** The published law's learning rate: the largest stiffness counts, wherever it is felt. */
export function lawRate(loop, modes, interval) {
  const largest = modes[0].fresh + modes[0].stale;
  return largest > 0 ? leadingOrder(interval, loop.momentum, loop.convention) / largest : null;
}

/** The smallest learning rate at which the stiffest mode's dominant multiplier is not real and positive. */
export function onsetRate(loop, modes, interval) {
  const mode = modes[0], total = mode.fresh + mode.stale;
  if (modes.some((one) => one.fresh + one.stale <= 0)) return null;
  if (modes.every((one) => one.fresh === 0)) return onset(loop.model, interval, loop.momentum, loop.convention) / total;
  if (loop.model === "lag") return lagOnset(loop, mode, interval);
  const rings = (rate) => {
    const top = multipliers(loop, mode, rate, interval)[0];
    return !Number.isFinite(top[0]) || Math.abs(top[1]) > REAL * modulus(top) || top[0] < 0;
  };
  const grid = scan(loop, mode, interval);
  const start = geometric(grid[0] * 1e-4 * (1 - loop.momentum), grid[0], 200);
  let low = start[0];
  for (const rate of [...start.slice(0, -1), ...grid]) {
    if (rings(rate)) {
      let high = rate;
      while (high - low > 1e-14 * high) {
        const middle = 0.5 * (low + high);
        if (middle === low || middle === high) break;
        if (rings(middle)) high = middle;
        else low = middle;
      }
      return high;
    }
    low = rate;
  }
  return null;
}

/** Steps per cycle of the dominant of all modes, 2 where it changes sign at every step; null where it does not swing. */
export function period(loop, modes, rate, interval) {
  const tops = modes.map((mode) => modulus(multipliers(loop, mode, rate, interval)[0]));
  const mode = modes[tops.indexOf(Math.max(...tops))], steps = stepsPerMap(loop, interval);
  const turned = Math.abs(steps === 1 ? angle(multipliers(loop, mode, rate, interval)[0]) : turn(loop, mode, rate, steps));
  return turned < 1e-12 ? null : ((2 * Math.PI) / turned) * steps;
}

const angle = (z) => Math.atan2(z[1] || 0, z[0]); // -0 would turn the other way round

/** Radians that the dominant mode turns through in one block, whole turns included: its phase, followed step by step. */
function turn(loop, mode, rate, steps) {
  const matrix = mapOf(loop, mode, rate, steps);
  if (!finite(matrix)) return 0;
  const top = eigenvalues(matrix)[0], exact = angle(top), [x0, w0, y0] = eigenvector(loop.model, matrix, top);
  const one = step(loop, mode, rate);
  let x = x0, w = w0, y = loop.model === "refresh" ? x0 : y0, counted = 0;
  for (let i = 0; i < steps; i++) {
    const next = combine(one.slice(0, 3), x, w, y), speed = combine(one.slice(3), x, w, y);
    counted += angle([x[0] * next[0] + x[1] * next[1], x[0] * next[1] - x[1] * next[0]]);
    const scale = 1 / Math.max(modulus(next), modulus(speed), modulus(y));
    [x, w, y] = [next, speed, y].map((z) => [z[0] * scale, z[1] * scale]);
  }
  return exact + 2 * Math.PI * Math.round((counted - exact) / (2 * Math.PI));
}

const combine = (row, x, w, y) => [0, 1].map((k) => row[0] * x[k] + row[1] * w[k] + row[2] * y[k]);

/** Eigenvector of a block map to the eigenvalue z, complex. */
function eigenvector(model, matrix, z) {
  const [[a, b, c], [d, e, f]] = matrix;
  if (model === "refresh") {
    if (Math.abs(b) >= Math.abs(d)) return b === 0 ? [[1, 0], [0, 0]] : [[b, 0], [z[0] - a, z[1]], null];
    return [[z[0] - e, z[1]], [d, 0], null];
  }
  // y = x / z, and from the second row (z - e) w = d x + f y; where z = e, from the first row.
  const x = z, y = [1, 0], push = [d * z[0] + f, d * z[1]], base = [z[0] - e, z[1]];
  if (modulus(base) > 1e-12 * modulus(z)) return [x, divide(push, base), y];
  const square = [z[0] * z[0] - z[1] * z[1], 2 * z[0] * z[1]];
  return [x, [(square[0] - a * z[0] - c) / b, (square[1] - a * z[1]) / b], y];
}

const divide = (a, b) => {
  const size = b[0] * b[0] + b[1] * b[1];
  return [(a[0] * b[0] + a[1] * b[1]) / size, (a[1] * b[0] - a[0] * b[1]) / size];
};

/** Refresh intervals 1..most (`lag`: 0..most) that are unstable, as ranges [first, last]. */
export function unstableIntervals(loop, modes, rate, most) {
  const first = loop.model === "lag" ? 0 : 1, ranges = [];
  const add = (interval) => {
    const last = ranges[ranges.length - 1];
    if (last && last[1] === interval - 1) last[1] = interval;
    else ranges.push([interval, interval]);
  };
  if (loop.model === "lag") {
    const unstable = (lag) => modes.some((mode) => lagUnstable(loop, mode, rate, lag));
    if (modes.every((mode) => mode.fresh === 0)) return fallingThreshold(unstable, most);
    for (let lag = first; lag <= most; lag++) if (unstable(lag)) add(lag);
    return ranges;
  }
  const ones = modes.map((mode) => step(loop, mode, rate));
  let wholes = ones;
  for (let interval = 1; interval <= most; interval++) {
    const maps = wholes.map((whole) => blockMap(loop.model, whole));
    if (maps.some((map) => !finite(map) || modulus(eigenvalues(map)[0]) >= 1)) add(interval);
    wholes = wholes.map((whole, i) => after(ones[i], whole));
  }
  return ranges;
}

function fallingThreshold(unstable, most) {
  if (!unstable(most)) return [];
  let low = -1, high = most;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (unstable(middle)) high = middle;
    else low = middle;
  }
  return [[high, most]];
}

/** Whether a lag is unstable at a learning rate: roots outside of the unit circle, counted from crossing to crossing. */
export function lagUnstable(loop, mode, rate, lag) {
  const total = mode.fresh + mode.stale;
  if (total <= 0) return true;
  if (mode.fresh === 0) return exactThreshold("lag", lag, loop.momentum, loop.convention).kappa <= rate * total;
  let outside = 0;
  for (const one of lagCrossings(loop, mode, lag)) if (one.rate <= rate) outside += one.leaves;
  return outside > 0;
}

/** All multipliers of all modes, largest modulus first. */
export function allMultipliers(loop, modes, rate, interval) {
  return byModulus(modes.flatMap((mode) => multipliers(loop, mode, rate, interval)));
}
