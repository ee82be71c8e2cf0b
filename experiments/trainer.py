"""At which learning rate does a real trainer leave stability, and does a probe of its first steps tell?

Prediction (written before the runs). The probe measures fresh and stale stiffness of TRL's own update at the start;
the exact threshold of that mode for blocks of N updates follows (bandit_lab/theory). TRL multiplies its reward term and
its KL term by the importance ratio, so that with plain advantages nothing stale is left: the threshold of the learning
rate is 2/K for every N, there is none in N. A KL penalty inside the reward is taken where the samples were: stale as a
whole, with or without the ratio, so that the threshold falls as 2/(K N), whether the N updates share their samples
(`num_iterations`) or not (`steps_per_generation`). TRL's clip acts only once a ratio is off by 0.2: it can only raise
the learning rate at which a run leaves. Adam's second moment grows with the fluctuation and yields, so that a run
leaves no earlier than predicted with the moment held (shared/theory/adaptive.py).

Setting: experiments/trainer.yaml, plain SGD except the last case. Measured: TRL runs from the fixed point, a
bisection of a fixed grid of learning rates (factor 1.25, Adam 2) for the first at which the policy goes far. The level
`far` was set on four runs at N = 1; beyond the threshold a run finds a flatter place soon, so that it goes no farther.
Drawn: that learning rate against N with the prediction (bars: 2 standard errors), and how far the runs went.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared import sheet
from experiments.shared.trl_case import Case

TITLE = "A real trainer leaves stability"
FINDING = "A tabular policy under TRL has a threshold in N with KL in the reward, none with KL in the loss"

# What prediction and measurement are both told.

ONE, RATE = {"units": "1"}, {"units": "squared parameter per unit of loss"}


CASES = {f"{kl}_{n}": Case(kl, n) for kl in ("loss", "reward") for n in (1, 2, 4)} | {
    "loss_4s": Case("loss", 1, 4),
    "reward_4s": Case("reward", 1, 4),
    "clip_4": Case("loss", 4, 1, 0.2),
    "adam_1": Case("loss", 1, 1, 1e6, True),
}


def unsupported_reason(setting: Setting) -> str | None:
    """The reason where TRL is not installed."""
    try:
        import experiments.shared.tiny_client  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def settled(setting: Setting) -> Any:
    """A model at the fixed point of the mean update, by its enumerated gradient; reference: the same, untrained."""
    import torch

    from experiments.shared import tiny_client as client

    network, reference = client.model(setting.seed, setting.width), client.model(setting.seed, setting.width)
    ids = torch.tensor([[client.WORDS.index(word) for word in prompt.split()] for prompt in client.PROMPTS])
    rewards, target = torch.tensor(client.REWARDS), torch.log(torch.tensor(client.policy(reference)))
    centred = 1 - 1 / setting.group_size  # what the group's own mean takes off
    for _ in range(setting.settle.steps):
        log = torch.log_softmax(network(input_ids=ids).logits[:, -1].double(), dim=-1)
        gain = (log.exp() * (centred * rewards - setting.beta * (log - target))).sum(-1).mean()
        slopes = torch.autograd.grad(gain, list(network.parameters()))
        with torch.no_grad():
            for one, slope in zip(network.parameters(), slopes, strict=True):
                one += setting.settle.learning_rate * slope
    return network


def trainer_of(setting: Setting, case: Case, start: Any, folder: str, learning_rate: float, steps: int) -> Any:
    """TRL's trainer for one run from `start`, a state dict."""
    from experiments.shared import tiny_client as client

    network = client.model(setting.seed, setting.width)
    reference = client.model(setting.seed, setting.width)
    network.load_state_dict(start)
    target = np.log(client.policy(reference))
    factor = 1 - 1 / setting.group_size

    def rewarded(completion_ids: list[list[int]], row: list[int], **rest: Any) -> list[float]:
        away = np.log(client.policy(network)) - target
        words = [ids[0] for ids in completion_ids]
        return [
            float(client.REWARDS[x, a] - setting.beta / factor * away[x, a]) for x, a in zip(row, words, strict=True)
        ]

    inside = case.kl == "reward"
    return client.trainer(
        folder,
        policy=network,
        reference=reference,
        rewards=rewarded if inside else None,
        beta=0.0 if inside else float(setting.beta),
        use_bias_correction_kl=True,
        group_size=setting.group_size,
        groups=len(client.PROMPTS),
        num_iterations=case.iterations,
        steps_per_generation=case.slices,
        epsilon=case.epsilon,
        learning_rate=learning_rate,
        max_steps=steps,
        optim="adamw_torch" if case.adam else "sgd",
        logging_steps=10**6,
        seed=setting.seed + 1,
    )


# Prediction: the probe at the start, and the theory's threshold.


def predict(setting: Setting) -> xarray.Dataset:
    """Stiffness of every case at the start, and the learning rate beyond which its mode grows."""
    start = settled(setting).state_dict()
    stiffness_of = cache(partial(_stiffness, setting, start))
    cases = [CASES[name] for name in setting.cases]
    values = np.array([_predicted(*stiffness_of(case.kl, case.adam), case.updates) for case in cases], float).T
    names = ("stiffness", "stiffness_std", "fresh", "stale", "threshold", "low", "high", "law")
    units = ({"units": "loss per squared parameter"},) * 4 + (RATE,) * 4
    content = {name: ("case", one, unit) for name, one, unit in zip(names, values, units, strict=True)}
    return xarray.Dataset(content, coordinates(setting))


def _stiffness(setting: Setting, start: Any, kl: str, adam: bool) -> tuple[Any, float, str]:
    from grpo_probe.probe_trl import TrlProbe

    least, steps = (1e-9, setting.warm) if adam else (0.0, 1)
    with TemporaryDirectory() as folder:
        trainer = trainer_of(setting, Case(kl, 2, adam=adam), start, folder, least, steps)
        trainer.train()
        weight = setting.beta / (1 - 1 / setting.group_size) if kl == "reward" else 0.0
        probe = TrlProbe(
            trainer,
            prompts=4,
            groups=setting.probe_groups,
            anew=False,
            reward_kl=weight,
            rows_per_forward=4 * setting.group_size,
            tolerance=1e-2,
        )
        reading = probe.measure()
    return reading.stiffness, reading.loop.momentum, reading.loop.convention


def _predicted(k: Any, momentum: float, convention: str, updates: int) -> list[float]:
    from bandit_lab import theory

    def threshold(value: float) -> float:
        share = value / k.value
        loop = theory.LinearLoop(k.fresh * share, k.stale * share, momentum, "refresh", convention)
        crossing = theory.first_unstable_learning_rate(loop, updates).value
        return math.nan if crossing is None else crossing

    spread = 2 * k.standard_error
    ends = [threshold(k.value - spread), threshold(k.value + spread)]
    law = theory.leading_order(updates, momentum, "ema" if convention == "ema" else "heavy_ball") / k.value
    return [k.value, k.standard_error, k.fresh, k.stale, threshold(k.value), min(ends), max(ends), law]


def coordinates(setting: Setting) -> dict[str, Any]:
    """The cases with their updates per rollout batch."""
    updates = [CASES[name].updates for name in setting.cases]
    return {"case": list(setting.cases), "updates": ("case", updates, ONE)}


# Measurement: TRL alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """First learning rate of the grid at which a run goes far, by bisection, and every run with how far it went."""
    start = cache(lambda: settled(setting).state_dict())
    parts = lab.keep_each({name: partial(_one_case, setting, name, start) for name in setting.cases})
    return xarray.concat(parts.values(), "case").assign_coords(coordinates(setting))


def _one_case(setting: Setting, name: str, started: Any) -> xarray.Dataset:
    case = CASES[name]
    return edge(setting, case, lambda rate: _farthest(setting, case, started(), rate))


def edge(setting: Setting, case: Case, far_at: Callable[[float], float]) -> xarray.Dataset:
    """First learning rate of the case's grid at which a run goes far; `far_at` gives how far."""
    grid = setting.adam if case.adam else setting.sgd
    rates = grid.lowest * grid.factor ** np.arange(grid.count)
    far = np.full(len(rates), np.nan)
    low, high = -1, len(rates)  # stable at low, far at high
    while high - low > 1:
        place = (low + high) // 2
        far[place] = far_at(float(rates[place]))
        low, high = (low, place) if far[place] > setting.far else (place, high)
    middle = math.sqrt(rates[high - 1] * rates[high]) if 0 < high < len(rates) else math.nan
    return xarray.Dataset(
        {"threshold": ((), middle, RATE), "farthest": ("run", far, ONE), "rate": ("run", rates, RATE)}
    )


def length(setting: Setting, case: Case) -> int:
    """Steps of a run."""
    return int(max(setting.least_steps, setting.blocks * case.updates))


def _farthest(setting: Setting, case: Case, start: Any, learning_rate: float) -> float:
    from experiments.shared import tiny_client as client

    with TemporaryDirectory() as folder:
        trainer = trainer_of(setting, case, start, folder, learning_rate, length(setting, case))
        return float(client.distances(client.path(trainer, setting.far)).max())


# Picture.

LOOKS = {"loss": ("o", s.BLUE), "reward": ("s", s.VERMILION)}
WORDS = {
    "loss_4s": "loss, 4 slices",
    "reward_4s": "reward, 4 slices",
    "clip_4": "loss, N = 4, clip",
    "adam_1": "loss, Adam",
}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    about = "four prompts, six answers; mean-only advantages"
    return sheet.trained("tiny Qwen2", about, kl_weight=setting.beta, drift=f"groups of {setting.group_size}")


def draw(figure: Figure, results: Results) -> None:
    """Thresholds against N; measured over predicted of every case."""
    sheet.fill(figure, results, (_thresholds, _ratios), height=5.2)


def _against_n(kl: str, cases: Iterable[str]) -> list[str]:
    """The cases that differ in `num_iterations` alone."""
    return [str(name) for name in cases if CASES[str(name)] == Case(kl, CASES[str(name)].iterations)]


def _thresholds(panel: Axes, results: Results) -> None:
    names = {"loss": "KL in the loss (TRL)", "reward": "KL in the reward"}
    for kl, (marker, colour) in LOOKS.items():
        mine = results.predicted.sel(case=_against_n(kl, results.setting.cases))
        panel.fill_between(mine.updates, mine.low, mine.high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(mine.updates, mine.threshold, color=colour, linewidth=1.2)
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 5}
        panel.plot(mine.updates, results.measured.threshold.sel(case=mine.case), **look, label=names[kl])
    panel.set(xscale="log", yscale="log", xlabel="updates $N$ per rollout batch", xlim=(0.9, 4.45))
    panel.set_ylabel("learning rate at which a run leaves\n[squared parameter per unit of loss]")
    sheet.ticks_at(panel.xaxis, (1, 2, 4))
    sheet.plain_log(panel.yaxis)
    panel.legend(loc="lower left", title="marker: measured\nline, band: probe, 2 s.e.", fontsize=7, title_fontsize=7)


def _ratios(panel: Axes, results: Results) -> None:
    over = (results.measured.threshold / results.predicted.threshold).values
    names = [str(name) for name in results.setting.cases]
    words = [WORDS.get(name, f"{CASES[name].kl}, N = {CASES[name].iterations}") for name in names]
    allowed = 1 + _allowed(results)
    panel.axvspan(1 / allowed, allowed, color="0.88", linewidth=0)
    panel.axvline(1, color=s.BLACK, linewidth=1)
    for place, (name, ratio) in enumerate(zip(names, over, strict=True)):
        marker, colour = LOOKS[CASES[name].kl]
        panel.plot(ratio, place, **s.MEASURED | {"color": colour, "marker": marker, "markersize": 5})
    panel.set_yticks(range(len(names)), words, fontsize=sheet.SMALLEST_TEXT)
    panel.set(xscale="log", xlabel="threshold, measured / predicted", xlim=(0.2, 3.2))
    panel.set_ylim(len(names) - 0.5, -0.5)
    sheet.ticks_at(panel.xaxis, (0.25, 0.5, 1, 2))
    panel.set_title("where the KL penalty is, and N\n(grey: a grid step, 2 s.e.)", fontsize=7)


# Table and claims.


def table(results: Results) -> str:
    """Every case with its stiffness, its prediction, and what was measured."""
    head = "| case | N | K (2 s.e.) | fresh | stale | predicted | measured | measured / predicted | runs |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    for name in results.setting.cases:
        p, m = results.predicted.sel(case=name), results.measured.sel(case=name)
        k = f"{float(p.stiffness):.3g} ± {2 * float(p.stiffness_std):.2g}"
        runs = int(np.isfinite(m.farthest).sum())
        numbers = " | ".join(f"{float(one):.3g}" for one in (p.fresh, p.stale, p.threshold, m.threshold))
        ratio = float(m.threshold / p.threshold)
        lines.append(f"| {name} | {int(p.updates)} | {k} | {numbers} | {ratio:.2f} | {runs} |")
    return "\n".join([*lines, "", f"Runs in all: {int(np.isfinite(results.measured.farthest).sum())}."])


def _slope(kl: str, side: xarray.Dataset) -> float:
    mine = side.sel(case=_against_n(kl, side.case.values))
    return float(np.polyfit(np.log(mine.updates), np.log(mine.threshold), 1)[0])


def _over(f: Results, name: str, other: str | None = None) -> float:
    """Measured threshold over the predicted one, or over that of another case; a case that is not there: 1."""
    if name not in f.setting.cases:
        return 1.0
    side, case = (f.predicted, name) if other is None else (f.measured, other)
    return float(f.measured.threshold.sel(case=name) / side.threshold.sel(case=case))


THEORY = "derived in bandit_lab/theory/thresholds.py and block_map.py"

# A grid step is a factor 1.25, its middle is taken: 12 %; K has an error of its own, two of which are allowed.
STEP = 1.25


def _allowed(f: Results) -> float:
    loss = f.predicted.sel(case=[name for name in f.setting.cases if name[:4] == "loss"])
    return math.sqrt(STEP) - 1 + float((2 * (loss.stiffness_std / loss.stiffness)).max())


CLAIMS = (
    Claim.one(
        "trainer.on_policy",
        "One update per rollout batch: learning rate at which TRL leaves stability, over the probe's",
        THEORY,
        constant="the probe's prediction",
        measured=lambda f: _over(f, "loss_1"),
        tolerance=_allowed,
        post_hoc="the level beyond which a run is far was set on four runs of this case",
        fails_if="K of the first step did not tell where this trainer diverges",
    ),
    Claim.same(
        "trainer.no_threshold_in_n",
        "KL in the loss (TRL): slope of log threshold against log N, N = 1 to 4",
        "the ratio leaves nothing stale: bandit_lab/theory/stiffness.py",
        partial(_slope, "loss"),
        tolerance=0.2,
        fails_if="reusing samples made TRL's update stale in the mean",
    ),
    Claim.same(
        "trainer.kl_in_reward",
        "KL in the reward: slope of log threshold against log N, N = 1 to 4",
        THEORY,
        partial(_slope, "reward"),
        tolerance=0.2,
        fails_if="a KL penalty taken at the samples were not stale",
    ),
    Claim.one(
        "trainer.reward_worst",
        "KL in the reward: measured over predicted threshold, the farthest from 1 over N",
        THEORY,
        constant="the probe's prediction",
        measured=lambda f: max(
            (_over(f, n) for n in f.setting.cases if n[:6] == "reward"), key=lambda x: abs(math.log(x))
        ),
        tolerance=_allowed,
        explanation="at this fixed point every advantage is zero, so that a run grows from rounding alone; from 0.03"
        " away it leaves within one or two grid steps (docs/trainer.md)",
        fails_if="the exact threshold of the stale mode did not hold, shared samples or not",
    ),
    Claim.one(
        "trainer.clip",
        "TRL's clip of 0.2 at N = 4: threshold with it over without, no less than 1 up to a grid step (1 if so)",
        "the clip acts only once a ratio is off by 0.2",
        constant="the hypothesis",
        measured=lambda f: float(_over(f, "clip_4", "loss_4") > 1 / STEP),
        tolerance=0.0,
        explanation="where a ratio is off by 0.2 the clip takes the reward's gradient and leaves the KL term's, which"
        " it had balanced; with both taken runs stay nearly where they do without clip (docs/trainer.md)",
        fails_if="the clip made training leave earlier",
    ),
    Claim.one(
        "trainer.adam",
        "Adam: measured over predicted threshold is no less than 1 up to a grid step (1 if so)",
        "the second moment grows with the fluctuation: shared/theory/adaptive.py",
        constant="the hypothesis",
        measured=lambda f: float(_over(f, "adam_1") > 1 / f.setting.adam.factor),
        tolerance=0.0,
        explanation="Adam's first step has the size of the learning rate in every parameter; with a second moment of"
        " 20 steps a run leaves at 1.08 times the prediction (docs/trainer.md)",
        fails_if="Adam left stability before the threshold with its second moment held",
    ),
)
