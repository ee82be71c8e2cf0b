"""Dividing by a power of the std: its ends are two known advantages."""

import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.grpo import ADVANTAGES, GRPO, DrGRPO, advantages, drawn_advantages

REWARDS = jnp.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
VALUES, LAW = jnp.array([0.0, 0.5, 2.0]), jnp.array([0.2, 0.5, 0.3])


def drawn(advantage, rewards=REWARDS):
    return drawn_advantages(advantage, rewards[None])[0]


@pytest.mark.parametrize(("power", "end"), [(0.0, DrGRPO()), (1.0, GRPO())])
def test_the_ends_are_dr_grpo_and_grpo(power, end):
    tempered = ADVANTAGES["tempered"](power)
    np.testing.assert_allclose(drawn(tempered), drawn(end), atol=1e-14)
    np.testing.assert_allclose(*(advantages(rule, VALUES, LAW, None) for rule in (tempered, end)), atol=1e-14)
    assert np.max(np.abs(drawn(ADVANTAGES["tempered"](0.5)) - drawn(end))) > 0.1


def test_halfway_by_hand_and_nothing_in_a_silent_group():
    tempered = ADVANTAGES["tempered"](0.5)
    np.testing.assert_allclose(drawn(tempered), (REWARDS - 4 / 7) / np.sqrt(np.sqrt(12) / 7), rtol=1e-14)
    assert np.all(np.asarray(drawn(tempered, jnp.full(7, 0.1))) == 0)


def test_a_power_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"advantage\.power"):
        ADVANTAGES["tempered"](2.5)
