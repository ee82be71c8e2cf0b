// Everything that the page says of a setting. `prepare` does what depends on the bandit and the loop, `analyse` what depends
// on the point as well; `boundaries` and `regionOf` make the map.

import { modulus } from "./algebra.js";
import { bandit, fixedPoint, stiffnessModes } from "./bandit.js";
import { groupLaw } from "./group.js";
import { allMultipliers, lagUnstable, lawRate, multipliers, onsetRate, period, stepsPerMap, threshold, unstableIntervals } from "./loop.js";
import { rewardStd } from "./noise.js";
import { meanAge } from "./threshold.js";
import { verdict } from "./verdict.js";

const SEARCHED = 1024;
/** Largest lag that the search for islands looks at, where a part of the stiffness is fresh. */
export const SEARCHED_LAG = 128;
export const SHARED = "with three arms and more, fresh and stale stiffness of this estimator do not share their directions: "
  + "this page draws two arms, or estimator frozen; `predict` has this setting too";

/** {about, point, stiffness, loop, reason}: the bandit, its fixed point, its modes; reason where the map cannot be drawn. */
export function prepare(setting) {
  const law = groupLaw(setting.advantage, setting.size);
  const about = bandit(setting.success, setting.reference, law, setting.weight, setting.initial);
  const loop = { model: setting.model, momentum: setting.momentum, convention: setting.convention };
  const point = fixedPoint(about), base = { about, loop, point, estimator: setting.estimator, boundaries: new Map() };
  if (point.policy === null) {
    const words = verdict({ noFixedPoint: true, weight: setting.weight, critical: point.critical });
    return { ...base, stiffness: null, reason: words };
  }
  const stiffness = stiffnessModes(about, point, setting.estimator);
  return { ...base, stiffness, reason: stiffness === null ? SHARED : null };
}

export const largestStiffness = (ready) => ready.stiffness.modes[0].fresh + ready.stiffness.modes[0].stale;

/** Learning rates at a refresh interval: {law, exact, onset, bifurcation}, null for what does not exist. Each is computed once. */
export function boundary(ready, interval) {
  const { loop, stiffness: { modes }, boundaries } = ready;
  if (!boundaries.has(interval)) {
    const exact = threshold(loop, modes, interval);
    boundaries.set(interval, { interval, law: lawRate(loop, modes, interval), exact: exact.rate,
      bifurcation: exact.bifurcation, onset: onsetRate(loop, modes, interval) });
  }
  return boundaries.get(interval);
}

/** What happens at a place of the plane: `unstable`, `oscillates` or `converges`. */
export function regionOf(ready, at, rate) {
  const { loop, stiffness: { modes } } = ready;
  if (modes.every((mode) => mode.fresh === 0)) {
    if (rate >= at.exact) return "unstable";
  } else if (modes.some((mode) => isUnstable(loop, mode, rate, at.interval))) return "unstable";
  return at.onset !== null && rate > at.onset ? "oscillates" : "converges";
}

function isUnstable(loop, mode, rate, interval) {
  if (mode.fresh + mode.stale <= 0) return true;
  if (loop.model === "lag") return lagUnstable(loop, mode, rate, interval);
  return modulus(multipliers(loop, mode, rate, interval)[0]) >= 1;
}

/** The point of the plane: thresholds, multipliers, regime, period, verdict, band. islands: searched only where asked. */
export function analyse(ready, interval, rate, withIslands = true) {
  const { loop, stiffness: { modes }, about, point } = ready, at = boundary(ready, interval);
  const every = allMultipliers(loop, modes, rate, interval), radius = modulus(every[0]), steps = stepsPerMap(loop, interval);
  const repels = modes.some((mode) => mode.fresh + mode.stale <= 0), cycle = period(loop, modes, rate, interval);
  let regime = "overdamped";
  if (repels || radius >= 1) regime = "unstable";
  else if (cycle !== null || (at.onset !== null && rate > at.onset)) regime = "oscillatory";
  const wholly = modes.every((mode) => mode.fresh === 0), searched = loop.model === "lag" && !wholly ? SEARCHED_LAG : SEARCHED;
  const islands = withIslands && !repels && !wholly ? unstableIntervals(loop, modes, rate, searched) : [];
  const facts = { rate, interval, ...at, radius, regime, period: cycle, islands, searched, lawReason: "the fixed point repels",
    exactReason: "stable up to the end of the scan" };
  return { ...at, rate, steps, multipliers: every, radius, regime, period: cycle,
    decay: radius > 0 && radius < 1 ? -steps / Math.log(radius) : null, age: meanAge(loop.model, interval),
    kappa: rate * (modes[0].fresh + modes[0].stale), words: verdict(facts),
    std: regime === "unstable" ? null : rewardStd(about, point, ready.stiffness, loop, rate, interval) };
}
