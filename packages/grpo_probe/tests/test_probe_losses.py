"""Fresh and stale share of every loss that the probe takes, against dense derivatives of the gradient it applies.

All groups of two answers, of one or two words, are enumerated: nothing is random. In float64, to 1e-4.
"""

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
import truth_losses as truth
from grpo_probe import probe_operator
from grpo_probe.probe_trl import TrlProbe, groups_of, undisturbed

pytestmark = client.MARKS

SIZE = 2
CASES = {
    "grpo": {},
    "bnpo": {},
    "dr_grpo": {},
    "dapo": {},
    "luspo": {},
    "sapo": {},
    "cispo": {"epsilon_high": 5.0},
    "vespo": {},
    "grpo-sequence": {"importance_sampling_level": "sequence"},
    "luspo-sequence": {"importance_sampling_level": "sequence"},
    "grpo-kl": {"beta": 0.3, "use_bias_correction_kl": False},
    "cispo-kl": {"epsilon_high": 5.0, "beta": 0.3, "use_bias_correction_kl": True},
}


def case(folder, name):
    """The probe, all groups, and the dense truth (fresh, stale)."""
    settings, loss = CASES[name], name.split("-")[0]
    policy, reference = truth.network(3), truth.network(4)
    trainer = client.trainer(
        folder,
        policy=policy,
        reference=reference,
        data=truth.data(),
        rewards=truth.reward,
        groups=1,
        group_size=SIZE,
        max_completion_length=2,
        num_iterations=2,
        loss_type=loss,
        **settings,
    )
    more = {"beta": settings.get("beta", 0.0), "corrected": settings.get("use_bias_correction_kl", False)}
    more["level"] = settings.get("importance_sampling_level", "token")
    plain, anchor = truth.network(3), truth.network(4)
    dense = truth.dense(plain, anchor, loss, SIZE, **more)
    sets, ways = truth.groups(SIZE)
    log = (truth.log_probs(plain).detach() * truth.MASK).sum(-1).numpy()
    answers = [list(truth.ANSWERS[one]) for group in sets for one in group]
    trainer._generate_single_turn = lambda *given: (answers, None)
    trainer.model.train()
    with undisturbed(trainer):
        rows = [dict(trainer.train_dataset[0]) for _ in range(sets.size)]
        batch = trainer._generate_and_score_completions(rows)
    weights = ways * np.exp(log[sets].sum(1))
    assert weights.sum() == pytest.approx(1)
    groups = groups_of(trainer, batch, SIZE, np.zeros(len(sets), int), weights)
    return TrlProbe(trainer, rows_per_forward=4096, tolerance=1e-6, products=60), groups, dense


@pytest.mark.parametrize("name", CASES)
def test_both_shares_are_those_of_the_applied_gradient(tmp_path, name):
    probe, groups, (fresh, stale) = case(tmp_path, name)
    total = fresh + stale
    stiffness = probe.stiffness(groups, method="double_backward")
    values, right = np.linalg.eig(total)
    lefts, left = np.linalg.eig(total.T)
    place = values.real.argmax()
    v, u = right[:, place].real, left[:, np.abs(lefts - values[place]).argmin()].real
    assert abs(values[place].imag) < 1e-9
    k = values[place].real
    assert stiffness.value == pytest.approx(k, rel=1e-4)
    shares = [u @ part @ v / (u @ v) for part in (fresh, stale)]
    # `found.fresh` is not held against them: its left vector comes from the right one's search space, and is coarser
    assert stiffness.fresh + stiffness.stale == pytest.approx(k, rel=1e-4)
    with undisturbed(probe.trainer):
        operator = probe_operator.Operator(probe._parameters, groups, None, None, 4096, "double_backward")
        for other in (v, np.random.default_rng(0).standard_normal(len(total))):
            both = operator.product(torch.tensor(other), groups.weights)
            assert np.linalg.norm(both.numpy() - total @ other) < 1e-4 * np.linalg.norm(total @ other)
            for one in (u, other):
                parts = groups.weights @ operator.contributions(torch.tensor(one), torch.tensor(other))
                room = 1e-4 * np.linalg.norm(one) * np.linalg.norm(total @ other)
                assert np.abs(parts - [one @ part @ other for part in (fresh, stale)]).max() < room
                if one is u and other is v:
                    assert parts / (u @ v) == pytest.approx(shares, abs=1e-4 * k)
