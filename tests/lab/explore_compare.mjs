// Compares what the page's modules say with what Python says. Arguments: the folder of the modules, a JSON file of groups
// {name: [{given, expected}]}. Prints, per group, how many numbers were compared and the largest relative difference.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [folder, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(join(folder, name)));
const [algebra, bandits, group, loops, noise, simulate, thresholds, analysis, words, settings] = await Promise.all(
  ["algebra.js", "bandit.js", "group.js", "loop.js", "noise.js", "simulate.js", "threshold.js", "analysis.js", "verdict.js",
    "setting.js"].map(load),
);
const size = (value) => (value === null ? Infinity : value);

function built(given) {
  const law = group.groupLaw(given.advantage, size(given.size));
  return bandits.bandit(given.success, given.reference, law, given.weight, given.initial);
}

const COMPUTE = {
  kappa: ({ model, interval, momentum, convention }) => {
    const exact = thresholds.exactThreshold(model, interval, momentum, convention);
    return { exact: exact.kappa, kind: exact.bifurcation, onset: thresholds.onset(model, interval, momentum, convention),
      law: thresholds.leadingOrder(interval, momentum, convention), age: thresholds.meanAge(model, interval) };
  },
  mixed: ({ loop, mode, interval, rate }) => {
    const exact = loops.threshold(loop, [mode], interval), every = loops.multipliers(loop, mode, rate, interval);
    return { exact: exact.rate, kind: exact.bifurcation, onset: loops.onsetRate(loop, [mode], interval),
      radius: algebra.modulus(every[0]), period: loops.period(loop, [mode], rate, interval),
      moduli: every.slice(0, 4).map(algebra.modulus),
      unstable: loops.unstableIntervals(loop, [mode], rate, 48) };
  },
  bandit: ({ loop, interval, fraction, estimator, ...given }) => {
    const about = built(given), point = bandits.fixedPoint(about);
    if (point.policy === null) return { policy: null, critical: point.critical };
    const stiffness = bandits.stiffnessModes(about, point, estimator);
    const found = { policy: point.policy, reward: point.reward };
    if (stiffness === null) return found;
    const covariance = group.gradientCovariance(about.law, about.success, point.policy);
    const rate = fraction / (stiffness.modes[0].fresh + stiffness.modes[0].stale);
    return { ...found, stiffness: stiffness.modes.map((m) => m.fresh + m.stale), covariance: covariance.flat(),
      std: noise.rewardStd(about, point, stiffness, loop, rate, interval),
      drift: bandits.meanDrift(about, estimator, given.now, given.old) };
  },
  path: ({ loop, interval, rate, steps, estimator, beside, ...given }) => {
    let about = built(given);
    const point = bandits.fixedPoint(about);
    if (beside) about = { ...about, initial: simulate.displaced(about, point, bandits.stiffnessModes(about, point, estimator)) };
    const path = simulate.meanPath(about, estimator, loop, rate, interval, steps, point);
    return { rewards: [...path.reward], policy: path.policy, entropy: path.entropy[steps], largest: path.largest[steps], distance: path.distance[steps] };
  },
  verdict: ({ setting, facts }) => {
    if (facts) return { words: words.verdict(facts) };
    const one = settings.checked({ ...setting, size: size(setting.size) }), ready = analysis.prepare(one);
    if (ready.reason) return { words: ready.reason };
    const found = analysis.analyse(ready, one.interval, one.rate);
    return { words: found.words, regime: found.regime, radius: found.radius, exact: found.exact, law: found.law,
      onset: found.onset, period: found.period, std: found.std };
  },
};

function difference(got, wanted, scale) {
  if (Array.isArray(wanted)) {
    if (!Array.isArray(got) || got.length !== wanted.length) return Infinity;
    const whole = Math.max(scale, ...wanted.flat().filter(Number.isFinite).map(Math.abs));
    return Math.max(0, ...wanted.map((x, i) => difference(got[i], x, whole)));
  }
  if (typeof wanted !== "number") return got === wanted ? 0 : Infinity;
  if (typeof got !== "number" || !Number.isFinite(got)) return Infinity;
  return Math.abs(got - wanted) / (Math.max(Math.abs(wanted), scale) || 1);
}

const result = {};
for (const [name, rows] of Object.entries(JSON.parse(readFileSync(file, "utf8")))) {
  const worst = {};
  let count = 0;
  for (const { given, expected } of rows) {
    const got = COMPUTE[name](given);
    for (const key of Object.keys(expected)) {
      count++;
      const off = difference(got[key], expected[key], 0);
      if (!(off <= (worst[key]?.off ?? -1))) worst[key] = { off: off === Infinity ? 1e9 : off, given, got: got[key] ?? null, expected: expected[key] };
    }
  }
  result[name] = { settings: rows.length, numbers: count, worst };
}
console.log(JSON.stringify(result));
