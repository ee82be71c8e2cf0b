"""The probe inside TRL's `GRPOTrainer`: its own loss, sampling and optimiser, and a line every so many steps."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from bandit_lab._checks import integer, require
from bandit_lab.integrations.probe import Groups, Stiffness, StiffnessProbe, torch
from bandit_lab.integrations.probe_margin import Loop, Margin, margin

try:
    from transformers import TrainerCallback
except ImportError:
    raise ImportError("TrlProbe: needs transformers and TRL, the extra trl: pip install 'bandit-lab[trl]'") from None


class TrlProbe(TrainerCallback):
    """Measures a `GRPOTrainer`'s stiffness on the first `prompts` rows of its data, and prints its margin.

        trainer.add_callback(TrlProbe(trainer, every=50))

    Args:
      prompts: rows of the training data; groups: sampled anew per prompt and measurement, from the present policy.
      reward_kl: weight of a KL penalty inside the reward, log pi_old - log pi_ref of the policy that samples. It moves
        with that policy, so that it is stale; TRL's own KL term (`beta`) is not meant.
      every: steps between two lines; 0: only when `measure` is called. show: what takes a line.
      options: of `StiffnessProbe`.

    Raises:
      ValueError: the group size is not found, data without rows, several processes, an entropy bonus or a loss of
        experts (of which the log-probabilities do not tell), a model without a gradient.
    """

    def __init__(
        self,
        trainer: Any,
        *,
        prompts: int = 4,
        groups: int = 4,
        every: int = 0,
        reward_kl: float = 0.0,
        show: Any = print,
        **options: Any,
    ) -> None:
        size = getattr(trainer, "num_generations", None)
        require(isinstance(size, int), "group size", "a trainer with num_generations, such as TRL's GRPOTrainer", size)
        self.trainer, self.group_size = trainer, integer("group_size", size, 2)
        count = trainer.accelerator.num_processes
        require(count == 1, "processes", "one (the probe does not gather over several)", count)
        for name, what in (("_entropy_bonus_enabled", "an entropy bonus"), ("aux_loss_enabled", "a loss of experts")):
            require(not getattr(trainer, name, False), "loss", "one of the tokens' log-probabilities", what)
        share = getattr(trainer, "top_entropy_quantile", 1.0)
        require(share == 1.0, "top_entropy_quantile", "1 (every token counts)", share)
        rows = trainer.train_dataset
        require(hasattr(rows, "__len__") and len(rows) > 0, "train_dataset", "one with rows that can be indexed", rows)
        self.rows = [rows[place] for place in range(min(integer("prompts", prompts, 1), len(rows)))]
        self.groups, self.every, self.show = integer("groups", groups, 1), integer("every", every, 0), show
        scaled = getattr(trainer, "scale_rewards", "none")
        plain = reward_kl == 0 or scaled == "none"
        require(plain, "reward_kl", "0, or advantages that are not scaled (scale_rewards='none')", scaled)
        self.options, self.reward_kl = options, reward_kl
        self.vector: torch.Tensor | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Measure and tell, every so many steps; K and the used share go into the run's own log."""
        if self.every and state.global_step % self.every == 0:
            found = self.measure()
            self.show(f"step {state.global_step}: {found}")
            told = {"stiffness": found.stiffness.value, "stiffness_std": found.stiffness.standard_error}
            for name, value in (told | {"stability_used": found.used}).items():
                self.trainer._metrics["train"][f"probe/{name}"].append(value)

    def measure(self) -> Margin:
        """K of the present policy and its margin. The run goes on as if nothing had been asked, to the last bit."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        parameters = list(model.parameters())
        scale, decay, loop = optimiser(self.trainer, parameters)
        probe = StiffnessProbe(parameters, scale=scale, decay=decay, **self.options)
        probe.vector = self.vector
        with undisturbed(self.trainer):
            stiffness = probe.measure(self.sample())
        self.vector = probe.vector
        return margin(stiffness, loop)

    def stiffness(self, groups: Groups, **options: Any) -> Stiffness:
        """K of groups that are given, such as all that can be drawn, each with its probability."""
        parameters = list(self.trainer.accelerator.unwrap_model(self.trainer.model).parameters())
        scale, decay, _ = optimiser(self.trainer, parameters)
        with undisturbed(self.trainer):
            return StiffnessProbe(parameters, scale=scale, decay=decay, **(self.options | options)).measure(groups)

    def sample(self) -> Groups:
        """`groups` groups for every prompt, drawn and scored by the trainer itself."""
        rows = [row for row in self.rows for _ in range(self.groups * self.group_size)]
        batch = self.trainer._generate_and_score_completions([dict(row) for row in rows])
        prompts = [place for place in range(len(self.rows)) for _ in range(self.groups)]
        return groups_of(self.trainer, batch, self.group_size, prompts, reward_kl=self.reward_kl)


def groups_of(
    trainer: Any, batch: dict[str, Any], size: int, prompts: Sequence[int], weights: Any = None, reward_kl: float = 0.0
) -> Groups:
    """Groups of `size` rows each of what TRL's `_generate_and_score_completions` returns, with TRL's loss."""
    count = len(batch["completion_ids"]) // size
    rows = [slice(place * size, (place + 1) * size) for place in range(count)]
    mask = batch["completion_mask"] * batch.get("tool_mask", 1)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attended = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    kept = batch["completion_ids"].size(1)
    per_row = {name: one for name, one in batch.items() if isinstance(one, torch.Tensor) and one.dim() > 0}

    def log_probs(here: torch.Tensor) -> torch.Tensor:
        return trainer._get_per_token_logps_and_entropies(trainer.model, ids[here], attended[here], kept)[0]

    def plain(here: torch.Tensor) -> torch.Tensor:
        """The same without TRL's fused head, whose backward pass has no derivative."""
        given = {"input_ids": ids[here], "attention_mask": attended[here], "use_cache": False}
        with trainer.accelerator.autocast():
            logits = trainer.model(**given, logits_to_keep=kept + 1).logits[:, :-1]
        chosen = batch["completion_ids"][here].unsqueeze(-1)
        return torch.log_softmax(logits.float() / trainer.temperature, dim=-1).gather(-1, chosen).squeeze(-1)

    def loss_of(here: slice) -> Any:
        given = {name: one[here] for name, one in per_row.items()}

        def loss(present: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
            # TRL divides some losses by the tokens of the whole rollout batch: per group, by the mean group's.
            batches = trainer.args.steps_per_generation / trainer.current_gradient_accumulation_steps
            more = {"num_items_in_batch": mask.sum() / count * batches, "old_per_token_logps": old}

            if reward_kl:  # the same advantages, which now know how they move with the policy that samples
                moved = -reward_kl * ((old - old.detach()) * mask[here]).sum(1)
                more["advantages"] = given["advantages"] + moved - moved.mean()

            def reached(*args: Any, **more: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
                return present, torch.zeros_like(present).detach(), None

            trainer._get_per_token_logps_and_entropies = reached
            try:
                return trainer._compute_loss(trainer.model, given | more) * _share(trainer)
            finally:
                del trainer._get_per_token_logps_and_entropies

        return loss

    return Groups(log_probs, mask, rows, [loss_of(here) for here in rows], prompts, weights, plain)


def _share(trainer: Any) -> int:
    """Batches whose gradients are added up: TRL divides by their number, an update is their sum."""
    return trainer.current_gradient_accumulation_steps if trainer.model.training else 1


def optimiser(trainer: Any, parameters: Sequence[torch.Tensor]) -> tuple[list[Any] | None, list[float], Loop]:
    """Factors and weight decay per parameter, and the loop, from the optimiser's groups and state.

    Raises ValueError for an optimiser that is neither SGD nor Adam(W).
    """
    made = trainer.optimizer if trainer.optimizer is not None else trainer.create_optimizer()
    made = getattr(made, "optimizer", made)
    kind = type(made).__name__
    require(kind in ("SGD", "Adam", "AdamW"), "optimizer", "SGD, Adam or AdamW of PyTorch", kind)
    args = trainer.args
    rates = [group["lr"] for group in made.param_groups]
    top = max(rates) or args.learning_rate
    of = {id(one): group for group in made.param_groups for one in group["params"]}
    scale: list[Any] = []
    decay = []
    for one in parameters:
        group = of.get(id(one), made.param_groups[0])
        factor: Any = (group["lr"] / top) if top and max(rates) else 1.0
        decay.append(factor * group["weight_decay"])
        state = made.state.get(one, {})
        if kind != "SGD" and one.requires_grad:
            require("exp_avg_sq" in state, "optimizer", "a second moment, which it has after a step", "none")
            seen = state["exp_avg_sq"] / (1 - group["betas"][1] ** float(state["step"]))
            factor = factor / (seen.sqrt() + group["eps"])
        scale.append(factor)
    first = made.param_groups[0]
    updates = args.steps_per_generation * trainer.num_iterations / args.gradient_accumulation_steps
    interval = max(1, round(updates))
    if kind != "SGD":
        return scale, decay, Loop(top, first["betas"][0], "ema", "refresh", interval)
    convention = "nesterov" if first["nesterov"] else "ema" if first["dampening"] else "heavy_ball"
    return scale, decay, Loop(top, first["momentum"], convention, "refresh", interval)


@contextmanager
def undisturbed(trainer: Any) -> Iterator[None]:
    """Random states, metrics, logged completions and counts of the trainer are afterwards as they were before."""
    metrics = {mode: {key: list(value) for key, value in one.items()} for mode, one in trainer._metrics.items()}
    seen, python = trainer.state.num_input_tokens_seen, random.getstate()
    shared = np.random.get_state()  # noqa: NPY002  a reward function may draw from it
    logs = {
        key: {name: copy(one) for name, one in value.items()} if isinstance(value, dict) else copy(value)
        for key, value in trainer._logs.items()
    }
    early = not hasattr(trainer, "current_gradient_accumulation_steps")  # which its loss asks for
    if early:
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    try:
        with torch.random.fork_rng():
            yield
    finally:
        if early:
            del trainer.current_gradient_accumulation_steps
        random.setstate(python)
        np.random.set_state(shared)  # noqa: NPY002
        trainer.state.num_input_tokens_seen = seen
        for mode, one in trainer._metrics.items():
            one.clear()
            one.update(metrics.get(mode, {}))
        for key, value in trainer._logs.items():
            value.clear()
            (value.update if isinstance(value, dict) else value.extend)(logs[key])
