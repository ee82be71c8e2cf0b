// The bandit trained step by step in the page: the mean update, and a few runs on sampled groups. Time as everywhere in
// the lab: refresh acts with the snapshot taken at t mod N = 0 before the update, lag with theta of t - N, pipeline with the
// start of the block before; all with the initial policy until there is one.

import { generator } from "./algebra.js";
import { dot, meanDriftInto, softmax, withoutPull } from "./bandit.js";
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

/** Expected reward at steps 0..steps [steps + 1] of one run; `gradient(found, at)` writes the ascent direction. */
function run(about, loop, rate, interval, steps, gradient) {
  const { momentum: mu, convention } = loop, scale = gain(mu, convention), ahead = convention === "nesterov";
  const act = actor(loop.model, interval, about.initial), rewards = new Float64Array(steps + 1), K = about.success.length;
  const now = Float64Array.from(about.initial), [speed, pull, policy, acting] = [0, 0, 0, 0].map(() => new Float64Array(K));
  const at = { now, old: now, policy, acting };
  for (let t = 0; ; t++) {
    softmax(now, policy);
    rewards[t] = dot(policy, about.success);
    if (t === steps) return rewards;
    at.old = act(now);
    softmax(at.old, acting);
    gradient(pull, at);
    for (let a = 0; a < K; a++) {
      speed[a] = mu * speed[a] + scale * pull[a];
      now[a] += rate * (ahead ? pull[a] + mu * speed[a] : speed[a]);
    }
    if (!now.every(Number.isFinite)) return rewards.fill(NaN, t + 1);
  }
}

/** The mean update iterated from the initial policy: expected reward [steps + 1]. */
export function meanPath(about, estimator, loop, rate, interval, steps) {
  return run(about, loop, rate, interval, steps, (found, at) => meanDriftInto(found, about, estimator, at));
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
  return run(about, loop, rate, interval, steps, (found, { now, old, policy, acting }) => {
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
  });
}
