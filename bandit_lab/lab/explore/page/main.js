// The page: one setting, drawn again at most once per frame.

/* global d3 */

import { analyse, boundary, largestStiffness, prepare, regionOf, SEARCHED_LAG } from "./analysis.js";
import { controls, say } from "./controls.js";
import { lagCrossings } from "./lag.js";
import { lawRate } from "./loop.js";
import { outcomeWords } from "./outcome.js";
import { circle, trajectory } from "./pictures.js";
import { coarseFirst, columnsUpTo, plane } from "./plane.js";
import { checked, commandLine, fromHash, LIMITS, MODELS, refusedIn, toHash } from "./setting.js";
import { DISPLACED, displaced, entropy, meanPath, sampledPath } from "./simulate.js";
import { smallMaps } from "./smallmaps.js";
import { STORIES } from "./stories.js";
import { numbers, tables } from "./tables.js";
import { general } from "./verdict.js";

// BUDGET: milliseconds of a frame after which what can wait waits. SKETCH: columns from which a new map takes the old one's place.
const RUNS = 5, SEED = 1, BUDGET = 7, CELLS = 90, SKETCH = 9, FEW_CELLS = 30;
/** Refresh intervals of the small maps. */
const FEW = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128];
const byId = (id) => document.getElementById(id);
const given = JSON.parse(byId("given").textContent);
const start = checked(fromGiven(given.start));
const POINT = new Set(["interval", "rate", "steps", "begin"]);

const addressable = location.protocol !== "about:"; // in the frame of a notebook there is no address
let setting = fromHash(location.hash, start), ready = null, found = null, mean = null, runs = [];
const NOTHING = { of: null, columns: [], left: [], few: [], spare: [] };
let map = NOTHING, shown = [], pointed = "", drawn = "";
let resting = true, waiting = false, fresh = true, restTimer = 0;

function fromGiven(values) {
  return { ...values, size: values.size === null ? Infinity : values.size };
}

/** Pictures whose layout depends on their width. */
const pictures = () => ({
  plane: plane(byId("plane"), (interval, rate, done) => change({ interval, rate }, done)),
  trajectory: trajectory(byId("trajectory")), width: byId("plane").clientWidth,
});
let draw = pictures();
const drawCircle = circle(byId("circle"));
const small = smallMaps(Object.fromEntries([...document.querySelectorAll("svg.small")].map((one) => [one.dataset.model, one])));
if (given.run?.place && !location.hash) beginAtTheRun();
addEventListener("resize", () => {
  if (byId("plane").clientWidth === draw.width) return;
  draw = pictures();
  fresh = true;
  map = NOTHING; // a new plane has no axes before a map is begun
  pointed = drawn = "";
  change({}, true);
});
const show = controls(change, () => draw.plane.domain());

/** Where a real run is laid in, the point begins there: the learning rate at which this bandit has the run's eta K. */
function beginAtTheRun() {
  const there = prepare(setting);
  if (there.reason === null && given.run.kappa) {
    start.rate = Number((given.run.kappa.value / largestStiffness(there)).toPrecision(3));
    setting = checked({ ...setting, rate: start.rate }, setting);
  }
}

/** Take over what is new. done: the hand rests, so that what takes longer is worth it. */
function change(part, done = true) {
  const before = setting;
  setting = checked({ ...setting, ...part }, setting);
  say("");
  if (setting.estimator !== "frozen" && setting.success.length > 2 && before.success.length === 2) {
    setting.estimator = "frozen";
    say("With three arms the estimator is frozen: the others are drawn for two.");
  }
  const keys = Object.keys(setting).filter((key) => String(setting[key]) !== String(before[key]));
  fresh ||= keys.some((key) => !POINT.has(key)) || (setting.interval > 64) !== (before.interval > 64);
  resting = false;
  globalThis.explore.busy = true;
  clearTimeout(restTimer);
  restTimer = setTimeout(() => {
    resting = true;
    request();
  }, done ? 30 : 200);
  request();
}

function request() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(frame);
}

/** One frame. globalThis.explore says how long it took. */
function frame() {
  waiting = false;
  const began = performance.now();
  if (fresh) ready = prepare(setting);
  fresh = false;
  let more = false;
  if (ready.reason !== null) blank();
  else {
    if (map.of !== ready && (resting || map.of === null || map.columns.length >= SKETCH || !map.left.length)) begin();
    point(began);
    extend(began);
    overlays();
    more = map.of !== ready || map.left.length > 0 || map.few.length > 0 || (resting && map.spare.length > 0) || runs.length < wanted();
  }
  show(setting);
  address();
  if (more) request();
  const took = performance.now() - began;
  globalThis.explore.frames.push(took);
  globalThis.explore.busy = more || !resting;
}

/**
 * A map of the bandit and the loop as they are now: its range; its columns are to be computed, coarse ones first. While a
 * slider moves, a map is begun only when the one before is a sketch: every map would be dropped half done otherwise.
 */
function begin() {
  const most = setting.interval > 64 ? 128 : 64, intervals = columnsUpTo(most), lags = setting.model === "lag" ? SEARCHED_LAG : most;
  const few = FEW.filter((n) => n <= most).flatMap((n) => siblings(ready).map((sibling) => [sibling, n]));
  map = { of: ready, columns: [], left: coarseFirst(intervals.length).map((i) => intervals[i]), few, made: {},
    // When the map is there: boundaries of the columns between, so that a drag finds them; islands need all lags.
    spare: isMixed() ? d3.range(0, lags + 1) : [] };
  const domain = range(most);
  draw.plane.frame(most, domain);
  draw.plane.map(shown, false);
}

/** The same bandit, optimiser and estimator under the three staleness models. */
function siblings(of) {
  return of.siblings ??= Object.keys(MODELS).map((model) => (
    model === of.loop.model ? of : { ...of, loop: { ...of.loop, model }, boundaries: new Map(), siblings: null }));
}

/** What the small maps say of the point. Where the map or a part of the stiffness is fresh, other models wait until the hand rests. */
function states() {
  const { interval, rate } = setting;
  for (const sibling of resting || (map.of === ready && !isMixed()) ? siblings(ready) : [ready]) {
    const { model } = sibling.loop, at = boundary(sibling, interval), name = regionOf(sibling, at, rate);
    const label = document.querySelector(`input[name=model][value=${model}]`).parentElement;
    label.dataset.region = name;
    label.querySelector(".state").textContent = name === "unstable" ? "unstable" : "stable";
  }
  small.at(interval, rate);
}

/** Learning rates that are shown: the boundaries at the ends of the map, with room, and the point. */
function range(most) {
  // Far ends of a mixed loop take long: there the law stands for them.
  // Of the other models, A goes farthest from the law; B and C stay within a factor of 1.6 of it.
  const of = isMixed() || ready.loop.model === "refresh" ? [ready] : [ready, siblings(ready)[0]];
  const ends = (isMixed() ? [1, 4, 16] : [1, 4, most]).flatMap((n) => of.flatMap((one) => {
    const { law, exact, onset } = boundary(one, n);
    return [law, exact, onset];
  }));
  if (isMixed()) ends.push(lawRate(ready.loop, ready.stiffness.modes, most) / 2);
  const known = ends.filter((rate) => rate > 0 && Number.isFinite(rate)), unit = 1 / Math.abs(largestStiffness(ready));
  const lowest = known.length ? Math.min(...known) : 0.01 * unit, highest = known.length ? Math.max(...known) : 10 * unit;
  const run = given.run?.kappa ? Object.values(given.run.kappa).filter((k) => k > 0).map((k) => k * unit) : [];
  const low = Math.max(Math.min(lowest / 2.5, ...run.map((r) => r / 2), setting.rate), LIMITS.rate[0]);
  const high = Math.min(Math.max(Math.min(highest * 3, lowest * 3e4), ...run.map((r) => r * 2), setting.rate), LIMITS.rate[1]);
  return [Math.max(low, high * 1e-8), high];
}

const isMixed = () => ready.stiffness.modes.some((mode) => mode.fresh !== 0);
const inTime = (began) => performance.now() - began < BUDGET;

/** Compute columns of the map until the time of this frame is used up, at least one; then what can wait. */
function extend(began) {
  const { of, columns, left, spare } = map;
  if (!left.length) {
    while (map.few.length && inTime(began)) smallColumn();
    while (resting && spare.length && inTime(began)) {
      const interval = spare.shift();
      if (interval > 0 && interval <= 64) boundary(of, interval);
      if (of.loop.model === "lag") for (const mode of of.stiffness.modes) lagCrossings(of.loop, mode, interval);
    }
    return;
  }
  do {
    const interval = left.shift(), at = { ...boundary(of, interval) };
    if (!of.stiffness.modes.every((mode) => mode.fresh === 0)) at.runs = windows(of, at);
    columns.push(at);
  } while (left.length && inTime(began));
  columns.sort((a, b) => a.interval - b.interval);
  if (columns.length >= SKETCH || !shown.length || !left.length) draw.plane.map((shown = columns), !left.length);
}

/** One column of one small map; the maps are drawn when all are there. */
function smallColumn() {
  const [of, interval] = map.few.shift(), at = { ...boundary(of, interval) };
  if (isMixed()) at.runs = windows(of, at, FEW_CELLS);
  (map.made[of.loop.model] ??= []).push(at);
  if (map.few.length) return;
  small.frame(map.columns.at(-1).interval, draw.plane.domain());
  for (const [model, columns] of Object.entries(map.made)) small.map(model, columns);
  small.at(setting.interval, setting.rate);
}

/** [[region, low, high], ...] of one column of the map, from below. */
function windows(of, at, cells = CELLS) {
  const [low, high] = draw.plane.domain(), step = (high / low) ** (1 / cells), found = [];
  for (let i = 0, rate = low * Math.sqrt(step); i < cells; i++, rate *= step) {
    const name = regionOf(of, at, rate), last = found[found.length - 1];
    if (last && last[0] === name) last[2] = rate * Math.sqrt(step);
    else found.push([name, rate / Math.sqrt(step), rate * Math.sqrt(step)]);
  }
  return found;
}

const wanted = () => (setting.size === Infinity ? 0 : RUNS);

/** Everything about the point, where it is new. Runs come one after the other, as this frame has time. */
function point(began) {
  const { interval, rate, steps, estimator } = setting, { about, loop } = ready;
  const whole = resting && map.of === ready && !map.left.length && !map.spare.length;
  const place = toHash(setting), all = `${place} ${whole} ${runs.length} ${byId("tables").open && resting}`;
  if (place === pointed && all === drawn && runs.length >= wanted()) return;
  const from = setting.begin === "point" ? { ...about, initial: displaced(about, ready.point, ready.stiffness) } : about;
  if (place !== pointed) {
    mean = meanPath(from, estimator, loop, rate, interval, steps, ready.point);
    runs = [];
  }
  if (place !== pointed || !drawn.startsWith(`${place} ${whole}`)) found = analyse(ready, interval, rate, whole);
  pointed = place;
  while (runs.length < wanted() && (runs.length === 0 || inTime(began))) {
    runs.push(sampledPath(from, estimator, loop, rate, interval, steps, SEED + runs.length));
  }
  drawn = `${place} ${whole} ${runs.length} ${byId("tables").open && resting}`;
  const reward = ready.point.reward, rest = entropy(ready.point.policy);
  draw.trajectory({ mean, runs, reward, std: found.std, entropy: rest, success: setting.success });
  drawCircle(found.multipliers);
  draw.plane.at(interval, rate, `N = ${interval}, η = ${general(rate, 3)}: ${greek(found.words)}`);
  states();
  byId("verdict").textContent = greek(found.words);
  byId("outcome").textContent = outcomeWords(mean, setting.success, rest);
  numbers(byId("numbers"), ready, found);
  if (byId("tables").open && resting) tables(byId("tables"), ready, map.columns, found, mean, runs);
  const per = found.steps === 1 ? "per step" : `per block of ${found.steps} steps`;
  byId("circle-words").textContent = `Each dot is a multiplier ${per}; outside of the circle a displacement grows. Largest modulus: ${general(found.radius, 4)}.`;
  byId("runs-words").textContent = describe(reward, setting.size);
}

const GREEK = { eta: "η", mu: "μ", beta: "β" };
const greek = (words) => words.replace(/\b(eta|mu|beta)\b/g, (name) => GREEK[name]);

function describe(reward, size) {
  const from = setting.begin === "point" ? `${DISPLACED} logits beside the fixed point` : "the first policy";
  const thick = `Thick line: the mean update from ${from}. Dashed: the fixed point, reward ${general(reward, 4)}.`;
  if (size === Infinity) return `${thick} Infinite groups have no noise.`;
  const thin = `Thin lines: ${RUNS} runs on sampled groups of ${size}, always the same seeds.`;
  if (found.std === null) return `${thick} ${thin} Beyond the threshold there is no stationary band.`;
  return `${thick} Band: predicted, two standard deviations (${general(found.std, 2)}) around it. ${thin}`;
}

/** No map: the reason takes its place. */
function blank() {
  found = null;
  pointed = drawn = "";
  map = NOTHING;
  draw.plane.map((shown = []));
  for (const model of Object.keys(MODELS)) small.map(model, []);
  document.querySelectorAll(".models .state").forEach((one) => (one.textContent = "not drawn"));
  byId("verdict").textContent = greek(ready.reason);
  draw.plane.run(null);
  draw.plane.cells([]);
  const { about, loop } = ready, { interval, rate, steps, estimator } = setting;
  mean = meanPath(about, estimator, loop, rate, interval, steps);
  draw.trajectory({ mean, runs: [], reward: ready.point.reward ?? null, std: null, entropy: null, success: setting.success });
  byId("outcome").textContent = outcomeWords(mean, setting.success, null);
  drawCircle([]);
  byId("numbers").tBodies[0].replaceChildren();
  byId("runs-words").textContent = "Thick line: the mean update from the first policy.";
  byId("circle-words").textContent = "No fixed point that is analysed here, so no multipliers.";
}

/** What was handed over with the page: a real run, a sweep's cells. */
function overlays() {
  const notes = [], { run, sweep } = given;
  byId("run-key").hidden = !run;
  byId("cells-key").hidden = !sweep;
  if (run) {
    const unit = 1 / largestStiffness(ready), at = (kappa) => (kappa === null ? null : kappa * unit);
    const kappa = run.kappa ?? { value: null, low: null, high: null };
    draw.plane.run({ interval: Math.max(run.interval, 1), rate: at(kappa.value), low: at(kappa.low), high: at(kappa.high) });
    notes.push(run.words);
    const same = ["model", "convention"].every((key) => run[key] === setting[key]) && run.momentum === setting.momentum;
    if (!same) notes.push(`The map now shows another loop than the run's: ${MODELS[run.model]}, momentum ${run.momentum}.`);
  }
  if (sweep) {
    const part = sweep.cells.filter((c) => Math.abs(c.momentum - setting.momentum) < 1e-12);
    draw.plane.cells(part);
    const known = [...new Set(sweep.cells.map((c) => c.momentum))].join(", ");
    notes.push(part.length ? sweep.words : `${sweep.words} It has cells at momentum ${known}, none at ${setting.momentum}.`);
    if (toHash({ ...setting, interval: 1, rate: 1, momentum: 0, steps: 100 }) !== toHash({ ...start, interval: 1, rate: 1, momentum: 0, steps: 100 })) {
      notes.push("The map now shows another bandit or loop than the sweep's.");
    }
  }
  byId("overlay-note").hidden = notes.length === 0;
  byId("overlay-note").textContent = notes.join(" ");
}

function address() {
  byId("setting-line").textContent = `model ${MODELS[setting.model]}; N = ${setting.interval}, η = ${general(setting.rate, 4)}, μ = ${general(setting.momentum, 4)}, `
    + `β = ${general(setting.weight, 4)}, G = ${setting.size === Infinity ? "infinity" : setting.size}; success ${setting.success.map((p) => general(p, 4)).join(", ")}`;
  byId("command").value = commandLine(setting);
  if (resting && addressable) history.replaceState(null, "", `#${toHash(setting)}`);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = `Copied: ${what}.`;
  } catch {
    byId("command").value = text;
    byId("command").focus();
    byId("command").select();
    const done = document.execCommand?.("copy") ?? false;
    byId("copied").textContent = done ? `Copied: ${what}.` : "This browser does not let the page copy: the text is selected, press Ctrl-C.";
  }
}

byId("copy-command").addEventListener("click", () => copy(commandLine(setting), "the predict line"));
byId("copy-link").addEventListener("click", () => copy(`${location.href.split("#")[0]}#${toHash(setting)}`, "the link"));
byId("copy-link").hidden = !addressable;
byId("reset").addEventListener("click", () => change(start, true));
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("tables").addEventListener("toggle", request);
addEventListener("beforeprint", () => {
  byId("tables").open = true;
  if (ready.reason === null) tables(byId("tables"), ready, map.columns, found, mean, runs);
});
addEventListener("hashchange", ({ newURL }) => {
  const { hash } = new URL(newURL);
  change(fromHash(hash, start), true);
  say(refusedIn(hash, setting));
});
byId("stories").append(...STORIES.map(({ title, steps }) => {
  const story = document.createElement("li"), name = document.createElement("b");
  name.textContent = title;
  story.append(name, ...steps.map(({ words, setting: told }) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: words });
    button.addEventListener("click", () => {
      change(told, true);
      requestAnimationFrame(() => byId("words").scrollIntoView({ block: "nearest" }));
    });
    return button;
  }));
  return story;
}));
// In a frame of the same origin, as in a notebook and on the site, the page is as high as it needs: no scrolling in a scroll.
const frameAround = globalThis.frameElement;
if (frameAround) new ResizeObserver(() => (frameAround.style.height = `${document.body.offsetHeight + 20}px`)).observe(document.body);
say(refusedIn(location.hash, setting));
globalThis.explore = { frames: [], busy: true, setting: () => setting, found: () => found };
request();
