"""The probe inside TRL's `GRPOTrainer`: its own loss, sampling and optimiser, and a line every so many steps."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from grpo_clinic._checks import integer, require

from grpo_probe.hooks import guarded, one_line
from grpo_probe.probe import Groups, StiffnessProbe, torch
from grpo_probe.probe_margin import Loop, Margin, margin
from grpo_probe.probe_operator import COARSE
from grpo_probe.probe_ranks import agreed
from grpo_probe.probe_report import ProbeReport
from grpo_probe.stiffness import Stiffness

try:
    from transformers import TrainerCallback
except ImportError:
    raise ImportError("TrlProbe: needs transformers and TRL: pip install trl") from None

TRIED = "1.16"
"""The newest TRL that the tests have been run with."""
LOGGED = ("_metrics", "_logs", "_pending_metrics", "_pending_extra_logs")
"""What TRL writes down while it samples and works a loss out."""
NEEDED = (
    *LOGGED,
    "num_generations",
    "_compute_loss",
    "_generate_and_score_completions",
    "_get_per_token_logps_and_entropies",
    "accelerator",
    "num_iterations",
    "temperature",
)
"""What the probe calls or reads of a trainer beside its arguments; much of it is private, and may change its name."""
KNOWN = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
FILLED = 20
"""Steps after which Adam's second moment, a mean of so many squares, gives its root to a sixth: 1/sqrt(2 steps)."""
AT_THE_CLIP = 0.999
"""Share of `max_grad_norm` from which a gradient was clipped to it; PyTorch stays below by 1e-6."""
COPIED = ("NO", "MULTI_CPU", "MULTI_GPU")
"""Accelerate's names of one process, and of several with all weights each."""
COLLECTIVES = ("gather", "reduce", "gather_for_metrics")
"""By which TRL's loss adds up metrics over processes; none of them goes into the loss."""
CLIPPED = "Adam's second moment is that of clipped gradients, and K of this one is not comparable; raise max_grad_norm"
LEAST_HISTORY = 1e-6
"""Share of its tensor's median below which an entry of Adam's second moment is no history."""
FAILURES = 3
"""Measurements in a row that may fail: a reward server comes back, an attention kernel does not."""


class TrlProbe(TrainerCallback):
    """Measures a `GRPOTrainer`'s stiffness on rows of its data, and prints its margin.

        trainer.add_callback(TrlProbe(trainer, every=50))

    Args:
      prompts: rows of the training data, drawn anew at every measurement, shared out between processes; groups:
        sampled for each of them, from the present policy. Few prompts with several groups each give too large a K,
        which the error bar does not see.
      anew: False: the first `prompts` rows at every measurement, where these are all that matters.
      reward_kl: weight of a KL penalty inside the reward, log pi_old - log pi_ref of the policy that samples. It moves
        with that policy, so that it is stale; TRL's own KL term (`beta`) is not meant.
      every: steps between two lines; 0: only when `measure` is called. show: what takes a line.
      report: keep `stability.html` and `stability.json` in `output_dir` as of the last line: verdict, what to do, K
        over training. They are whole at any time, of a run that is killed too.
      on_margin: called after every measurement inside a step with the trainer and the `Margin`; a text that it returns
        is shown. `hold_at` (probe_margin) lowers the learning rate. Without it training is the same to the last bit.
      strict: raise what fails inside a step. Otherwise a line says so, and training goes on as if nothing had been
        asked; after `FAILURES` measurements in a row that failed no more are made.
      options: of `StiffnessProbe`.

    Raises:
      ValueError: data without rows; weights in shards; an entropy bonus or a loss of experts (of which the
        log-probabilities do not tell); a model without a gradient; an unknown optimiser; a TRL that lacks what the
        probe calls.

    Example, of a `GRPOTrainer` called trainer:
      >>> TrlProbe(trainer, prompts=4, report=False).measure().stiffness.groups
      4
    """

    def __init__(
        self,
        trainer: Any,
        *,
        prompts: int = 16,
        groups: int = 1,
        anew: bool = True,
        every: int = 0,
        reward_kl: float = 0.0,
        show: Any = print,
        report: bool = True,
        on_margin: Callable[[Any, Margin], str | None] | None = None,
        strict: bool = False,
        **options: Any,
    ) -> None:
        for name in NEEDED:
            asked = f"one with {name}, as that of TRL {TRIED}"
            require(hasattr(trainer, name), "trainer", asked, f"TRL {version('trl')} without it")
        self.trainer, self.group_size = trainer, integer("group_size", trainer.num_generations, 2)
        kind = str(trainer.accelerator.distributed_type.value)
        require(kind in COPIED, "processes", "one, or several that have all weights each (DDP)", kind)
        odd = (trainer._entropy_bonus_enabled, "an entropy bonus"), (trainer.aux_loss_enabled, "a loss of experts")
        for there, what in odd:
            require(not there, "loss", "one of the tokens' log-probabilities", what)
        share = trainer.top_entropy_quantile
        require(share == 1.0, "top_entropy_quantile", "1 (every token counts)", share)
        rows = trainer.train_dataset
        require(hasattr(rows, "__len__") and len(rows) > 0, "train_dataset", "one with rows that can be indexed", rows)
        processes = trainer.accelerator.num_processes
        self.prompts = min(integer("prompts", prompts, 1), len(rows)) // processes
        require(self.prompts > 0, "prompts", f"at least one for each of {processes} processes", prompts)
        self.draw = np.random.default_rng(trainer.args.seed) if anew else None
        self.groups, self.every = integer("groups", groups, 1), integer("every", every, 0)
        self.show = show if trainer.accelerator.is_main_process else lambda line: None
        plain = reward_kl == 0 or trainer.scale_rewards == "none"
        asked = "0, or advantages that are not scaled (scale_rewards='none')"
        require(plain, "reward_kl", asked, trainer.scale_rewards)
        checked_class(_optimiser_class(trainer))
        StiffnessProbe(list(trainer.model.parameters()), **options)
        self.options, self.reward_kl, self.strict, self.on_margin = options, reward_kl, strict, on_margin
        self.failed = 0
        """Measurements inside steps that failed, one behind the other."""
        self.clipped = 0.0
        """Norm to which the trainer clipped the gradient before this measurement; 0 where it did not."""
        self.vector: torch.Tensor | None = None
        self.step = 1e-3
        wanted = report and self.every and trainer.accelerator.is_main_process
        self.report = ProbeReport(self._settings()) if wanted else None

    def failed_in(self, hook: str, error: Exception) -> None:
        """Say what a hook could not do; after `FAILURES` measurements in a row that failed no more are made."""
        if hook != "on_step_end":
            self._say(f"{hook}: {one_line(error)}; training goes on")
            return
        self.failed += 1
        if self.failed in (1, FAILURES):
            end = "no more are made" if self.failed == FAILURES else "training goes on"
            self._say(f"step {self.trainer.state.global_step}: stiffness not measured, {one_line(error)}; {end}")

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Take what was measured before a checkpoint from its log."""
        if self.report is not None and state.global_step:
            self.report.resume(state.log_history)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """The last report."""
        self._write(f"Training ended at step {state.global_step} of {state.max_steps}.")

    @guarded
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """See whether the gradient was clipped, where a measurement follows."""
        if not args.max_grad_norm or (self.every and (state.global_step + 1) % self.every):
            return
        sizes = [one.grad.norm() for one in self._parameters if one.grad is not None]
        length = float(torch.stack([one.to(sizes[0].device) for one in sizes]).norm()) if sizes else 0.0
        self.clipped = args.max_grad_norm if length > AT_THE_CLIP * args.max_grad_norm else 0.0

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Measure and tell, every so many steps; K and the used share go into the run's own log."""
        if not self.every or state.global_step % self.every or self.failed == FAILURES:
            return
        try:
            self._tell(state.global_step)
            self.failed = 0
        finally:
            self._write(f"Written at step {state.global_step} of {state.max_steps}, before training had ended.")

    def _say(self, line: str) -> None:
        """Log one line, even after the tracker has been closed."""
        if self.report is not None:
            self.report.lines.append(line)
        with suppress(Exception):
            self.show(line)

    def _write(self, state: str) -> None:
        if self.report is None:
            return
        try:
            self.report.write(Path(self.trainer.args.output_dir), state)
        except Exception as error:
            if self.strict:
                raise
            self.report = None
            self._say(f"no report is written any more, {one_line(error)}; training goes on")

    def _settings(self) -> dict[str, Any]:
        """Settings of the run and of the probe, for the report."""
        args = self.trainer.args
        return {
            "optimiser": _optimiser_class(self.trainer).__name__,
            "learning rate": args.learning_rate,
            "updates per rollout batch N": _interval(self.trainer),
            "group size": self.group_size,
            "loss": args.loss_type,
            "KL weight": args.beta + self.reward_kl,
            "clip of the gradient": args.max_grad_norm or "none",
            "steps between measurements": self.every,
            "prompts": self.prompts * self.trainer.accelerator.num_processes,
            "groups per prompt": self.groups,
            **self.options,
            "TRL": version("trl"),
        }

    def _tell(self, step: int) -> None:
        if (past := _history(self.trainer)) is not None and past < FILLED:
            self._say(f"step {step}: too early: Adam's second moment has seen {past} steps, and {FILLED} are needed")
            return
        if past is not None and self.clipped:
            self._say(f"step {step}: no number: the last gradient was clipped to norm {self.clipped:.3g}. {CLIPPED}")
            return
        measured = self.measure()
        if self.report is not None:
            self.report.add(step, measured)
        self.show(f"step {step}: {measured}")
        k = measured.stiffness
        metrics = {"stiffness": k.value, "stiffness_std": k.standard_error, "stability_used": measured.used}
        if k.critical is not None:  # of one direction only, so that the share used is not known
            metrics = {"stiffness_along": k.value, "stiffness_along_std": k.standard_error, "sharpness": k.critical}
        for name, value in metrics.items():
            self.trainer._metrics["train"][f"probe/{name}"].append(value)
        if self.on_margin is not None and (done := self.on_margin(self.trainer, measured)):
            self._say(f"step {step}: {done}")

    def measure(self) -> Margin:
        """K of the present policy and its margin. The run goes on as if nothing had been asked, to the last bit."""
        update = optimiser(self.trainer, self._parameters)
        probe = self._probe(update)
        probe.vector, probe.step = self.vector, self.step
        several = self.trainer.accelerator.num_processes > 1
        with undisturbed(self.trainer), agreed(several):
            stiffness = probe.measure(self.sample())
        self.vector, self.step = probe.vector, probe.step
        measured, peak = margin(stiffness, update.loop), self._peak()
        if peak > update.loop.learning_rate:
            measured = replace(measured, peak=margin(stiffness, replace(update.loop, learning_rate=peak)))
        return replace(measured, clipped=self.clipped)

    def _peak(self) -> float:
        """Learning rate at the end of a warm-up that goes on; 0 where none does."""
        optimizer, state = _made(self.trainer), self.trainer.state
        if optimizer is None or state.global_step >= self.trainer.args.get_warmup_steps(state.max_steps):
            return 0.0
        return max(float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups)

    @property
    def _parameters(self) -> list[torch.Tensor]:
        return list(self.trainer.accelerator.unwrap_model(self.trainer.model).parameters())

    def _probe(self, update: "Update", **options: Any) -> StiffnessProbe:
        given: dict[str, Any] = {"scale": update.scale, "decay": update.decay, "seen": update.seen}
        return StiffnessProbe(self._parameters, **given, **(self.options | options))

    def stiffness(self, groups: Groups, **options: Any) -> Stiffness:
        """K of groups that are given, such as all that can be drawn, each with its probability."""
        probe = self._probe(optimiser(self.trainer, self._parameters), **options)
        with undisturbed(self.trainer):
            return probe.measure(groups)

    def sample(self) -> Groups:
        """`groups` groups for every prompt, drawn and scored by the trainer itself."""
        rows, each = self.trainer.train_dataset, self.groups * self.group_size
        one = self.trainer.accelerator
        count = self.prompts * one.num_processes
        places = np.arange(count) if self.draw is None else self.draw.choice(len(rows), count, replace=False)
        own = slice(one.process_index * self.prompts, (one.process_index + 1) * self.prompts)
        asked = [rows[int(place)] for place in places[own]]
        batch = self.trainer._generate_and_score_completions([dict(row) for row in asked for _ in range(each)])
        prompts = np.repeat(np.arange(count)[own], self.groups).tolist()
        return groups_of(self.trainer, batch, self.group_size, prompts, reward_kl=self.reward_kl)


def groups_of(
    trainer: Any, batch: dict[str, Any], size: int, prompts: Sequence[int], weights: Any = None, reward_kl: float = 0.0
) -> Groups:
    """Groups of `size` rows each of what TRL's `_generate_and_score_completions` returns, with TRL's loss.

    Every process of a run has as many.
    """
    count, processes = len(batch["completion_ids"]) // size, trainer.accelerator.num_processes
    rows = [slice(place * size, (place + 1) * size) for place in range(count)]
    mask = batch["completion_mask"] * batch.get("tool_mask", 1)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attended = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    length = batch["completion_ids"].size(1)
    shares = torch.full((count,), 1 / count / processes) if weights is None else torch.as_tensor(weights)
    tokens = (torch.stack([mask[here].sum() for here in rows]) * shares.to(mask.device)).sum()
    tokens = trainer.accelerator.reduce(tokens, reduction="sum")
    per_row = {name: one for name, one in batch.items() if isinstance(one, torch.Tensor) and one.dim() > 0}

    def log_probs(here: torch.Tensor) -> torch.Tensor:
        return trainer._get_per_token_logps_and_entropies(trainer.model, ids[here], attended[here], length)[0]

    def plain(here: torch.Tensor) -> torch.Tensor:
        """The same without TRL's fused head, whose backward pass has no derivative."""
        given = {"input_ids": ids[here], "attention_mask": attended[here], "use_cache": False}
        with trainer.accelerator.autocast():
            logits = trainer.model(**given, logits_to_keep=length + 1).logits[:, :-1]
        chosen = batch["completion_ids"][here].unsqueeze(-1)
        return torch.log_softmax(logits.float() / trainer.temperature, dim=-1).gather(-1, chosen).squeeze(-1)

    def loss_of(here: slice) -> Any:
        given = {name: one[here] for name, one in per_row.items()}

        def loss(present: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
            # TRL divides some losses by the tokens of the whole rollout batch: per group, by the mean group's.
            accumulated = _accumulated(trainer)
            batches = trainer.args.steps_per_generation / accumulated * processes
            more = {"num_items_in_batch": tokens * batches, "old_per_token_logps": old}
            if reward_kl:  # the same advantages, which now know how they move with the policy that samples
                moved = -reward_kl * ((old - sampled[here]) * mask[here]).sum(1)
                more["advantages"] = given["advantages"] + moved - moved.mean()

            def reached(*args: Any, **more: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
                return present, torch.zeros_like(present).detach(), None

            share = accumulated if trainer.model.training else 1  # TRL divides by their number, an update is their sum
            with (
                _replaced(trainer, "_get_per_token_logps_and_entropies", reached),
                _replaced(trainer, "current_gradient_accumulation_steps", accumulated),
                _alone(trainer.accelerator),
            ):
                return trainer._compute_loss(trainer.model, given | more) * share

        return loss

    with torch.no_grad():
        sampled = torch.cat([log_probs(here) for here in rows]) if reward_kl else torch.empty(0)
    losses = [loss_of(here) for here in rows]
    return Groups(log_probs, mask, rows, losses, prompts, weights, plain, lambda: _unrounded(trainer), processes > 1)


@contextmanager
def _alone(accelerator: Any) -> Iterator[None]:
    """Metrics of this process stay its own: processes evaluate losses as often as each needs them."""
    with ExitStack() as stack:
        for name in COLLECTIVES:
            stack.enter_context(_replaced(accelerator, name, lambda one, *args, **more: one))
        yield


@contextmanager
def _unrounded(trainer: Any) -> Iterator[None]:
    """Forward passes in float32 or finer: without autocast, and what is coarser in the model is widened meanwhile.

    Accelerate wraps the model's own forward, TRL enters a context.
    """
    model = trainer.model
    own = getattr(model, "_original_forward", model.forward)
    every = [one for one in (*model.parameters(), *model.buffers()) if one.is_floating_point()]
    coarse = [(one, one.data) for one in every if torch.finfo(one.dtype).eps > COARSE]
    with _replaced(trainer.accelerator, "autocast", nullcontext), _replaced(model, "forward", own):
        try:
            for one, data in coarse:
                one.data = data.float()
            yield
        finally:
            for one, data in coarse:
                one.data = data


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of this one object, afterwards as before."""
    before = {name: vars(owner)[name]} if name in vars(owner) else {}
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name)
        vars(owner).update(before)


def _accumulated(trainer: Any) -> int:
    """Batches whose gradients are added up for one update; before training TRL has not written it down yet."""
    return getattr(trainer, "current_gradient_accumulation_steps", trainer.args.gradient_accumulation_steps)


class Update(NamedTuple):
    """What the optimiser makes of a gradient: per parameter its factor, weight decay, and where it has a history."""

    scale: list[Any]
    decay: list[float]
    seen: list[torch.Tensor] | None
    loop: Loop


def optimiser(trainer: Any, parameters: Sequence[torch.Tensor]) -> Update:
    """Factors and weight decay per parameter, and the loop, from the optimiser's groups and state.

    Raises ValueError for an optimiser that is not known, or an Adam without a second moment.
    """
    optimizer = _made(trainer) or trainer.create_optimizer()
    adam = checked_class(type(optimizer)) is not torch.optim.SGD
    args = trainer.args
    rates = [group["lr"] for group in optimizer.param_groups]
    top = max(rates) or args.learning_rate
    of = {id(one): group for group in optimizer.param_groups for one in group["params"]}
    if adam:
        require(bool(_history(trainer)), "optimizer", "a second moment, which it has after a step", "none")
    scale: list[Any] = []
    decay, seen = [], []
    for one in parameters:
        group = of.get(id(one), optimizer.param_groups[0])
        factor: Any = (group["lr"] / top) if top and max(rates) else 1.0
        decay.append(factor * group["weight_decay"])
        if adam:
            require(not group["amsgrad"], "optimizer", "Adam(W) without amsgrad", "one with it")
            state = optimizer.state.get(one, {})
            moment = state.get("exp_avg_sq", torch.zeros_like(one))  # none where no gradient has come yet
            seen.append((moment > 0) & (moment >= LEAST_HISTORY * moment.median()))
            filled = 1 - group["betas"][1] ** float(state.get("step", 1))
            factor = factor / ((moment / filled).sqrt() + group["eps"])
        scale.append(factor)
    first = optimizer.param_groups[0]
    interval = _interval(trainer)
    if adam:
        return Update(scale, decay, seen, Loop(top, first["betas"][0], "ema", "refresh", interval))
    convention = "nesterov" if first["nesterov"] else "ema" if first["dampening"] else "heavy_ball"
    return Update(scale, decay, None, Loop(top, first["momentum"], convention, "refresh", interval))


def _interval(trainer: Any) -> int:
    """Updates per rollout batch."""
    args = trainer.args
    return max(1, round(args.steps_per_generation * trainer.num_iterations / args.gradient_accumulation_steps))


def checked_class(kind: type) -> type:
    """This class of optimiser; ValueError for one whose step the probe does not know (8-bit ones have Adam's name)."""
    name = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    require(kind in KNOWN, "optimizer", "SGD, Adam or AdamW of PyTorch", name)
    return kind


def _made(trainer: Any) -> Any:
    """The optimiser, without accelerate around it; None before it is made."""
    return getattr(trainer.optimizer, "optimizer", trainer.optimizer)


def _optimiser_class(trainer: Any) -> type:
    """The class of the optimiser that the trainer has, or will make."""
    if (optimizer := _made(trainer)) is not None:
        return type(optimizer)
    choice = trainer.optimizer_cls_and_kwargs or trainer.get_optimizer_cls_and_kwargs(trainer.args, trainer.model)
    return choice[0]


def _history(trainer: Any) -> int | None:
    """Steps that Adam's second moment has seen; None where there is no second moment to fill."""
    optimizer = _made(trainer)
    if optimizer is None or type(optimizer) is torch.optim.SGD:
        return None
    return max((int(one["step"]) for one in optimizer.state.values()), default=0)


@contextmanager
def undisturbed(trainer: Any) -> Iterator[None]:
    """Random states, metrics, logs, counts and modes of trainer and model are afterwards as they were before."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    modes = [(module, module.training) for module in model.modules()]
    checkpointed = model.is_gradient_checkpointing
    logs = [getattr(trainer, name) for name in LOGGED]
    before = [_deep(one) for one in logs]
    seen, python = trainer.state.num_input_tokens_seen, random.getstate()
    shared = np.random.get_state()  # noqa: NPY002  a reward function may draw from it
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(shared)  # noqa: NPY002
        trainer.state.num_input_tokens_seen = seen
        for one, was in zip(logs, before, strict=True):
            _put_back(one, was)
        for module, training in modes:
            module.training = training
        if checkpointed and not model.is_gradient_checkpointing:  # TRL turns it off while it samples
            model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)


def _deep(held: Any) -> Any:
    """A copy of nested dictionaries and lists, their leaves the same objects."""
    if isinstance(held, dict):
        return {key: _deep(one) for key, one in held.items()}
    return copy(held)


def _put_back(held: Any, was: Any) -> None:
    """Give dictionaries, lists and queues what they held; those that are nested stay the same objects."""
    if not isinstance(held, dict):
        held.clear()
        held.extend(was)
        return
    for key in [key for key in held if key not in was]:
        del held[key]
    for key, one in was.items():
        if isinstance(one, (dict, list, deque)):
            _put_back(held[key], one)
        else:
            held[key] = one
