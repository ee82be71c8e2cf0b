"""No hook ends a training: every part that a user hands over raises, and so do the trainer's own objects."""

import math
from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
from grpo_clinic.report import ORDER
from grpo_probe.callback import StabilityCallback
from grpo_probe.probe_trl import TrlProbe

pytestmark = client.MARKS
HOOKS = ("on_train_begin", "on_train_end", "on_pre_optimizer_step", "on_step_end", "on_log")


def broken(*args, **rest):
    raise OSError("closed pipe")


def rising(count):
    """Rows of a run whose reward collapses: there is an alarm."""
    return [{"step": n, "reward": 0.8 if n < count // 2 else 0.0} for n in range(count)]


def test_callback_whose_every_part_raises_still_stops_the_run():
    callback = StabilityCallback(stop_on=ORDER, show=broken, on_alarm=broken)
    control = SimpleNamespace(should_training_stop=False)
    state = SimpleNamespace(log_history=[], is_world_process_zero=True, global_step=0)
    args = SimpleNamespace(num_generations=8)
    callback.on_train_begin(args, state, control)
    for row in rising(400):
        state.global_step = row["step"]
        callback.on_log(args, state, control, logs=dict(row))
    assert callback.monitor.alarms
    assert control.should_training_stop
    callback.strict = True
    with pytest.raises(OSError, match="closed pipe"):
        callback.on_told(args, state, control, alarm=callback.monitor.alarms[0])


@pytest.mark.parametrize("step", [None, math.nan, "three", [1]])
def test_rows_without_a_step_are_left_out_of_a_history(step):
    callback = StabilityCallback(show=broken, strict=True)
    state = SimpleNamespace(log_history=[{"step": step, "reward": 0.5}, {"step": 1, "reward": 0.5}])
    callback.on_train_begin(SimpleNamespace(num_generations=8), state, None)
    assert callback.monitor.rows == 1


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_of_both_is_guarded(hook, tmp_path):
    """Called with nothing that it needs, each fails inside and returns."""
    trainer = client.trainer(tmp_path, max_steps=1, group_size=4)
    for one in (StabilityCallback(show=broken), TrlProbe(trainer, prompts=4, every=1, show=broken)):
        if hook in vars(type(one)):
            assert getattr(one, hook)(None, None, None) is None


def test_gradients_on_two_devices_are_one_norm(tmp_path):
    trainer = client.trainer(tmp_path, max_steps=1, group_size=4)
    probe = TrlProbe(trainer, prompts=4, every=50, strict=True)
    norms = [SimpleNamespace(to=lambda device: torch.tensor(3.0), device=place) for place in ("cpu", "cuda:0")]
    grads = [SimpleNamespace(grad=SimpleNamespace(norm=lambda one=one: one)) for one in norms]
    type(probe)._parameters, original = property(lambda self: grads), type(probe)._parameters
    seen = []
    try:
        for step in (49, 50):  # the measurement is that of step 50
            probe.on_pre_optimizer_step(SimpleNamespace(max_grad_norm=1.0), SimpleNamespace(global_step=step), None)
            seen.append(probe.clipped)
            probe.clipped = 0.0
    finally:
        type(probe)._parameters = original
    assert seen == [1.0, 0.0]
