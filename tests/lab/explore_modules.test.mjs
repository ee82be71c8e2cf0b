// The page's modules by themselves: `node --test`. What they compute is compared with Python in test_explore_numbers.py.

import assert from "node:assert/strict";
import { test } from "node:test";

const from = (name) => import(new URL(`../../bandit_lab/lab/explore/page/${name}.js`, import.meta.url));
const { brent, cubic, eigenvalues, generator, modulus, symmetric } = await from("algebra");
const { lagMultipliers, lagOnset } = await from("lag");
const { checked, commandLine, DEFAULT, fromHash, refusedIn, toHash } = await from("setting");
const { displaced, entropy, sampledPath, meanPath } = await from("simulate");
const { kindOf, outcomeWords } = await from("outcome");
const { rewardsShown } = await from("pictures");
const { prepare, analyse, boundary } = await from("analysis");
const { amount, general } = await from("verdict");
const { STORIES } = await from("stories");
const { coarseFirst, columnsUpTo } = await from("plane");

test("a root is found to the last digits", () => {
  assert.ok(Math.abs(brent((x) => x * x * x - 2, 0, 2) - Math.cbrt(2)) < 1e-15);
  assert.equal(brent((x) => x, 0, 1), 0);
});

test("roots of cubics: three real ones, a pair, a double one, a zero", () => {
  for (const roots of [[0.9, 0.5, -0.3], [1, 1e-6, -2], [0.5, 0.5, 0.1], [0.7, 0.2, 0]]) {
    const [a, b, c] = roots, found = cubic(a + b + c, a * b + a * c + b * c, a * b * c).map((z) => z[0]).sort((p, q) => p - q);
    [...roots].sort((p, q) => p - q).forEach((root, i) => assert.ok(Math.abs(found[i] - root) < 1e-7, `${roots}: ${found}`));
  }
  const [first, second] = cubic(2 * 0.6 + 0.1, 0.36 + 0.49 + 2 * 0.6 * 0.1, 0.1 * (0.36 + 0.49));
  assert.ok(Math.abs(first[0] - 0.6) < 1e-12 && Math.abs(Math.abs(first[1]) - 0.7) < 1e-12 && second[1] === -first[1]);
});

test("eigenvectors of a symmetric matrix are orthonormal and rebuild it", () => {
  const a = [[2, -1, 0.3], [-1, 1, 0.2], [0.3, 0.2, -1]], { values, vectors } = symmetric(a);
  for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) {
    const rebuilt = values.reduce((sum, v, k) => sum + vectors[i][k] * v * vectors[j][k], 0);
    assert.ok(Math.abs(rebuilt - a[i][j]) < 1e-14);
  }
});

test("multipliers of a lag are all roots, none twice", () => {
  const loop = { model: "lag", momentum: 0.9, convention: "heavy_ball" }, mode = { fresh: 0.2, stale: -0.07 };
  for (const lag of [0, 1, 7, 64]) {
    const found = lagMultipliers(loop, mode, 0.1, lag), sum = found.reduce((s, z) => s + z[0], 0);
    assert.equal(found.length, lag + 2);
    const trace = 1.9 - 0.1 * (lag === 0 ? 0.13 : 0.2);
    assert.ok(Math.abs(sum - trace) < 1e-9, `${lag}: ${sum}`);
  }
});

test("the generator is the same for a seed, and even", () => {
  const draw = generator(3), again = generator(3), values = Array.from({ length: 20000 }, () => draw());
  assert.deepEqual(values.slice(0, 5), Array.from({ length: 5 }, () => again()));
  const mean = values.reduce((a, b) => a + b) / values.length;
  assert.ok(Math.abs(mean - 0.5) < 5 / Math.sqrt(12 * values.length)); // five standard errors
  assert.ok(values.every((v) => v >= 0 && v < 1));
});

test("sampled runs scatter around the fixed point as the band says, and differ between seeds", () => {
  const setting = checked({ ...DEFAULT, interval: 1, rate: 0.05, momentum: 0, size: 64, advantage: "dr_grpo" });
  const ready = prepare(setting), { std } = analyse(ready, 1, 0.05);
  const spreads = Array.from({ length: 8 }, (_, seed) => {
    const path = sampledPath(ready.about, "frozen", ready.loop, 0.05, 1, 6000, seed).subarray(1000);
    return path.reduce((s, r) => s + (r - ready.point.reward) ** 2, 0) / path.length;
  });
  const found = Math.sqrt(spreads.reduce((a, b) => a + b) / 8);
  // Eight runs of 5,000 steps hold some 500 independent values: 5 standard errors of a std are 16 %.
  assert.ok(Math.abs(found / std - 1) < 0.16, `${found} ${std}`);
  assert.notEqual(spreads[0], spreads[1]);
});

test("the mean update ends at the fixed point below the threshold", () => {
  const ready = prepare(DEFAULT), path = meanPath(ready.about, "frozen", ready.loop, 0.1, 8, 2000);
  assert.ok(Math.abs(path.reward[2000] - ready.point.reward) < 1e-9);
});

/** The mean update beside the fixed point at `times` the exact threshold. */
function beside(part, times, steps = 300) {
  const setting = checked({ ...DEFAULT, ...part }), ready = prepare(setting), { about, point, loop, stiffness } = ready;
  const rate = times * boundary(ready, setting.interval).exact, from = { ...about, initial: displaced(about, point, stiffness) };
  return { ready, path: meanPath(from, setting.estimator, loop, rate, setting.interval, steps, point) };
}

test("what is drawn grows above the threshold and dies out below it, in A, B and C", () => {
  for (const model of ["refresh", "lag", "pipeline"]) {
    for (const [interval, momentum] of [[2, 0], [8, 0], [2, 0.9], [8, 0.9], [24, 0.9]]) {
      for (const success of [[0.9, 0.1], [0.9, 0.6, 0.3, 0.1]]) {
        const name = `${model} ${interval} ${momentum} ${success.length}`, swing = ({ ready, path }, from, to) => (
          Math.max(...[...path.reward.subarray(from, to)].map((reward) => Math.abs(reward - ready.point.reward))));
        const above = beside({ model, interval, momentum, success }, 1.3), below = beside({ model, interval, momentum, success }, 0.8);
        assert.ok(swing(above, 200, 301) > 2 * swing(above, 0, 1), name);
        assert.ok(swing(below, 200, 301) < 0.7 * swing(below, 0, 1), name);
        assert.ok(["grows", "lasts"].includes(kindOf(above.path)), name);
        assert.ok(["back", "shrinks"].includes(kindOf(below.path)), name);
        const [low, high] = rewardsShown(below.path.reward, [], below.ready.point.reward, null, success);
        assert.ok(high - low < 2.5 * swing(below, 0, 301), name); // the axis is that of what is drawn
      }
    }
  }
});

test("it is said where a run sits: an unstable one at the best arm is no success", () => {
  const setting = checked({ ...DEFAULT, rate: 0.3 }), ready = prepare(setting), rest = entropy(ready.point.policy);
  const path = meanPath(ready.about, "frozen", ready.loop, 0.3, 8, 300, ready.point);
  assert.equal(outcomeWords(path, setting.success, rest),
    `The mean update sits at the best arm: reward 0.9, policy gone (entropy 0.00 nats, 0.37 at the fixed point).`);
  assert.ok(path.entropy[300] < 1e-3);
  assert.match(outcomeWords(beside({}, 0.4).path, setting.success, rest), /^The mean update sits at the fixed point: reward 0.804, entropy 0.37 nats/);
  assert.match(outcomeWords(beside({}, 1.3).path, setting.success, rest), /^The mean update is in a swing that grows: reward 0.7\d+ to 0.8\d+/);
  const worst = meanPath({ ...ready.about, initial: [-9, 0] }, "frozen", ready.loop, 1e-6, 8, 100, ready.point);
  assert.match(outcomeWords(worst, setting.success, rest), /^The mean update sits at arm 2: reward 0.1, policy gone/);
});

test("an address gives back the setting, and nonsense gives the default", () => {
  const odd = checked({ ...DEFAULT, model: "lag", size: Infinity, success: [0.2, 0.3, 0.7], reference: [0, -1, 2], rate: 1.25e-5 });
  assert.deepEqual(fromHash(`#${toHash(odd)}`, DEFAULT), { ...odd, initial: [0, 0, 0] });
  assert.deepEqual(fromHash("#model=x&rate=y&momentum=&success=1,a&interval=-4", DEFAULT), { ...DEFAULT, interval: 1 });
});

test("what a link asks and the page does not take is said", () => {
  const said = (hash) => refusedIn(hash, fromHash(hash, DEFAULT));
  assert.equal(said(`#${toHash(DEFAULT)}`), "");
  assert.equal(said(`#${toHash({ ...DEFAULT, size: Infinity })}`), "");
  assert.equal(said("#interval=500&rate=-1&model=D"), "Of this link the page does not take model=D, interval=500, rate=-1.");
  assert.equal(said("#success=0.5,1.5"), "Of this link the page does not take success=0.5,1.5.");
});

test("what the stories say of stable, unstable and numbers is so", () => {
  for (const { steps } of STORIES) {
    assert.equal(steps.length, 2);
    for (const { words, setting } of steps) {
      assert.ok(words.split(" ").length <= 25, words);
      const ready = prepare(setting), found = analyse(ready, setting.interval, setting.rate);
      const from = setting.begin === "point" ? displaced(ready.about, ready.point, ready.stiffness) : ready.about.initial;
      const path = meanPath({ ...ready.about, initial: from }, setting.estimator, ready.loop, setting.rate, setting.interval, setting.steps, ready.point);
      if (words.includes("is unstable")) assert.equal(found.regime, "unstable", words);
      if (words.includes("is stable")) assert.notEqual(found.regime, "unstable", words);
      if (words.includes("dies out")) assert.ok(["back", "shrinks"].includes(kindOf(path)), words);
      if (words.includes("grows")) assert.equal(kindOf(path), "grows", words);
      if (words.includes("times below")) assert.equal(words.match(/[\d.]+ times below/)[0], `${amount(found.exact / setting.rate)} times below`);
      if (words.includes("reward 0.9")) assert.ok(Math.abs(path.reward.at(-1) - 0.9) < 1e-3 && Math.max(...setting.success) === 0.9);
    }
  }
  const [, { steps: [first] }] = STORIES, ready = prepare(first.setting); // and its entropy is 0, as the second sentence says
  const path = meanPath(ready.about, "frozen", ready.loop, first.setting.rate, 8, 300, ready.point);
  assert.ok(path.entropy.at(-1) < 0.005 && first.setting.begin === "policy");
  const weighed = prepare(STORIES[2].steps[1].setting).stiffness.modes[0];
  assert.ok(weighed.fresh > Math.abs(weighed.stale));
});

test("numbers read as Python writes them", () => {
  assert.deepEqual([0.1234, 2.26, 55.48, 1234, 999500, 1.2e7].map(amount), ["0.12", "2.3", "55", "1,200", "1e+06", "1.2e+07"]);
  assert.deepEqual([0, 1e-5, 0.00012, 123456, 1234567].map((v) => general(v)), ["0", "1e-05", "0.00012", "123456", "1.23457e+06"]);
});

test("a command line has no exponent with a plus sign and quotes its lists", () => {
  const line = commandLine(checked({ ...DEFAULT, rate: 1e-6 }));
  assert.ok(line.includes("'bandit.rewards=[0.9,0.1]'") && line.includes("learning_rate=0.000001"));
});

test("columns of the map are computed ends first, each once", () => {
  const columns = columnsUpTo(64), order = coarseFirst(columns.length);
  assert.equal(columns.at(-1), 64);
  assert.deepEqual([...order].sort((a, b) => a - b), columns.map((_, i) => i));
  assert.deepEqual(order.slice(0, 2), [0, columns.length - 1]);
});

test("eigenvalues come by modulus", () => {
  const found = eigenvalues([[0, 1, 0], [0, 0, 1], [0.1, 0, 0]]);
  assert.ok(found.every((z) => Math.abs(modulus(z) - Math.cbrt(0.1)) < 1e-12));
});

test("no piece of a frame's work is larger than a frame: calls of elementary functions are counted", () => {
  // A frame can stop between columns of the map and between runs. 100,000 calls are some 3 ms.
  const names = ["exp", "log", "pow", "sqrt", "hypot", "sin", "cos", "atan2"], kept = names.map((name) => Math[name]);
  let calls = 0;
  const counted = (work) => {
    calls = 0;
    names.forEach((name, i) => (Math[name] = (...given) => (calls++, kept[i](...given))));
    try {
      return [work(), calls];
    } finally {
      names.forEach((name, i) => (Math[name] = kept[i]));
    }
  };
  const six = { size: 512, steps: 3000, success: [0.9, 0.7, 0.5, 0.4, 0.2, 0.1] };
  for (const model of ["refresh", "lag", "pipeline"]) {
    for (const part of [{ estimator: "frozen" }, { estimator: "uncorrected" }, { estimator: "ratio" }, { ...six, estimator: "frozen" }]) {
      const setting = checked({ ...DEFAULT, ...part, model }), [ready, prepared] = counted(() => prepare(setting));
      const cost = { prepared };
      for (const interval of [1, 4, 8, 16, 64]) cost[`column ${interval}`] = counted(() => boundary(ready, interval))[1];
      cost.analyse = counted(() => analyse(ready, 64, 0.5 * boundary(ready, 64).exact, false))[1];
      for (const [name, path] of [["mean", meanPath], ["run", sampledPath]]) {
        cost[name] = counted(() => path(ready.about, setting.estimator, ready.loop, 0.01, 64, setting.steps, 1))[1];
      }
      for (const [name, count] of Object.entries(cost)) assert.ok(count < 100_000, `${model} ${part.estimator}: ${name} ${count}`);
    }
  }
});

test("the onset with a lag is where the dominant root stops being real and positive, also after a root that came back", () => {
  for (const [momentum, convention] of [[0.3, "heavy_ball"], [0, "nesterov"], [0.9, "ema"]]) {
    for (const share of [-0.35, -0.3, -0.2, -0.15, -0.05, 0.8]) {
      for (const lag of [3, 16, 22, 27, 30]) {
        const loop = { model: "lag", momentum, convention }, mode = { fresh: 1, stale: share }, found = lagOnset(loop, mode, lag);
        const rings = (rate) => {
          const [top] = lagMultipliers(loop, mode, rate, lag);
          return Math.abs(top[1]) > 1e-8 * modulus(top) || top[0] < 0;
        };
        assert.ok(!rings(found * (1 - 1e-6)) && rings(found * (1 + 1e-6)), `${momentum} ${convention} ${share} ${lag}: ${found}`);
      }
    }
  }
});
