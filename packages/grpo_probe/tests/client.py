"""The real client of these tests; an experiment trains with it too, so that it stands beside the experiments."""

import pytest

from experiments.shared.tiny_client import (  # noqa: F401
    PROMPTS,
    REWARDS,
    WORDS,
    OfflineTrainer,
    model,
    policy,
    prompts,
    reward,
    tokenizer,
    trainer,
)

MARKS = [
    pytest.mark.trainer,
    *(pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("FutureWarning", "DeprecationWarning", "UserWarning")),
]
"""Of every module that trains with TRL, whose libraries warn of each other."""
