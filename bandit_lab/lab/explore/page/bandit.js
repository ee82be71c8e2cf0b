// The bandit: softmax policy, fixed point of the mean drift, its stiffness felt at the fresh and at the stale policy
// (theory/fixed_points.py, theory/stiffness.py). Rewards are 0 or 1, the KL term is the exact reverse KL.

import { brent, geometric, multiply, symmetric, transposed } from "./algebra.js";

const SCAN = 400, SATURATED = 60, HUGE = 1e300;

/** The policy of logits, written into `found`. */
export function softmax(logits, found = new Array(logits.length)) {
  let top = -Infinity, sum = 0;
  for (let a = 0; a < logits.length; a++) top = Math.max(top, logits[a]);
  for (let a = 0; a < logits.length; a++) sum += found[a] = Math.exp(logits[a] - top);
  for (let a = 0; a < logits.length; a++) found[a] /= sum;
  return found;
}

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** F v for F = Diag(pi) - pi pi^T. */
export function fisherTimes(policy, v) {
  const mean = dot(policy, v);
  return policy.map((p, a) => p * (v[a] - mean));
}

/** Probabilities of success and of failure, each as a sum, so that both keep their digits. */
function both(policy, success) {
  let win = 0, lose = 0;
  for (let a = 0; a < policy.length; a++) {
    win += policy[a] * success[a];
    lose += policy[a] * (1 - success[a]);
  }
  return [win, lose];
}

/** A bandit: success [K], logReference [K], law (group.js), weight (of the KL term), initial logits [K]. */
export function bandit(success, referenceLogits, law, weight, initial = null) {
  const reference = softmax(referenceLogits);
  const unbounded = law.size === Infinity && law.rule === "grpo" && Math.max(...success) === 1;
  return { success, reference, logReference: reference.map(Math.log), law, weight, unbounded,
    initial: initial ?? success.map(() => 0) };
}

/** Mean drift [K]: h F r of the reward and the KL term, at the current and at the acting logits, as an estimator has them. */
export function meanDrift(about, estimator, now, old) {
  const policy = softmax(now), acting = now === old ? policy : softmax(old), found = new Array(now.length);
  return meanDriftInto(found, about, estimator, { now, old, policy, acting });
}

/** The same, written into `found` [K], where the policies [K] of both logits are known. */
export function meanDriftInto(found, about, estimator, { now, old, policy, acting }) {
  const { success, law } = about, [win, lose] = both(acting, success), factor = law.factor(win, lose);
  const felt = estimator === "ratio" ? policy : acting, reward = dot(felt, success);
  for (let a = 0; a < found.length; a++) found[a] = factor * felt[a] * (success[a] - reward);
  const frozen = estimator === "frozen";
  return withoutPull(found, about, frozen ? acting : policy, frozen ? old : now);
}

/** Take the KL term's gradient, at a policy [K] and its logits [K], off an ascent direction [K], in place. */
export function withoutPull(found, { logReference, weight }, policy, logits) {
  let mean = 0;
  for (let a = 0; a < found.length; a++) mean += policy[a] * (logits[a] - logReference[a]);
  for (let a = 0; a < found.length; a++) found[a] -= weight * policy[a] * (logits[a] - logReference[a] - mean);
  return found;
}

/** The fixed point that training from the initial policy ends at: {policy, reward, factor}, or {policy: null, ...}. */
export function fixedPoint(about) {
  const { success, logReference, law, weight, reference } = about;
  if (!(weight > 0)) return { policy: null, critical: null };
  const spread = Math.max(...success) - Math.min(...success);
  const tilted = (x) => softmax(logReference.map((l, a) => l + x * success[a]));
  const factorAt = (policy) => Math.min(law.factor(...both(policy, success)), HUGE);
  const found = (policy) => ({ policy, reward: dot(policy, success), factor: factorAt(policy) });
  if (spread === 0) return found(reference);
  const excess = (x) => factorAt(tilted(x)) - weight * x;
  const tilts = tiltGrid(about, tilted, factorAt, weight), values = tilts.map(excess), points = [];
  for (let i = 0; i + 1 < tilts.length; i++) {
    if (values[i] * values[i + 1] < 0) points.push({ tilt: brent(excess, tilts[i], tilts[i + 1]), attracts: values[i] > 0 });
  }
  const stable = points.filter((p) => p.attracts);
  if (stable.length === 0) return { policy: null, critical: criticalWeight(about, tilted, factorAt) };
  if (points.length === 1) return found(tilted(stable[0].tilt));
  const end = settled(about), near = (p) => Math.max(...tilted(p.tilt).map((x, a) => Math.abs(x - end[a])));
  const best = stable.reduce((a, b) => (near(b) < near(a) ? b : a));
  return near(best) < 1e-3 ? found(tilted(best.tilt)) : { policy: null, critical: criticalWeight(about, tilted, factorAt) };
}

function tiltGrid(about, tilted, factorAt, weight) {
  const top = Math.max(...about.success), others = about.success.filter((r) => r < top);
  let end = SATURATED / (top - Math.max(...others));
  const low = (1e-3 * factorAt(about.reference)) / weight;
  if (!about.unbounded) end = Math.max(end, (2 * factorAt(tilted(end))) / weight);
  return geometric(Math.min(low, 1e-3 * end), end, SCAN);
}

/** Smallest KL weight with an interior fixed point; null if every one has. */
function criticalWeight(about, tilted, factorAt) {
  if (!about.unbounded) return null;
  const value = (log) => Math.log(factorAt(tilted(Math.exp(log)))) - log;
  const grid = [...tiltGrid(about, tilted, factorAt, 1)].map(Math.log), values = grid.map(value);
  const i = Math.min(Math.max(values.indexOf(Math.min(...values)), 1), grid.length - 2);
  let [a, b] = [grid[i - 1], grid[i + 1]];
  const golden = (Math.sqrt(5) - 1) / 2;
  while (b - a > 1e-9) {
    const c = b - golden * (b - a), d = a + golden * (b - a);
    if (value(c) < value(d)) b = d;
    else a = c;
  }
  return Math.exp(value((a + b) / 2));
}

/** Policy that the on-policy mean flow from the initial logits settles to: steps of second order, small near steep places. */
function settled(about) {
  let logits = [...about.initial], step = 0.1;
  for (let round = 0; round < 20000; round++) {
    const first = meanDrift(about, "frozen", logits, logits);
    const speed = Math.max(...first.map(Math.abs));
    if (speed < 1e-10 || Math.max(...softmax(logits)) > 1 - 1e-12) break;
    step = Math.min(step * 1.5, 0.2 / speed, 2 / about.weight);
    const half = logits.map((x, a) => x + 0.5 * step * first[a]);
    const second = meanDrift(about, "frozen", half, half);
    logits = logits.map((x, a) => x + step * second[a]);
  }
  return softmax(logits);
}

/** Orthonormal columns [K][K-1] of the logit directions orthogonal to (1, ..., 1). */
function onesComplement(K) {
  const basis = Array.from({ length: K }, () => new Array(K - 1).fill(0));
  for (let j = 1; j < K; j++) {
    const size = Math.sqrt(j * (j + 1));
    for (let a = 0; a < j; a++) basis[a][j - 1] = 1 / size;
    basis[j][j - 1] = -j / size;
  }
  return basis;
}

/**
 * The modes at a fixed point: [{fresh, stale}] in order of fresh + stale, stiffest first, and `directions` [K][K-1], their
 * logit directions. null where fresh and stale stiffness share no directions (three arms and more, importance ratios).
 */
export function stiffnessModes(about, point, estimator) {
  const { success, law, weight } = about, { policy } = point, K = policy.length, basis = onesComplement(K);
  const fisher = policy.map((p, a) => policy.map((q, b) => (a === b ? p : 0) - p * q));
  const reward = dot(policy, success), gap = success.map((r) => r - reward), s = fisherTimes(policy, success);
  const slope = law.slope(...both(policy, success)), factor = point.factor;
  const total = fisher.map((row, a) => row.map((f, b) => weight * f - slope * s[a] * s[b]));
  const bend = (a, b) => factor * ((a === b ? policy[a] * gap[a] : 0) - policy[a] * policy[b] * (gap[a] + gap[b]));
  const fresh = fisher.map((row, a) => row.map((f, b) => {
    if (estimator === "frozen") return 0;
    return weight * f + (estimator === "uncorrected" ? bend(a, b) : 0);
  }));
  const reduced = (matrix) => multiply(transposed(basis), multiply(matrix, basis));
  const sum = reduced(total), felt = reduced(fresh), { values, vectors } = symmetric(sum);
  const turned = multiply(transposed(vectors), multiply(felt, vectors));
  const size = Math.max(...values.map(Math.abs), ...turned.flat().map(Math.abs));
  const apart = turned.some((row, i) => row.some((x, j) => i !== j && Math.abs(x) > 1e-12 * size));
  if (apart) return null;
  const modes = values.map((value, i) => {
    const stale = value - turned[i][i];
    return { fresh: turned[i][i], stale: Math.abs(stale) < 1e-14 * size ? 0 : stale };
  });
  return { modes, directions: multiply(basis, vectors) };
}
