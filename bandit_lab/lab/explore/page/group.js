// Binary rewards in groups: by what factor h(J) the group's estimate multiplies the policy gradient (theory/group_law.py).

const logFactorials = [0];

function logFactorial(n) {
  for (let i = logFactorials.length; i <= n; i++) logFactorials.push(logFactorials[i - 1] + Math.log(i));
  return logFactorials[n];
}

/** P(k successes) of n trials, k = 0..n. */
export function binomial(n, p, q) {
  const found = new Float64Array(n + 1), up = Math.log(p), down = Math.log(q), whole = logFactorial(n);
  for (let k = 0; k <= n; k++) {
    const power = (k ? k * up : 0) + (n - k ? (n - k) * down : 0);
    found[k] = Math.exp(whole - logFactorial(k) - logFactorial(n - k) + power);
  }
  return found;
}

/** The mean of values[k] over k successes of n trials: from the likeliest k outwards, until the rest cannot count. */
function mean(n, p, q, values) {
  const top = Math.min(n, Math.floor((n + 1) * p)), odds = p / q;
  const start = Math.exp(logFactorial(n) - logFactorial(top) - logFactorial(n - top)
    + (top ? top * Math.log(p) : 0) + (n - top ? (n - top) * Math.log(q) : 0));
  const least = start * 1e-20;
  let sum = start * values[top];
  for (let k = top, weight = start; k < n && weight > least; sum += weight * values[++k]) weight *= ((n - k) / (k + 1)) * odds;
  for (let k = top, weight = start; k > 0 && weight > least; sum += weight * values[--k]) weight *= k / (n - k + 1) / odds;
  return sum;
}

/** Advantage of a success and of a failure in a group of `size` with k = 0..size successes. */
export function advantages(rule, size) {
  const up = new Float64Array(size + 1), down = new Float64Array(size + 1);
  for (let k = 0; k <= size; k++) {
    let scale = 1;
    if (rule === "rloo") scale = size / (size - 1);
    if (rule === "grpo") scale = k === 0 || k === size ? 0 : 1 / Math.sqrt(k * (size - k) / (size * size));
    up[k] = (1 - k / size) * scale;
    down[k] = (-k / size) * scale;
  }
  return { up, down };
}

/** The law of one rule, `grpo`, `dr_grpo` or `rloo`, at a group size (Infinity: infinite groups): h(J) and h'(J). */
export function groupLaw(rule, size) {
  if (size === Infinity) {
    if (rule !== "grpo") return { rule, size, factor: () => 1, slope: () => 0 };
    return {
      rule,
      size,
      factor: (p, q) => 1 / Math.sqrt(p * q),
      slope: (p, q) => -(q - p) / (2 * Math.pow(p * q, 1.5)),
    };
  }
  const { up, down } = advantages(rule, size);
  const gaps = Float64Array.from({ length: size }, (_, k) => up[k + 1] - down[k]);
  const bends = Float64Array.from({ length: size - 1 }, (_, k) => gaps[k + 1] - gaps[k]);
  return {
    rule,
    size,
    factor: (p, q) => mean(size - 1, p, q, gaps),
    slope: (p, q) => (size - 1) * mean(size - 2, p, q, bends),
  };
}

/** Covariance [K][K] of one group's gradient in the logits, exact at a finite size (theory/gradient_noise.py). */
export function gradientCovariance(law, success, policy) {
  const K = policy.length, size = law.size;
  const zero = () => Array.from({ length: K }, () => new Array(K).fill(0));
  if (size === Infinity) return zero();
  const { up, down } = advantages(law.rule, size);
  const win = policy.reduce((sum, p, a) => sum + p * success[a], 0);
  const lose = policy.reduce((sum, p, a) => sum + p * (1 - success[a]), 0);
  const weight = binomial(size, win, lose), found = zero();
  const mean = Array.from({ length: size + 1 }, () => new Array(K).fill(0));
  for (const [isWin, advantage] of [[true, up], [false, down]]) {
    const total = isWin ? win : lose;
    const share = policy.map((p, a) => (total > 0 ? (p * (isWin ? success[a] : 1 - success[a])) / total : 0));
    const gone = share.map((s, a) => s - policy[a]);
    let inner = 0;
    for (let k = 0; k <= size; k++) {
      const count = isWin ? k : size - k;
      for (let a = 0; a < K; a++) mean[k][a] += (count * advantage[k] * gone[a]) / size;
      inner += weight[k] * count * advantage[k] ** 2;
    }
    // Scores e_a - policy have the covariance of e_a: Diag(share) - share share^T.
    for (let a = 0; a < K; a++) {
      for (let b = 0; b < K; b++) {
        found[a][b] += (inner * ((a === b ? share[a] : 0) - share[a] * share[b])) / (size * size);
      }
    }
  }
  const middle = policy.map((_, a) => weight.reduce((sum, w, k) => sum + w * mean[k][a], 0));
  for (let k = 0; k <= size; k++) {
    for (let a = 0; a < K; a++) {
      for (let b = 0; b < K; b++) found[a][b] += weight[k] * (mean[k][a] - middle[a]) * (mean[k][b] - middle[b]);
    }
  }
  return found;
}
