"""How many steps one pass over the data takes, from the data's size and the batch that a log or configuration tells.

Read are lines that trainers print (verl: `Size of train dataloader: 35`; transformers: `Num examples = 561`, `Num
Epochs = 8`, `Total optimization steps = 280`, `Total train batch size (...) = 16`) and settings with a size of the data
and a batch. Whether a batch counts prompts or answers, and whether its last, short one is dropped, is often not said:
every reading is a candidate, and the test of the data's order asks which one the rewards repeat with.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_clinic.readers import source
from grpo_clinic.readers.record import Curve
from grpo_clinic.trainers.base import as_number
from grpo_clinic.trainers.in_log import first_lines, settings_of_log

_PRINTED = {
    "loader": re.compile(r"Size of train dataloader: {0,4}([\d,]{1,15})"),
    "size": re.compile(r"(?:Num examples {0,4}=|filter dataset len:|dataset len:) {0,4}([\d,]{1,15})"),
    "epochs": re.compile(r"Num Epochs {0,4}= {0,4}([\d,]{1,15})"),
    "steps": re.compile(r"Total (?:optimization )?steps {0,4}= {0,4}([\d,]{1,15})"),
    "batch": re.compile(r"Total train batch size [^=\n]{0,80}= {0,4}([\d,]{1,15})"),
}
_NAMES = {
    "size": ("dataset_size", "train_dataset_size", "num_train_examples", "num_train_samples", "train_size", "n_train",
             "max_train_samples", "train_max_samples"),
    "prompts": ("prompts_per_step", "num_prompts_per_step", "num_unique_prompts_rollout", "prompts_per_rollout_batch",
                "n_prompts_per_rollout_batch", "train_batch_size"),
    "batch": ("rollout_batch_size", "generation_batch_size"),
    "group": ("group_size", "num_generations", "n", "n_samples_per_prompt", "num_generations_per_prompt"),
}  # fmt: skip
"""Settings by their last word. `prompts` counts prompts per logged step, `batch` prompts or answers."""
_MOST = 6


def epoch_lengths(curve: Curve, config: Mapping[str, Any] | None = None) -> tuple[float, ...]:
    """Candidates for the logged steps of one pass over the data, none where nothing tells; `config` by dotted key."""
    told = {**_of_settings(config or {}), **_of_log(curve)}
    found = []
    if "loader" in told:
        found.append(told["loader"])
    if {"steps", "epochs"} <= told.keys() and told["epochs"] >= 2:
        found.append(told["steps"] / told["epochs"])
    group = told.get("group") or curve.settings.get("group_size") or 1.0
    sizes = [told["size"] / told["prompts"]] if {"size", "prompts"} <= told.keys() else []
    if {"size", "batch"} <= told.keys():
        sizes += [told["size"] / told["batch"], told["size"] * group / told["batch"]]
    for length in sizes:
        found += [length, float(math.floor(length))]
    return tuple(dict.fromkeys(length for length in found if math.isfinite(length) and length >= 1))[:_MOST]


def _of_settings(values: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    last = {key.rpartition(".")[2]: as_number(str(value)) for key, value in values.items()}
    for role, names in _NAMES.items():
        known = next((number for name in names if (number := last.get(name)) is not None and number > 0), None)
        if known is not None:
            found[role] = known
    return found


def _of_log(curve: Curve) -> dict[str, float]:
    document = settings_of_log(curve.source, curve.settings)
    found = {} if document is None else _of_settings(document.values)
    path = Path(curve.source)
    try:
        if path.is_dir() or source.is_event_file(source.head(path)):
            return found
        text = "\n".join(first_lines(path))
    except (ValueError, OSError):
        return found
    for role, printed in _PRINTED.items():
        every = printed.findall(text)
        if every and (number := as_number(every[-1 if role == "size" else 0].replace(",", ""))):
            found[role] = float(number)
    return found
