"""Rewards that repeat with the data: a data set read in the same order again and again looks like a wave.

The log's epoch column gives the period. What is left of the reward beside its mean over one epoch is averaged by place
in the epoch. Those means are tested against shifts: every epoch is turned by a random number of places, which keeps all
but the alignment of epochs. Where they are real they are taken off, shrunk by 1 - 1/F: few epochs leave noise in them,
and that must not be taken for order.
"""

from dataclasses import dataclass, replace

import numpy as np

from grpo_clinic.readers.record import Curve, Floats

FEWEST_EPOCHS, FEWEST_PLACES = 3, 4
"""Whole epochs in a run, and logged points in one, from which an order can be seen."""
LEVEL, SHIFTS = 0.005, 399
"""False-alarm rate of the test, and random shifts that it draws."""
_MOST = 50_000
"""Points beyond which a run is left as it is."""


@dataclass(frozen=True)
class _DataOrder:
    """Result of the test: its `p_value`, and `share` of the variance about the running mean that repeats. Then the
    `autocorrelation` of that variance at one epoch, and the `pattern` at every point [n]. It sums to nearly nothing
    over an epoch."""

    p_value: float
    share: float
    autocorrelation: float
    pattern: Floats


def steps_per_epoch(step: Floats, epoch: Floats) -> float | None:
    """Steps of one pass over the data, from the epoch [n] logged at `step` [n]; None unless it grows evenly.

    A whole-numbered epoch counts at the steps where it changes.
    """
    logged = np.isfinite(step) & np.isfinite(epoch)
    step, epoch = step[logged], epoch[logged]
    if step.size and np.all(epoch == np.round(epoch)):
        change = np.flatnonzero(np.diff(epoch) > 0) + 1
        step, epoch = step[change], epoch[change]
    if step.size < 3 or np.any(np.diff(step) <= 0) or np.any(np.diff(epoch) <= 0):
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # a log may hold any number that a float can be
        steps = float((step[-1] - step[0]) / (epoch[-1] - epoch[0]))
        if not (np.isfinite(steps) and steps > 0):
            return None
        off = np.abs((step - step[0]) / steps - (epoch - epoch[0]))
    return steps if off.max() < 0.1 else None


def data_order(step: Floats, reward: Floats, period: float, seed: int = 0, shifts: int = SHIFTS) -> _DataOrder | None:
    """Test a curve [n] for a pattern of `period` steps; None where the run holds too few epochs, or points in one."""
    every = float(np.median(np.diff(step))) if step.size > 1 else 1.0
    places, epochs = round(period / every), int((step[-1] - step[0] + every) // period) if step.size else 0
    sparse = step.size < 2 * places  # gaps in the log: fewer points than the epochs that it spans would have
    if places < FEWEST_PLACES or epochs < FEWEST_EPOCHS or step.size > _MOST or sparse:
        return None
    rest = reward - _running_mean(reward, places)
    turn = np.floor((step - step[0]) / period + 1e-9).astype(int)
    place = np.minimum(np.floor(((step - step[0]) / period % 1) * places + 1e-6).astype(int), places - 1)
    observed, means = _between(rest, place, places)
    rng = np.random.default_rng(seed)
    turned = rng.integers(0, places, (shifts, int(turn.max()) + 1))
    drawn = [_between(rest, (place + shift[turn]) % places, places)[0] for shift in turned]
    p = (1 + sum(value >= observed for value in drawn)) / (shifts + 1)
    total = float(np.sum(rest**2))
    within = max(total - observed, 1e-300) / max(rest.size - places, 1)
    strength = observed / max(places - 1, 1) / within
    shrunk = max(0.0, 1 - 1 / max(strength, 1e-300))
    repeated = float(rest[:-places] @ rest[places:]) / max(total * (1 - places / rest.size), 1e-300)
    return _DataOrder(p, observed / max(total, 1e-300), repeated, shrunk * means[place])


def _between(rest: Floats, place: np.ndarray, places: int) -> tuple[float, Floats]:
    """(sum of squares between places, mean at each [places])."""
    count = np.maximum(np.bincount(place, minlength=places), 1)
    means = np.bincount(place, weights=rest, minlength=places) / count
    return float(np.sum(count * means**2)), means


def _running_mean(values: Floats, width: int) -> Floats:
    """Means over `width` points around each [n]; at the ends over what there is, with the slope of the end kept."""
    padded = np.concatenate((2 * values[0] - values[width:0:-1], values, 2 * values[-1] - values[-2 : -width - 2 : -1]))
    total = np.convolve(padded, np.ones(width) / width, mode="same")
    return total[width : width + values.size]


def without_data_order(curve: Curve) -> Curve:
    """The curve with the pattern of its data order taken off, and a note; the same one where there is none.

    The period is the curve's setting `steps_per_epoch`, which the log's epoch column holds.
    """
    period = curve.settings.get("steps_per_epoch")
    order = None if not period or curve.reward_is_eval else data_order(curve.step, curve.reward, period)
    if order is None or order.p_value > LEVEL:
        return curve
    note = (
        f"rewards repeat with the data, every {period:.4g} steps (one epoch): {order.share:.0%} of what varies "
        f"about the mean over an epoch (autocorrelation {order.autocorrelation:.2f}, p = {order.p_value:.2g}); this "
        "pattern was taken off before fits and tests"
    )
    series = curve.reward_series
    cleaned = replace(series, value=series.value - order.pattern, notes=(*series.notes, note))
    return replace(curve, reward_series=cleaned, notes=(*curve.notes, note))
