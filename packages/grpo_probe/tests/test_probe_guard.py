"""The guard: learning rates that a run is trained with, against K that is put in by hand."""

from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
from grpo_probe.probe_margin import Loop, hold_at, margin
from grpo_probe.probe_trl import TrlProbe
from grpo_probe.stiffness import Stiffness
from transformers import TrainerCallback

pytestmark = client.MARKS

RATE, STEPS = 0.2, 6


class Told(TrlProbe):
    """A probe that is told K of every step; with SGD and a fresh update the edge is 2/K."""

    stiff = (1.0,) * STEPS

    def measure(self):
        rate = self.trainer.optimizer.param_groups[0]["lr"]
        k = self.stiff[self.trainer.state.global_step - 1]
        return margin(Stiffness(k, 0.01, k, 0.0, k, k, 0.0, 0.0, 1.0, 8, "central"), Loop(rate))


class Seen(TrainerCallback):
    """Learning rate at the beginning of every update."""

    def __init__(self, log):
        self.log = log

    def on_step_begin(self, args, state, control, optimizer=None, **rest):
        self.log.append(optimizer.param_groups[0]["lr"])


def rates(folder, stiff, share=0.8, resume=None, **settings):
    """Learning rate of every update, and what was said besides the measurements."""
    lines, log = [], []
    trainer = client.trainer(folder, max_steps=STEPS, group_size=4, learning_rate=RATE, **settings)
    guard = None if share is None else hold_at(share)
    probe = Told(trainer, prompts=4, every=1, show=lines.append, strict=True, on_margin=guard)
    probe.stiff = stiff
    trainer.add_callback(probe)
    trainer.add_callback(Seen(log))
    trainer.train(resume_from_checkpoint=resume)
    return log, [line for line in lines if "learning rate cut" in line]


def test_the_rate_is_held_below_the_edge_and_comes_back(tmp_path):
    """K = 20 has its edge at 0.1: half of the schedule's rate. At K = 40 a quarter. At K = 5 the schedule is free."""
    applied, lines = rates(tmp_path, (20.0, 40.0, 40.0, 5.0, 5.0, 5.0))
    assert applied == pytest.approx([RATE, 0.08, 0.04, 0.04, RATE, RATE], rel=1e-12)
    assert [line.partition(":")[0] for line in lines] == ["step 1", "step 2", "step 4"]
    assert "step 1: learning rate cut to 0.08, 40% of the schedule's, for 80% of the edge" in lines


def test_a_schedule_goes_on_below_it(tmp_path):
    """A linear decay is scaled as a whole, so that it still ends at zero."""
    free, _ = rates(tmp_path, (1.0,) * STEPS, lr_scheduler_type="linear")
    held, _ = rates(tmp_path, (20.0,) + (1e-9,) * (STEPS - 1), lr_scheduler_type="linear")
    assert held[0] == free[0]
    assert held[1] == pytest.approx(0.08, rel=1e-12)  # 80 % of the edge, for the rate that comes next
    assert held[2:] == pytest.approx(free[2:], rel=1e-12)
    always, _ = rates(tmp_path, (20.0,) * STEPS, lr_scheduler_type="linear")
    assert always[1:] == pytest.approx([min(rate, 0.08) for rate in free[1:]], rel=1e-12)


def test_a_checkpoint_keeps_the_scale(tmp_path):
    stiff = (20.0, 20.0, 20.0, 20.0, 20.0, 20.0)
    whole, _ = rates(tmp_path, stiff, save_strategy="steps", save_steps=3)
    again, _ = rates(tmp_path, stiff, resume=str(tmp_path / "checkpoint-3"), save_strategy="no")
    assert whole[-3:] == pytest.approx([0.08] * 3, rel=1e-12)
    assert again[-3:] == whole[-3:]


def test_a_scheduler_that_cannot_be_scaled_is_named():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    trainer = SimpleNamespace(optimizer=optimizer, lr_scheduler=plateau)
    measured = margin(Stiffness(20.0, 0.01, 20.0, 0.0, 20.0, 20.0, 0.0, 0.0, 1.0, 8, "central"), Loop(RATE))
    with pytest.raises(ValueError, match=r"^lr_scheduler_type: expected one with base_lrs, got 'ReduceLROnPlateau'"):
        hold_at(0.8)(trainer, measured)
