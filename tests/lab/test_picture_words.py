"""What a sweep's pictures say of what was trained, and of when a sampled run counts as lost."""

import pytest
from omegaconf import OmegaConf

from bandit_lab.app import plugins
from bandit_lab.app.settings import compose
from bandit_lab.lab.sweep import plan
from bandit_lab.lab.sweep.dataset import LOST, trained
from bandit_lab.lab.sweep.sampled import CYCLE_MULTIPLE
from bandit_lab.measure.outcome import NOISE_MULTIPLE, VERTEX_SHARE


def settings(*overrides):
    plugins.load([])
    with compose.hydra_ready():
        return OmegaConf.to_object(compose.composed("sweep", overrides))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ((), ["two_arm (success probabilities 0.9, 0.1)", "advantage grpo, estimator frozen", "KL weight 1"]),
        (("bandit.kind=fixed", "kl_estimator=k3"), ["(fixed rewards 0.9, 0.1)", "KL weight 1 (k3)"]),
        (("bandit=k_arm", "bandit.rewards=[.1,.2,.3,.4,.5,.6,.7,.8]"), ["0.1, 0.2, 0.3, 0.4, 0.5, 0.6, ... (8)"]),
        (("bandit=gaussian",), ["gaussian (rewards 1, 0.5, 0; stds 0.5, 0.5, 0.5)"]),
        (("bandit=noisy_verifier",), ["true positive 0.8; false positive 0.3"]),
        (("bandit=contextual", "entropy_weight=0.5"), ["contexts 8; arms 4", "entropy weight 0.5"]),
        (("advantage.eps=0.1", "++sweep.kl_weight=[1,2]"), ["advantage grpo (eps 0.1)", "KL weight 1, 2"]),
    ],
)
def test_what_was_trained_in_words(overrides, words):
    made = plan.prepare(settings(*overrides), frozenset())
    assert all(word in trained(made) for word in words), trained(made)


def test_lost_names_the_limits_that_judge():
    assert all(f"{limit:g}" in LOST for limit in (NOISE_MULTIPLE, CYCLE_MULTIPLE, 100 * VERTEX_SHARE))
