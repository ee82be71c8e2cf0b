"""The real client of these tests; it stands in the package because an experiment trains with it too."""

from bandit_lab.integrations.tiny_client import (  # noqa: F401
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
