"""The monitor inside TRL's trainers, or any `transformers.Trainer` that logs a reward: scores, alarms, early stop."""

import logging
import math
from collections.abc import Callable, Collection
from typing import Any

from grpo_clinic import _checks
from grpo_clinic.monitor import Alarm, Monitor
from grpo_clinic.report import ORDER

from grpo_probe.hooks import guarded, one_line

try:
    from transformers import TrainerCallback
except ImportError:
    raise ImportError("StabilityCallback: needs transformers and TRL: pip install trl") from None

PREFIX = "stability/"


class StabilityCallback(TrainerCallback):
    """Judges the run at every row that the trainer logs, and puts the scores into that row.

        trainer = GRPOTrainer(..., args=args, train_dataset=data)
        StabilityCallback.attach(trainer, stop_on=("collapsed", "diverging"))
        trainer.train()

    `attach` puts it before the trainer's other callbacks, so that wandb and TensorBoard see `stability/<failure>`
    (1 and more: the failure is there) and `stability/alarms`. As one of `callbacks=[...]` it comes behind them: the
    scores are then in `trainer.state.log_history` and in what later callbacks see.

    It draws no random numbers and touches neither model nor optimiser.

    Args:
        stop_on: failures whose alarm ends the training (`control.should_training_stop`).
        show: what takes the line of an alarm, on the main process; None: nothing.
        on_alarm: called with every `Alarm`, on every process.
        strict: raise what fails in a hook, as `show` or `on_alarm` may. Otherwise it is logged, and training goes on.
        monitor: further options of `Monitor`; group_size is taken from the trainer where not given.

    Raises:
        ValueError: for a failure that does not exist, and what `Monitor` refuses.

    Example:
        >>> StabilityCallback(stop_on=("collapsed",)).stop_on
        ('collapsed',)
    """

    def __init__(
        self,
        *,
        stop_on: Collection[str] = (),
        show: Callable[[str], Any] | None = print,
        on_alarm: Callable[[Alarm], Any] | None = None,
        strict: bool = False,
        **monitor: Any,
    ) -> None:
        for name in stop_on:
            _checks.choice("stop_on", name, ORDER)
        self.stop_on, self.show, self.on_alarm = tuple(stop_on), show, on_alarm
        self._options, self.strict = monitor, strict
        self.monitor = Monitor(**monitor)

    @classmethod
    def attach(cls, trainer: Any, **options: Any) -> "StabilityCallback":
        """Add one to a trainer, before its other callbacks; returns it."""
        callback = cls(**options)
        trainer.callback_handler.callbacks.insert(0, callback)
        return callback

    def failed_in(self, hook: str, error: Exception) -> None:
        """Log what a hook could not do."""
        logging.getLogger(__name__).warning("%s: %s; training goes on", hook, one_line(error))

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """A monitor for this run; what was logged before a checkpoint is given to it first."""
        options = dict(self._options)
        if (size := getattr(args, "num_generations", None)) and "group_size" not in options:
            options["group_size"] = int(size)
        self.monitor = Monitor(**options)
        for row in state.log_history:
            step = row.get("step")
            if isinstance(step, int | float) and math.isfinite(step):
                self.monitor.feed(step, _own_left_out(row))

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any) -> None:
        """Judge the row, add the scores to it."""
        if not logs:
            return
        alarms = self.monitor.feed(state.global_step, _own_left_out(logs))
        scores: dict[str, float] = {f"{PREFIX}{name}": score for name, score in self.monitor.scores.items()}
        if scores or alarms:
            scores[f"{PREFIX}alarms"] = float(len(self.monitor.alarms))
            logs.update(scores)
            if state.log_history:
                state.log_history[-1].update(scores)
        if any(alarm.failure in self.stop_on for alarm in alarms):
            control.should_training_stop = True
        for alarm in alarms:
            self.on_raised(args, state, control, alarm=alarm)
            self.on_told(args, state, control, alarm=alarm)

    @guarded
    def on_raised(self, args: Any, state: Any, control: Any, alarm: Alarm) -> None:
        """Hand an alarm to `on_alarm`."""
        if self.on_alarm is not None:
            self.on_alarm(alarm)

    @guarded
    def on_told(self, args: Any, state: Any, control: Any, alarm: Alarm) -> None:
        """Show an alarm, on the main process."""
        if self.show is not None and state.is_world_process_zero:
            self.show(f"alarm: {alarm.failure.replace('_', ' ')} at step {alarm.step:g}: {alarm.text}")


def _own_left_out(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not key.startswith(PREFIX)}
