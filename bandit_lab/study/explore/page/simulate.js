// The bandit trained step by step in the page: the mean update, and a few runs on sampled groups. Time as everywhere in
// the lab: refresh acts with the snapshot taken at t mod N = 0 before the update, lag with theta of t - N, pipeline with the
// start of the block before; all with the initial policy until there is one.

import { generator } from "./algebra.js";
import { dot, fisherTimes, meanDrift, softmax } from "./bandit.js";
import { advantages } from "./group.js";
import { gain } from "./threshold.js";

/** Who acts: a function from the current logits, once per step, to the acting logits. */
function actor(model, interval, initial) {
  let step = 0, current = initial, previous = initial;
  const ring = new Array(interval + 1).fill(initial);
  return (now) => {
    const t = step++;
    if (model === "lag") {
      ring[t % (interval + 1)] = now;
      return ring[(t + 1) % (interval + 1)];
    }
    if (t % interval === 0) [previous, current] = [current, now];
    return model === "refresh" ? current : previous;
  };
}

/** Expected reward at steps 0..steps [steps + 1] of one run; `gradient(now, old)` is the ascent direction. */
function run(about, loop, rate, interval, steps, gradient) {
  const { momentum: mu, convention } = loop, scale = gain(mu, convention), ahead = convention === "nesterov";
  const act = actor(loop.model, interval, about.initial), rewards = new Float64Array(steps + 1);
  let logits = about.initial, speed = logits.map(() => 0);
  for (let t = 0; ; t++) {
    rewards[t] = dot(softmax(logits), about.success);
    if (t === steps) return rewards;
    const pull = gradient(logits, act(logits));
    speed = speed.map((v, a) => mu * v + scale * pull[a]);
    logits = logits.map((x, a) => x + rate * (ahead ? pull[a] + mu * speed[a] : speed[a]));
    if (!logits.every(Number.isFinite)) return rewards.fill(NaN, t + 1);
  }
}

/** The mean update iterated from the initial policy: expected reward [steps + 1]. */
export function meanPath(about, estimator, loop, rate, interval, steps) {
  return run(about, loop, rate, interval, steps, (now, old) => meanDrift(about, estimator, now, old));
}

/** One run on sampled groups, from a seed: expected reward [steps + 1]. */
export function sampledPath(about, estimator, loop, rate, interval, steps, seed) {
  const { success, logReference, law, weight } = about, size = law.size, K = success.length;
  const { up, down } = advantages(law.rule, size), random = generator(seed);
  const wins = new Float64Array(K), losses = new Float64Array(K);
  const gradient = (now, old) => {
    const acting = softmax(old), policy = softmax(now);
    wins.fill(0);
    losses.fill(0);
    let won = 0;
    for (let i = 0; i < size; i++) {
      let left = random(), a = 0;
      while (a < K - 1 && left >= acting[a]) left -= acting[a++];
      if (random() < success[a]) {
        wins[a]++;
        won++;
      } else losses[a]++;
    }
    const atNow = estimator === "frozen" ? acting : policy, where = estimator === "frozen" ? old : now;
    let sum = 0;
    const signal = policy.map((p, a) => {
      const weighed = estimator === "ratio" ? p / acting[a] : 1;
      const one = (weighed * (wins[a] * up[won] + losses[a] * down[won])) / size;
      sum += one;
      return one;
    });
    const pull = fisherTimes(atNow, where.map((x, a) => x - logReference[a]));
    return signal.map((one, a) => one - sum * atNow[a] - weight * pull[a]);
  };
  return run(about, loop, rate, interval, steps, gradient);
}
