"""Bandits with a clock: by hand, fast against reference, what `predict` says along a run, and what `check` refuses."""

from dataclasses import dataclass, replace

import by_hand
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand_settings import PLACES, learner as on_place, setting
from settings import cells, learner
from test_fast_path import distance

import bandit_lab as bl
from bandit_lab import measure
from bandit_lab.bandits import BANDITS, Bandit, RewardLaw, TabularBandit, k_arm, two_arm
from bandit_lab.bandits.moving import drifting, switched
from bandit_lab.bandits.probe import probe
from bandit_lab.grpo import learner_at
from bandit_lab.lab.check import CHECKS, run_check, subject_of
from bandit_lab.lab.predict.margin import KNOTS
from bandit_lab.simulation import mean_field, run, trajectories
from bandit_lab.simulation.off_policy import off_policy

pytestmark = pytest.mark.usefixtures("compiled_quickly")

STEPS = 12
MOVES = {"rewards": (0.8, 0.35), "later": (0.2, 0.9), "reference_logits": (0.0, 0.4)}
CLOCKS = {
    "switched": (switched(**MOVES, step=7), lambda t: float(t >= 7)),
    "drifting": (drifting(**MOVES, first=2, last=10), lambda t: np.clip((t - 2) / 8, 0, 1)),
}
HAND = {
    "switched, refresh": ("switched", {}, 3, "fast"),
    "switched, lag": ("switched", {"staleness": "lag", "horizon": 3}, 3, "fast"),
    "drifting, mean over ages": ("drifting", {"staleness": "random_mean", "horizon": 3}, 1.5, "fast"),
    "drifting, one batch a block": ("drifting", {"batch_reuse": True}, 3, "fast"),
    "drifting, k3 and ratios": ("drifting", {"kl_estimator": "k3", "estimator": "ratio"}, 3, "fast"),
    "drifting, finite groups": ("drifting", {"group_size": 2}, 3, "reference"),
}  # fmt: skip


def by_hand_curve(made, start, interval, infinite, share, late=0):
    """Expected reward [T + 1] of a heavy ball in NumPy, of every policy by the bandit of its own step.

    late: steps by which the gradient's clock lags behind.
    """
    before, after = (np.array([[[1 - p, p] for p in MOVES[name]]]) for name in ("rewards", "later"))

    def at(t):
        return replace(made, chances=(1 - share(t)) * before + share(t) * after)

    path, memory = [np.asarray(start, float)], (np.zeros(len(start)),) * 2
    for t in range(STEPS):
        drawn = at(max((t - t % int(interval) if made.batch_reuse else t) - late, 0))
        ages = by_hand.STALENESS[made.staleness](t, interval, made.horizon)
        g = sum(c * by_hand.mean_update(drawn, path[t], path[t - age], 0.7, infinite) for age, c in ages)
        change, memory = by_hand.OPTIMIZERS[made.optimizer](g, path[t], memory, t + 1, 0.4, 0.6)
        path.append(path[t] + change)
    return np.array([by_hand.expected_reward(at(t), theta) for t, theta in enumerate(path)])


@pytest.mark.parametrize("name", HAND)
def test_every_step_has_its_own_bandit(name):
    """Exact dynamics against a loop in NumPy, to 1e-9 on both paths. Planted: a clock that is one step late."""
    kind, rules, interval, path = HAND[name]
    infinite, (bandit, share) = path == "fast", CLOCKS[kind]
    made, start = setting("arms", **rules), PLACES["arms"][0]
    trained = replace(on_place("arms", **rules), bandit=bandit)
    wanted = by_hand_curve(made, start, interval, infinite, share)
    grid, how = cells(0.4, 0.6, interval, 0.7), {"steps": STEPS, "dtype": np.float64, "initial": np.asarray(start)}
    for one in {path, "reference"}:
        found = run(trained, "mean_field" if infinite else "finite_group", grid, path=one, **how)
        assert found.route.name == one
        np.testing.assert_allclose(found.reward_mean[0], wanted, atol=1e-9)
    assert np.abs(by_hand_curve(made, start, interval, infinite, share, late=1) - wanted).max() > 1e-4


SAMPLED = {
    "switched": (switched(**MOVES, step=7), {"group_size": 4}),
    "drifting, ratios of one batch": (
        drifting((0.9, 0.5, 0.1), (0.1, 0.3, 0.8), 0, STEPS), {"group_size": 3, "batch_reuse": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLED)
def test_both_paths_have_the_same_moments(name):
    """Three moments of the last reward differ by at most five standard errors (2^14 runs, seed 0, false alarm 2e-6).

    Planted: a clock that is three steps late.
    """
    (bandit, rules), grid, how = SAMPLED[name], cells(0.3, 0.5, 3, 0.7), {"steps": STEPS, "seeds": 2**14}
    late = replace(bandit, first=bandit.first + 3, last=bandit.last + 3)
    trained, wrong = (learner(bandit=one, **rules) for one in (bandit, late))
    one = trajectories(trained, "sampled", grid, path="reference", **how)[0, :, -1]
    assert distance(one, trajectories(trained, "sampled", grid, path="fast", **how)[0, :, -1]) <= 5
    assert distance(one, trajectories(wrong, "sampled", grid, path="fast", **how)[0, :, -1]) > 5


@pytest.mark.parametrize("path", ["fast", "reference"])
def test_before_the_clock_strikes_a_run_is_that_of_its_bandit(path):
    """The same bits as of `two_arm` on the reference path; on the fast one, which counts that, five standard errors."""
    grid, how = cells(0.3, 0.5, 3, 0.7), {"steps": STEPS, "seeds": 512, "path": path}
    plain, clock = (
        learner(bandit=b, group_size=4) for b in (two_arm((0.9, 0.2)), switched((0.9, 0.2), (0.2, 0.9), 500))
    )
    one, other = (trajectories(x, "sampled", grid, **how)[0] for x in (plain, clock))
    if path == "reference":
        np.testing.assert_array_equal(one, other)
    else:
        assert distance(one[:, -1], other[:, -1]) <= 5


def test_a_gradient_without_a_step_is_that_of_step_0():
    (bandit, _), theta = CLOCKS["drifting"], jnp.array([0.3, -0.2])
    where = (jax.random.key(0), 0.7, theta, theta)
    found = mean_field(learner(bandit=bandit))
    np.testing.assert_array_equal(found(*where).value, mean_field(learner_at(learner(bandit=bandit), 0))(*where).value)
    assert np.abs(found(*where, step=5).value - found(*where).value).max() > 1e-3


MEAN = {"refresh_interval": 4, "momentum": 0.5, "dynamics": "mean_field"}
DRIFT = {"rewards": [0.9, 0.5, 0.1], "later": [0.2, 0.6, 0.7]}


def exact(rewards, **settings):
    return bl.predict(bandit=k_arm(rewards), **MEAN, **settings).thresholds.learning_rate.exact


@pytest.mark.slow
def test_the_margin_is_the_smallest_of_all_steps():
    """More steps than knots, learning rate on a schedule: step and ratio of a search through every step by itself.

    Planted: the margin of the first step, and that of the steps one later.
    """
    steps = KNOTS + 7
    warm = {"schedule": "linear", "init_value": 0.05, "end_value": 0.3}
    found = bl.predict(bandit=drifting(**DRIFT, first=4, last=steps - 4), learning_rate=warm, steps=steps, **MEAN)
    t = np.arange(steps)
    share = np.clip((t - 4) / (steps - 8), 0, 1)[:, None]
    every = np.array([exact(r) for r in (1 - share) * DRIFT["rewards"] + share * DRIFT["later"]])
    margins = every / (0.05 + 0.25 * t / steps)
    assert found.margin.step == np.argmin(margins) > 0
    assert found.margin.smallest == pytest.approx(margins.min(), rel=1e-9)
    assert (found.margin.steps, found.margin.without) == (steps, 0)
    assert abs(margins[0] / margins.min() - 1) > 0.1
    assert abs((every[1:] / (0.05 + 0.25 * t[:-1] / steps)).min() / margins.min() - 1) > 1e-3
    assert f"this is step {np.argmin(margins)} of {steps}, where the bandit comes nearest" in found.verdict


def test_a_switch_is_found_to_the_step():
    """Among 1000 steps, of which 33 are looked at first. All else is what is said of the bandit after the switch."""
    found = bl.predict(bandit=switched((0.9, 0.1), (0.6, 0.5), 617), **MEAN)
    after = bl.predict(bandit=two_arm((0.6, 0.5)), **MEAN)
    assert found.margin.step == 617
    assert found.thresholds.learning_rate.exact == pytest.approx(after.thresholds.learning_rate.exact, rel=1e-12)
    assert found.spectral_radius == pytest.approx(after.spectral_radius, rel=1e-12)


@pytest.mark.slow
def test_displaced_runs_of_the_frozen_step_turn_at_its_threshold():
    """Runs of the mean update with the bandit held as it is at that step: the boundary is margin times rate."""
    bandit = drifting(**DRIFT, first=0, last=100)
    found = bl.predict(bandit=bandit, learning_rate=0.2, steps=100, **MEAN)
    held = learner_at(learner(bandit=bandit), found.margin.step)
    point = measure.find_fixed_point(held, "mean_field", 1.0)
    stiffness = measure.measure_stiffness(held, "mean_field", 1.0, point)
    direction, _ = measure.stiffest_mode(stiffness.relaxation_matrix, point.basis)
    expected = found.margin.smallest * 0.2
    grid, one = expected * np.array([0.8, 1.25]), cells(1.0, 0.5, 4, 1.0)
    turns = measure.learning_rate_boundary(held, "mean_field", one, point.theta[None], direction, grid)
    assert turns.value[0] == pytest.approx(expected, rel=1e-3)
    assert turns.value[0] != pytest.approx(exact(DRIFT["rewards"]), rel=1e-2)


@pytest.mark.slow
def test_simulate_judges_no_run_and_measures_the_answers_of_the_step():
    """Reported is the reward of each step's bandit; the laws behind `off_policy` are those of that step."""
    runs = bl.simulate(
        bandit=switched((0.9, 0.1), (0.1, 0.9), 6), refresh_interval=2, learning_rate=0.5, seeds=256, steps=STEPS
    )
    assert runs.attrs["no_outcome"].startswith("a bandit with a clock: there is no one setting")
    assert runs.reward_mean[6] < 0.5 < runs.reward_mean[5]
    rules = {"estimator": bl.grpo.Ratio(), "group_size": 4}
    fixed, how = k_arm((1.0, 0.0, 0.0), kind="fixed"), {"steps": STEPS, "seeds": 16}
    moved = switched((1.0, 0.0, 0.0), (1.0, 1.0, 1.0), 6)
    one, other = (
        off_policy(learner(bandit=b, **rules), bl.grpo.Hyper(0.3, 0.0, 2, 1.0), **how) for b in (fixed, moved)
    )
    np.testing.assert_allclose(one.effective_sample_size[:6], other.effective_sample_size[:6], atol=1e-5)
    assert np.isnan(other.effective_sample_size[6:]).all()  # every reward is 1: no advantage is left


@dataclass(frozen=True)
class Own(Bandit):
    """Two arms whose `at` is planted."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array
    plan: str

    def log_policy(self, theta):
        return jax.nn.log_softmax(theta)[None]

    def at(self, step):
        plain = TabularBandit(self.law, self.initial_parameters, self.reference_log_policy)
        if self.plan == "later":
            return replace(plain, law=replace(self.law, probabilities=self.law.probabilities[:, ::-1]))
        wider = RewardLaw(jnp.arange(3.0), jnp.ones((1, 2, 3)) / 3)
        return {"itself": self, "wider": replace(plain, law=wider), "nothing": None, "good": plain}[self.plan]


jax.tree_util.register_dataclass(Own, ["law", "initial_parameters", "reference_log_policy"], ["plan", "bandit_class"])


def own(plan):
    one = two_arm((0.9, 0.1))
    return Own(one.law, one.initial_parameters, one.reference_log_policy, plan)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("itself", "at.step.: expected a bandit without `at`, got Own"),
        ("wider", r"at.1.: expected law.probabilities \[1, 2, 2\] as at step 0, got \[1, 2, 3\]"),
        ("nothing", "at.step.: expected a bandit, got .*NoneType"),
    ],
)
def test_a_wrong_clock_is_named(plan, said):
    with pytest.raises(ValueError, match=said):
        probe(own(plan))
    probe(own("good"))


def test_check_asks_for_the_bandit_of_step_0():
    """The conformance suite passes both built-in bandits; planted: one that has moved at step 0 already."""
    (asked,) = (name for name in CHECKS if name == "a clock")
    for name in ("switched", "drifting"):
        assert run_check(asked, subject_of("bandit", name)).status == "pass"
    assert run_check(asked, subject_of("bandit", "two_arm")).status == "not applicable"
    with BANDITS.standing("planted", lambda: own("later")):
        found = run_check(asked, subject_of("bandit", "planted"))
    assert (found.status, found.detail.startswith("law at step 0")) == ("FAIL", True)


def test_plot_is_refused_on_a_clock():
    with pytest.raises(ValueError, match="plot: expected null where the bandit has a clock"):
        bl.predict(bandit=switched(), plot="branch")


def test_what_no_clock_takes():
    for options, said in (
        ({"later": (0.1, 1.2)}, "bandit.later.1.: expected a success probability"),
        ({"later": (0.1, 0.2, 0.3)}, "bandit.later"),
        ({"first": 5, "last": 5}, "bandit.last: expected an integer >= 6"),
    ):
        with pytest.raises(ValueError, match=said):
            drifting(**options)
    with pytest.raises(ValueError, match=r"bandit.step: expected an integer >= 1"):
        switched(step=0)
