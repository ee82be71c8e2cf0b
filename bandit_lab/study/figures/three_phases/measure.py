"""Measurement of experiments/three_phases.py."""

from functools import partial

import jax
import numpy as np
import xarray

from bandit_lab._readings import crossing
from bandit_lab.bandits.contextual import ContextualBandit
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.measure import measure_curvature
from bandit_lab.measure.displaced import stack_bandits
from bandit_lab.measure.observe import mean_cosine, observe, prompt_gradients
from bandit_lab.study.figures.three_phases.problem import (
    NAMES,
    NONE,
    clock,
    planned,
    random_problems,
    speed_ratio,
    stage_axes,
    std_until,
)
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Gains, speed ratios, reward at equal budget, curvature."""
    runs = [lab.keep(f"power {power}", partial(_runs, setting, power)) for power in setting.powers]
    results = xarray.concat(runs, xarray.DataArray(setting.powers, dims="power", name="power"))
    parts = [_gains(setting, results), _stages(setting, results), _fair(setting, results)]
    parts += [lab.keep("curvature", lambda: _curvature(setting))]
    return xarray.merge(parts)


def _advantage(power: float):
    return ADVANTAGES[NAMES[power]]() if power in NAMES else ADVANTAGES["tempered"](power)


def _all_problems(setting: Setting) -> tuple[list[ContextualBandit], list[float]]:
    """Every problem that is run, and its learning rate: random ones, stages, and the comparison at equal budget."""
    problems = [*random_problems(setting), *planned(setting, setting.stages, setting.stage_draws)]
    rates = [setting.learning_rate] * len(problems)
    for problem in planned(setting, setting.fair, setting.fair_draws):
        problems += [problem] * len(setting.fair.rates)
        rates += setting.fair.rates
    return problems, rates


def _watch(problem, theta):
    value, gradients = prompt_gradients(problem, theta)
    return value, mean_cosine(gradients)


def _runs(setting: Setting, power: float) -> xarray.Dataset:
    """Success of every prompt and mean |cosine| of prompt gradients along all runs of one advantage."""
    problems, rates = _all_problems(setting)
    stacked = stack_bandits(problems)
    learner = Learner(stacked, _advantage(power), group_size=setting.group_size, prompts=setting.contexts)
    hyper = Hyper(np.array(rates, float), 0.0, 1, 0.0)
    times = len(clock(setting))
    options = {"times": times, "every": setting.every, "seeds": setting.seeds}
    success, cosine = observe(learner, "sampled", hyper, _watch, stacked, **options)
    value = {"success": (("run", "seed", "step", "prompt"), success.astype(np.float32))}
    return xarray.Dataset(value | {"cosine": (("run", "seed", "step"), cosine.astype(np.float32))})


def _gains(setting: Setting, runs: xarray.Dataset) -> xarray.Dataset:
    """Gain in time to the target with its standard error (jackknife over seeds), and the average std."""
    success = runs.success.isel(run=slice(0, setting.problems)).sel(power=[0.0, 1.0]).values.astype(float)
    curves, time = success.mean(-1), clock(setting)  # [2, B, S, T]
    seeds = curves.shape[2]
    gain, error, std = np.empty((3, setting.problems))
    for b in range(setting.problems):
        left_out = [(curves[:, b].sum(1) - curves[:, b, i]) / (seeds - 1) for i in range(seeds)]
        pairs = [curves[:, b].mean(1), *left_out]
        gain[b], *each = (_time_ratio(setting, *pair) for pair in pairs)
        error[b] = np.sqrt((seeds - 1) * np.var(each))
        last = crossing(time, curves[1, b].mean(0), setting.target)
        std[b] = std_until(success[1, b], last, setting.every)
    columns = {"gain": gain, "gain_error": error}
    values = {name: ("problem", column, NONE) for name, column in columns.items()}
    return xarray.Dataset(values | {"mean_std": ("problem", std, {"units": "reward"})})


def _time_ratio(setting: Setting, plain: np.ndarray, normalised: np.ndarray) -> float:
    """Time to the target of the plain curve [T] over that of the normalised one."""
    slow, fast = (crossing(clock(setting), one, setting.target) for one in (plain, normalised))
    return float(np.divide(slow, fast))


def _stages(setting: Setting, runs: xarray.Dataset) -> xarray.Dataset:
    """Speed ratio by stage, mean over draws with standard error; orthogonality and std there in the normalised runs."""
    axes, draws = stage_axes(setting), setting.stage_draws
    count = draws * len(axes["overlap"])
    part = runs.isel(run=slice(setting.problems, setting.problems + count)).sel(power=[0.0, 1.0]).astype(float)
    curves = part.success.mean(("seed", "prompt")).transpose("run", "power", "step").values
    std = np.sqrt(part.success * (1 - part.success)).mean(("seed", "prompt")).sel(power=1.0).values
    cosine = part.cosine.mean("seed").sel(power=1.0).values
    seen = []
    for i, (plain, normalised) in enumerate(curves):
        levels = plain[0] + (setting.stages.last - plain[0]) * axes["stage"]
        along = [np.interp(levels, normalised, quantity[i]) for quantity in (cosine, std)]
        seen.append([speed_ratio(setting, plain, normalised), *along])
    table = np.moveaxis(np.reshape(seen, (draws, len(axes["overlap"]), 3, -1)), 2, 0)  # [3, draw, overlap, stage]
    columns = dict(zip(("speed_ratio", "stage_cosine", "stage_std"), table.mean(1), strict=True))
    columns["speed_ratio_error"] = table[0].std(0) / np.sqrt(max(draws - 1, 1))
    units = {"stage_std": {"units": "reward"}}
    return xarray.Dataset({name: (tuple(axes), v, units.get(name, NONE)) for name, v in columns.items()}, axes)


def _fair(setting: Setting, runs: xarray.Dataset) -> xarray.Dataset:
    """Reward at the end of the budget [condition, power, rate]; the power that our rule chooses; what each power gains
    over the first at each one's best learning rate, with its standard error over draws and seeds."""
    part, powers = setting.fair, np.array(setting.powers)
    shape = (setting.fair_draws, len(part.overlap), len(part.rates))
    last = slice(-int(np.prod(shape)), None)
    end = runs.isel(run=last, step=part.steps // setting.every)
    values = end.success.mean("prompt").transpose("run", "power", "seed").values.astype(float)
    values = values.reshape(*shape, len(powers), -1).transpose(1, 3, 2, 0, 4)  # [condition, power, rate, draw, seed]
    start = runs.cosine.isel(step=0, seed=0, power=0, run=last).values.reshape(shape)[..., 0].mean(0)
    chosen = powers[np.argmin(np.abs(powers - (1 - start)[:, None]), axis=1)]
    final = values.mean((-2, -1))
    best = np.take_along_axis(values, final.argmax(-1)[:, :, None, None, None], 2)[:, :, 0]  # [c, power, draw, seed]
    difference = (best - best[:, :1]).reshape(*best.shape[:2], -1)
    dims = ("condition", "power")
    reward = {"units": "reward"}
    columns = {
        "final": ((*dims, "rate"), final, reward),
        "best": (dims, best.mean((-2, -1)), reward),
        "over_plain": (dims, difference.mean(-1), reward),
        "over_plain_error": (dims, difference.std(-1) / np.sqrt(difference.shape[-1]), reward),
        "rule_power": ("condition", chosen, NONE),
        "start_cosine": ("condition", start, NONE),
    }
    return xarray.Dataset(columns, {"power": powers, "rate": part.rates})


def _curvature(setting: Setting) -> xarray.Dataset:
    """Second derivative of each prompt's success along its own gradient, at policies that training passes through."""
    problem = planned(setting, setting.stages, 1)[0]
    learner = Learner(stack_bandits([problem]))
    hyper = Hyper(np.array([setting.learning_rate]), 0.0, 1, 0.0)
    thetas = observe(learner, "mean_field", hyper, _parameters, learner.bandit, times=8, every=20)[0, 0]
    success, second, bound = [], [], []
    gradients = jax.jit(prompt_gradients)
    for theta in thetas:
        value, each = (np.asarray(x) for x in gradients(problem, theta))
        for x, direction in enumerate(each):
            along = measure_curvature(problem, theta, direction / np.linalg.norm(direction))
            success.append(value[x])
            second.append(along.second_derivative[x])
            bound.append(along.bound[x])
    values = {"curvature": second, "curvature_bound": bound}
    dataset = {name: ("point", column, {"units": "reward per logit^2"}) for name, column in values.items()}
    return xarray.Dataset(dataset | {"success": ("point", success, {"units": "reward"})})


def _parameters(problem, theta):
    return theta
