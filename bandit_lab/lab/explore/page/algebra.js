// Small numerics: roots, complex numbers [re, im], 2x2 and 3x3 matrices, symmetric eigenvectors, random numbers.

/** A root of f in [low, high], where f changes sign: Brent's method. */
export function brent(f, low, high) {
  let a = low, b = high, fa = f(a), fb = f(b);
  if (fa === 0) return a;
  if (fb === 0) return b;
  let c = a, fc = fa, step = b - a, before = step;
  for (let round = 0; round < 200; round++) {
    if (fb > 0 === fc > 0) {
      c = a;
      fc = fa;
      before = step = b - a;
    }
    if (Math.abs(fc) < Math.abs(fb)) [a, b, c, fa, fb, fc] = [b, c, b, fb, fc, fb];
    const close = 2 * Number.EPSILON * Math.abs(b), half = (c - b) / 2;
    if (Math.abs(half) <= close || fb === 0) return b;
    let p, q;
    const s = fb / fa;
    if (a === c) {
      p = 2 * half * s;
      q = 1 - s;
    } else {
      const r = fb / fc, t = fa / fc;
      p = s * (2 * half * t * (t - r) - (b - a) * (r - 1));
      q = (t - 1) * (r - 1) * (s - 1);
    }
    if (p > 0) q = -q;
    p = Math.abs(p);
    const good = Math.abs(before) > close && Math.abs(fa) > Math.abs(fb);
    if (good && 2 * p < Math.min(3 * half * q - Math.abs(close * q), Math.abs(before * q))) {
      before = step;
      step = p / q;
    } else before = step = half;
    a = b;
    fa = fb;
    b += Math.abs(step) > close ? step : Math.sign(half) * close;
    fb = f(b);
  }
  return b;
}

/** `count` numbers from low to high, even in the logarithm. */
export function geometric(low, high, count) {
  const ratio = Math.log(high / low) / (count - 1);
  return Float64Array.from({ length: count }, (_, i) => (i === count - 1 ? high : low * Math.exp(ratio * i)));
}

/** |z|; Math.hypot, which is slow, only where squares would leave the range of numbers. */
export function modulus([x, y]) {
  const square = x * x + y * y;
  return square > 1e-280 && square < 1e280 ? Math.sqrt(square) : Math.hypot(x, y);
}
export const byModulus = (values) => values.sort((a, b) => modulus(b) - modulus(a));

/** Both roots of z^2 - trace z + determinant. */
export function quadratic(trace, determinant) {
  const inside = trace * trace / 4 - determinant;
  if (inside < 0) {
    const turn = Math.sqrt(-inside);
    return [[trace / 2, turn], [trace / 2, -turn]];
  }
  const large = trace / 2 + (trace >= 0 ? 1 : -1) * Math.sqrt(inside);
  return [[large, 0], [large === 0 ? 0 : determinant / large, 0]];
}

/** The roots of z^3 - trace z^2 + minors z - determinant: one real root by Brent's method, the others from what is left. */
export function cubic(trace, minors, determinant) {
  if (determinant === 0) return byModulus([...quadratic(trace, minors), [0, 0]]);
  const p = (x) => ((x - trace) * x + minors) * x - determinant;
  const bound = 1 + Math.max(Math.abs(trace), Math.abs(minors), Math.abs(determinant));
  // The stationary points split the line: of three real roots, the one farthest out is the best conditioned.
  const inside = trace * trace - 3 * minors;
  let low = -bound, high = bound;
  if (inside > 0) {
    const root = Math.sqrt(inside), left = (trace - root) / 3, right = (trace + root) / 3;
    if (p(left) >= 0 && p(right) <= 0) {
      if (Math.abs(left) > Math.abs(right)) high = left;
      else low = right;
    } else if (p(left) < 0) low = right;
    else high = left;
  }
  const real = brent(p, low, high), sum = trace - real;
  return byModulus([[real, 0], ...quadratic(sum, Math.abs(real) > 1e-3 * bound ? determinant / real : minors - real * sum)]);
}

export function multiply(a, b) {
  const n = a.length, k = b.length, m = b[0].length;
  const found = Array.from({ length: n }, () => new Array(m).fill(0));
  for (let i = 0; i < n; i++) for (let l = 0; l < k; l++) for (let j = 0; j < m; j++) found[i][j] += a[i][l] * b[l][j];
  return found;
}

export const transposed = (a) => a[0].map((_, j) => a.map((row) => row[j]));
export const unit = (n) => Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => (i === j ? 1 : 0)));

/** Eigenvalues of a 2x2 or 3x3 matrix, largest modulus first. */
export function eigenvalues(a) {
  if (a.length === 2) return byModulus(quadratic(a[0][0] + a[1][1], a[0][0] * a[1][1] - a[0][1] * a[1][0]));
  const [[p, q, r], [s, t, u], [v, w, x]] = a;
  const minors = p * t - q * s + (p * x - r * v) + (t * x - u * w);
  return cubic(p + t + x, minors, p * (t * x - u * w) - q * (s * x - u * v) + r * (s * w - t * v));
}

/** {values, vectors (columns)} of a symmetric matrix, largest value first: Jacobi's rotations. */
export function symmetric(matrix) {
  const n = matrix.length, a = matrix.map((row) => [...row]), v = unit(n);
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) off = Math.max(off, Math.abs(a[i][j]));
    if (off < 1e-300) break;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        if (Math.abs(a[p][q]) < 1e-300) continue;
        const ratio = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const t = (ratio >= 0 ? 1 : -1) / (Math.abs(ratio) + Math.hypot(ratio, 1)), c = 1 / Math.hypot(t, 1), s = t * c;
        for (let k = 0; k < n; k++) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
        for (let k = 0; k < n; k++) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
        for (let k = 0; k < n; k++) [v[k][p], v[k][q]] = [c * v[k][p] - s * v[k][q], s * v[k][p] + c * v[k][q]];
      }
    }
  }
  const order = a.map((_, i) => i).sort((i, j) => a[j][j] - a[i][i]);
  return { values: order.map((i) => a[i][i]), vectors: v.map((row) => order.map((i) => row[i])) };
}

/** Uniform numbers in [0, 1) from a seed: the mulberry32 generator. Enough for a few runs that are looked at. */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
