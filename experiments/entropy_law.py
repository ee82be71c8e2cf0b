"""Reward against entropy: is R = -a exp(H) + b the law of a softmax policy, and what does a good fit of it tell?

Prediction (written before the run). arXiv 2505.22617 fits R = -a exp(H) + b to runs and reads b - a, the reward at
entropy 0, as a ceiling. With one good arm and M equal others a policy has one coordinate, the gap x =
ln(p_good/p_other), and R = p, dR = p (1-p) dx, dH = -x p (1-p) dx: the slope is dR/dH = -1/x whatever the dynamics. The
law has the slope -a exp(H). So it needs x = exp(-H)/a, a gap that ends at 1/a, while x of a softmax grows without
bound: the law cannot be exact, and 1 - R = H/ln(1/H) (1 + ...) at the end. For many others x is near ln M along most of
the path, and R is linear in H. With GRPO's std the log-odds y = x - ln M move as sinh(y/2) = sinh(y_0/2) + (1 + 1/M)
eta t/4 (shared/theory/contextual.py), which says at which entropies a run has its points, and so the R^2 of both
fits: high for both. R^2 does not tell them apart; the forecast ceiling does, the truth being 1.
Prompts of unlike difficulty: a mean of exp(H) is not exp of a mean. The law forecasts the less, the wider the spread.
Setting: experiments/entropy_law.yaml. Measured: exact mean updates from a uniform policy, and of many prompts of a
common spread of log-odds; slopes under other advantages, with momentum and in sampled groups. Drawn: gap against
entropy, and forecasts from the first fifth of the steps.
"""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab.app.plots import style as s
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.measure.displaced import stack_bandits
from experiments.shared import sheet
from experiments.shared.measure.observe import observe

TITLE = "Reward against entropy"
FINDING = "R² of an entropy law is {r_squared_is_high:.2f} or more, yet its ceiling may be {widest:.2f}; it is 1"

# What prediction and measurement are both told.

POINTS = 10
"""Places of a path at which its slope is looked at."""
KEPT = 20
"""Steps from one drawn point to the next."""
PURE, REWARD, NATS = {"units": "1"}, {"units": "reward"}, {"units": "nats"}


class Path(NamedTuple):
    """Reward [T] and entropy [T] (nats) at every step up to the last one that counts."""

    reward: np.ndarray
    entropy: np.ndarray

    def part(self, share: float) -> "Path":
        count = max(3, round(share * len(self.reward)))
        return Path(self.reward[:count], self.entropy[:count])


def cut(setting: Setting, reward: np.ndarray, entropy: np.ndarray) -> Path:
    """Up to the reward at which paths end."""
    count = int(np.argmax(reward >= setting.last)) if np.any(reward >= setting.last) else len(reward)
    return Path(reward[:count], entropy[:count])


def fitted(path: Path, exponential: bool) -> tuple[float, float, float]:
    """Least squares of R on exp(H), or on H: slope, value at H = 0, R^2."""
    of = np.exp(path.entropy) if exponential else path.entropy
    slope, constant = np.polyfit(of, path.reward, 1)
    left = path.reward - slope * of - constant
    at_zero = constant + slope if exponential else constant
    return float(slope), float(at_zero), float(1 - left.var() / path.reward.var())


def log_odds(setting: Setting, spread: float) -> np.ndarray:
    """Log-odds [P] of the good arm at the start, of prompts that are on average where a uniform policy is."""
    drawn = np.random.default_rng(setting.seed).standard_normal(setting.prompts)
    return spread * drawn - np.log(setting.arms - 1)


def axes(setting: Setting) -> dict[str, Any]:
    return {"others": setting.others, "spread": setting.spreads, "fit": ["exp", "line"]}


def readings(paths: list[Path], mixed: list[Path], setting: Setting) -> dict[str, Any]:
    """R^2 of both fits, and their value at entropy 0 from the first steps: of single prompts and of populations."""
    both = (True, False)
    first = setting.first
    return {
        "r_squared": (("others", "fit"), [[fitted(one, kind)[2] for kind in both] for one in paths], PURE),
        "ceiling": (("others", "fit"), [[fitted(one.part(0.5), kind)[1] for kind in both] for one in paths], REWARD),
        "mixed_r_squared": (("spread", "fit"), [[fitted(one, kind)[2] for kind in both] for one in mixed], PURE),
        "mixed_ceiling": (
            ("spread", "fit"),
            [[fitted(one.part(first), kind)[1] for kind in both] for one in mixed],
            REWARD,
        ),
        "gap_needed": ("others", [growth_of_need(one) for one in paths], PURE),
        "exponential_wins": (
            "path",
            [float(fitted(one, True)[2] > fitted(one, False)[2]) for one in (*paths, *mixed)],
            PURE,
        ),
        "reward": (("spread", "step"), [one.reward[::KEPT] for one in mixed], REWARD),
        "entropy": (("spread", "step"), [one.entropy[::KEPT] for one in mixed], NATS),
    }


def growth_of_need(path: Path) -> float:
    """exp(-H)/x at the end of a path over that a fifth of the way in reward: 1 if the law were exact."""
    slope = -np.gradient(path.reward, path.entropy)  # 1/x
    need = slope * np.exp(-path.entropy)
    early = int(np.argmax(path.reward >= path.reward[0] + 0.2 * (path.reward[-1] - path.reward[0])))
    return float(need[-2] / need[early])


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Everything from the sinh law."""
    paths = [cut(setting, *along(setting, np.array([-np.log(m)]), m)) for m in setting.others]
    mixed = [Path(*along(setting, log_odds(setting, spread), setting.arms - 1)) for spread in setting.spreads]
    values = readings(paths, mixed, setting)
    dynamics = [*setting.advantages, "momentum"]
    values["slope"] = (("dynamics", "point"), np.ones((len(dynamics), POINTS)), PURE)
    return xarray.Dataset(values, axes(setting) | {"dynamics": dynamics})


def along(setting: Setting, start: np.ndarray, others: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean reward and entropy [steps] of prompts that begin at log-odds `start` [P]."""
    time = setting.learning_rate * np.arange(setting.steps)[:, None]
    y = 2 * np.arcsinh(np.sinh(start / 2) + (1 + 1 / others) * time / 4)
    p = 1 / (1 + np.exp(-y))
    entropy = np.logaddexp(0, -y) * p + (np.logaddexp(0, y) + np.log(others)) * (1 - p)
    return p.mean(1), entropy.mean(1)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The same along runs, and slopes."""
    paths = [cut(setting, *one_prompt(setting, m)[:2]) for m in setting.others]
    mixed = []
    for spread in setting.spreads:
        start = log_odds(setting, spread) + np.log(setting.arms - 1)
        seen = lab.keep(f"spread {spread}", partial(population, setting, start))
        mixed.append(Path(seen.reward.values, seen.entropy.values))
    values = readings(paths, mixed, setting)
    values["slope"] = (("dynamics", "point"), slopes(setting), PURE)
    noisy = [[fitted(cut(setting, *each), kind)[2] for kind in (True, False)] for each in sampled(setting)]
    values["sampled_r_squared"] = ("fit", np.mean(noisy, 0), PURE)
    return xarray.Dataset(values, axes(setting) | {"dynamics": [*setting.advantages, "momentum"]})


def watched(bandit: Any, theta: Any) -> Any:
    """(reward, entropy, gap of the first arm to the second)."""
    log_policy = bandit.log_policy(theta)[0]
    policy = jnp.exp(log_policy)
    return policy @ bandit.true_means[0], -policy @ log_policy, log_policy[0] - log_policy[1]


def prompt(others: int, gap: float) -> Any:
    """One good arm, `gap` above the others."""
    logits = [gap, *[0.0] * others]
    return k_arm([1.0, *[0.0] * others], logits, logits)


def runs(setting: Setting, others: int, gaps: np.ndarray, momentum: float = 0.0, advantage: str = "grpo") -> Any:
    """Reward, entropy and gap [P, steps] of one prompt per gap."""
    bandits = stack_bandits([prompt(others, float(gap)) for gap in gaps])
    count, rate = np.ones(len(gaps)), setting.learning_rate * (1 - momentum)
    hyper = Hyper(rate * count, momentum * count, np.ones(len(gaps), int), 0 * count)
    learner = Learner(bandits, ADVANTAGES[advantage]())
    seen = observe(learner, "mean_field", hyper, watched, bandits, times=setting.steps)
    return tuple(one[:, 0] for one in seen)


def population(setting: Setting, gaps: np.ndarray) -> xarray.Dataset:
    """Means over prompts."""
    reward, entropy, _ = runs(setting, setting.arms - 1, gaps)
    return xarray.Dataset({"reward": ("step", reward.mean(0)), "entropy": ("step", entropy.mean(0))})


def one_prompt(setting: Setting, others: int, momentum: float = 0.0, advantage: str = "grpo") -> Any:
    """The same of one prompt from a uniform policy [steps]."""
    return tuple(one[0] for one in runs(setting, others, np.zeros(1), momentum, advantage))


def slopes(setting: Setting) -> np.ndarray:
    """-dH/dR over the gap halfway, from step to step, at some places of each run's path."""
    rows = []
    for name in (*setting.advantages, "momentum"):
        options = {"momentum": setting.slope_momentum} if name == "momentum" else {"advantage": name}
        reward, entropy, gap = one_prompt(setting, setting.slope_others, **options)
        ratio = -np.diff(entropy) / np.diff(reward) / (0.5 * (gap[1:] + gap[:-1]))
        low, high = setting.ends
        some = np.flatnonzero((entropy[1:] > low) & (entropy[1:] < high))
        rows.append(ratio[some[np.linspace(0, len(some) - 1, POINTS).astype(int)]])
    return np.array(rows)


def sampled(setting: Setting) -> list[tuple[np.ndarray, np.ndarray]]:
    """Reward and entropy of each seed, drawn groups."""
    bandits = stack_bandits([prompt(setting.slope_others, 0.0)])
    learner = Learner(bandits, ADVANTAGES["grpo"](), group_size=setting.group_size)
    hyper = Hyper(np.array([setting.learning_rate]), np.zeros(1), np.ones(1, int), np.zeros(1))
    seen = observe(learner, "sampled", hyper, watched, bandits, times=setting.steps, seeds=setting.seeds)
    return list(zip(seen[0][0], seen[1][0], strict=True))


# Numbers that the claims compare.


def least_r_squared(d: xarray.Dataset) -> float:
    """The better of both fits, where it is worst."""
    every = np.concatenate([d.r_squared.values, d.mixed_r_squared.values])
    return float(every.max(1).min())


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained("one good arm, the others equal", "GRPO with std", "SGD, on-policy", kl_weight=0)


def draw(figure: Figure, results: Results) -> None:
    """Left: R^2 of both fits. Right: forecasts for prompts of unlike difficulty."""
    sheet.fill(figure, results, (fits, forecasts), height=5.0, lettered=True)


def fits(panel: Axes, results: Results) -> None:
    for kind, color, marker in (("exp", s.BLUE, "o"), ("line", s.VERMILION, "s")):
        here = {"fit": kind}
        panel.plot(results.setting.others, results.predicted.r_squared.sel(here), color=color)
        panel.plot(results.setting.others, results.measured.r_squared.sel(here), marker, color=color, markersize=4,
                   markerfacecolor="white", label="R on exp(H)" if kind == "exp" else "R on H")  # fmt: skip
    panel.set(xscale="log", xlabel="number of other arms $M$", ylabel=r"$R^2$ of the whole path",
              title=r"$R^2$ is high for both")  # fmt: skip
    sheet.ticks_at(panel.xaxis, results.setting.others)
    panel.legend(frameon=False, loc="lower center")


def forecasts(panel: Axes, results: Results) -> None:
    looks = ((s.BLUE, "o"), (s.GREEN, "s"), (s.VERMILION, "^"))
    for spread, (color, marker) in zip(results.setting.spreads, looks, strict=True):
        here = results.measured.sel(spread=spread)
        path = Path(here.reward.values, here.entropy.values)
        panel.plot(path.entropy, path.reward, color=color, linewidth=1.6, label=f"spread {spread:g}")
        slope, ceiling, _ = fitted(path.part(results.setting.first), True)
        entropy = np.linspace(0, path.entropy[0], 60)
        panel.plot(entropy, ceiling + slope * (np.exp(entropy) - 1), color=color, linewidth=1, linestyle=(0, (2, 1.5)))
        panel.plot(0, ceiling, marker, color=color, markersize=5, markerfacecolor="white", clip_on=False)
    panel.set(xlabel="entropy $H$ [nats]", ylabel="reward $R$", xlim=(0, None), ylim=(0, 1.05),
              title="its ceiling falls with the spread")  # fmt: skip
    panel.legend(frameon=False, loc="upper right")
    sheet.note(panel, 0.03, 0.05, "dashed: law from the first fifth\nmarkers: its ceiling (truth 1)")


# Claims.

PAPER = "arXiv 2505.22617"

CLAIMS = (
    Claim.ratio(
        "entropy_law.slope",
        "-dH/dR over the logit gap, three advantages and momentum, ten places of each path: farthest from 1",
        f"{PAPER}; derived in this file",
        lambda d: d.slope,
        tolerance=0.01,
        fails_if="the slope depended on the dynamics",
    ),
    Claim.ratio(
        "entropy_law.not_exact",
        "What the law calls a, exp(-H)/x, at the end of a path over its value early: farthest measured over predicted",
        "derived in this file",
        lambda d: d.gap_needed,
        tolerance=0.05,
        fails_if="the gap stayed bounded as the entropy vanishes",
    ),
    Claim.ratio(
        "entropy_law.r_squared",
        "R^2 of both fits to single prompts, all numbers of arms: measured over predicted, the farthest from 1",
        "derived in this file",
        lambda d: d.r_squared,
        tolerance=0.01,
        fails_if="runs had their points at other entropies than the sinh law says",
    ),
    Claim.same(
        "entropy_law.r_squared_is_high",
        "R^2 of the better fit, where it is worst, over numbers of arms and spreads",
        "derived in this file",
        least_r_squared,
        tolerance=0.01,
        fails_if="a softmax path were far from both",
        follows="entropy_law.r_squared",
    ),
    Claim.same(
        "entropy_law.winner",
        "Number of the paths, by number of arms and spread, that the exponential fits better than a line",
        "derived in this file",
        lambda d: d.exponential_wins.sum(),
        tolerance=1e-9,
        fails_if="a line fitted where the exponential was predicted to, or the other way round",
        follows="entropy_law.r_squared",
    ),
    Claim.ratio(
        "entropy_law.ceiling",
        "Reward at entropy 0 forecast from the first half, both fits: measured over predicted, the farthest from 1",
        "derived in this file",
        lambda d: d.ceiling,
        tolerance=0.02,
        fails_if="forecasts were worse or better than the sinh law says",
    ),
    Claim.ratio(
        "entropy_law.mixed_ceiling",
        "The same from the first fifth, prompts of unlike difficulty",
        "derived in this file",
        lambda d: d.mixed_ceiling,
        tolerance=0.02,
        fails_if="a mean over prompts followed the law of one prompt",
    ),
    Claim.same(
        "entropy_law.widest",
        "The law's ceiling for the widest spread (truth: 1)",
        "derived in this file",
        lambda d: d.mixed_ceiling.sel(fit="exp").isel(spread=-1),
        tolerance=0.02,
        unit="reward",
        fails_if="the law were right for prompts of unlike difficulty",
        follows="entropy_law.mixed_ceiling",
    ),
    Claim(
        "entropy_law.sampled",
        "R^2 of the exponential in sampled groups, ten arms, mean over seeds",
        "derived in this file",
        lambda f: float(f.predicted.r_squared.sel(others=f.setting.slope_others, fit="exp")),
        lambda f: float(f.measured.sampled_r_squared.sel(fit="exp")),
        tolerance=0.02,
        fails_if="the noise of groups moved paths off the law's",
    ),
)
