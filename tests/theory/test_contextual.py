"""Prompts that share parameters: the flow against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.theory.group_law import GroupLaw
from experiments.shared.theory.contextual import Prompts, contextual_curve
from experiments.shared.theory.two_arm import mean_only_law, sinh_law

TIME = np.linspace(0, 60, 13)


def prompts(overlap, count=3, arms=4, odds=(0.5, 1.0, 2.0), share=None):
    """One good arm per prompt, the others alike; own and shared features orthonormal."""
    parts = np.eye((count + 1) * arms)
    features = np.sqrt(1 - overlap) * parts[:-arms].reshape(count, arms, -1) + np.sqrt(overlap) * parts[-arms:]
    logits = np.zeros((count, arms))
    logits[:, 0] = np.log(arms - 1) - np.array(odds)
    log_reference = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    success = np.zeros((count, arms))
    success[:, 0] = 1.0
    return Prompts(log_reference, features, success, np.full(count, 1 / count) if share is None else np.array(share))


@pytest.mark.parametrize(("advantage", "two_arm_law"), [("grpo", sinh_law), ("rloo", mean_only_law)])
def test_orthogonal_prompts_follow_the_two_arm_laws(advantage, two_arm_law):
    """Both closed forms to the integrator's 1e-7, clock w_x c/2; prompts that overlap by 0.3 are not independent."""
    clock = TIME[:, None] / 3 * (1 + 1 / 3) / 2
    law = np.asarray(two_arm_law(jnp.asarray(clock), -jnp.array([0.5, 1.0, 2.0])))
    np.testing.assert_allclose(contextual_curve(TIME, prompts(0.0), GroupLaw(advantage)), law, atol=1e-7)
    assert np.max(np.abs(contextual_curve(TIME, prompts(0.3), GroupLaw(advantage)) - law)) > 0.05
