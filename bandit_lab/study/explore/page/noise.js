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
  let variance = 0;
  for (let i = 0; i < modes.length; i++) {
    for (let j = 0; j <= i; j++) {
      const weight = (i === j ? 1 : 2) * along[i] * along[j];
      if (weight === 0 || noise[i][j] === 0) continue;
      const pair = [modes[i], modes[j]];
      const unit = loop.model === "lag" ? lagCovariance(loop, pair, rate, interval, radius) : blockCovariance(loop, pair, rate, interval);
      variance += weight * noise[i][j] * unit;
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
  const kick = left.drive.map((a) => right.drive.map((b) => a * b));
  const propagate = (start) => {
    let now = start, total = 0;
    for (let i = 0; i < interval; i++) {
      total += now[0][0];
      now = multiply(left.step, multiply(now, turned)).map((row, a) => row.map((x, b) => x + kick[a][b]));
    }
    return { end: now, average: total / interval };
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

const MOST = 2 ** 17;

/** The same with a lag: the trapezoidal rule over half of the circle, exact to radius^points. */
function lagCovariance(loop, pair, rate, lag, radius) {
  const mu = loop.momentum, ahead = loop.convention === "nesterov", f = rate * gain(mu, loop.convention);
  const points = Math.min(MOST, 2 ** Math.ceil(Math.log2(40 / (1 - radius) + 4 * (lag + 2))));
  let total = 0;
  for (let k = 0; k <= points / 2; k++) {
    const w = (2 * Math.PI * k) / points, c = Math.cos(w), s = Math.sin(w);
    const br = f * (ahead ? (1 + mu) * c - mu : c), bi = f * (ahead ? (1 + mu) * s : s);
    const dr = (c - 1) * (c - mu) - s * s, di = s * (2 * c - 1 - mu), cl = Math.cos(lag * w), sl = Math.sin(lag * w);
    const closed = pair.map((mode) => {
      const hr = mode.fresh + mode.stale * cl, hi = -mode.stale * sl;
      return [dr + br * hr - bi * hi, di + br * hi + bi * hr];
    });
    // |b|^2 / (D_i conj D_j), its real part.
    const [p, q] = closed, top = br * br + bi * bi;
    const real = p[0] * q[0] + p[1] * q[1], imaginary = p[1] * q[0] - p[0] * q[1];
    total += ((k === 0 || 2 * k === points ? 1 : 2) * top * real) / (real * real + imaginary * imaginary);
  }
  return total / points;
}
