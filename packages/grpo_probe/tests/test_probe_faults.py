"""The probe never ends a training, and what it cannot measure it says when it is attached.

Every fault is put in while the probe measures: the run must go on with the same bits as one without a probe.
"""

from functools import wraps

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
from grpo_probe import probe_trl
from grpo_probe.probe import StiffnessProbe
from grpo_probe.probe_operator import Groups
from grpo_probe.probe_trl import FAILURES, FILLED, TrlProbe

pytestmark = client.MARKS


class Marked(TrlProbe):
    """A probe of which one knows when it measures: a fault is for its calls alone."""

    measuring = False

    def measure(self):
        self.measuring = True
        try:
            return super().measure()
        finally:
            self.measuring = False


def broken(call, probe, after=0):
    """`call`, which fails while the probe measures, `after` calls that go well."""
    left = [after]

    @wraps(call)  # TRL logs rewards by the function's name
    def reached(*args, **more):
        if probe and probe[0].measuring:
            torch.rand(3)  # what was drawn before it failed
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("reward server down\nat 10.0.0.1")
        return call(*args, **more)

    return reached


def trained(folder, fault=None, steps=4, **options):
    """Bits of weights, moments and random state, modes, and what was told, after a run with a probe and a fault."""
    probe, lines = [], []
    rewards = broken(client.reward, probe) if fault == "reward" else client.reward
    trainer = client.trainer(
        folder, max_steps=steps, num_iterations=2, group_size=4, rewards=rewards, beta=0.1, optim="sgd",
        optim_args="momentum=0.5", gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
    )  # fmt: skip
    if options or fault:
        probe.append(Marked(trainer, prompts=4, products=3, every=1, show=lines.append, **options))
        trainer.add_callback(probe[0])
    if fault == "generate":
        trainer.model.generate = broken(trainer.model.generate, probe)
    elif fault == "loss":
        trainer._compute_loss = broken(trainer._compute_loss, probe, after=3)
    elif fault in ("forward", "moved"):
        forward = trainer._get_per_token_logps_and_entropies
        trainer._get_per_token_logps_and_entropies = broken(forward, probe, after=0 if fault == "forward" else 8)
    trainer.train()
    moments = [one["momentum_buffer"] for one in trainer.optimizer.state.values()]
    bits = [one.detach().numpy().tobytes() for one in (*trainer.model.parameters(), *moments)]
    modes = [(one.training, getattr(one, "gradient_checkpointing", None)) for one in trainer.model.modules()]
    timed = ("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second")
    log = [{key: one for key, one in row.items() if key not in timed} for row in trainer.state.log_history]
    return (bits, modes, log, torch.get_rng_state().tolist(), len(trainer._logs["prompt"])), lines


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"))[0]


@pytest.mark.parametrize("fault", ["reward", "generate", "loss", "forward", "moved"])
def test_a_fault_leaves_training_as_it_was_to_the_last_bit(tmp_path, plain, fault):
    """`moved`: while central differences have the weights away. Two lines are said, and then no more is tried."""
    weights, lines = trained(tmp_path, fault, method="central" if fault == "moved" else "auto")
    assert weights == plain
    assert len(lines) == 2
    assert lines[0].startswith("step 1: stiffness not measured, RuntimeError: reward server down at 10.0.0.1")
    assert lines[0].endswith("training goes on")
    assert lines[1].startswith(f"step {FAILURES}: ")
    assert lines[1].endswith("no more are made")


def test_a_strict_probe_raises(tmp_path):
    with pytest.raises(RuntimeError, match="reward server down"):
        trained(tmp_path, "reward", strict=True)


def test_an_optimiser_of_adams_name_is_not_adam(tmp_path):
    """8-bit optimisers are called AdamW, and keep their moments elsewhere."""
    trainer = client.trainer(tmp_path)
    trainer.optimizer = type("AdamW", (torch.optim.SGD,), {})(trainer.model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"^optimizer: expected SGD, Adam or AdamW of PyTorch"):
        TrlProbe(trainer)


def test_a_trl_that_renamed_what_is_called_is_refused_when_attached(tmp_path):
    trainer = client.trainer(tmp_path)
    del trainer._metrics
    with pytest.raises(ValueError, match=r"^trainer: expected one with _metrics, .* got 'TRL \d.* without it'"):
        TrlProbe(trainer)


def test_adam_says_too_early_before_its_second_moment_is_filled(tmp_path):
    lines = []
    trainer = client.trainer(tmp_path, max_steps=FILLED, optim="adamw_torch", group_size=4, learning_rate=1e-4)
    trainer.add_callback(TrlProbe(trainer, prompts=4, products=3, every=FILLED // 2, show=lines.append, strict=True))
    trainer.train()
    assert lines[0].startswith(f"step {FILLED // 2}: too early: Adam's second moment has seen {FILLED // 2} steps")
    assert "stiffness K = " in lines[1]


def test_a_parameter_that_never_had_a_gradient_is_left_out(tmp_path):
    """Adam keeps no state of it; the others are measured."""
    policy = client.model()
    policy.register_parameter("spare", torch.nn.Parameter(torch.ones(1000)))
    trainer = client.trainer(tmp_path, policy=policy, max_steps=2, optim="adamw_torch", group_size=4)
    trainer.train()
    probe = TrlProbe(trainer, prompts=4, products=3)
    assert probe.measure().stiffness.left_out > 1000 / sum(one.numel() for one in policy.parameters())


def test_equal_rewards_are_no_signal(tmp_path):
    trainer = client.trainer(tmp_path, rewards=lambda completion_ids, **rest: [0.7] * len(completion_ids))
    margin = TrlProbe(trainer, prompts=4).measure()
    assert margin.stiffness.silent == margin.stiffness.groups == 4
    assert str(margin).startswith("no signal")


def rounded(folder, bf16, policy=None, **options):
    """K of all enumerated groups, after a step without a learning rate, which wraps the model as training does."""
    from test_probe import SIZE, enumerated

    policy = policy or client.model(seed=3, width=8)
    settings = {"group_size": SIZE, "num_iterations": 2, "max_steps": 1, "learning_rate": 0.0, "bf16": bf16}
    trainer = client.trainer(folder, policy=policy, **settings)
    trainer.train()
    return TrlProbe(trainer, rows_per_forward=4096).stiffness(enumerated(trainer), **options)


def test_under_bfloat16_autocast_double_backward_is_kept(tmp_path):
    """K with and without autocast within 3 %: bfloat16 has 8 bits. Differences are made outside of it: 1 %."""
    exact = rounded(tmp_path, False)
    stiffness = rounded(tmp_path, True)
    assert stiffness.method == exact.method == "double_backward"
    assert stiffness.value == pytest.approx(exact.value, rel=0.03)
    assert stiffness.fresh == pytest.approx(exact.fresh, abs=0.03 * exact.value)
    central = rounded(tmp_path, True, method="central")
    assert central.value == pytest.approx(exact.value, rel=0.03)


def test_planted_differences_inside_autocast_miss(tmp_path, monkeypatch):
    from contextlib import nullcontext

    exact = rounded(tmp_path, False)
    monkeypatch.setattr(probe_trl, "_unrounded", lambda trainer: nullcontext())
    assert rounded(tmp_path, True, method="central").value != pytest.approx(exact.value, rel=0.03)


def test_weights_in_bfloat16_are_measured(tmp_path):
    """They are rounded themselves: K of the rounded weights in float32 within 5 %."""
    coarse = client.model(seed=3, width=8).to(torch.bfloat16)
    fine = client.model(seed=3, width=8).to(torch.bfloat16).float()
    stiffness = rounded(tmp_path, True, coarse)
    assert stiffness.method == "double_backward"
    assert stiffness.value == pytest.approx(rounded(tmp_path, False, fine).value, rel=0.05)


class Frozen(torch.autograd.Function):
    """exp, whose backward pass keeps a number instead of a graph: its second derivative is silently 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.exp()
        return ctx.kept.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope * ctx.kept


def test_a_wrong_second_derivative_is_still_seen():
    """Groups whose first has equal rewards: what is compared must have a gradient."""
    weight = torch.nn.Parameter(torch.tensor([0.3, -0.2, 0.5, 0.1]))

    def log_probs(rows):
        return torch.log_softmax(Frozen.apply(weight), 0)[torch.as_tensor(rows) % 4][:, None]

    def loss_of(gain):
        return lambda present, old: -(torch.exp(present - old)[:, 0] * torch.tensor(gain)).mean()

    losses = [loss_of(gain) for gain in ([0.0, 0.0], [1.0, -1.0])]
    groups = Groups(log_probs, torch.ones(4, 1), [slice(0, 2), slice(2, 4)], losses, [0, 1])
    assert StiffnessProbe([weight]).measure(groups).method == "central"


def test_the_share_left_out_is_of_entries_without_a_history(tmp_path):
    """A small second moment is a history all the same; none, or nearly none beside its tensor's median, is not."""
    trainer = client.trainer(tmp_path, max_steps=2, optim="adamw_torch", group_size=4)
    trainer.train()
    probe = TrlProbe(trainer, prompts=4, products=3)
    before = probe.measure().stiffness
    for state in trainer.optimizer.state.values():
        state["exp_avg_sq"] *= 1e-6
    assert probe.measure().stiffness.left_out == before.left_out < 0.9
    for state in trainer.optimizer.state.values():
        every = state["exp_avg_sq"].reshape(-1)
        every[: len(every) // 3] *= 1e-9
    after = probe.measure().stiffness
    assert after.left_out > before.left_out + 0.2
    assert np.isfinite(after.value)
