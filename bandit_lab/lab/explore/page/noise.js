// The stationary fluctuation of the linear loop under the noise of finite groups (theory/stationary.py): a discrete
// Lyapunov equation with the optimiser's state for blocks, the mean of the spectrum for a lag.

import { modulus, multiply, transposed } from "./algebra.js";
import { fisherTimes } from "./bandit.js";
import { gradientCovariance } from "./group.js";
import { multipliers } from "./loop.js";
import { gain } from "./threshold.js";

/** Standard deviation of the expected reward over all steps of a long run; null beyond the threshold. */
export function rewardStd(about, point, stiffness, loop, rate, interval) {
  const { modes, directions } = stiffness, across = transposed(directions);
  const noise = multiply(across, multiply(gradientCovariance(about.law, about.success, point.policy), directions));
  const pull = fisherTimes(point.policy, about.success), along = across.map((row) => row.reduce((s, x, a) => s + x * pull[a], 0));
  const radius = Math.max(...modes.map((mode) => modulus(multipliers(loop, mode, rate, interval)[0])));
  if (!(radius < 1)) return null;
  const weighed = noise.map((row, i) => row.map((x, j) => x * along[i] * along[j]));
  if (loop.model === "lag") return Math.sqrt(Math.max(lagVariance(loop, modes, weighed, rate, interval, radius), 0));
  let variance = 0;
  for (let i = 0; i < modes.length; i++) {
    for (let j = 0; j <= i; j++) {
      if (weighed[i][j] === 0) continue;
      variance += (i === j ? 1 : 2) * weighed[i][j] * blockCovariance(loop, [modes[i], modes[j]], rate, interval);
    }
  }
  return Math.sqrt(Math.max(variance, 0));
}

function parts(loop, mode, rate) {
  const mu = loop.momentum, ahead = loop.convention === "nesterov", force = rate * gain(mu, loop.convention);
  const look = ahead ? 1 + mu : 1;
  return {
    step: [
      [1 - look * force * mode.fresh, ahead ? mu * mu : mu, -look * force * mode.stale],
      [-force * mode.fresh, mu, -force * mode.stale],
      [0, 0, 1],
    ],
    drive: [look * force, force, 0],
  };
}

/** Covariance of two modes' positions for noise of covariance 1 between them, averaged over the steps of a block. */
function blockCovariance(loop, pair, rate, interval) {
  const [left, right] = pair.map((mode) => parts(loop, mode, rate)), turned = transposed(right.step);
  const kick = left.drive.flatMap((a) => right.drive.map((b) => a * b)), rows = left.step.flat(), columns = turned.flat();
  const propagate = (start) => {
    const now = Float64Array.from(start.flat()), half = new Float64Array(9);
    let total = 0;
    for (let i = 0; i < interval; i++) {
      total += now[0];
      product(now, columns, half);
      product(rows, half, now);
      for (let k = 0; k < 9; k++) now[k] += kick[k];
    }
    return { end: [0, 3, 6].map((k) => [...now.subarray(k, k + 3)]), average: total / interval };
  };
  const zero = [[0, 0, 0], [0, 0, 0], [0, 0, 0]], gained = propagate(zero).end;
  const maps = pair.map((mode) => wholeBlock(loop, mode, rate, interval)), n = maps[0].length;
  let sum = Array.from({ length: n }, (_, a) => Array.from({ length: n }, (_, b) => (a < 2 && b < 2 ? gained[a][b] : 0)));
  let [p, q] = [maps[0], transposed(maps[1])];
  for (let round = 0; round < 60; round++) {
    const more = multiply(p, multiply(sum, q));
    const largest = Math.max(...more.flat().map(Math.abs)), whole = Math.max(...sum.flat().map(Math.abs));
    sum = sum.map((row, a) => row.map((x, b) => x + more[a][b]));
    if (largest <= 1e-17 * whole) break;
    [p, q] = [multiply(p, p), multiply(q, q)];
  }
  const from = loop.model === "refresh" ? [0, 1, 0] : [0, 1, 2];
  return propagate(from.map((a) => from.map((b) => sum[a][b]))).average;
}

function wholeBlock(loop, mode, rate, interval) {
  const { step } = parts(loop, mode, rate);
  let whole = step;
  for (let i = 1; i < interval; i++) whole = multiply(step, whole);
  const [[a, b, c], [d, e, f]] = whole;
  return loop.model === "refresh" ? [[a + c, b], [d + f, e]] : [[a, b, c], [d, e, f], [1, 0, 0]];
}

/** left * right of 3x3 matrices, each a list of nine, into `found`. */
function product(left, right, found) {
  for (let i = 0; i < 9; i += 3) {
    for (let j = 0; j < 3; j++) found[i + j] = left[i] * right[j] + left[i + 1] * right[j + 3] + left[i + 2] * right[j + 6];
  }
}

const MOST = 2 ** 17, EXACT = 32;

/**
 * Variance with a lag, `weighed` [modes][modes] being what noise two modes share: the trapezoidal rule over half of the
 * circle, exact to radius^points. Angles are added; every EXACT steps they are taken anew, so that no error grows.
 */
function lagVariance(loop, modes, weighed, rate, lag, radius) {
  const mu = loop.momentum, ahead = loop.convention === "nesterov", f = rate * gain(mu, loop.convention), count = modes.length;
  const points = Math.min(MOST, 2 ** Math.ceil(Math.log2(40 / (1 - radius) + 4 * (lag + 2)))), turn = (2 * Math.PI) / points;
  const [tc, ts, uc, us] = [Math.cos(turn), Math.sin(turn), Math.cos(lag * turn), Math.sin(lag * turn)];
  const re = new Float64Array(count), im = new Float64Array(count);
  let total = 0, c = 1, s = 0, cl = 1, sl = 0;
  for (let k = 0; k <= points / 2; k++) {
    if (k % EXACT === 0) [c, s, cl, sl] = [Math.cos(turn * k), Math.sin(turn * k), Math.cos(lag * turn * k), Math.sin(lag * turn * k)];
    const br = f * (ahead ? (1 + mu) * c - mu : c), bi = f * (ahead ? (1 + mu) * s : s);
    const dr = (c - 1) * (c - mu) - s * s, di = s * (2 * c - 1 - mu);
    let here = 0;
    for (let i = 0; i < count; i++) { // 1 / D of each mode; then the form that the noise is
      const hr = modes[i].fresh + modes[i].stale * cl, hi = -modes[i].stale * sl;
      const pr = dr + br * hr - bi * hi, pi = di + br * hi + bi * hr, size = pr * pr + pi * pi;
      re[i] = pr / size;
      im[i] = -pi / size;
      here += weighed[i][i] / size;
      for (let j = 0; j < i; j++) here += 2 * weighed[i][j] * (re[i] * re[j] + im[i] * im[j]);
    }
    total += (k === 0 || 2 * k === points ? 1 : 2) * (br * br + bi * bi) * here;
    const before = c, beforeOfLag = cl;
    c = c * tc - s * ts;
    s = s * tc + before * ts;
    cl = cl * uc - sl * us;
    sl = sl * uc + beforeOfLag * us;
  }
  return total / points;
}
