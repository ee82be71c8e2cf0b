"""Two numbers beside a verdict: what it rests on, and where the reward stands."""

from typing import NamedTuple

import numpy as np

from bandit_lab.app.document import Column, On, Table
from bandit_lab.runs.diagnose.evidence import Diagnosis, Evidence
from bandit_lab.runs.diagnose.outcomes import gain_of
from bandit_lab.runs.logs.findings import measure
from bandit_lab.runs.read import Curve

_FEWEST = 10
"""Rewards from which a gain has an error."""


class KeyNumber(NamedTuple):
    """One number: its name, its value in words, what to hold it against."""

    name: str
    value: str
    beside: str


def key_numbers(curve: Curve, found: Diagnosis) -> Table[KeyNumber]:
    """What the first cause is told from, or the gain where there is none; the reward at the end."""
    strongest = _strongest(found)
    rows = [
        _gain(curve) if strongest is None else _evidence(strongest),
        *([_end(curve)] if curve.reward.size else []),
    ]
    columns: list[Column[KeyNumber]] = [
        Column("name", "what", lambda row: row.name, left=True),
        Column("value", "number", lambda row: row.value, left=True),
        Column("beside", "beside it", lambda row: row.beside, left=True),
    ]
    return Table(rows, columns, on=On.SHOWN)


def _strongest(found: Diagnosis) -> Evidence | None:
    """The strongest evidence of the first failure that is no note, else of the first note; None where neither is."""
    present = {one.failure: one for one in found.findings if one.present}
    named = [name for name in found.verdict if name in present]
    first = next((name for name in named if name not in found.notes), next(iter(named), ""))
    above = [one for one in present[first].evidence if one.above] if first else []
    return max(above, key=lambda one: one.score, default=None)


def _evidence(one: Evidence) -> KeyNumber:
    also = f" {one.also.partition(':')[0]}" if one.also.startswith("or below") else ""
    since = f"{also}, from step {one.window[0]:g} on"
    value = f"{one.value:.3g}" if np.isfinite(one.value) else "no number"
    return KeyNumber(measure(one.metric), value, f"its limit is {one.threshold:.3g}{since}")


def _gain(curve: Curve) -> KeyNumber:
    if curve.reward.size < _FEWEST:
        return KeyNumber("rewards", f"{curve.reward.size}", "too few to tell a gain from noise")
    gain = gain_of(curve.reward)
    at = gain.clearest
    beside = f"its error is {gain.error[at]:.2g}; clear from twice that on"
    return KeyNumber("gain of the reward", f"{gain.change[at]:+.2g}", beside)


def _end(curve: Curve) -> KeyNumber:
    width = max(curve.reward.size // 10, 1)
    means = np.convolve(curve.reward, np.ones(width) / width, mode="valid")
    best = int(means.argmax())
    at = float(curve.step[best : best + width].mean())
    return KeyNumber("reward at the end", f"{means[-1]:.3g}", f"at best {means[best]:.3g}, around step {at:.0f}")
