"""The real client: TRL's `GRPOTrainer` on a tiny Qwen2 of random weights, small enough that its truth is enumerated.

Nothing is downloaded: the model is built from its config, the tokenizer is a list of words. Answers have one token, so
that every prompt is a softmax bandit with one arm per word of the vocabulary, behind a transformer. `policy` and
`REWARDS` are then the whole truth of what the trainer samples.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
with warnings.catch_warnings():  # their own deprecations are no error of ours
    warnings.simplefilter("ignore")
    try:
        import torch
        from datasets import Dataset
        from datasets.utils.logging import disable_progress_bar
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import (
            PreTrainedTokenizerFast,
            PrinterCallback,
            Qwen2Config,
            Qwen2ForCausalLM,
            TrainerCallback,
        )
        from trl import GRPOConfig, GRPOTrainer
        from trl.trainer import utils
    except ImportError:
        raise ImportError("tiny_client: needs TRL, pip install 'packages/grpo_probe[trl]'") from None

torch.set_num_threads(1)  # the matrices are tiny
disable_progress_bar()

WORDS = ("<pad>", "<eos>", "red", "green", "blue", "grey")
"""The vocabulary, which is the list of arms of every prompt: a sampled `<pad>` is an answer like any other."""

PROMPTS = ("red green", "blue blue", "grey red", "green grey")
REWARDS = np.array(
    [
        [0.1, 0.0, 1.0, 0.4, 0.0, 0.7],
        [0.0, 0.3, 0.2, 1.0, 0.5, 0.0],
        [0.6, 0.0, 0.0, 0.2, 1.0, 0.1],
        [0.2, 0.9, 0.0, 0.3, 0.0, 1.0],
    ]
)
"""Reward [prompt, word] of every answer: unequal, so that a prompt or a word taken for another shows."""


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per word of `WORDS`, in its order."""
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def model(seed: int = 0, width: int = 16, scale: float = 0.4) -> Qwen2ForCausalLM:
    """One layer, two heads, weights drawn with standard deviation `scale`: logits of order one."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16,
        initializer_range=scale,
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def reward(completion_ids: list[list[int]], row: list[int], **rest: Any) -> list[float]:
    """Reward function of TRL: reads the answer's token, not its text (`<pad>` has none)."""
    return [float(REWARDS[place, ids[0]]) for place, ids in zip(row, completion_ids, strict=True)]


def prompts(repeats: int = 1) -> Dataset:
    """Every prompt with its row of `REWARDS`, `repeats` times."""
    rows = [place for _ in range(repeats) for place in range(len(PROMPTS))]
    return Dataset.from_dict({"prompt": [PROMPTS[place] for place in rows], "row": rows})


class OfflineTrainer(GRPOTrainer):
    """TRL loads the reference model by the name of the policy's, which has none here: it is given instead."""

    def __init__(self, *, reference: torch.nn.Module, args: GRPOConfig, **more: Any) -> None:
        beta, args.beta = args.beta, 0.0  # with beta 0 TRL loads none
        super().__init__(args=args, **more)
        args.beta = self.beta = beta
        if beta:
            if hasattr(utils, "add_fused_lm_head"):  # since TRL 1.15
                utils.add_fused_lm_head(reference, temperature=self.temperature)
            self.ref_model = self.accelerator.prepare_model(reference, evaluation_mode=True)
        self.remove_callback(PrinterCallback)


def trainer(
    folder: Path | str,
    *,
    policy: torch.nn.Module | None = None,
    groups: int = 4,
    group_size: int = 8,
    repeats: int = 64,
    callbacks: list[Any] | None = None,
    optimizers: tuple[Any, Any] = (None, None),
    reference: torch.nn.Module | None = None,
    data: Dataset | None = None,
    rewards: Any = None,
    **settings: Any,
) -> GRPOTrainer:
    """A GRPO trainer that writes below `folder`. One optimiser step sees `groups` groups of `group_size` answers.

    `settings` are fields of `GRPOConfig`. Default here: plain SGD with a constant learning rate, no weight decay, no
    clipping of the gradient, the advantage of Dr. GRPO, no KL term.
    """
    chosen: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "per_device_train_batch_size": groups * group_size,
        "num_generations": group_size,
        "max_completion_length": 1,
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "scale_rewards": "none",
        "loss_type": "grpo",
        "beta": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
        "shuffle_dataset": False,
        "dataloader_pin_memory": False,
        "gradient_checkpointing": False,
        "seed": 0,
    }
    torch.manual_seed(0)
    return OfflineTrainer(
        model=model() if policy is None else policy,
        reward_funcs=reward if rewards is None else rewards,
        args=GRPOConfig(**(chosen | settings)),
        train_dataset=prompts(repeats) if data is None else data,
        processing_class=tokenizer(),
        callbacks=callbacks,
        optimizers=optimizers,
        reference=model() if reference is None else reference,
    )


@torch.no_grad()
def policy(network: torch.nn.Module) -> np.ndarray:
    """Probabilities [prompt, word] of the answers of every prompt, at temperature 1, in float64."""
    ids = torch.tensor([[WORDS.index(word) for word in prompt.split()] for prompt in PROMPTS])
    logits = network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, -1].double()
    return torch.softmax(logits, dim=-1).numpy()


def path(run: GRPOTrainer, far: float = 1.0) -> np.ndarray:
    """Train; the policies [steps + 1, prompt, word], the start first. Ends with one that is `far` from the start.

    Where the trainer cannot sample, for its probabilities are no numbers, the last policy is NaN.
    """
    policies = [policy(run.model)]

    class StopWhenFar(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            policies.append(policy(run.model))
            control.should_training_stop = distances(np.stack((policies[0], policies[-1])))[-1] > far

    run.add_callback(StopWhenFar())
    try:
        run.train()
    except RuntimeError as error:
        if "probability" not in str(error):
            raise
        policies.append(np.full_like(policies[0], np.nan))
    return np.stack(policies)


def distances(policies: np.ndarray) -> np.ndarray:
    """Total variation from the first of these [n, prompt, word], mean over prompts [n]; 1 where there is no number."""
    away = np.abs(policies - policies[0]).sum(-1).mean(-1) / 2
    return np.where(np.isfinite(away), away, 1.0)
