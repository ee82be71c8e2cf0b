// kappa = learning rate * stiffness at which a wholly stale mode loses stability, and from which it rings; the published
// law (theory/thresholds.py has the derivations). Models: refresh (A), lag (B), pipeline (C).

import { brent, geometric } from "./algebra.js";

export const gain = (momentum, convention) => (convention === "ema" ? 1 - momentum : 1);

/** Response of one block to a frozen gradient: decay m, push S, carry a, drift P, and the offset q = P m - a S. */
export function blockSums(steps, momentum, convention) {
  const decay = Math.pow(momentum, steps);
  let push = 0;
  if (steps <= 256) for (let j = 0, power = 1; j < steps; j++, power *= momentum) push += power;
  else push = (1 - decay) / (1 - momentum);
  const carry = momentum * push * (convention === "nesterov" ? momentum : 1);
  return { decay, push, carry, drift: (steps - carry) / (1 - momentum), offset: -(carry - steps * decay) / (1 - momentum) };
}

/** {length, behind}: steps of one block, and how many blocks old the gradient's policy is at a block's start. */
export function delayForm(model, interval) {
  return model === "lag" ? { length: 1, behind: interval } : { length: interval, behind: model === "pipeline" ? 1 : 0 };
}

/** The published law: kappa N = 1 - mu, in EMA form kappa N = 1. */
export function leadingOrder(interval, momentum, convention) {
  return interval > 0 ? (1 - momentum) / gain(momentum, convention) / interval : Infinity;
}

export function meanAge(model, interval) {
  if (model === "lag") return interval;
  return model === "refresh" ? (interval - 1) / 2 : (3 * interval - 1) / 2;
}

/** {kappa, bifurcation}: the first loss of stability from below, exactly. */
export function exactThreshold(model, interval, momentum, convention) {
  const { length, behind } = delayForm(model, interval), sums = blockSums(length, momentum, convention);
  const found = behind === 0 ? closedForm(sums, length, momentum) : firstCrossing(sums, behind);
  return { kappa: found.kappa / gain(momentum, convention), bifurcation: found.bifurcation };
}

function closedForm(sums, length, momentum) {
  const m = sums.decay, free = 1 - momentum, excess = sums.carry - length * m;
  const flip = (2 * free * (1 + m)) / (length * (1 + m) - 2 * sums.carry);
  const pair = length > 1 && excess > 1e-14 * length ? (free * (1 - m)) / excess : Infinity;
  return flip <= pair ? { kappa: flip, bifurcation: "flip" } : { kappa: pair, bifurcation: "neimark_sacker" };
}

/** The smallest kappa at which a root of z^d (z-1)(z-m) + kappa (P z - q) crosses the unit circle. */
function firstCrossing(sums, behind) {
  const { decay: m, drift, offset } = sums;
  const phase = (w) => (behind + 0.5) * w - Math.PI / 2 + Math.atan2(m * Math.sin(w), 1 - m * Math.cos(w))
    - Math.atan2(offset * Math.sin(w), drift - offset * Math.cos(w));
  const kappa = (w) => (2 * Math.sin(w / 2) * Math.hypot(1 - m * Math.cos(w), m * Math.sin(w)))
    / Math.hypot(drift - offset * Math.cos(w), offset * Math.sin(w));
  let best = behind % 2 === 0 ? { kappa: kappa(Math.PI), bifurcation: "flip" } : { kappa: Infinity };
  let before = 1e-9, sheet = Math.floor(phase(before) / (2 * Math.PI));
  for (const w of angles(behind)) {
    const now = Math.floor(phase(w) / (2 * Math.PI));
    if (now !== sheet) {
      const target = 2 * Math.PI * Math.max(now, sheet), place = brent((x) => phase(x) - target, before, w);
      if (place < Math.PI * (1 - 1e-12) && kappa(place) < best.kappa) {
        best = { kappa: kappa(place), bifurcation: "neimark_sacker" };
      }
      if (behind > 1) break; // one step per block: kappa rises with the angle, so that the first crossing is the least
    }
    before = w;
    sheet = now;
  }
  return best;
}

const grids = new Map();

/** Rising angles in (0, pi]: near 0 even in the logarithm, then by few degrees of the phase. */
function angles(behind) {
  if (!grids.has(behind)) {
    const near = geometric(1e-8, 1e-2 / (behind + 1), 48), count = 48 * (behind + 2);
    const even = Array.from({ length: count }, (_, i) => (Math.PI * (i + 1)) / count);
    grids.set(behind, [...near, ...even.filter((w) => w > near[47])]);
  }
  return grids.get(behind);
}

/** The smallest kappa at which the dominant multiplier is not real and positive. */
export function onset(model, interval, momentum, convention) {
  const { length, behind } = delayForm(model, interval), sums = blockSums(length, momentum, convention);
  const scale = gain(momentum, convention);
  if (behind === 0) {
    return ((1 - momentum) * (1 - sums.decay)) / (Math.sqrt(length) + Math.sqrt(sums.carry)) ** 2 / scale;
  }
  const gap = collision(sums, behind), place = 1 - gap;
  return (place ** behind * gap * (place - sums.decay)) / (sums.drift * place - sums.offset) / scale;
}

/** 1 - z of the first maximum, below z = 1, of kappa(z) on the real axis: where two real multipliers meet. */
function collision({ decay: m, drift, offset }, behind) {
  if (m === 0 && offset === 0) return 1 / (behind + 1);
  const slope = (gap) => {
    const z = 1 - gap, lower = z - m, bottom = drift * z - offset;
    return behind * gap * lower * bottom - z * lower * bottom + z * gap * bottom - drift * z * gap * lower;
  };
  const grid = geometric(1e-14, 1 - m, 400);
  for (let i = 1; i < grid.length; i++) if (slope(grid[i]) > 0) return brent(slope, grid[i - 1], grid[i]);
  return 1 - m;
}
