// The bandit trained step by step in the page: the mean update, and a few runs on sampled groups. Time as everywhere in
// the lab: refresh acts with the snapshot taken at t mod N = 0 before the update, lag with theta of t - N, pipeline with the
// start of the block before; all with the initial policy until there is one. A run begins at the bandit's initial logits;
// `displaced` gives those beside the fixed point.

import { generator } from "./algebra.js";
import { dot, fisherTimes, meanDriftInto, softmax, withoutPull } from "./bandit.js";
import { advantages } from "./group.js";
import { gain } from "./threshold.js";

/** Who acts: a function from the current logits, once per step, to the acting logits, which the next call may overwrite. */
function actor(model, interval, initial) {
  let step = 0, current = Float64Array.from(initial), previous = Float64Array.from(initial);
  const ring = model === "lag" ? Array.from({ length: interval + 1 }, () => Float64Array.from(initial)) : [];
  return (now) => {
    const t = step++;
    if (model === "lag") {
      ring[t % (interval + 1)].set(now);
      return ring[(t + 1) % (interval + 1)];
    }
    if (t % interval === 0) {
      [previous, current] = [current, previous];
      current.set(now);
    }
    return model === "refresh" ? current : previous;
  };
}

/** Distance in logits from the fixed point at which a run beside it begins. */
export const DISPLACED = 0.1;

/** Initial logits [K] beside a fixed point: moved along its stiffest direction, to the side of less reward. */
export function displaced({ success }, { policy }, { directions }) {
  const along = directions.map((row) => row[0]), gained = dot(fisherTimes(policy, success), along);
  return policy.map((p, a) => Math.log(p) - Math.sign(gained || 1) * DISPLACED * along[a]);
}

/** One run: `gradient(found, at)` writes the ascent direction, `seen(t, policy, logits)` is told every step, 0 to `steps`. */
function run(about, loop, rate, interval, steps, gradient, seen) {
  const { momentum: mu, convention } = loop, scale = gain(mu, convention), ahead = convention === "nesterov";
  const act = actor(loop.model, interval, about.initial), K = about.success.length;
  const now = Float64Array.from(about.initial), [speed, pull, policy, acting] = [0, 0, 0, 0].map(() => new Float64Array(K));
  const at = { now, old: now, policy, acting };
  for (let t = 0; ; t++) {
    softmax(now, policy);
    seen(t, policy, now);
    if (t === steps) return;
    at.old = act(now);
    softmax(at.old, acting);
    gradient(pull, at);
    for (let a = 0; a < K; a++) {
      speed[a] = mu * speed[a] + scale * pull[a];
      now[a] += rate * (ahead ? pull[a] + mu * speed[a] : speed[a]);
    }
    if (!now.every(Number.isFinite)) return;
  }
}

/** Entropy of a policy, nats. */
export function entropy(policy) {
  let sum = 0;
  for (let a = 0; a < policy.length; a++) if (policy[a] > 0) sum -= policy[a] * Math.log(policy[a]);
  return sum;
}

/**
 * The mean update iterated from the initial policy, [steps + 1] each, NaN after it diverged: expected reward, entropy of the
 * policy in nats, the likeliest arm's probability, distance in logits from the fixed point (NaN where there is none), and on
 * which side of it: positive where the run began.
 */
export function meanPath(about, estimator, loop, rate, interval, steps, point = { policy: null }) {
  const nothing = () => new Float64Array(steps + 1).fill(NaN), fixed = point.policy?.map(Math.log) ?? null;
  const path = { reward: nothing(), entropy: nothing(), largest: nothing(), distance: nothing(), side: nothing(), policy: null };
  let first = null;
  const gone = fixed === null ? null : new Float64Array(fixed.length);
  run(about, loop, rate, interval, steps, (found, at) => meanDriftInto(found, about, estimator, at), (t, policy, logits) => {
    path.reward[t] = dot(policy, about.success);
    path.entropy[t] = entropy(policy);
    path.largest[t] = Math.max(...policy);
    if (gone !== null) {
      let mean = 0, square = 0;
      for (let a = 0; a < gone.length; a++) mean += (gone[a] = logits[a] - fixed[a]) / gone.length;
      for (let a = 0; a < gone.length; a++) square += (gone[a] - mean) ** 2;
      path.distance[t] = Math.sqrt(square);
      const from = gone.map((x) => x - mean);
      first ??= from;
      path.side[t] = dot(from, first);
    }
    if (t === steps) path.policy = [...policy];
  });
  return path;
}

/**
 * Successes of n trials of probability p (failure: q), from a uniform number: by inversion, which rises with p. So a run
 * of one seed moves smoothly when a slider does.
 */
export function drawBinomial(n, p, q, uniform) {
  if (p > q) return n - drawBinomial(n, q, p, 1 - uniform);
  let k = 0, weight = Math.pow(q, n), left = uniform - weight;
  for (const odds = p / q; left >= 0 && k < n; left -= weight) {
    weight *= ((n - k) / (k + 1)) * odds;
    k++;
  }
  return k;
}

/** One run on sampled groups, from a seed: expected reward [steps + 1]. */
export function sampledPath(about, estimator, loop, rate, interval, steps, seed) {
  const { success, law } = about, size = law.size, K = success.length;
  const { up, down } = advantages(law.rule, size), random = generator(seed);
  const wins = new Float64Array(K), losses = new Float64Array(K), frozen = estimator === "frozen";
  const rewards = new Float64Array(steps + 1).fill(NaN);
  run(about, loop, rate, interval, steps, (found, { now, old, policy, acting }) => {
    let left = size, rest = 1, won = 0;
    for (let a = 0; a < K; a++) { // the arms' counts one after the other, then who of them wins
      const share = rest > 0 ? Math.min(acting[a] / rest, 1) : 0, uniform = random();
      const drawn = a === K - 1 ? left : drawBinomial(left, share, 1 - share, uniform);
      wins[a] = drawBinomial(drawn, success[a], 1 - success[a], random());
      losses[a] = drawn - wins[a];
      left -= drawn;
      rest -= acting[a];
      won += wins[a];
    }
    let sum = 0;
    for (let a = 0; a < K; a++) {
      const weighed = estimator === "ratio" ? policy[a] / acting[a] : 1;
      sum += found[a] = (weighed * (wins[a] * up[won] + losses[a] * down[won])) / size;
    }
    const at = frozen ? acting : policy;
    for (let a = 0; a < K; a++) found[a] -= sum * at[a];
    withoutPull(found, about, at, frozen ? old : now);
  }, (t, policy) => (rewards[t] = dot(policy, success)));
  return rewards;
}
