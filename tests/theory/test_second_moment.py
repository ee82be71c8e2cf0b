"""M2PO: predictions of `theory.second_moment` against the drift, the multipliers and runs of the update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells

from bandit_lab import theory
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ESTIMATORS, STALENESS, Learner
from bandit_lab.measure import floquet, floquet_threshold
from bandit_lab.simulation import drift_of, trajectories
from bandit_lab.simulation.off_policy import distance

SUCCESS, BETA, DELTA = (0.9, 0.5, 0.1), 0.5, 0.04
BANDIT = k_arm(SUCCESS, reference_logits=(0.0, 0.3, -0.2))
SIGNAL = theory.BinarySignal(theory.GroupLaw("grpo"), SUCCESS)


def learner(name, bandit=BANDIT, staleness="refresh", **options):
    return Learner(
        bandit, estimator=ESTIMATORS.build(name, options), staleness=STALENESS.build(staleness, {}), horizon=4
    )


def law(logits):
    return np.asarray(jax.nn.softmax(jnp.asarray(logits)))


@pytest.mark.parametrize(("model", "interval", "momentum"), [("lag", 4, 0.5), ("refresh", 4, 0.9)])
def test_near_the_fixed_point_it_is_ratio(model, interval, momentum):
    """Thresholds to 1e-12. Planted: at half of it `uncorrected` has other multipliers, by more than 1e-2."""
    rules = [learner(name, staleness=model) for name in ("m2po", "ratio", "uncorrected")]
    found = [floquet_threshold(one, "mean_field", momentum, interval, BETA).learning_rate for one in rules[:2]]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    hyper = jax.tree.map(lambda x: x[0], cells(found[0] / 2, momentum, interval)._replace(kl_weight=np.array([BETA])))
    tops = [abs(floquet(one, "mean_field", hyper, seed=0).multipliers[0]) for one in rules]
    assert tops[0] == pytest.approx(tops[1], rel=1e-12)
    assert abs(tops[2] - tops[0]) > 1e-2


@pytest.mark.parametrize("direction", [(1.0, 0.0, 0.0), (-1.0, 0.5, 0.2), (0.0, 1.0, -1.0)])
def test_an_answer_is_left_out_from_the_predicted_distance_on(direction):
    """By the share of masked answers of the simulated update, bisected, to 1e-9; the leading order within 20 %.

    KL is delta/2 and chi^2 delta there, within 25 %. Planted: twice the threshold begins elsewhere.
    """
    start, along = np.array([0.8, 0.1, -0.6]), np.array(direction)
    exact, leading = theory.mask_distance(law(start), along, DELTA)
    trained = learner("m2po", threshold=DELTA)

    def masked(step):
        return float(distance(trained, jnp.asarray(start + step * along), jnp.asarray(start))[1]) > 0

    low, high = 0.0, 3 * leading
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if masked(middle) else (middle, high)
    assert exact == pytest.approx(high, rel=1e-9)
    assert exact == pytest.approx(leading, rel=0.2)
    assert theory.mask_distance(law(start), along, 2 * DELTA)[0] > 1.3 * exact
    _, _, chi_square, kl = (float(x) for x in distance(trained, jnp.asarray(start + exact * along), jnp.asarray(start)))
    assert kl == pytest.approx(DELTA / 2, rel=0.25)
    assert chi_square == pytest.approx(DELTA, rel=0.25)


@pytest.mark.parametrize("step", [0.1, 0.6, 1.2, 2.5])
def test_the_mean_update_is_that_of_what_is_kept(step):
    """To 1e-12, from nothing left out to all but one arm. Planted: the whole pull, where something is left out."""
    start, along = np.array([0.8, 0.1, -0.6]), np.array([1.0, -0.4, -0.3])
    theta = start + step * along
    drift = drift_of(learner("m2po", threshold=DELTA), "mean_field")
    found = np.asarray(drift(jnp.asarray(theta), jnp.asarray(start), jnp.asarray(0.0)))
    pull = theory.masked_pull(SIGNAL, law(theta), law(start), DELTA)
    np.testing.assert_allclose(found, pull, atol=1e-12)
    whole = theory.masked_pull(SIGNAL, law(theta), law(start), np.inf)
    left_out = not theory.kept_answers(law(theta), law(start), DELTA).all()
    assert left_out == (step > 0.5)
    assert (np.max(np.abs(whole - pull)) > 1e-2) == left_out


def test_of_two_arms_each_carries_the_other_ones_share_of_the_pull():
    """p_b is lost with the worse arm, whichever way the policy has moved; q_b is left. To 1e-12."""
    signal = theory.BinarySignal(theory.GroupLaw("grpo"), (0.9, 0.1))
    behaviour = np.array([0.85, 0.15])
    for gap in (0.75, -0.75):
        weights = behaviour * np.exp([gap, 0.0])
        policy = weights / weights.sum()
        assert list(theory.kept_answers(policy, behaviour, DELTA)) == [True, False]
        whole, left = (theory.masked_pull(signal, policy, behaviour, one)[0] for one in (np.inf, DELTA))
        assert left / whole == pytest.approx(0.15, rel=1e-12)


@pytest.mark.parametrize("rate", [1.5, 2.0])
def test_noise_moves_the_mean_towards_the_reference_as_predicted(rate):
    """Lag 4, G = 64, 1,024 runs, seed 2: the gap less that of `ratio`, within 30 % of the leading order in the noise.

    The distance's spread is read from the runs. Planted: four times the threshold is predicted beyond 30 % of it.
    """
    even, gaps = np.full(2, 0.5), {}
    for name in ("ratio", "m2po"):
        trained = learner(name, two_arm((0.9, 0.1)), "lag")
        setting = cells(rate, 0.0, 4)
        rewards = trajectories(trained, "sampled", setting, steps=400, seeds=1024, seed=2)[0][:, 150:]
        gaps[name] = np.log((rewards - 0.1) / (0.9 - rewards))
    moved = gaps["m2po"].mean() - gaps["ratio"].mean()
    spread = float((gaps["m2po"][:, 4:] - gaps["m2po"][:, :-4]).std())
    signal = theory.BinarySignal(theory.GroupLaw("grpo", 64), (0.9, 0.1))
    policy = theory.settled_point(signal, even, 1.0, even).policy
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, policy, 1.0))
    assert theory.masked_bias(signal, policy, stiffness, spread, DELTA) == pytest.approx(moved, rel=0.3)
    assert theory.masked_bias(signal, policy, stiffness, spread, 4 * DELTA) != pytest.approx(moved, rel=0.3)
