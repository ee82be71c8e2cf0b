"""`plot=branch`: fixed point, cycles and circles around the threshold as a section, a data set and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import theory
from bandit_lab.app.document import ABSENT, Block, Column, Figure, On, Paragraph, Table, Value, Values
from bandit_lab.app.document.value import number
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.quantities import RATE
from bandit_lab.measure.branch import SPAN, Bifurcation, Branch, Branches, branches

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

PLOTS = ("branch",)
KINDS = {"flip": "flip", "neimark_sacker": "Neimark-Sacker", "fold": "fold", "branch_point": "branch point"}
ALT = "expected reward against learning rate: fixed point, extremes of cycles, bifurcations, the published law"
_SHOWN_LAW = 0.1  # of the threshold: a law below is not worth the axis
_BESIDE_LAW = 0.85


@dataclass(frozen=True)
class Followed:
    """Branches, and what the theory says of them. exact, law: learning rates, or None. slope: by the theory, nats^2."""

    found: Branches
    exact: float | None
    law: float | None
    slope: float | None
    place: str

    @property
    def rate(self) -> float:
        """The threshold, by differentiating the update."""
        rate = self.found.threshold.learning_rate
        assert rate is not None
        return rate


def follow(point: OperatingPoint) -> Followed:
    """The branches of one setting."""
    _, momentum, interval, _ = point.hyper
    exact, law = point.linear.threshold(interval, momentum).value, point.law.value
    low = SPAN[0]
    if exact and law:
        low = min(low, max(_SHOWN_LAW, _BESIDE_LAW * law / exact))
    found = branches(point.learner, point.linear.dynamics, point.hyper, span=(low, SPAN[1]))
    place = f"{point.settings.staleness['name']}, N = {interval:g}, \N{GREEK SMALL LETTER MU} = {momentum:g}"
    slope = _slope(point) if found.cycle is not None else None
    return Followed(found, exact, law, slope, place)


def _slope(point: OperatingPoint) -> float | None:
    """Slope of amplitude^2 at a flip by the theory of one nonlinear coordinate: two arms, wholly stale blocks."""
    linear = point.linear
    if linear.policy is None or len(linear.policy) != 2 or linear.model != "refresh" or not linear.wholly_stale:
        return None
    weight, reference = linear.kl_weight, np.asarray(point.learner.bandit.reference_log_policy)[0]
    signal, anchor = point.signal, float(reference[0] - reference[1])
    gap = float(np.log(linear.policy[0] / linear.policy[1]))
    if (arms := point.sampled_arms) is not None:
        return theory.flip_slope(lambda x: float(arms.drift(np.asarray(x), weight)), gap)
    if signal is None or point.no_drift_formula is not None:
        return None
    return theory.flip_slope(lambda x: float(theory.gap_drift(np.asarray(x), signal, anchor, weight)), gap)


def section(followed: Followed) -> list[Block]:
    """The section `branch` of the summary, one line for the terminal, and the picture."""
    found = followed.found
    if found.fixed_point is None:
        assert found.reason is not None
        nothing = Value.absent(found.reason)
        return [Values({"criticality": nothing}, on=On.JSON), Paragraph(f"No branches: {found.reason}.")]
    values = {
        "finding": finding(followed),
        "threshold": followed.rate,
        "criticality": found.criticality or Value.absent("not told by what was measured"),
        "slope": Value.of(found.slope, "no amplitude that shrinks to zero was measured", "nats^2"),
        "slope_theory": Value.of(followed.slope, "in closed form at a flip of two arms with wholly stale blocks"),
        "steps_of_map": found.period,
        "ended": found.ended or ABSENT,
    }
    ratio = partial(_over, followed.rate)
    columns = (
        Column[Bifurcation]("kind", "bifurcation", lambda one: one.kind, text=lambda one: KINDS[one.kind]),
        Column[Bifurcation]("of", "of", lambda one: one.of, text=lambda one: one.of.replace("_", " ")),
        Column[Bifurcation]("learning_rate", "learning rate", lambda one: one.learning_rate, RATE, 6),
        Column[Bifurcation]("ratio", "over threshold", ratio, "", 5),
        Column[Bifurcation]("least_reward", "least reward", lambda one: float(one.reward[0]), "reward"),
        Column[Bifurcation]("largest_reward", "largest reward", lambda one: float(one.reward[1]), "reward"),
    )
    on_axes, drawn = partial(_draw_on, followed), partial(_draw, followed)
    return [
        Paragraph(finding(followed)),
        Values(values, on=On.JSON),
        Table(found.bifurcations, columns, name="bifurcations"),
        Figure(drawn, ALT, "branch", on_axes=on_axes),
    ]


def _over(rate: float, one: Bifurcation) -> float:
    return one.learning_rate / rate


def finding(followed: Followed) -> str:
    """The finding of the picture in one line."""
    found = followed.found
    first, *more = found.bifurcations
    name = KINDS[first.kind]
    text = f"{name[0].upper()}{name[1:]} at learning rate {number(first.learning_rate)}"
    if found.criticality == "supercritical":
        born = "an invariant circle" if found.cycle is None else f"a {_cycle_in_words(found)}"
        text += f": {born} grows from it"
    elif found.criticality == "subcritical":
        text += ": a repelling cycle lies below it (subcritical)"
    elif found.criticality == "transcritical":
        least = min([one.learning_rate for one in more if one.kind == "fold"], default=None)
        text += f": a {_cycle_in_words(found)} lies on both sides of it (transcritical)"
        text += "" if least is None else f", and attracts from {least / first.learning_rate:.3g} times that"
    ends = [one for one in more if one.of == "cycle"]
    if ends and found.criticality == "supercritical":
        text += f" and attracts up to {ends[0].learning_rate / first.learning_rate:.3g} times that"
    return text


def _cycle_in_words(found: Branches) -> str:
    return "cycle of two steps" if found.periods * found.period == 2 or found.periods == 1 else "cycle of two blocks"


def dataset(followed: Followed) -> "xarray.Dataset":
    """All branches, of which there are some, as one labelled data set."""
    import xarray

    found = followed.found
    variables: dict[str, Any] = {}
    for name, branch in _named_branches(found):
        variables |= {f"{name}_{key}": column for key, column in _columns(name, branch, followed.rate).items()}
    points: Sequence[Bifurcation] = found.bifurcations
    rates = np.array([one.learning_rate for one in points])
    variables |= {
        "bifurcation_kind": ("bifurcation", [one.kind for one in points]),
        "bifurcation_of": ("bifurcation", [one.of for one in points]),
        "bifurcation_learning_rate": ("bifurcation", rates, {"units": RATE}),
        "bifurcation_ratio": ("bifurcation", rates / followed.rate, {"units": "1"}),
        "bifurcation_reward": (("bifurcation", "end"), np.stack([one.reward for one in points]), {"units": "reward"}),
    }
    said = {"finding": finding(followed), "setting": followed.place, "threshold": followed.rate}
    more: dict[str, Any] = {} if followed.law is None else {"law": followed.law}
    more |= {} if found.cycle is None else {"cycle": _cycle_in_words(found)}
    return xarray.Dataset(variables, {"end": ["least", "largest"]}, {"title": "bandit_lab predict"} | said | more)


def _named_branches(found: Branches) -> list[tuple[str, Branch]]:
    every = (("fixed_point", found.fixed_point), ("cycle", found.cycle), ("circle", found.circle))
    return [(name, branch) for name, branch in every if branch is not None]


def _columns(name: str, branch: Branch, rate: float) -> dict[str, Any]:
    pair = (name, "end")
    return {
        "learning_rate": (name, branch.learning_rate, {"units": RATE}),
        "ratio": (name, branch.learning_rate / rate, {"units": "1"}),
        "reward": (pair, branch.reward, {"units": "reward"}),
        "log_odds": (pair, branch.log_odds, {"units": "nats"}),
        "swing": (name, branch.swing, {"units": "nats"}),
        "radius": (name, branch.radius, {"units": "1"}),
        "stable": (name, branch.stable),
        "settled": (name, branch.settled),
    }


def _draw(followed: Followed) -> "Drawn":
    from bandit_lab.lab.predict.branch_picture import drawn

    return drawn(dataset(followed))


def _draw_on(followed: Followed, axes: "Axes") -> None:
    from bandit_lab.lab.predict.branch_picture import draw_on

    draw_on(axes, dataset(followed))
