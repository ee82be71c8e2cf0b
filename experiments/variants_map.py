"""Which advantage, estimator and staleness model has which refresh-interval threshold, and what else tells them apart?

Prediction (written before the run). Near the fixed point a variant is its fresh and its stale stiffness
(bandit_lab/theory/stiffness.py); multipliers of the block map (block_map.py) tell from which refresh interval on it is
unstable, if from any: `frozen` always, importance ratios at most where the std is stale. Clips act at no fixed point.
Law: K eta N = 1 - mu (arXiv 2606.30789). Temperature: variance of the gradient of the gap times G (gradient_noise.py).
Late times: 1 - p ~ t^a without KL term, rewards 1 and 0, G = infinity (two_arm.py). G moves the fixed point by c_G(J).
Setting: experiments/variants_map.yaml; each variant's learning rate is such that the law allows the same refresh
interval to all. Measured on the nonlinear mean update at G = infinity, a staleness model per program.
Drawn: the first refresh interval from which a displacement grows.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce import claims
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared import (
    many_variants as variants,
    random_ages,  # noqa: F401 - registers two rules that the package has not
    sheet,
)

TITLE = "Map of variants"
FINDING = "Importance ratios remove the threshold in N; only frozen and uncorrected samples have one"

# What prediction and measurement are both told.

ONE, STEPS = {"units": "1"}, {"units": "steps"}


def axes(setting: Setting) -> dict:
    """Names of the variants that are compared."""
    defaults: dict[str, Iterable[str]] = {"advantages": ADVANTAGES, "estimators": ESTIMATORS, "staleness": STALENESS}
    names = {key: list(every) if setting[key] == "all" else setting[key] for key, every in defaults.items()}
    return dict(zip(("advantage", "estimator", "staleness"), names.values(), strict=True))


def intervals(setting: Setting, staleness: str) -> np.ndarray:
    """Refresh intervals that are tried; a model that the setting does not name is tried as the first."""
    spec = vars(setting.intervals).get(staleness, setting.intervals.refresh)
    return np.arange(spec[0], spec[1] + 1, spec[2])


def late_exponent(drifts: Any, setting: Setting) -> float:
    """a of 1 - p ~ t^a from the drift f at two gaps: q' = -q f, f ~ q^b, hence a = -1/b."""
    slope = np.log(drifts[0] / drifts[1]) / (setting.late[1] - setting.late[0])
    return float(-1 / slope)


# Prediction: theory alone.

ALIKE = {"batch_std": "grpo"}  # one prompt: the batch is the group
CLIPPED = ("clipped", "clip_higher", "cispo", "decoupled", "gspo", "m2po")  # as `ratio` near a fixed point
RATIOS = ("ratio", *CLIPPED)
LOOPS = {**{model: model for model in theory.MODELS}, "random_mean": "random"}


def predict(setting: Setting) -> xarray.Dataset:
    """First unstable interval, temperature, late exponent, shift by G: wherever there is a closed form."""
    coords = axes(setting)
    shape = [len(names) for names in coords.values()]
    first, has = np.full(shape, np.nan), np.full(shape, np.nan)
    noise, late, shift = np.full((3, shape[0]), np.nan)
    share = np.full(shape[:2], np.nan)
    even = np.full(2, 0.5)
    for i, advantage in enumerate(coords["advantage"]):
        name = ALIKE.get(advantage, advantage)
        if name not in theory.ADVANTAGES:
            continue
        laws = [theory.GroupLaw(name, size) for size in (None, setting.group_size)]
        limit, finite = (theory.BinarySignal(law, tuple(setting.rewards)) for law in laws)
        points = [theory.settled_point(one, even, setting.kl_weight, even) for one in (limit, finite)]
        covariance = theory.binary_covariance(laws[1], np.array(setting.rewards), points[0].policy)
        noise[i] = setting.group_size * (covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1])
        late[i] = late_exponent([_late_drift(laws[0], gap) for gap in setting.late], setting)
        if name != "dapo":  # its finite groups see actions by another law than the policy's
            shift[i] = points[1].expected_reward - points[0].expected_reward
        for j, estimator in enumerate(coords["estimator"]):
            if estimator not in ("frozen", "uncorrected", *RATIOS):
                continue
            kind = "ratio" if estimator in RATIOS else estimator
            split = theory.stiffness_split(limit, points[0].policy, setting.kl_weight, kind)
            fresh, stale = (float(np.real(part[0, 0])) for part in split.reduced())
            share[i, j] = stale / (fresh + stale)
            rate = (1 - setting.momentum) / (theory.largest_stiffness(split) * setting.law_interval)
            for k, staleness in enumerate(coords["staleness"]):
                if staleness in LOOPS:
                    loop = theory.LinearLoop(*split.reduced(), setting.momentum, LOOPS[staleness])
                    tried = intervals(setting, staleness)
                    unstable = [theory.spectral_radius(loop, rate, n) >= 1 for n in tried.tolist()]
                    has[i, j, k] = float(any(unstable))
                    first[i, j, k] = tried[np.argmax(unstable)] if any(unstable) else np.nan
    loops_of = _loops(share, shape[2])
    values = {
        "first_interval": (tuple(coords), first, STEPS),
        "has_threshold": (tuple(coords), has, ONE),
        "stale_share": (("advantage", "estimator"), share, ONE),
        "loop": (tuple(coords), loops_of, ONE | {"long_name": "number of the linear loop"}),
        "loops_with_threshold": ((), float(len(np.unique(loops_of[has == 1]))), ONE),
        "loops_without": ((), float(len(np.unique(loops_of[has == 0]))), ONE),
        "temperature": ("advantage", noise, {"units": "reward^2"}),
        "late_exponent": ("advantage", late, ONE),
        "group_shift": ("advantage", shift, {"units": "reward"}),
    }
    return xarray.Dataset(values, coords)


def _loops(share: np.ndarray, models: int) -> np.ndarray:
    """Number of every variant's linear loop [A, E, S]: stale share of the stiffness [A, E] and staleness model.

    Variants that have both in common have one threshold near a fixed point. Shares are told apart to 1e-6.
    """
    kind = np.unique(np.round(share, 6) + 0.0, return_inverse=True)[1].reshape(share.shape)
    return (kind[..., None] * models + np.arange(models)).astype(float)


def _late_drift(law: theory.GroupLaw, gap: float) -> float:
    """Drift of the gap at p = sigma(gap), rewards 1 and 0."""
    p, q = 1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(gap))
    return float(2 * law.factor(p, q) * p * q)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Fixed points and stiffness, temperature, late exponent, mean curves, and the first unstable interval."""
    rest = lab.keep("rest", lambda: _rest(setting))
    parts = [lab.keep(name, partial(_staleness, setting, rest, name)) for name in axes(setting)["staleness"]]
    curves = lab.keep("groups", lambda: _groups(setting, rest))
    return xarray.merge([rest, curves, xarray.concat(parts, "staleness")])


def _learners(setting: Setting, staleness: str) -> variants.Learners:
    names, bandit, rule = axes(setting), two_arm(setting.rewards), STALENESS[staleness]()
    most = max(intervals(setting, staleness))
    horizon = min(rule.horizon_for(most), 160)  # drawn ages: 0.15 % are older than that at mean age 24
    options: dict[str, Any] = {"group_size": setting.group_size, "prompts": setting.prompts, "horizon": horizon}
    pairs = [(a, e) for a in names["advantage"] for e in names["estimator"]]
    return tuple(Learner(bandit, ADVANTAGES[a](), ESTIMATORS[e](), rule, **options) for a, e in pairs)


def _table(setting: Setting, values: Any, units: dict[str, str]) -> tuple[Any, ...]:
    names = axes(setting)
    shape = (len(names["advantage"]), len(names["estimator"]))
    return (("advantage", "estimator"), np.reshape(values, shape), units)


def _rest(setting: Setting) -> xarray.Dataset:
    """What one gradient tells: rest gap, stiffness, learning rate, temperature, late exponent."""
    learners, names = _learners(setting, "refresh"), axes(setting)
    plain = variants.with_bandit(learners, two_arm((1.0, 0.0)))
    here, beta = range(len(learners)), setting.kl_weight
    gaps = [variants.rest_gap(learners, "mean_field", i, beta) for i in here]
    split = np.array([variants.fresh_and_stale_rate(learners, "mean_field", i, beta, gaps[i]) for i in here])
    noise = [setting.group_size * variants.gap_noise(learners, i, beta, gaps[i], setting.draws) for i in here]
    far = np.resize(np.array(setting.late), 401)
    drifts = [variants.gap_drift(plain, "mean_field", i, 0.0, far, far)[:2] for i in here]
    rate = (1 - setting.momentum) / (split.sum(1) * setting.law_interval)
    stiffness = {"units": "reward/logit^2"}
    values = {
        "rest_gap": _table(setting, gaps, {"units": "logits"}),
        "fresh": _table(setting, split[:, 0], stiffness),
        "stale": _table(setting, split[:, 1], stiffness),
        "learning_rate": _table(setting, rate, {"units": "logits per unit gradient"}),
        "temperature": _table(setting, noise, {"units": "reward^2"}),
        "late_exponent": _table(setting, [late_exponent(pair, setting) for pair in drifts], ONE),
    }
    return xarray.Dataset(values, {key: names[key] for key in ("advantage", "estimator")})


def _cells(setting: Setting, rate: float, tried: np.ndarray) -> Hyper:
    columns = np.broadcast_arrays(rate, setting.momentum, tried, setting.kl_weight)
    return Hyper(*(np.array(column, float) for column in columns))


def _staleness(setting: Setting, rest: xarray.Dataset, name: str) -> xarray.Dataset:
    """First interval at which a displacement grows, and what becomes of a large one at the longest interval."""
    learners, tried = _learners(setting, name), intervals(setting, name)
    gaps, rates = rest.rest_gap.values.ravel(), rest.learning_rate.values.ravel()
    first, outcome = np.full((2, len(learners)), np.nan)
    for i, (gap, rate) in enumerate(zip(gaps, rates, strict=True)):
        options = (learners, "mean_field", i, _cells(setting, rate, tried))
        small = variants.run_gaps(*options, np.full(len(tried), gap + setting.start), setting.steps) - gap
        unstable = variants.grows(small, setting.start)
        first[i] = tried[np.argmax(unstable)] if unstable.any() else np.nan
        outcome[i] = variants.outcome(
            variants.run_gaps(*options, np.full(len(tried), gap + 0.3), setting.steps)[-1] - gap
        )
    values = {
        "first_interval": _table(setting, first, STEPS),
        "outcome": _table(setting, outcome, ONE | {"names": " ".join(variants.OUTCOMES)}),
    }
    return xarray.Dataset(values, rest.coords).expand_dims(staleness=[name])


def _groups(setting: Setting, rest: xarray.Dataset) -> xarray.Dataset:
    """Mean curves from the reference policy at G = group_size and at G = infinity, refresh."""
    learners = _learners(setting, "refresh")
    tried = intervals(setting, "refresh")
    n, start = int(np.argmax(tried == setting.curve.interval)), np.zeros(len(tried))
    largest, shift = np.full((2, len(learners)), np.nan)
    low, high = sorted(setting.rewards)
    for i, rate in enumerate(rest.learning_rate.values.ravel()):
        cells, dynamics = _cells(setting, rate, tried), ("finite_group", "mean_field")
        group, limit = (variants.run_gaps(learners, one, i, cells, start, setting.steps)[n] for one in dynamics)
        difference = (high - low) * (1 / (1 + np.exp(-group)) - 1 / (1 + np.exp(-limit)))
        largest[i], shift[i] = np.abs(difference).max(), difference[-1]
    reward = {"units": "reward"}
    values = {"curve_difference": _table(setting, largest, reward), "group_shift": _table(setting, shift, reward)}
    return xarray.Dataset(values, rest.coords)


# Numbers that the claims compare.


def loops(results: Results, has_threshold: int) -> float:
    """How many distinct linear loops that are predicted a threshold (1) or none (0) have variants that all agree."""
    predicted, measured = results.predicted, results.measured
    dims = predicted.has_threshold.dims
    seen, exact = (one.first_interval.transpose(*dims).values for one in (measured, predicted))
    agree = np.abs(seen - exact) < 0.5 if has_threshold else np.isnan(seen)
    loop, wanted = predicted.loop.values, predicted.has_threshold.values == has_threshold
    return float(sum(agree[wanted & (loop == one)].all() for one in np.unique(loop[wanted])))


def frozen_ratio(results: Results, name: str) -> float:
    """Measured over predicted with estimator `frozen`, at the advantage where it is farthest from 1."""
    return farthest_from_one(results.measured[name].sel(estimator="frozen"), results.predicted[name])


# Picture.

LOOKS = {"refresh": (s.BLUE, "o"), "lag": (s.GREEN, "^"), "pipeline": (s.VERMILION, "s"), "random": (s.PURPLE, "D")}
OTHER = (s.ORANGE, "v")


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.two_arms(setting.rewards),
        f"heavy ball, momentum {setting.momentum:g}",
        kl_weight=setting.kl_weight,
        drift="infinite groups unless G is named",
    )


def draw(figure: Figure, results: Results) -> None:
    """First unstable intervals of all groups of variants that have them in common; what G does to mean curves."""
    groups = alike(results)
    high = 0.8 + 0.3 * len(groups), 0.5 + 0.19 * results.measured.sizes["advantage"]
    left, right = sheet.panels(figure, 2, height=0.6 + sum(high), sizes=high)
    _draw_intervals(left, results, groups)
    _draw_shifts(right, results)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def alike(results: Results) -> list[tuple[str, np.ndarray]]:
    """(which variants, first unstable interval by staleness model): all that have their intervals in common."""
    table = results.measured.first_interval.transpose("estimator", "advantage", "staleness")
    groups: dict[tuple[float, ...], dict[str, list[str]]] = {}
    for estimator in table.estimator.values:
        for advantage in table.advantage.values:
            row = table.sel(estimator=estimator, advantage=advantage).fillna(np.inf).values
            member = groups.setdefault(tuple(row), {}).setdefault(sheet.ESTIMATORS[str(estimator)], [])
            member.append(sheet.ADVANTAGES[str(advantage)])
    rows = []
    for intervals_, members in groups.items():
        every = [name for name, those in members.items() if len(those) == table.sizes["advantage"]]
        parts = [f"{name}: {', '.join(those)}" for name, those in members.items() if name not in every]
        parts = [", ".join(every) + ": all"] * bool(every) + parts
        rows.append((s.lines("; ".join(parts), 1.65, size=sheet.SMALLEST_TEXT), np.array(intervals_)))
    return sorted(rows, key=lambda row: tuple(row[1]))


def _draw_intervals(panel: Axes, results: Results, groups: list[tuple[str, np.ndarray]]) -> None:
    names = list(results.measured.staleness.values)
    last = max(float(max(intervals(results.setting, name))) for name in names)
    none = 1.25 * last
    panel.axvspan(1.12 * last, 1.4 * last, color="#EFEFEF", linewidth=0)
    panel.axvline(results.setting.law_interval, **s.LAW, label="the law")
    for k, name in enumerate(names):
        colour, marker = LOOKS.get(name, OTHER)
        look = s.MEASURED | {"color": colour, "marker": marker}
        at = np.array([row[1][k] for row in groups])
        seen = np.where(np.isfinite(at), at, none)
        panel.plot(
            seen, np.arange(len(groups)) + 0.14 * (k - (len(names) - 1) / 2), **look, label=sheet.STALENESS[str(name)]
        )
    panel.set_yticks(range(len(groups)), [row[0] for row in groups], fontsize=sheet.SMALLEST_TEXT)
    panel.set(xscale="log", xlabel="first unstable interval $N$ [steps]", xlim=(1.8, 1.4 * last))
    panel.set_ylim(len(groups) - 0.2, -0.9)
    sheet.ticks_at(panel.xaxis, (2, 5, 10, 20))
    panel.text(none, -0.6, "none", ha="center", va="center", fontsize=7)


def _draw_shifts(panel: Axes, results: Results) -> None:
    shift, size = results.measured.curve_difference, results.setting.group_size
    names = list(shift.advantage.values)
    kinds = {"frozen": (s.BLUE, "o"), "uncorrected": (s.VERMILION, "s")}
    for estimator in shift.estimator.values:
        colour, marker = kinds.get(str(estimator), (s.GREY, "|"))
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 3.6}
        labelled = [line.get_label() for line in panel.get_lines()]
        label = str(estimator) if str(estimator) in kinds else "others"
        panel.plot(shift.sel(estimator=estimator), range(len(names)), **look, label="_" * (label in labelled) + label)
    panel.set_yticks(range(len(names)), [sheet.ADVANTAGES[str(name)] for name in names], fontsize=sheet.SMALLEST_TEXT)
    panel.set(xlabel=f"groups of {size}: largest change\nof the mean curve [reward]")
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.legend(loc="lower right", bbox_to_anchor=(1, 0.14))


# Table below the claims.


def table(results: Results) -> str:
    """Every advantage and estimator: thresholds, dependence on G, temperature, late times, failure."""
    measured, predicted, law = results.measured, results.predicted, results.setting.law_interval
    outcomes = measured.outcome.attrs["names"].split()
    names = list(measured.staleness.values)
    head = ["advantage", "estimator", "fresh", "stale", *(f"{name} (exact)" for name in names)]
    head += ["G: mean curve", "temperature", "late 1 - p", "at the longest N"]
    text = f"First unstable refresh interval, the law's being {law:g}; - : none tried is unstable; ? : no closed form. "
    more = "Last column: what a displacement of 0.3 becomes at the longest interval tried, where it does not return."
    rows = []
    for advantage in measured.advantage.values:
        for estimator in measured.estimator.values:
            at = {"advantage": advantage, "estimator": estimator}
            row, theirs = measured.sel(at), predicted.sel(at)
            cells = [advantage, estimator, *(f"{round(float(x), 3) + 0.0:.3f}" for x in (row.fresh, row.stale))]
            for name in names:
                seen, exact = (float(x.first_interval.sel(staleness=name)) for x in (row, theirs))
                finite = np.isfinite(float(theirs.has_threshold.sel(staleness=name)))
                cells.append(f"{_interval(seen)} ({_interval(exact) if finite else '?'})")
            late = float(row.late_exponent)
            cells += [f"{float(row.curve_difference):.4f}", f"{float(row.temperature):.3f}"]
            cells += [f"t^{late:.2f}" if abs(late) < 20 else "no power"]
            codes = [outcomes[int(row.outcome.sel(staleness=name))] for name in names]
            fails = [f"{name}: {code}" for name, code in zip(names, codes, strict=True) if code != "returns"]
            cells += [", ".join(fails)]
            rows.append([cell or "-" for cell in cells])
    return "\n".join([text + more, "", *claims.grid(head, rows)])


def _interval(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:g}"


# Claims.

THEORY = "derived in bandit_lab/theory/stiffness.py, block_map.py"

# Tolerances: intervals are whole numbers; a variance of n draws scatters by sqrt(2/n) or so; drifts are exact.
CLAIMS = (
    Claim(
        "variants_map.thresholds",
        "Linear loops (stale share of the stiffness, staleness model) with a threshold: in so many every variant that "
        "has this loop is unstable from the predicted interval on",
        f"arXiv 2606.30789; {THEORY}",
        predicted=lambda f: float(f.predicted.loops_with_threshold),
        measured=lambda f: loops(f, 1),
        tolerance=0.5,
        unit="loops",
        fails_if="one variant of a loop were unstable at another interval",
    ),
    Claim(
        "variants_map.no_threshold",
        "Linear loops that are stable at every interval tried, against the law: in so many every variant is",
        THEORY,
        predicted=lambda f: float(f.predicted.loops_without),
        measured=lambda f: loops(f, 0),
        tolerance=0.5,
        unit="loops",
        fails_if="a clip or a ratio brought one variant of a loop a threshold",
    ),
    Claim.one(
        "variants_map.temperature",
        "Temperature of every advantage (estimators that act alike on policy): variance of the gradient times G",
        "derived in bandit_lab/theory/gradient_noise.py",
        measured=lambda f: frozen_ratio(f, "temperature"),
        tolerance=lambda f: f.setting.tolerance.noise,
        fails_if="the covariance of one advantage's gradient were another",
    ),
    Claim.one(
        "variants_map.late_exponent",
        "Late times without KL term at G = infinity: the exponent of 1 - p in every advantage",
        "derived in shared/theory/two_arm.py",
        measured=lambda f: frozen_ratio(f, "late_exponent"),
        tolerance=1e-6,
        fails_if="the drift of one advantage near the vertex were another",
    ),
    Claim(
        "variants_map.group_shift",
        "grpo: expected reward that the mean curve ends at with groups of 8, less that of infinite groups",
        "derived in bandit_lab/theory/group_law.py",
        predicted=lambda f: float(f.predicted.group_shift.sel(advantage="grpo")),
        measured=lambda f: float(f.measured.group_shift.sel(advantage="grpo", estimator="frozen")),
        tolerance=1e-3,
        relative=True,
        unit="reward",
        fails_if="finite groups had another fixed point than c_G(J) gives",
    ),
)
