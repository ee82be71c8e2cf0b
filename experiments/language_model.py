"""From the first ten steps of a language model under GRPO: at which learning rate does training leave stability?

Prediction (written before the sweep; two runs of SGD with seed 0 had been seen, at 0.4 and 1.0: the first stayed for 40
updates and began to alternate at the end, the second left at update 18, see the setting). A run of ten small updates is
probed: the leading stiffness K of TRL's own update, fresh and stale, and the exact threshold of that mode for blocks of
N updates (bandit_lab/theory). With the KL term in the loss the importance ratio leaves nothing stale: the threshold of
SGD is 2/K for every N (`num_iterations`). A KL penalty in the reward is stale: there it falls with N.
AdamW leaves at (1 + b1)/(1 - b1) 2/K with its second moment held, with a warm-up or without. K along the update, which
is cheap, is less than the leading one. Expected to be against it: LoRA begins with B = 0, where A has no gradient, and
K grows with B.
A run has left stability when its objective, success - beta KL over all answers, falls below that of its start by 0.05.
Its course, from ten updates: the gap to the best possible objective goes on to close at the same rate.
A guard holds the learning rate at 80 % of the edge, probed every fourth update, in runs 1.5 times beyond where they
left: SGD stays; AdamW leaves before its second moment can be probed.

Setting: conf/experiment/language_model.yaml. Measured: 40 updates of TRL from the pre-trained weights, bisected on a
grid of learning rates for the first at which a run leaves. Drawn: threshold over the predicted, and courses of runs.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import xarray
from matplotlib.figure import Figure

from bandit_lab._readings import farthest_from_one
from bandit_lab.lab.reproduce import sheet
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared.language_model_panels import (
    WITHIN,
    draw_courses,
    draw_ratios,
    gain,
    guarded,
    kind_of,
    ratios_of,
    stays,
    table as table,
)
from experiments.shared.trl_case import Case

TITLE = "A language model leaves stability"
FINDING = (
    "A probe of ten updates tells where SGD leaves to a factor of two ({sgd:.2f} to {reward:.2f}), "
    "and a guard at 80 % of the edge saves it"
)

# What prediction and measurement are both told.

ONE, REWARD, RATE = {"units": "1"}, {"units": "reward"}, {"units": "squared parameter per unit of loss"}


CASES = (
    {f"sgd_{n}": Case("loss", n) for n in (1, 2, 4)}
    | {f"reward_{n}": Case("reward", n) for n in (2, 4)}
    | {f"adam_{n}": Case("loss", n, adam=True) for n in (1, 2, 4)}
    | {"reward_4s": Case("reward", 1, 4), "clip_4": Case("loss", 4, 1, 0.2), "warm_1": Case(adam=True, warmup=20)}
)


def unsupported_reason(setting: Setting) -> str | None:
    """Which package is missing."""
    try:
        from experiments.shared import small_lm
    except ImportError as error:
        return f"language_model: needs TRL and peft, the extra trl: {error}"
    return small_lm.missing()


def weight_of(setting: Setting) -> float:
    """KL weight of the mean update's fixed point: TRL's mean over the group takes 1/G off the reward's gradient."""
    return float(setting.beta / (1 - 1 / setting.group_size))


class Seen(NamedTuple):
    """After every update, the start first: mean success, and success - weight KL, over the prompts [steps + 1].

    best: the largest possible objective, weight log sum_a pi_ref(a) exp(r(a)/weight) over the prompts.
    """

    success: np.ndarray
    objective: np.ndarray
    best: float


def trained_of(
    setting: Setting, case: Case, seed: int, rate: float, steps: int, folder: str
) -> tuple[Any, Callable[[], Seen]]:
    """TRL's trainer, and what it has seen so far; it stops where the objective has fallen below its start."""
    import torch

    from experiments.shared import small_lm as lm

    at = lm.start(setting.layers, setting.prompts)
    reference = lm.policy_of(at.tail, at.ids).detach().double()
    weight, rows = weight_of(setting), torch.arange(len(at.prompts))
    places = {prompt: place for place, prompt in enumerate(at.prompts)}
    now: list[torch.Tensor] = [reference]
    best = weight * torch.log1p(reference[rows, at.right].exp() * math.expm1(1 / weight)).mean()

    def rewarded(prompts: list[str], completion_ids: list[list[int]], **rest: Any) -> list[float]:
        away = now[-1] - reference
        asked = [places[prompt] for prompt in prompts]
        said = [at.digit_of[ids[0]] for ids in completion_ids]
        return [float(at.right[x] == a) - weight * float(away[x, a]) for x, a in zip(asked, said, strict=True)]

    def seen() -> Seen:
        log = torch.stack(now)
        success = log[:, rows, at.right].exp().mean(-1)
        kl = (log.exp() * (log - reference)).sum(-1).mean(-1)
        return Seen(success.numpy(), (success - weight * kl).numpy(), float(best))

    def look() -> bool:
        with torch.no_grad():
            now.append(lm.policy_of(made.model, at.ids).double())
        return not stays(setting, seen().objective)

    inside = case.kl == "reward"
    made = lm.trainer(
        folder,
        at,
        setting.group_size,
        seed,
        setting.rank,
        rewards=rewarded if inside else None,
        beta=0.0 if inside else float(setting.beta),
        num_iterations=case.iterations,
        steps_per_generation=case.slices,
        epsilon=case.epsilon,
        learning_rate=rate,
        max_steps=steps,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=case.warmup,
        optim="adamw_torch" if case.adam else "sgd",
    )
    made.add_callback(lm.EveryStep(look))
    return made, seen


# Prediction: the probe after ten updates of one run, and the theory's threshold.


def predict(setting: Setting) -> xarray.Dataset:
    """Stiffness of every case and seed after the first updates, and the learning rate beyond which its mode grows."""
    stiffness_of = cache(partial(_stiffness, setting))
    names = ("stiffness", "stiffness_std", "fresh", "stale", "along", "threshold", "end")
    values = np.array(
        [
            _predicted(*stiffness_of(CASES[name].kl, CASES[name].adam, seed), CASES[name].updates)
            for name, seed in bisected(setting)
        ]
    ).T
    units = ({"units": "loss per squared parameter"},) * 5 + (RATE, REWARD)
    content = {name: ("bisected", one, unit) for name, one, unit in zip(names, values, units, strict=True)}
    return xarray.Dataset(content, coordinates(setting))


def probing(setting: Setting, case: Case, groups: int) -> dict[str, Any]:
    """How the probe is asked: every prompt, all groups in one pass, coarse; answers share a pass."""
    return {
        "prompts": setting.prompts,
        "groups": groups,
        "anew": False,
        "reward_kl": weight_of(setting) if case.kl == "reward" else 0.0,
        "rows_per_forward": setting.prompts * setting.group_size * groups,
        "method": "central",
        "products": 12,
        "tolerance": 0.03,
    }


def _stiffness(setting: Setting, kl: str, adam: bool, seed: int) -> tuple[Any, float, Any, float]:
    """The leading stiffness, the cheap one along the update, how momentum enters, the objective at the run's end."""
    from bandit_lab.integrations.probe_trl import TrlProbe

    first = setting.first
    with TemporaryDirectory() as folder:
        rate = first.adam if adam else first.sgd
        made, seen = trained_of(setting, Case(kl, adam=adam), seed, rate, first.steps, folder)
        made.train()
        gap = seen().best - seen().objective
        end = seen().best - gap[0] * (gap[-1] / gap[0]) ** (setting.steps / first.steps)
        about = probing(setting, Case(kl), setting.probe_groups)
        found = TrlProbe(made, **about).measure()
        along = TrlProbe(made, **about | {"method": "forward"}).measure()
    return found.stiffness, along.stiffness.value, found.loop, float(end)


def _predicted(k: Any, along: float, loop: Any, end: float, updates: int) -> list[float]:
    from bandit_lab import theory

    mode = theory.LinearLoop(k.fresh, k.stale, loop.momentum, "refresh", loop.convention)
    edge = theory.first_unstable_learning_rate(mode, updates).value
    return [k.value, k.standard_error, k.fresh, k.stale, along, math.nan if edge is None else edge, end]


def bisected(setting: Setting) -> list[tuple[str, int]]:
    """Cases with their seeds."""
    return [(name, int(seed)) for name in setting.cases for seed in range(setting.seeds[name])]


def coordinates(setting: Setting) -> dict[str, Any]:
    """Cases with their seeds, and their updates per rollout batch."""
    every = bisected(setting)
    return {
        "bisected": [f"{name} seed {seed}" for name, seed in every],
        "updates": ("bisected", [CASES[name].updates for name, _ in every], ONE),
    }


# Measurement: TRL alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """First learning rate of the grid at which a run leaves, by bisection; how every run's objective went."""
    parts = {f"{name} {seed}": partial(_edge, setting, lab, name, seed) for name, seed in bisected(setting)}
    return xarray.concat(lab.keep_each(parts).values(), "bisected").assign_coords(coordinates(setting))


def rates_of(setting: Setting, case: Case) -> np.ndarray:
    """Grid of learning rates."""
    grid = setting.warm if case.warmup else setting.adam if case.adam else setting.sgd
    return np.asarray(grid.lowest * grid.factor ** np.arange(grid.count))


def _edge(setting: Setting, lab: Lab, name: str, seed: int) -> xarray.Dataset:
    rates = rates_of(setting, CASES[name])
    runs = {}
    low, high = -1, len(rates)  # stays at low, leaves at high
    while high - low > 1:
        place = (low + high) // 2
        part = partial(_run, setting, name, seed, float(rates[place]))
        runs[place] = lab.keep(f"{name} {seed} {rates[place]:.6g}", part)
        low, high = (place, high) if bool(runs[place].stayed) else (low, place)
    found = math.sqrt(rates[high - 1] * rates[high]) if 0 < high < len(rates) else math.nan
    none = np.full(setting.steps + 1, np.nan)
    sides = [runs[place].objective.values if place in runs else none for place in (low, high)]
    held = none
    if name in setting.guarded and high < len(rates):
        beyond = setting.guard.beyond * float(rates[high])
        part = partial(_run, setting, name, seed, beyond, setting.guard)
        held = lab.keep(f"{name} {seed} guarded {beyond:.6g}", part).objective.values
    course = none
    if name in setting.followed:
        rate = setting.first.adam if CASES[name].adam else setting.first.sgd
        course = lab.keep(f"{name} {seed} {rate:.6g}", partial(_run, setting, name, seed, rate)).objective.values
    columns = {
        "threshold": ((), found, RATE),
        "runs": ((), float(len(runs)), ONE),
        "left_at": ((), float(runs[high].made) if high in runs else math.nan, ONE),
        "objective": (("side", "update"), np.array([*sides, held, course]), REWARD),
    }
    return xarray.Dataset(columns, {"side": ["stays", "leaves", "guarded", "probed"]})


def _run(setting: Setting, name: str, seed: int, rate: float, guard: Setting | None = None) -> xarray.Dataset:
    """One run: whether it stayed, after how many updates it ended, its success and objective."""
    with TemporaryDirectory() as folder:
        made, seen = trained_of(setting, CASES[name], seed, rate, setting.steps, folder)
        if guard is not None:
            from bandit_lab.integrations.probe_guard import hold_at
            from bandit_lab.integrations.probe_trl import TrlProbe

            about = probing(setting, CASES[name], guard.groups) | {"every": guard.every, "show": lambda line: None}
            made.add_callback(TrlProbe(made, **about, report=False, strict=True, on_margin=hold_at(guard.share)))
        try:
            made.train()
        except RuntimeError as error:
            if "probability" not in str(error):
                raise
            stayed = 0.0
        else:
            stayed = float(stays(setting, seen().objective))
    path = np.full((2, setting.steps + 1), np.nan)
    path[:, : len(seen().success)] = seen()[:2]
    columns = {
        "stayed": ((), stayed, ONE),
        "made": ((), float(len(seen().success) - 1), ONE),
        "success": ("update", path[0], REWARD),
        "objective": ("update", path[1], REWARD),
    }
    return xarray.Dataset(columns)


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    about = f"LoRA on {setting.layers} of 30 layers; {setting.prompts} differences, answers of one digit"
    return sheet.trained(
        "SmolLM2-135M-Instruct", about, kl_weight=setting.beta, drift=f"groups of {setting.group_size}"
    )


def draw(figure: Figure, found: Results, wide: bool) -> None:
    """Threshold over the predicted one of every setting; the objective on both sides of a threshold."""
    sheet.fill(figure, found, wide, (draw_ratios, draw_courses), heights=(3.4, 6.0))


# Claims.


def _worst(kind: str) -> Callable[[Results], float]:
    """Measured over predicted threshold of the settings of one kind, the farthest from 1."""

    def worst(found: Results) -> float:
        told, seen = found.predicted.threshold.values, found.measured.threshold.values
        mine = [kind_of(str(label)) == kind for label in found.measured.bisected.values]
        return farthest_from_one(seen[mine], told[mine]) if any(mine) else 1.0

    return worst


def in_n(side: xarray.Dataset) -> float:
    """Threshold at four updates per rollout batch over that at one, SGD, seed 0; 1 where there is one N alone."""
    told = dict(zip(side.bisected.values.tolist(), side.threshold.values, strict=True))
    return float(told.get("sgd_4 seed 0", told["sgd_1 seed 0"]) / told["sgd_1 seed 0"])


def share_within(found: Results) -> float:
    """Of the settings, those whose threshold is the predicted one to `WITHIN`; one that was not found is not."""
    return float((abs(ratios_of(found) - 1) <= WITHIN).mean())


THEORY = "bandit_lab/integrations/probe.py and bandit_lab/theory/thresholds.py"
SEEN = "thresholds of seed 0 at N = 1 and 4 were known, see the setting"


def _edge_claim(kind: str, name: str, **more: Any) -> Claim:
    return Claim.one(
        f"language_model.{kind}",
        f"{name}: learning rate at which a run leaves over the probe's after ten updates, farthest from 1",
        THEORY,
        _worst(kind),
        tolerance=WITHIN,
        short=f"{name}: threshold over the probe's, at its worst",
        post_hoc="" if kind in ("clip", "warm") else SEEN,
        **more,
    )


CLAIMS = (
    Claim.one(
        "language_model.within",
        "Share of the settings whose threshold is within 25 % of the probe's, to be nine of ten",
        THEORY,
        share_within,
        tolerance=0.1,
        unit="share",
        short="thresholds within 25 % of the probe's (share)",
        fails_if="the stiffness of ten updates did not tell where a language model leaves",
        explanation="six of 17 are within it, 16 within a factor of two: K goes on to change after ten updates",
        post_hoc=SEEN,
    ),
    _edge_claim(
        "sgd",
        "SGD, KL in the loss",
        fails_if="the stiffness of a language model's first updates were not that of the later",
        explanation="K rises while LoRA learns: python tests/explain_language_model.py",
    ),
    _edge_claim(
        "reward",
        "SGD, KL in the reward, N = 4",
        fails_if="a KL penalty taken at the samples were not stale as the probe says",
        explanation="K of ten updates differs between seeds by half, the threshold hardly",
    ),
    _edge_claim(
        "adam",
        "AdamW",
        fails_if="Adam's second moment of ten updates were not that of the later",
        explanation="it leaves within three updates, where each weight moves by the learning rate whatever K is",
    ),
    _edge_claim(
        "clip",
        "SGD, ratios clipped at 0.2, N = 4",
        fails_if="TRL's clip moved the threshold",
        explanation="the clip alone moves it one grid step up: it is the SGD of N = 4 that is below its prediction",
    ),
    _edge_claim(
        "warm",
        "AdamW, warm-up of 20 updates",
        fails_if="AdamW left by its first steps, whatever K is",
        explanation="the warm-up moves the threshold by 2.6: without it the first steps decide",
    ),
    Claim.one(
        "language_model.guard",
        "SGD 1.5 times beyond where it left, learning rate held at 80 % of the edge: share of the runs that stay",
        "bandit_lab/integrations/probe_guard.py",
        guarded,
        tolerance=0.01,
        unit="share",
        short="guarded runs of SGD that stay (share)",
        fails_if="a run were past saving before the probe sees that K has risen",
        constant="below its edge a run stays",
    ),
    Claim.one(
        "language_model.course",
        "Gain of the objective in 40 updates at a low learning rate over that told from ten, farthest from 1",
        "a gap to the best objective that closes at one rate",
        gain,
        tolerance=WITHIN,
        short="gain in 40 updates over that told from ten, at its worst",
        fails_if="ten updates did not tell the reward's course",
        explanation="the first updates gain fastest: the gap does not close at one rate",
    ),
    Claim.same(
        "language_model.loss_in_n",
        "SGD, KL in the loss: threshold at four updates per rollout batch over that at one",
        THEORY,
        in_n,
        tolerance=WITHIN,
        fails_if="reusing samples made TRL's update stale in the mean",
        explanation="it falls by two grid steps; perhaps by the noise of one batch, used four times (not tested)",
    ),
)
