"""The monitor inside TRL's trainer: the same losses with it and without, its scores in the log, what it costs."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
from grpo_clinic.monitor import spending
from grpo_probe.callback import StabilityCallback
from transformers import TrainerCallback, TrainerControl, TrainerState

pytestmark = client.MARKS
STEPS = 40


class Seen(TrainerCallback):
    """A logger such as wandb's: keeps what it is shown."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs=None, **rest):
        self.logs.append(dict(logs))


class Counted(StabilityCallback):
    """The callback with the calls of every row: time, of the CPU too, would measure who else works on the machine."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls = []

    def on_log(self, *args, **more):
        self.calls.append(0)

        def seen(frame, event, argument):
            self.calls[-1] += event in ("call", "c_call")

        sys.setprofile(seen)
        try:
            super().on_log(*args, **more)
        finally:
            sys.setprofile(None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """40 steps with the callback and without, and what a logger saw."""
    by_name = {}
    for name in ("off", "on"):
        seen = Seen()
        trainer = client.trainer(tmp_path_factory.mktemp(name), max_steps=STEPS, callbacks=[seen])
        callback = Counted.attach(trainer, show=None) if name == "on" else None
        trainer.train()
        by_name[name] = trainer, seen, callback
    return by_name


def test_losses_and_parameters_are_the_same_to_the_last_bit(runs):
    losses = {name: [row["loss"] for row in run[0].state.log_history if "loss" in row] for name, run in runs.items()}
    assert len(losses["on"]) == STEPS
    assert losses["on"] == losses["off"]
    for one, other in zip(runs["on"][0].model.parameters(), runs["off"][0].model.parameters(), strict=True):
        assert one.detach().numpy().tobytes() == other.detach().numpy().tobytes()


def test_the_scores_stand_beside_the_runs_own_metrics(runs):
    """From the first look on, row 24: in what a logger is shown and in the trainer's history."""
    trainer, seen, callback = runs["on"]
    assert callback.monitor.rows == STEPS
    with_scores = [row for row in seen.logs if "stability/collapsed" in row]
    assert len(with_scores) == sum("reward" in row for row in seen.logs) - 23 + 1  # and the closing summary
    assert all("stability/alarms" in row for row in with_scores)
    assert "stability/collapsed" in trainer.state.log_history[-2]
    assert not any(key.startswith("stability/") for row in runs["off"][1].logs for key in row)


def test_a_row_costs_less_than_two_milliseconds_of_calls(runs):
    """The mean over rows and looks, at 1 us a call; the first of each load modules. Planted: judged twice."""
    _, _, callback = runs["on"]
    mean = float(np.mean(np.delete(callback.calls, [0, spending.FIRST - 1])))
    print(f"callback {mean:.0f} calls a row")
    assert mean < 2000 < 2 * mean


def test_group_size_is_the_trainers(runs):
    assert runs["on"][2].monitor._group_size == 8


def logged(callback, rewards):
    """The control after these rewards were logged one by one, and the state."""
    state, control = TrainerState(max_steps=0), TrainerControl()
    for step, reward in enumerate(rewards):
        state.global_step = step
        state.log_history.append({"reward": reward, "step": step})
        callback.on_log(None, state, control, logs={"reward": reward})
    return control, state


def collapse():
    reward = 0.5 + 0.02 * np.random.default_rng(0).normal(size=100)
    reward[60:] -= 0.45
    return reward


def test_an_alarm_stops_the_training_where_that_is_asked_for():
    printed, heard = [], []
    callback = StabilityCallback(stop_on=("collapsed",), show=printed.append, on_alarm=heard.append)
    control, state = logged(callback, collapse())
    assert control.should_training_stop
    assert printed[0].startswith("alarm: collapsed at step ")
    assert heard[0].failure == "collapsed"
    assert state.log_history[-1]["stability/alarms"] >= 1
    assert not logged(StabilityCallback(show=None), collapse())[0].should_training_stop


def test_a_resumed_run_is_given_its_past():
    """The monitor after a resume has what it would have had."""
    rewards = collapse()
    _, state = logged(StabilityCallback(show=None), rewards)
    callback = StabilityCallback(show=None)

    arguments = SimpleNamespace(num_generations=4)
    callback.on_train_begin(arguments, state, TrainerControl())
    assert callback.monitor.rows == 100
    assert "collapsed" in callback.monitor.verdict
    own = StabilityCallback(show=None, group_size=6)
    own.on_train_begin(arguments, state, TrainerControl())
    assert (callback.monitor._group_size, own.monitor._group_size) == (4, 6)


def test_a_failure_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"^stop_on: expected one of .*, got 'exploded'"):
        StabilityCallback(stop_on=("exploded",))
