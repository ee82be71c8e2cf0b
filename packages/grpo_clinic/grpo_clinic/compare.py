"""Two runs: what differs, of all series that both have."""

from dataclasses import dataclass

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve, Floats, Series

_TIMES, _OF_REWARD, _ERRORS = 1.5, 1.2, 4.0
"""Factor of two medians, that of rewards, and standard errors of two means, from which series differ: both are asked
for."""


@dataclass(frozen=True)
class Difference:
    """A series of both runs over the steps that both have: `first` and `second` median, and their factor `times`
    (infinite where one is 0, or the signs differ). `errors`: the difference of the means in its errors. `where`: empty
    for all steps, else the part of the run that these are of. Then the first step from which three rows differ."""

    name: str
    first: float
    second: float
    times: float
    errors: float
    since: float | None
    where: str = ""
    pays: bool = False
    """Whether it is the reward, a part of it or a held-out result."""

    @property
    def differs(self) -> bool:
        """Whether it is more than noise, and much."""
        return self.errors >= _ERRORS and not self.times < (_OF_REWARD if self.pays else _TIMES)


def compare(first: Curve, second: Curve) -> list[Difference]:
    """All series that both runs have, the largest difference first."""
    ours, theirs = _series(first), _series(second)
    differences = [
        one
        for name, (series, pays) in ours.items()
        if name in theirs and (one := _difference(name, pays, series, theirs[name][0])) is not None
    ]
    return sorted(differences, key=lambda one: (not one.differs, -one.errors))


def _series(curve: Curve) -> dict[str, tuple[Series, bool]]:
    """Name -> a series, and whether it is the reward, a part of it or a held-out result."""
    results = {"reward": curve.reward_series} if curve.reward.size else {}
    results |= {} if curve.eval is None else {"eval": curve.eval}
    parts = {f"part {key}": one for key, one in curve.parts.items()}
    every = {**results, **curve.series, **parts, **curve.others}
    return {name: (one, name in results or name in parts) for name, one in every.items()}


def _difference(name: str, pays: bool, ours: Series, theirs: Series) -> Difference | None:
    """Of all steps; where these do not differ, of the last fifth, then of the three rows running that differ most."""
    low, high = max(ours.step[0], theirs.step[0]), min(ours.step[-1], theirs.step[-1])
    a, b = (one.value[(one.step >= low) & (one.step <= high)] for one in (ours, theirs))
    if not a.size or not b.size:
        return None
    both = np.intersect1d(ours.step, theirs.step)
    gap = np.abs(ours.at(both) - theirs.at(both)) if both.size else np.zeros(0)
    largest = max(abs(median(a)), abs(median(b)))
    level = max(float(np.hypot(noise.noise_level(a), noise.noise_level(b))), 1e-9 * largest, 1e-300)
    runs = noise.least_running(gap)
    beyond = np.flatnonzero(runs > _ERRORS * level)
    since = float(both[beyond[0]]) if beyond.size else None

    def of(x: Floats, y: Floats, errors: float, where: str) -> Difference:
        first, second = median(x), median(y)
        smaller, larger = sorted((abs(first), abs(second)))
        same_sign = bool(first) and np.sign(first) == np.sign(second)
        times = 1.0 if first == second else larger / smaller if same_sign else np.inf
        return Difference(name, first, second, float(times), errors, since, where, pays)

    parts = [of(a, b, _errors(a, b), "")]
    a, b = (one[-max(one.size // 5, noise.RUNNING) :] for one in (a, b))
    parts.append(of(a, b, _errors(a, b), "in the last fifth"))
    if beyond.size:
        rows = both[(at := int(runs.argmax())) : at + noise.RUNNING]
        parts.append(of(ours.at(rows), theirs.at(rows), float(runs.max()) / level, f"at step {rows[0]:g}"))
    return next((one for one in parts if one.differs), parts[0])


def _errors(a: Floats, b: Floats) -> float:
    """Difference of two means in its errors, of values that scatter as they do from one to the next."""
    error = float(np.sqrt(sum(0.5 * np.mean(np.diff(one) ** 2) / one.size for one in (a, b) if one.size > 1)))
    return abs(float(a.mean() - b.mean())) / error if error > 0 else (0.0 if median(a) == median(b) else np.inf)


def text(first: tuple[str, Curve], second: tuple[str, Curve], whole: bool) -> str:
    """One line per series of two named runs that differs; `whole`: every series."""
    compared = compare(first[1], second[1])
    if not compared:
        return f"{first[0]} and {second[0]} have no series in common, or none over the same steps."
    shown = compared if whole else [one for one in compared if one.differs][:12]
    lines = [f"{first[0]} and {second[0]}: {sum(one.differs for one in compared)} of {len(compared)} series differ."]
    for one in shown:
        word = "of another sign" if one.first and one.second else "one is 0"
        times = f"{one.times:.3g} times" if np.isfinite(one.times) else word
        begun = f", {one.where}" if one.where else "" if one.since is None else f", from step {one.since:g} on"
        mark = "" if one.differs else "alike: "
        keys = [run.reward_series.key for _, run in (first, second)]
        mark += f"'{keys[0]}' and '{keys[1]}' as " if one.name == "reward" and keys[0] != keys[1] else ""
        lines.append(
            f"  {mark}{one.name}: {one.first:.4g} and {one.second:.4g} ({times}, {one.errors:.1f} errors){begun}"
        )
    for (name, ours), (_, theirs) in ((first, second), (second, first)):
        if keys := [one for one in _series(ours) if one not in _series(theirs)]:
            lines.append(f"Only in {name}: {', '.join(keys[:8])}.")
    return "\n".join(lines)
