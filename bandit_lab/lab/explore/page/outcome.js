// Where the mean update sits: the words beside its picture.

import { general } from "./verdict.js";

/** Probability of an arm above which the policy counts as gone. */
const GONE = 0.99;
/** Distance from the fixed point, in logits, below which a run is back at it: a tenth of where it begins beside it. */
const BACK = 0.01;

const largest = (values) => values.reduce((a, b) => Math.max(a, b), 0);

/**
 * What a path (simulate.js, meanPath) does: `diverged`, sits at a `vertex` (all of its last tenth) or is `back` (all of its last
 * fifth); `creeps` where it has not passed the fixed point twice, by the changes of sign of its side; else the swing of its
 * second half beside that of its first `grows`, `shrinks` (below where it began) or `lasts`;
 * `moves` where there is no fixed point.
 */
export function kindOf(path) {
  const steps = path.reward.length - 1, last = (share) => Math.ceil(steps * (1 - share));
  if (!Number.isFinite(path.reward[steps])) return "diverged";
  if (path.largest.subarray(last(0.1)).every((p) => p > GONE)) return "vertex";
  if (Number.isNaN(path.distance[steps])) return "moves";
  if (path.distance.subarray(last(0.2)).every((d) => d < BACK)) return "back";
  if (turns(path.side) < 2) return "creeps";
  const before = largest(path.distance.subarray(0, last(0.5))), now = largest(path.distance.subarray(last(0.5)));
  if (now > 1.02 * before) return "grows";
  return now < 0.98 * before && now < path.distance[0] ? "shrinks" : "lasts";
}

const turns = (side) => side.reduce((count, now, t) => count + (t > 0 && now * side[t - 1] < 0 ? 1 : 0), 0);

/** The same in one sentence. success [K]: of the arms; rest: entropy at the fixed point, nats, or null. */
export function outcomeWords(path, success, rest) {
  const steps = path.reward.length - 1, kind = kindOf(path), end = general(path.reward[steps], 3);
  const nats = `entropy ${path.entropy[steps].toFixed(2)} nats${rest === null ? "" : `, ${rest.toFixed(2)} at the fixed point`}`;
  if (kind === "diverged") return "The mean update leaves the range of numbers.";
  if (kind === "vertex") {
    const arm = path.policy.indexOf(Math.max(...path.policy)), best = success[arm] === Math.max(...success);
    return `The mean update sits at ${best ? "the best arm" : `arm ${arm + 1}`}: reward ${end}, policy gone (${nats}).`;
  }
  if (kind === "moves") return `The mean update is at reward ${end} after ${steps} steps (${nats}).`;
  if (kind === "back") return `The mean update sits at the fixed point: reward ${end}, ${nats.split(",")[0]}.`;
  if (kind === "creeps") {
    const nearer = path.distance[steps] < path.distance[0];
    return `The mean update moves ${nearer ? "towards" : "away from"} the fixed point without swinging: reward ${end} (${nats}).`;
  }
  const tail = path.reward.subarray(Math.ceil(steps / 2)), low = tail.reduce((a, b) => Math.min(a, b)), high = largest(tail);
  const how = { grows: "a swing that grows", shrinks: "a swing that dies out", lasts: "a swing that lasts" }[kind];
  return `The mean update is in ${how}: reward ${general(low, 3)} to ${general(high, 3)} in the second half (${nats}).`;
}
