"""The compiled program itself: a whole run is one machine function. A new version of XLA could lose that silently.

Looked at in the executables that the run leaves: the names of the functions in their object code, and the entry
computation. What is asserted with the tag must be false without it, so that a loss cannot pass. No time is asserted.
"""

import re
from typing import NamedTuple

import jax
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ESTIMATORS, GRPO, STALENESS, Hyper, Learner, Optimizer
from bandit_lab.measure import growth_rate
from bandit_lab.simulation.one_kernel import TAG, one_kernel_enabled

MOST = 10
"""Functions besides the kernel: what prepares its inputs."""


class Look(NamedTuple):
    """kernels: functions of the largest executable. whole: those that hold a whole computation with its loops. tagged:
    calls that carry the tag. loops: while loops of the entry computation, run by the scheduler step by step."""

    kernels: int
    whole: int
    tagged: int
    loops: int


def _written(executable) -> bytes:
    """With its object code. Older versions have the method on the client."""
    if hasattr(executable, "serialize"):
        return executable.serialize()
    return executable.client.serialize_executable(executable)


def look(run) -> Look:
    """The largest executable that `run()` compiles."""
    jax.clear_caches()
    before = {id(e) for e in jax.devices()[0].client.live_executables()}
    run()
    new = [e for e in jax.devices()[0].client.live_executables() if id(e) not in before]
    written = {id(e): _written(e) for e in new}
    program = max(new, key=lambda e: len(written[id(e)]))
    text = program.get_hlo_text() if hasattr(program, "get_hlo_text") else program.hlo_modules()[0].to_string()
    names = set(re.findall(rb"__compute_module_[\w.]+_kernel_module", written[id(program)]))
    entry = text[text.index("\nENTRY") :]
    return Look(
        len(names),
        sum(b"_computation_kernel_module" in name for name in names),
        len(re.findall(rf' call\(.*{TAG}="true"', entry)),
        len(re.findall(r" while\(", entry)),
    )


def sampled(arms, kind, interval, **rules):
    bandit = k_arm(np.linspace(0.2, 0.8, arms), kind=kind)
    learner = Learner(bandit, advantage=GRPO(eps=1e-6), group_size=16, **rules)
    cells = Hyper(np.array([0.02]), np.array([0.9]), np.array([interval]), np.array([0.05]))
    return lambda: simulation.run(learner, "sampled", cells, steps=7, seeds=256, path="fast", summary=False)


def mean_field():
    learner = Learner(k_arm(np.linspace(0.2, 0.8, 8)), advantage=GRPO(eps=1e-6))
    cells = Hyper(np.full(64, 0.02), np.full(64, 0.9), np.ones(64, int), np.full(64, 0.05))
    simulation.run(learner, "mean_field", cells, steps=7, path="fast", summary=False)


def displaced():
    cells = Hyper(*(np.full(3, x) for x in (0.5, 0.9, 1, 1.0)))
    growth_rate(Learner(two_arm()), "mean_field", cells, np.zeros((3, 2)), np.array([1.0, -1.0]), periods=5)


def reference(staleness, dynamics):
    learner = Learner(k_arm((0.2, 0.5, 0.8)), group_size=8, staleness=STALENESS[staleness](), horizon=40)
    cells = Hyper(np.array([0.02]), np.array([0.9]), np.array([2]), np.array([0.05]))
    return lambda: simulation.run(learner, dynamics, cells, steps=7, seeds=128, path="reference", summary=False)


RUNS = {
    "two arms": sampled(2, "fixed", 1),
    "many arms": sampled(8, "fixed", 1),
    "refresh interval": sampled(8, "bernoulli", 8),
    "other rules": sampled(
        2, "fixed", 8, estimator=ESTIMATORS["tpo"](), kl_estimator="k3", optimizer=Optimizer("adam")
    ),
    "mean field": mean_field,
    "displaced": displaced,
    "reference": reference("refresh", "sampled"),
    "reference, ring": reference("lag", "sampled"),
    "reference, ages": reference("ages", "sampled"),
    "reference, ages in a mean field": reference("ages", "mean_field"),
}


@pytest.mark.as_released
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="one kernel is a matter of CPUs")
@pytest.mark.parametrize("name", RUNS)
def test_a_whole_run_is_one_machine_function(name):
    tagged = look(RUNS[name])
    assert (tagged.whole, tagged.tagged, tagged.loops) == (1, 1, 0), tagged
    assert tagged.kernels <= MOST
    with one_kernel_enabled(False):
        plain = look(RUNS[name])
    assert (plain.whole, plain.tagged) == (0, 0), plain
    assert plain.loops >= 1
    assert plain.kernels > MOST
