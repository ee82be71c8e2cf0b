"""What does each correction and clip buy an asynchronous trainer, from mean age 0 to 32 and with another sampler?

Prediction (written before the run; the learning rates were chosen with a sketch of the same bandit in sight). Two
things end a run. (1) The mean update loses stability: the part of the stiffness that belongs to the old policy, with
its age (bandit_lab/theory/stiffness.py). An importance ratio leaves a third of it stale, so that no age is too old.
(2) Noise. A ratio rho = pi/pi_old makes the variance v(x, x_old) of an update grow with the distance D of both
policies, for large D like the inverse of the effective sample size 1/E rho^2; D is made by the noise itself. Near the
fixed point (x, x_old) are Gaussian with covariance s^2 C(eta, age), C the response of the linear loop to unit noise,
s^2 = E v/G: a closure with one unknown. Expanded to second order it diverges at tr(v'' C)/2 = G, the threshold of the
mean square. With v whole, which grows exponentially on excursions, it has no solution earlier: a runaway. So an
unclipped ratio is stable on policy, holds at age 1 near the edge and runs away at mean age 2.5 (tinker PR 822).
What helps is a bound on the weight (CISPO). PPO's clip is none: answers with a negative advantage are not clipped when
they become likelier. A run also ends where its Gaussian reaches 4 nats in a tenth of the runs.
Another sampler b moves the fixed point (bandit_lab/theory/sampler.py): importance weights and their truncation repair
most of it, at the price of the effective sample size; a mask cuts off what it should repair.
Setting: experiments/stabilisers.yaml; a constant age is the worst distribution of its largest age. Measured:
sampled runs from the fixed point, and fixed points under samplers. Drawn: the largest stable learning rate, by rule
and age, and the bias of the reward, by correction and sampler.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit

import experiments.shared.estimators  # noqa: F401 - registers two rules that the package has not
from bandit_lab import measure as detectors, theory
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import CORRECTIONS, ESTIMATORS, Hyper, Lag, Learner, LogitNoise
from bandit_lab.grpo.staleness.ages import ages as mixed_ages
from bandit_lab.lab.reproduce import claims
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Number, Results, Setting
from bandit_lab.lab.reproduce.readings import crossing, farthest_from_one
from bandit_lab.measure.displaced import stack_bandits
from experiments.shared import sheet
from experiments.shared.measure.observe import observe
from experiments.shared.readings import effective_share
from experiments.shared.stabilisers_panels import WORDS, by_sampler, cells
from experiments.shared.update_noise import WEIGHTS, closure, largest_rate, largest_variance, near

TITLE = "What stabilises an asynchronous trainer"
FINDING = "Old answers need a small learning rate, less so with a ratio; capped weights are stable at every age"

# What prediction and measurement are both told.

RATE, PURE = {"units": "logits per unit gradient"}, {"units": "1"}
NATS2, REWARD = {"units": "nats^2"}, {"units": "reward"}


def rates(setting: Setting) -> np.ndarray:
    return np.geomspace(setting.rates.start, setting.rates.stop, setting.rates.num)


def axes(setting: Setting) -> dict[str, Any]:
    return {"rule": setting.rules, "age": setting.ages, "rate": rates(setting), "correction": setting.corrections,
            "error": setting.errors, "pattern_rule": setting.pattern_rules,
            "pattern_age": [float(age) for age in setting.pattern_ages]}  # fmt: skip


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """What holds, why not, noise and effective share; fixed points under samplers."""
    place = ("rule", "age")
    near_points = {rule: near(setting, rule) for rule in setting.rules if rule in WEIGHTS}
    arguments = [(setting, rule, point) for rule, point in near_points.items()]
    holds = np.array([[largest_rate(*one, age) for age in setting.ages] for one in arguments])
    noise = np.array([[closure(*one, setting.common_rate, age) for age in setting.ages] for one in arguments])
    most, low_high = largest_variance(setting), {"0": (0,), "1": (1,), "2.5": (2, 3)}
    at = setting.pattern_rate
    held = [[np.mean([closure(setting, rule, near_points[rule], at, n)[0] < most for n in low_high[age]])
             for age in setting.pattern_ages] for rule in setting.pattern_rules]  # fmt: skip
    signal = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards))
    rewards = [[rest(setting, signal, name, error) for error in setting.errors] for name in setting.corrections]
    values = {
        "holds": (place, holds[..., 0], RATE),
        "ended_by": (place, holds[..., 1], PURE),
        "variance": (place, noise[..., 0], NATS2),
        "effective_share": (place, noise[..., 1], PURE),
        "pattern_holds": (("pattern_rule", "pattern_age"), held, PURE),
        "pattern_breaks": (("pattern_rule", "pattern_age"), 1 - np.array(held), PURE),
        "sampler_reward": (("correction", "error"), rewards, REWARD),
    }
    return xarray.Dataset(values, axes(setting) | {"rule": list(near_points)})


def rest(setting: Setting, signal: theory.BinarySignal, correction: str, error: float) -> float:
    """Expected reward of the fixed point under a sampler; NaN where there is none."""
    low, high = {"tis": (0.0, setting.tis_largest), "icepop": setting.icepop}.get(correction, (0.0, np.inf))
    acting = theory.ActingLaw(1.0, error, correction, low, high)
    gap = theory.SampledTwoArms(signal, acting).rest(setting.kl_weight)
    return np.nan if gap is None else float(expit(gap) * setting.rewards[0] + expit(-gap) * setting.rewards[1])


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Sampled runs by rule; the pattern; fixed points under samplers."""
    parts: dict[str, Any] = {f"rule {rule}": partial(by_age, setting, rule) for rule in setting.rules}
    parts |= {f"pattern {rule} {age}": partial(pattern, setting, rule, age)
              for rule in setting.pattern_rules for age in setting.pattern_ages}  # fmt: skip
    parts |= {f"sampler {name}": partial(under_samplers, setting, name) for name in setting.corrections}
    measured = lab.keep_each(parts)
    coords = axes(setting)
    kinds = ("rule", "pattern", "sampler")
    named = {kind: [one for name, one in measured.items() if name.startswith(kind)] for kind in kinds}
    values: dict[str, Any] = {
        name: (("rule", "age", "rate"), np.stack([one[name].values for one in named["rule"]]), unit)
        for name, unit in (("broken", PURE), ("variance", NATS2), ("effective_share", PURE), ("reward", REWARD))
    }
    values["rise"] = (("rule", "age"), np.stack([one.rise.values for one in named["rule"]]), {"units": "steps"})
    values["pattern_broken"] = (
        ("pattern_rule", "pattern_age"),
        np.reshape([float(one.broken) for one in named["pattern"]], (len(setting.pattern_rules), -1)),
        PURE,
    )
    values["pattern_early"] = (
        ("pattern_rule", "pattern_age"),
        np.reshape([float(one.early) for one in named["pattern"]], (len(setting.pattern_rules), -1)),
        PURE,
    )
    for name, unit in (("sampler_reward", REWARD), ("sampler_share", PURE), ("distance", {"units": "nats"})):
        values[name] = (("correction", "error"), np.stack([one[name].values for one in named["sampler"]]), unit)
    return xarray.Dataset(values, coords)


def gap_of(bandit: Any, theta: Any) -> Any:
    return theta[0] - theta[1]


def resting_learner(setting: Setting, staleness: Any, rule: str, horizon: int) -> tuple[Learner, float]:
    """A learner whose runs begin at its fixed point, and the gap there."""
    learner = Learner(two_arm(setting.rewards), group_size=setting.group_size)
    theta = detectors.find_fixed_point(learner, "finite_group", setting.kl_weight).rest
    bandit = two_arm(setting.rewards, initial_logits=[float(x) for x in theta])
    options = {"staleness": staleness, "group_size": setting.group_size, "horizon": horizon}
    return Learner(bandit, estimator=ESTIMATORS[rule](), **options), float(theta[0] - theta[1])


def gaps(setting: Setting, learner: Learner, rate: np.ndarray, age: np.ndarray, steps: int, seeds: int) -> np.ndarray:
    """Logit gap [C, seeds, steps] of sampled runs."""
    count = len(rate)
    stacked = stack_bandits([learner.bandit] * count)
    options = {name: getattr(learner, name) for name in ("estimator", "staleness", "group_size", "horizon")}
    hyper = Hyper(rate, np.zeros(count), age, np.full(count, setting.kl_weight))
    return np.asarray(observe(Learner(stacked, **options), "sampled", hyper, gap_of, stacked, times=steps, seeds=seeds))


RISING = 100
"""Steps that a rise is looked for in."""


def by_age(setting: Setting, rule: str) -> xarray.Dataset:
    """Share of broken runs; variance, effective share and reward over the second half, mean over seeds [age, rate]."""
    learner, centre = resting_learner(setting, Lag(), rule, max(setting.ages))
    every, rows = rates(setting), []
    for age in setting.ages:
        x = gaps(setting, learner, every, np.full(len(every), age), setting.steps, setting.seeds)
        broken = np.any(np.abs(x - centre) > setting.far, axis=2).mean(1)
        old, late = x[..., setting.steps // 2 - age : setting.steps - age], x[..., setting.steps // 2 :]
        reward = expit(late) * setting.rewards[0] + expit(-late) * setting.rewards[1]
        share = effective_share(late, old).mean((1, 2))
        rows.append([broken, late.var(2).mean(1), share, reward.mean((1, 2))])
    names = ("broken", "variance", "effective_share", "reward")
    each = zip(names, np.moveaxis(np.array(rows), 1, 0), strict=True)
    data = xarray.Dataset({name: (("age", "rate"), one) for name, one in each})
    return data.assign(rise=("age", rise(setting, rule, centre)))


def rise(setting: Setting, rule: str, centre: float) -> list[float]:
    """Steps [age] from a uniform policy to nine tenths of the way to the reward of the fixed point, common rate."""
    options = {"staleness": Lag(), "group_size": setting.group_size, "horizon": max(setting.ages)}
    learner = Learner(two_arm(setting.rewards), estimator=ESTIMATORS[rule](), **options)
    ages, rate = np.array(setting.ages), np.full(len(setting.ages), setting.common_rate)
    p = expit(gaps(setting, learner, rate, ages, RISING, setting.seeds)).mean(1)
    level = 0.5 + 0.9 * (expit(centre) - 0.5)
    return [float(crossing(np.arange(RISING, dtype=float), curve, level)) for curve in p]


def pattern(setting: Setting, rule: str, age: str) -> xarray.Dataset:
    """Shares of runs that are broken at the end, and before an eighth of the steps: one age drawn for every batch."""
    staleness = mixed_ages(weights=setting.pattern_ages[age], draws=1)
    learner, centre = resting_learner(setting, staleness, rule, staleness.horizon_for(1))
    rate, size = np.array([setting.pattern_rate]), (setting.pattern_steps, setting.pattern_seeds)
    x = gaps(setting, learner, rate, np.ones(1, int), *size)
    far = np.abs(x[0] - centre) > setting.far
    early = far[:, : setting.pattern_steps // 8]
    return xarray.Dataset({"broken": np.any(far, 1).mean(), "early": np.any(early, 1).mean()})


def drawing(policy: np.ndarray, error: float) -> np.ndarray:
    """The sampler's two probabilities."""
    gap = np.log(policy[0] / policy[1]) + error
    return expit(np.array([gap, -gap]))


def under_samplers(setting: Setting, name: str) -> xarray.Dataset:
    """Reward and effective share at the fixed points, and KL(pi || b) of the sampler to the policy without an error."""
    low, high = setting.icepop
    options = {"tis": {"largest": setting.tis_largest}, "icepop": {"low": low, "high": high}}
    correction = CORRECTIONS[name](**options.get(name, {}))
    exact = detectors.find_fixed_point(Learner(two_arm(setting.rewards)), "mean_field", setting.kl_weight).policy[0]
    rows = []
    for error in setting.errors:
        learner = Learner(two_arm(setting.rewards), sampler=LogitNoise((error / 2, -error / 2)), correction=correction)
        point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
        p, reward = point.policy[0], point.expected_reward if point.exists or point.slides else np.nan
        share = 1.0 if name == "none" else 1 / np.sum(p**2 / drawing(p, error))
        rows.append([reward, share, np.sum(exact * np.log(exact / drawing(exact, error)))])
    names = ("sampler_reward", "sampler_share", "distance")
    return xarray.Dataset({key: ("error", row) for key, row in zip(names, np.transpose(rows), strict=True)})


# Numbers that the claims compare.


def held(f: Results) -> xarray.DataArray:
    """Largest learning rate of the grid up to which runs hold, halfway to the next one; by rule and age."""
    failed = (f.measured.broken > f.setting.broken).values
    grid = rates(f.setting)
    first = np.where(failed.any(2), np.argmax(failed, axis=2), len(grid))
    step = np.sqrt(grid[1] / grid[0])
    largest = np.append(grid, grid[-1] * grid[1] / grid[0])[first] / step
    return xarray.DataArray(largest, coords={"rule": f.setting.rules, "age": f.setting.ages}, dims=("rule", "age"))


def within(f: Results) -> float:
    """Share of (rule, age) with a prediction on the grid whose learning rate is within the factor."""
    holds = f.predicted.holds
    predicted = holds.clip(max=np.sqrt(rates(f.setting)[-1] * rates(f.setting)[-2]))
    ratio = held(f).sel(rule=predicted.rule) / predicted
    return float((np.abs(np.log(ratio)) <= np.log(f.setting.within)).mean())


def farthest(f: Results, name: str) -> float:
    """Measured over predicted at the common learning rate, farthest from 1 where twice that is predicted to hold."""
    at = f.measured[name].sel(rate=f.setting.common_rate, method="nearest").sel(rule=f.predicted.rule)
    ratio = (at / f.predicted[name]).where(f.predicted.holds > 2 * f.setting.common_rate).values
    return farthest_from_one(ratio[np.isfinite(ratio)], np.ones(np.isfinite(ratio).sum()))


def holding(rule: str, age: float, name: str = "pattern_broken") -> Number:
    return lambda f: 1 - float(f.measured[name].sel(pattern_rule=rule, pattern_age=age))


def predicted_at(rule: str, age: float, name: str = "pattern_holds") -> Number:
    return lambda f: float(f.predicted[name].sel(pattern_rule=rule, pattern_age=age))


def pattern_agrees(f: Results) -> float:
    """Share of the cases of the pattern in which most runs hold or break as predicted."""
    predicted = f.predicted.pattern_holds
    return float(((f.measured.pattern_broken < 0.5) == (predicted > 0.5)).mean())


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    options = {"kl_weight": setting.kl_weight, "drift": f"groups of {setting.group_size}"}
    return sheet.trained(sheet.two_arms(setting.rewards), "GRPO with std", "SGD", **options)


def draw(figure: Figure, results: Results) -> None:
    """Two maps: what holds, by rule and age; the bias, by correction and sampler."""
    sheet.fill(figure, results, (by_rule, by_sampler), height=5.0, lettered=True)


def by_rule(panel: Axes, results: Results) -> None:
    value = held(results)
    cells(panel, np.log2(value.values), [[f"{x:.2g}" for x in row] for row in value.values], "viridis", (-2.3, 4))
    panel.set_yticks(range(len(value.rule)), [WORDS[rule] for rule in value.rule.values])
    panel.set_xticks(range(len(value.age)), [f"{age:g}" for age in value.age.values])
    panel.set(xlabel="age of the answers [updates]", title="largest stable learning rate")


# Table.


def table(results: Results) -> str:
    """What each rule buys at one learning rate, by age: noise, effective share, bias, and what it costs in time."""
    head = ("rule", "age", "largest learning rate", "variance / on policy", "effective share", "bias of the reward",
            "steps to 90 % of the rise")  # fmt: skip
    at, most, rows = results.measured.sel(rate=results.setting.common_rate, method="nearest"), held(results), []
    base = at.sel(rule="ratio", age=0)
    for rule in results.setting.rules:
        for age in [age for age in results.setting.ages if age in SHOWN_AGES]:
            one = at.sel(rule=rule, age=age)
            numbers = float(one.variance / base.variance), float(one.effective_share), float(one.reward - base.reward)
            shown = [f"{float(most.sel(rule=rule, age=age)):.2g}", "broken", "", "", ""]
            if float(one.broken) <= results.setting.broken:
                rise = "none" if np.isnan(one.rise) else f"{float(one.rise):.1f}"
                shown[1:] = [f"{numbers[0]:.2f}", f"{numbers[1]:.3f}", f"{numbers[2]:+.3f}", rise]
            rows.append((WORDS[rule], f"{age:g}", *shown))
    note = f"At learning rate {results.setting.common_rate:g}; the largest learning rate is that of the map."
    return "\n".join([*claims.grid(head, rows), "", note])


SHOWN_AGES = (1, 4, 32)

# Claims.

HERE = "derived in this file"

SKETCH = "a sketch of the same bandit at four ages"
CLAIMS = (
    Claim.one(
        "stabilisers.holds",
        "Share of the rules and ages whose largest learning rate is within a factor of 1.5 of the predicted one",
        f"{HERE}; bandit_lab/theory/stiffness.py",
        within,
        tolerance=0.1,
        fails_if="another thing than mean stability, runaway noise and reach ended runs",
        explanation="the end of the closure is a ceiling: rare excursions end long runs at about half of it, and clips "
        "weaken the pull back as well, which the closure does not know",
        post_hoc=SKETCH,
    ),
    Claim.one(
        "stabilisers.variance",
        "Variance of the gap at learning rate 1, measured over predicted: farthest from 1 where twice that holds",
        HERE,
        partial(farthest, name="variance"),
        tolerance=0.15,
        fails_if="the noise of old answers were not that of the closure",
        explanation="clips and caps act once policies part, and weaken the pull back; near a threshold swings grow",
        post_hoc=SKETCH,
    ),
    Claim.one(
        "stabilisers.ratio_variance",
        "The same of the unclipped ratio alone",
        HERE,
        lambda f: farthest(Results(f.predicted.sel(rule=["ratio"]), f.measured, f.setting), "variance"),
        tolerance=0.15,
        fails_if="the noise of an unclipped ratio were not that of the closure",
        explanation="a draft is too short for a variance",
        post_hoc="the table of all rules",
    ),
    Claim.one(
        "stabilisers.effective_share",
        "Effective sample size over sample size, the same cases: measured over predicted, the farthest from 1",
        HERE,
        partial(farthest, name="effective_share"),
        tolerance=0.02,
        fails_if="policies parted by more than the noise of the updates between them",
        explanation="a draft is too short for a mean",
        post_hoc=SKETCH,
    ),
    Claim.one(
        "stabilisers.pattern",
        "Unclipped ratio, PPO clip, capped weight at mean ages 0, 1, 2.5: share in which most runs hold as predicted",
        f"{HERE}; tinker-cookbook PR 822",
        pattern_agrees,
        tolerance=1e-9,
        fails_if="an unclipped ratio held at age 2.5, broke on policy, or a capped weight broke",
        explanation="where the closure ends within a few percent of this learning rate, excursions that are not "
        "Gaussian leave it: PPO's clip does not bound the weight of answers with a negative advantage",
        post_hoc=SKETCH,
    ),
    Claim(
        "stabilisers.on_policy_holds",
        "Unclipped ratio on policy: share of the runs that hold",
        "tinker-cookbook PR 822",
        predicted_at("ratio", 0),
        holding("ratio", 0),
        tolerance=0.05,
        fails_if="the learning rate were too large on policy",
        post_hoc=SKETCH,
    ),
    Claim(
        "stabilisers.late_at_age_1",
        "Unclipped ratio at age 1: share of the runs that hold for an eighth of the steps (fewer hold to the end)",
        "tinker-cookbook PR 822",
        predicted_at("ratio", 1),
        holding("ratio", 1, "pattern_early"),
        tolerance=0.1,
        fails_if="it broke at once",
        post_hoc=SKETCH,
    ),
    Claim(
        "stabilisers.breaks_at_age_2_5",
        "Unclipped ratio at mean age 2.5: share of the runs that break",
        "tinker-cookbook PR 822",
        predicted_at("ratio", 2.5, "pattern_breaks"),
        lambda f: 1 - holding("ratio", 2.5)(f),
        tolerance=0.05,
        fails_if="it held",
        post_hoc=SKETCH,
    ),
    Claim(
        "stabilisers.capped_holds",
        "Capped weight (CISPO) at mean age 2.5: share of the runs that hold",
        "tinker-cookbook PR 822",
        predicted_at("cispo", 2.5),
        holding("cispo", 2.5),
        tolerance=0.05,
        fails_if="a bound on the weight did not hold",
        post_hoc=SKETCH,
    ),
    Claim.ratio(
        "stabilisers.sampler",
        "Reward at the fixed point by correction and sampler, measured over predicted: the farthest from 1",
        "bandit_lab/theory/sampler.py",
        lambda d: d.sampler_reward,
        tolerance=1e-3,
        fails_if="a correction moved the fixed point elsewhere than its formula says",
    ),
)
