"""`diagnose` holds its level on rewards that are no Gaussian white noise: discrete, skewed, forward-filled, few,
alike from epoch to epoch. At most one healthy run in 40 is told a failure; a planted collapse is found all the same.

80 healthy runs of each kind, half of them rising, half level: at a true rate of 1 in 40 six alarms or more would come
once in 60 times. Seed 11. Noise that is alike from row to row is not among them: with a lag-one correlation of .3 it
was 2 of 60 level runs, with .6 28 of 60, most of them swings. Errors enlarged by that correlation lost a documented
collapse.
"""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from grpo_clinic.diagnosis import DiagnoseSettings, chance, collapse as falls, diagnose
from grpo_clinic.readers import read
from grpo_clinic.readers.epochs import without_data_order

RUNS, MOST, SEED = 80, 5, 11
FOUND = {"few": 0.3}
"""Share of the planted collapses to be found, where it is not .8: a dozen rewards of eight answers hide it."""


@dataclass(frozen=True)
class Null:
    """Rewards [n] around a mean [n], and steps per epoch where they are logged."""

    reward: np.ndarray
    epoch: int = 0


def discrete(rng, mean):
    """Two prompts, eight answers each: sixteenths."""
    return Null(rng.binomial(16, np.clip(mean, 0, 1)) / 16)


def skewed(rng, mean):
    """Few large rewards among many small ones: the mean of four log-normal ones."""
    return Null(mean * rng.lognormal(-0.5, 1, (mean.size, 4)).mean(axis=1))


def filled(rng, mean):
    """Logged every five steps and written down at every step."""
    return Null(np.repeat((mean + 0.05 * rng.normal(size=mean.size))[::5], 5)[: mean.size])


def few(rng, mean):
    """8 to 24 rewards in eighths."""
    kept = mean[np.linspace(0, mean.size - 1, int(rng.integers(8, 25))).astype(int)]
    return Null(rng.binomial(8, np.clip(kept, 0, 1)) / 8)


def periodic(rng, mean):
    """Batches in the same order in every epoch, some harder than others by 10 % of the scale."""
    length = int(rng.integers(10, 20))
    hard = 0.1 * rng.normal(size=length)
    return Null(mean + hard[np.arange(mean.size) % length] + 0.03 * rng.normal(size=mean.size), length)


KINDS = {"discrete": discrete, "skewed": skewed, "filled": filled, "few": few, "periodic": periodic}


def healthy(points, rises):
    """From .15 to .65, or .35 throughout."""
    return 0.15 + 0.5 * (1 - np.exp(-np.arange(points) / (0.3 * points))) if rises else np.full(points, 0.35)


def collapsed(points, rises):
    """The rise, back to a tenth of its height from six tenths of the run on."""
    made = healthy(points, True)
    return np.where(np.arange(points) < 0.6 * points, made, 0.05)


def told(path, null, **options):
    """The failures, notes and standstills left out, that are told of a log with these rewards."""
    rows = []
    for place, reward in enumerate(null.reward.tolist()):
        epoch = {"epoch": (place + 1) / null.epoch} if null.epoch else {}
        rows.append(json.dumps({"step": place + 1, "reward": reward} | epoch))
    path.write_text("\n".join(rows) + "\n")
    found = diagnose(without_data_order(read(path, **options)[0]))
    return set(found.severity) - set(found.notes) - {"stalled"}


def drawn(kind, shape, runs):
    rng = np.random.default_rng([SEED, [*KINDS].index(kind)])
    for run in range(runs):
        yield KINDS[kind](rng, shape(int(rng.choice([60, 120])), run % 2 == 0))


@pytest.mark.parametrize("kind", KINDS)
def test_healthy_runs_of_any_noise_are_told_nothing(kind, tmp_path):
    wrong = [told(tmp_path / "run.jsonl", null) for null in drawn(kind, healthy, RUNS)]
    assert sum(map(bool, wrong)) <= MOST, [one for one in wrong if one]


@pytest.mark.parametrize("kind", KINDS)
def test_a_collapse_is_found_in_the_same_noise(kind, tmp_path):
    found = ["collapsed" in told(tmp_path / "run.jsonl", null) for null in drawn(kind, collapsed, 40)]
    assert np.mean(found) >= FOUND.get(kind, 0.8)


def test_planted_an_order_of_the_data_that_is_not_taken_off_is_a_wave(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "without_data_order", lambda curve: curve)
    wrong = [told(tmp_path / "run.jsonl", null) for null in drawn("periodic", healthy, 20)]
    assert sum(map(bool, wrong)) > 5


def test_planted_a_normal_law_alone_does_not_hold_the_level_of_skewed_rewards(tmp_path, monkeypatch):
    """Without the run's own noise, and with the standard errors of a one-sided level of 2.5 %."""
    monkeypatch.setattr(chance, "judged", lambda score, p, level: score)
    wrong = [told_by_normal_law(null) for null in drawn("skewed", healthy, RUNS)]
    assert sum(wrong) > MOST


def told_by_normal_law(null):
    step = np.arange(1.0, null.reward.size + 1)
    return falls.collapse(step, null.reward, DiagnoseSettings(collapse_z=1.96)).score >= 1
