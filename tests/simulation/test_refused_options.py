"""A compiler that refuses the one kernel's options, or the kernel itself: the plain program runs, with its bits."""

import jax
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab import simulation
from bandit_lab.measure import displaced, growth_rate
from bandit_lab.simulation import one_kernel, reference
from bandit_lab.simulation.fast import items

REFUSAL = "NOT_FOUND: words that no version has used yet"
pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="one kernel is a matter of CPUs")


def sampled():
    one = cells(0.3, refresh_interval=2)
    return simulation.run(learner(group_size=4), "sampled", one, steps=3, seeds=8, path="fast").reward_mean


def by_definition():
    one = cells(0.3, refresh_interval=2)
    return simulation.run(learner(group_size=4), "sampled", one, steps=3, seeds=8, path="reference").reward_mean


def displacements():
    return growth_rate(learner(), "mean_field", cells(0.3), np.zeros((1, 3)), np.array([1.0, -1.0, 0.0]), periods=2)


RUNS = {"sampled": sampled, "reference": by_definition, "displaced": displacements}


@pytest.fixture
def untried():
    """What this process has learnt about its compiler is put aside."""
    refused, taken = set(one_kernel._refused), one_kernel._taken
    one_kernel._refused.clear()
    taken.cache_clear()
    yield
    taken.cache_clear()
    one_kernel._refused.clear()
    one_kernel._refused.update(refused)


@pytest.fixture
def plain():
    with one_kernel.one_kernel_enabled(False):
        return {name: run() for name, run in RUNS.items()}


@pytest.mark.parametrize("refused", [{"xla_cpu_no_such_option": 1}, {"xla_cpu_prefer_vector_width": "wide"}])
def test_options_that_the_compiler_does_not_take_switch_the_kernel_off(monkeypatch, untried, plain, refused):
    """Asked of the real compiler, which takes what is used by default."""
    taken = one_kernel.in_use()
    monkeypatch.setattr(one_kernel, "_OPTIONS", one_kernel._OPTIONS | refused)
    assert not one_kernel.in_use()
    assert one_kernel.compiler_options() == {}
    for name, run in RUNS.items():
        np.testing.assert_array_equal(run(), plain[name])
    monkeypatch.undo()
    assert one_kernel.in_use() == taken


def test_a_kernel_that_is_refused_runs_plainly_and_is_not_tried_again(monkeypatch, untried, plain):
    tried = []

    def refuse(*_):
        tried.append(REFUSAL)
        raise jax.errors.JaxRuntimeError(REFUSAL)

    monkeypatch.setattr(one_kernel, "_taken", lambda options: True)
    for module, name in ((items, "compiled"), (reference, "_program"), (displaced, "_program")):
        whole = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *key, w=whole: refuse if key[-1] is True else w(*key))
    for number, (name, run) in enumerate(RUNS.items(), 1):
        for _ in range(2):
            np.testing.assert_array_equal(run(), plain[name])
        assert len(tried) == number


def test_a_run_without_memory_is_no_refusal(monkeypatch, untried):
    """Started once more it would take the memory of another program; and it is not held against the kernel."""
    monkeypatch.setattr(one_kernel, "_taken", lambda options: True)

    def exhausted(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(items, "compiled", lambda *key: exhausted)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        sampled()
    assert not one_kernel._refused
