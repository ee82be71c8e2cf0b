"""Two runs: what differs, of all series that both have."""

from dataclasses import dataclass

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve, Series

_TIMES, _ERRORS = 1.5, 4.0
"""Factor of two medians, and standard errors of two means, from which series differ; both are asked for."""


@dataclass(frozen=True)
class Difference:
    """A series of both runs: medians over the steps that both have, and their factor `times` (infinite where one is 0,
    or the signs differ). `errors`: the difference of the means in its errors. Then the first step from which three rows
    differ."""

    name: str
    first: float
    second: float
    times: float
    errors: float
    since: float | None

    @property
    def differs(self) -> bool:
        """Whether it is more than noise, and much."""
        return self.errors >= _ERRORS and not self.times < _TIMES


def compare(first: Curve, second: Curve) -> list[Difference]:
    """All series that both runs have, the largest difference first."""
    ours, theirs = _series(first), _series(second)
    differences = [
        one for name in ours if name in theirs and (one := _difference(name, ours[name], theirs[name])) is not None
    ]
    return sorted(differences, key=lambda one: (not one.differs, -one.errors))


def _series(curve: Curve) -> dict[str, Series]:
    series = {"reward": curve.reward_series} if curve.reward.size else {}
    series |= {} if curve.eval is None else {"eval": curve.eval}
    return {**series, **curve.series, **{f"part {key}": one for key, one in curve.parts.items()}, **curve.others}


def _difference(name: str, ours: Series, theirs: Series) -> Difference | None:
    low, high = max(ours.step[0], theirs.step[0]), min(ours.step[-1], theirs.step[-1])
    a, b = (one.value[(one.step >= low) & (one.step <= high)] for one in (ours, theirs))
    if not a.size or not b.size:
        return None
    x, y = median(a), median(b)
    smaller, larger = sorted((abs(x), abs(y)))
    times = 1.0 if x == y else larger / smaller if x and np.sign(x) == np.sign(y) else np.inf
    error = float(np.hypot(noise.error_of_mean(a), noise.error_of_mean(b)))
    errors = abs(float(a.mean() - b.mean())) / error if error > 0 else (0.0 if x == y else np.inf)
    both = np.intersect1d(ours.step, theirs.step)
    gap = np.abs(ours.at(both) - theirs.at(both)) if both.size else np.zeros(0)
    level = max(float(np.hypot(noise.noise_level(a), noise.noise_level(b))), 1e-9 * max(abs(x), abs(y)), 1e-300)
    beyond = gap > _ERRORS * level
    running = np.flatnonzero(beyond[:-2] & beyond[1:-1] & beyond[2:])
    return Difference(name, x, y, float(times), float(errors), float(both[running[0]]) if running.size else None)


def text(first: tuple[str, Curve], second: tuple[str, Curve], whole: bool) -> str:
    """One line per series of two named runs that differs; `whole`: every series."""
    compared = compare(first[1], second[1])
    shown = compared if whole else [one for one in compared if one.differs][:12]
    lines = [f"{first[0]} and {second[0]}: {sum(one.differs for one in compared)} of {len(compared)} series differ."]
    for one in shown:
        word = "of another sign" if one.first and one.second else "one is 0"
        times = f"{one.times:.3g} times" if np.isfinite(one.times) else word
        begun = "" if one.since is None else f", from step {one.since:g} on"
        mark = "" if one.differs else "alike: "
        lines.append(
            f"  {mark}{one.name}: {one.first:.4g} and {one.second:.4g} ({times}, {one.errors:.1f} errors){begun}"
        )
    for (name, ours), (_, theirs) in ((first, second), (second, first)):
        if keys := [one for one in _series(ours) if one not in _series(theirs)]:
            lines.append(f"Only in {name}: {', '.join(keys[:8])}.")
    return "\n".join(lines)
