"""K along the update by forward passes: against closed forms, the dense Jacobian and a loss of our own."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
import truth
from grpo_probe import probe_operator
from grpo_probe.probe import StiffnessProbe
from grpo_probe.probe_operator import Groups
from grpo_probe.probe_trl import TrlProbe, optimiser
from test_probe import CASES, NAMES, SIZE, enumerated, lora, made_once
from test_probe_faults import trained

pytestmark = client.MARKS


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return made_once(tmp_path_factory)


def forward(trainer, groups):
    return TrlProbe(trainer, rows_per_forward=4096, method="forward").stiffness(groups)


def along(dense, factor=1.0):
    """Fresh and stale u . A d over u . d, with u = E[J^T g] and d = factor * u."""
    d = -factor * dense.update
    return [d @ part @ d / (-dense.update @ d) for part in (dense.fresh, dense.stale)]


def quadratic(scale=None, decay=None):
    """A loss (theta - c) H (theta - c)/2 of three log-probabilities that are the parameters, and its g and H."""
    matrix = torch.tensor([[3.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 2.0]]).double()
    centre = torch.tensor([0.1, -0.2, 0.3]).double()
    weight = torch.nn.Parameter(torch.tensor([1.0, 0.5, -1.0]).double())

    def loss(present, old):
        return (present[:, 0] - centre) @ matrix @ (present[:, 0] - centre) / 2

    groups = Groups(lambda rows: weight[rows][:, None], torch.zeros(3, 1), [slice(0, 3)], [loss], [0])
    probe = StiffnessProbe([weight], scale=scale, decay=decay, method="forward")
    return probe.measure(groups), (matrix @ (weight.detach() - centre)).numpy(), matrix.numpy()


def test_on_a_quadratic_critical_sharpness_is_the_rayleigh_quotient():
    stiffness, g, h = quadratic()
    assert stiffness.fresh == pytest.approx(g @ h @ g / (g @ g), rel=1e-5)
    assert stiffness.critical == pytest.approx(stiffness.fresh, rel=1e-5)
    assert stiffness.stale == pytest.approx(0, abs=1e-6)


def test_the_optimisers_factors_and_decay_are_in_it():
    """d = scale g; the search of eta_c knows no decay, the fresh share does."""
    scale = np.array([0.5, 2.0, 1.0])
    stiffness, g, h = quadratic([torch.tensor(scale)], [0.7])
    d = scale * g
    assert stiffness.fresh == pytest.approx(d @ h @ d / (d @ g) + 0.7, rel=1e-5)
    assert stiffness.critical == pytest.approx(d @ h @ d / (d @ g), rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_shares_along_the_update_are_those_of_the_dense_jacobian(cases, name):
    case = cases(name)
    stiffness = forward(case.trainer, case.groups)
    fresh, stale = along(case.truth)
    assert stiffness.fresh == pytest.approx(fresh, rel=0.02)
    assert stiffness.stale == pytest.approx(stale, abs=0.02 * (abs(fresh) + abs(stale)))
    assert stiffness.value == pytest.approx(stiffness.fresh + stiffness.stale)
    assert stiffness.passes < 10


def test_planted_a_measurement_that_forgets_the_sampling_law_misses(cases, monkeypatch):
    case = cases("none-plain")
    monkeypatch.setattr(probe_operator.Operator, "mask", lambda self, tokens: torch.zeros(1))
    assert forward(case.trainer, case.groups).stale != pytest.approx(along(case.truth)[1], rel=0.1)


@pytest.mark.parametrize("name", ["none-plain", "group-plain"])
def test_at_the_critical_rate_the_loss_is_as_before(cases, name, monkeypatch):
    """By the enumerated surrogate and weights that the test moves itself; half of the rate lowers the loss.

    The surrogate has no clip.
    """
    case = cases(name)
    monkeypatch.setattr(case.trainer, "epsilon_low", 1e6)
    monkeypatch.setattr(case.trainer, "epsilon_high", 1e6)
    scale, corrected, size = CASES[name]
    rate = 2 / forward(case.trainer, case.groups).critical
    parameters = list(case.trainer.model.parameters())
    before = [one.detach().clone() for one in parameters]
    old, reference = (torch.log(torch.as_tensor(client.policy(one))) for one in (case.trainer.model, case.reference))
    parts = np.split(case.truth.update, np.cumsum([one.numel() for one in parameters])[:-1])

    def loss(eta):
        with torch.no_grad():
            for one, was, part in zip(parameters, before, parts, strict=True):
                one.copy_(was + eta * torch.as_tensor(part, dtype=one.dtype).view_as(one))
            moved = torch.log(torch.as_tensor(client.policy(case.trainer.model)))
            for one, was in zip(parameters, before, strict=True):
                one.copy_(was)
        return -float(truth.surrogate(moved, old, reference, size, 0.3, scale == "group", corrected))

    start, half, end = (loss(eta) for eta in (0.0, rate / 2, rate))
    assert half < start
    assert abs(end - start) < 0.05 * (start - half)


def test_near_a_fixed_point_critical_sharpness_is_the_fresh_share(tmp_path):
    """Within 10 %: equal rewards, a KL term and a policy 0.003 from its reference, so that the loss is a parabola."""
    policy, generator = client.model(width=8), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in policy.parameters():
            one += 0.003 * torch.randn(one.shape, generator=generator)
    settings = {"beta": 0.3, "group_size": SIZE, "num_iterations": 2, "rewards": lambda row, **rest: [0.7] * len(row)}
    trainer = client.trainer(tmp_path, policy=policy, reference=client.model(width=8), **settings)
    stiffness = forward(trainer, enumerated(trainer))
    assert stiffness.silent == 0
    assert stiffness.critical == pytest.approx(stiffness.fresh, rel=0.1)


def test_adams_factors_are_the_optimisers(tmp_path):
    settings = {"group_size": SIZE, "num_iterations": 3, "max_steps": 6, "learning_rate": 1e-3, "optim": "adamw_torch"}
    trainer = client.trainer(tmp_path, policy=client.model(seed=3, width=8), **settings)
    trainer.train()
    update = optimiser(trainer, list(trainer.model.parameters()))
    dense = truth.truth(trainer.model, client.model(width=8), SIZE, 0.0, False, False)
    seen = torch.cat([one.reshape(-1) for one in update.seen]).numpy()
    factor = torch.cat([one.reshape(-1) for one in update.scale]).double().numpy()
    factor = np.where(np.abs(dense.update) < seen, factor, 0.0)
    stiffness = forward(trainer, enumerated(trainer))
    assert stiffness.left_out > 0
    assert (stiffness.fresh, stiffness.stale) == pytest.approx(
        along(dense, factor), rel=0.05, abs=1e-3 * abs(stiffness.value)
    )


def test_adapters_alone_are_moved(tmp_path):
    trainer = client.trainer(tmp_path, policy=lora(client.model(seed=3, width=8)), group_size=SIZE, num_iterations=2)
    dense = truth.truth(trainer.model, client.model(width=8), SIZE, 0.0, False, False)
    stiffness = forward(trainer, enumerated(trainer))
    assert (stiffness.fresh, stiffness.stale) == pytest.approx(along(dense), rel=0.03, abs=1e-4)


def test_rounding_to_bfloat16_is_in_the_direction_alone(tmp_path, monkeypatch):
    """Of autocast and of the weights: along one and the same direction they agree with float32."""
    gradient, first, calls, weights = probe_operator.Operator.gradient, [], [], None

    def same(self, weights):
        first.append(gradient(self, weights))
        return first[0]

    monkeypatch.setattr(probe_operator.Operator, "gradient", same)
    for bf16, coarse in ((False, False), (True, False), (True, True)):
        policy = client.model(seed=3, width=8).to(torch.bfloat16)
        policy = policy if coarse else policy.float()
        bits = [one.clone() for one in policy.parameters()]
        settings = {"group_size": SIZE, "num_iterations": 2, "max_steps": 1, "learning_rate": 0.0, "bf16": bf16}
        trainer = client.trainer(tmp_path, policy=policy, **settings)
        trainer.train()  # wraps the model for autocast
        groups = enumerated(trainer)
        weights = groups.weights if weights is None else weights  # the client's own are rounded, too
        calls.append(forward(trainer, replace(groups, weights=weights)))
        assert all(torch.equal(one, was) for one, was in zip(policy.parameters(), bits, strict=True))
    for one in calls[1:]:
        assert one.fresh == pytest.approx(calls[0].fresh, rel=1e-3)
        assert one.critical == pytest.approx(calls[0].critical, rel=1e-3)
    assert float((first[1] - first[0]).norm()) > 1e-3 * float(first[0].norm())


@pytest.mark.parametrize("fault", [None, "forward", "moved"])
def test_training_is_as_it_was_to_the_last_bit(tmp_path, fault):
    """Under gradient checkpointing and momentum; `moved`: it fails while the weights are away."""
    (plain, _), (weights, lines) = trained(tmp_path), trained(tmp_path, fault, method="forward")
    columns = ("probe/stiffness_along", "probe/stiffness_along_std", "probe/sharpness")
    logged = [row for row in weights[2] if columns[0] in row]
    rest = [{key: one for key, one in row.items() if key not in columns} for row in weights[2]]
    assert (weights[0], weights[1], rest, *weights[3:]) == plain
    assert bool(logged) == (fault is None)
    assert all("along the update K = " in line for line in lines) == (fault is None)
