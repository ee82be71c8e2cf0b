"""How old are the answers of an asynchronous trainer: can its layout tell the mean age before anything runs?

Prediction (written before the run). Derived in shared/theory/cluster_age.py: every update adds one to the age of
all answers that are begun and not taken, so the mean age is their number at the updates over those of a batch. With
the waiting times of groups and of the queue it is a closed form, within 10 % of the events in every layout. It is the
utilisation, the queue, the concurrency and the tail of the lengths that decide (Dong, Goel and Yu, Applied Compute,
July 2026).
Setting: experiments/cluster.yaml, 20 layouts drawn at random. Measured: ages counted in a discrete-event run of
engines, queue and trainer. Other layouts had been seen when the rule for a full queue was written. Drawn: the mean of
every layout against its closed form, and three distributions.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared import sheet
from experiments.shared.cluster import UPDATES, Cluster, ages_of
from experiments.shared.theory.cluster_age import cluster_age

TITLE = "The age of what an asynchronous trainer trains on"
FINDING = "The layout alone tells how old the answers are: within 10 % in {all_layouts:.0%} of the layouts"

AGES = 64
"""Longest age of the distributions that are kept, in updates."""

# What prediction and measurement are both told.


def layouts(setting: Setting) -> list[Cluster]:
    """Random layouts: sizes even in the logarithm; engines are drained in every fifth, which then has large batches."""
    random = np.random.default_rng(setting.seed)
    clusters = []
    for number in range(setting.layouts):
        engines, concurrency, batch = (
            round(float(np.exp(random.uniform(*np.log(getattr(setting, key))))))
            for key in ("engines", "concurrency", "batch")
        )
        group, spread = int(random.choice(setting.group_sizes)), float(random.uniform(*setting.spread))
        load, pause = float(random.uniform(*setting.load)), float(random.uniform(*setting.pause))
        queue, bound = int(random.choice(setting.queues)), int(random.choice(setting.bounds))
        weights = UPDATES[number % 5 == 4]
        if weights == "drained":  # the formula asks for three answers' time between updates
            batch = max(batch, -(-4 * engines * concurrency // group))
        time = batch * group * setting.answer_seconds / (engines * concurrency)
        slow = load > 0.9
        clusters.append(
            Cluster(
                engines, concurrency, group, batch, setting.answer_seconds, spread, load * time,
                pause * setting.answer_seconds, weights, queue * batch if slow and number % 2 else None,
                bound if (slow and not number % 2) or number % 3 == 1 else None,
            )
        )  # fmt: skip
    return clusters


def making(layout: Cluster) -> float:
    """Seconds in which the engines make a batch."""
    time = layout.batch * layout.group_size * layout.answer_seconds / (layout.engines * layout.concurrency)
    return time + layout.sync_seconds


def axes(setting: Setting) -> dict[str, Any]:
    """Coordinates: the layouts by number."""
    return {"layout": np.arange(setting.layouts)}


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Means in closed form."""
    ages = [cluster_age(**asdict(one)) for one in layouts(setting)]
    values = {
        "mean_age": ("layout", [one.starts for one in ages], {"units": "updates"}),
        "token_age": ("layout", [one.tokens for one in ages], {"units": "updates"}),
        "cycle": ("layout", [one.seconds_per_update for one in ages], {"units": "seconds"}),
    }
    return xarray.Dataset(values, axes(setting))


# Measurement: events alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Ages counted over the updates of one run for each layout."""
    chosen = layouts(setting)
    counted = [ages_of(one, setting.updates, setting.warm_up, seed=n) for n, one in enumerate(chosen)]
    shares = np.stack([np.pad(one.starts, (0, AGES))[:AGES] for one in counted])
    values = {
        "mean_age": ("layout", [one.mean_age for one in counted], {"units": "updates"}),
        "token_age": ("layout", [one.mean_token_age for one in counted], {"units": "updates"}),
        "cycle": ("layout", [one.seconds_per_update for one in counted], {"units": "seconds"}),
        "busy": ("layout", [one.busy for one in counted], {"units": "1"}),
        "dropped": ("layout", [one.dropped for one in counted], {"units": "1"}),
        "share": (("layout", "age"), shares, {"units": "1"}),
        "drained": ("layout", [one.weights == "drained" for one in chosen], {"units": "1"}),
        "bounded": ("layout", [one.max_age is not None for one in chosen], {"units": "1"}),
        "spread": ("layout", [one.spread for one in chosen], {"units": "1"}),
        "trainer_slower": ("layout", [one.train_seconds > making(one) for one in chosen], {"units": "1"}),
    }
    return xarray.Dataset(values, axes(setting) | {"age": np.arange(AGES)})


# Numbers that the claims compare.


def ratio(results: Results, name: str) -> xarray.DataArray:
    """Measured over predicted, by layout."""
    return results.measured[name] / results.predicted[name]


def in_flight(results: Results) -> xarray.DataArray:
    """The layouts whose engines are not drained."""
    return ~results.measured.drained


def inside(results: Results) -> xarray.DataArray:
    """The layouts within the limits that the formula names: in flight, no bound on the age where engines are slower."""
    return in_flight(results) & (~results.measured.bounded | results.measured.trainer_slower)


def within(results: Results) -> float:
    """Share of all layouts whose mean age is within 10 % of the closed form."""
    return float((abs(ratio(results, "mean_age") - 1) <= results.setting.within).mean())


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return f"{setting.layouts} random layouts of engines, queue and trainer"


def draw(figure: Figure, results: Results) -> None:
    """Left: measured mean age against the closed form. Right: the distributions of three layouts."""
    left, right = figure.subplots(1, 2)
    measured, predicted = results.measured, results.predicted
    kinds = {
        "in flight": (in_flight(results) & ~measured.bounded, s.BLUE, "o"),
        "bound on the age": (in_flight(results) & measured.bounded, s.VERMILION, "s"),
        "drained": (measured.drained, s.GREEN, "^"),
    }
    ends = np.array([0.8 * float(predicted.mean_age.min()), 1.3 * float(predicted.mean_age.max())])
    left.plot(ends, ends, color="black", linewidth=1)
    left.fill_between(ends, 0.9 * ends, 1.1 * ends, color="0.85", linewidth=0)
    for name, (chosen, color, marker) in kinds.items():
        left.plot(
            predicted.mean_age[chosen], measured.mean_age[chosen], marker,
            color=color, markersize=4, markerfacecolor="white", label=name,
        )  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel="closed form [updates]", ylabel="mean age, counted [updates]")
    left.set_ylim(0.8 * ends[0], 4 * ends[1])  # room for the legend
    sheet.plain_log(left.xaxis)
    sheet.plain_log(left.yaxis)
    left.legend(loc="upper left", frameon=False, borderpad=0, handletextpad=0.2)
    sheet.note(left, 0.96, 0.05, "grey: within 10 %", ha="right")
    free = np.flatnonzero((in_flight(results) & ~measured.bounded).values)
    tail = free[[int(np.argmin(measured.spread.values[free])), int(np.argmax(measured.spread.values[free]))]]
    held = np.flatnonzero((in_flight(results) & measured.bounded).values)[:1]
    shown = {"short lengths": (tail[0], s.BLUE, "-"), "long tail": (tail[1], s.BLUE, "--"),
             "bound": (held[0], s.VERMILION, "-")}  # fmt: skip
    last = 0
    for name, (number, color, line) in shown.items():
        share = measured.share.values[number]
        right.plot(measured.age, share, line, color=color, drawstyle="steps-mid", linewidth=1.4, label=name)
        right.plot(measured.mean_age.values[number], 0.0, "|", color=color, markersize=9, markeredgewidth=1.6)
        last = max(last, int(np.flatnonzero(share > 0.002)[-1]))
    right.set(xlabel="age [updates]", ylabel="share of answers", xlim=(-0.5, last + 1.5), ylim=(0, 1.25))
    right.legend(frameon=False, loc="upper right", borderpad=0)


# Claims.

AGE = "shared/theory/cluster_age.py"


def farthest(name: str) -> Any:
    """The ratio farthest from 1 among the layouts inside the formula's limits."""

    def read(results: Results) -> float:
        chosen = inside(results).values
        return farthest_from_one(results.measured[name][chosen], results.predicted[name][chosen])

    return read


def _inside(name: str, statement: str, fails_if: str, variable: str) -> Claim:
    return Claim.one(
        f"cluster.{name}",
        f"{statement}, counted over the closed form: farthest from 1 over layouts inside its limits",
        f"{AGE}; Applied Compute, July 2026",
        farthest(variable),
        tolerance=lambda f: float(f.setting.within),
        fails_if=fails_if,
        explanation="where the trainer is hardly slower than the engines, the queue takes some hundred updates to "
        "fill: a draft is too short for it",
    )


CLAIMS = (
    _inside(
        "mean_age",
        "Mean age of an answer at its start",
        "groups, queue or a bound held another number of answers at the updates than the formula says",
        "mean_age",
    ),
    _inside(
        "token_age",
        "Mean age of a token",
        "answers that are being generated held other tokens at the updates than a length-biased law says",
        "token_age",
    ),
    _inside("seconds", "Seconds from update to update", "pauses or a full queue cost other times", "cycle"),
    Claim.one(
        "cluster.all_layouts",
        "Share of all layouts, those outside the limits too, whose mean age is within 10 % of the closed form",
        AGE,
        within,
        tolerance=1e-9,
        fails_if="one layout were off by more",
        explanation="drained engines begin anew together, so that less waits at the updates; where a bound binds on "
        "slow engines, long answers are thrown away, and the cycle is longer than the formula says",
    ),
)
