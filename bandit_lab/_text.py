"""Texts: names that are near another, and text written by others made fit to be shown."""

import difflib
import re
import unicodedata
from collections.abc import Iterable

_ODD = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MEANT = {
    "learning_rate": ("lr", "eta", "step_size"),
    "refresh_interval": ("N", "K_ref", "k_ref", "lag", "num_iterations", "steps_per_generation", "ppo_epochs"),
    "group_size": ("G", "num_generations", "rollouts_per_prompt", "n_samples_per_prompt"),
    "kl_weight": ("beta", "kl", "kl_coef", "kl_beta", "kl_loss_coef", "init_kl_coef"),
    "momentum": ("mu", "beta1", "b1"),
    "entropy_weight": ("entropy_coef", "entropy_coeff"),
    "prompts": ("batch_size", "train_batch_size"),
    "steps": ("T", "max_steps", "num_steps", "updates"),
    "seeds": ("S", "replicas"),
    "optimizer": ("optim", "convention", "optimizer_name"),
    "staleness": ("model", "staleness_model"),
    "advantage": ("scale_rewards", "adv_estimator"),
    "estimator": ("loss_type", "importance_sampling_level"),
    "dynamics": ("drift",),
    "stiffness": ("K",),
    "precision": ("dtype",),
    "run_dir": ("output_dir", "output", "page", "alarms"),
    "eval_path": ("eval_file", "held_out", "heldout", "validation", "test_path"),
    "eval_key": ("eval", "eval_metric", "eval_column", "eval_reward"),
    "reward_key": ("reward", "metric", "reward_column", "reward_metric"),
    "step_key": ("step", "step_column"),
    "engine": ("hosts", "cluster", "executor"),
    "sgd": ("heavy_ball",),
    "sgd_ema": ("ema",),
    "clipped": ("ppo",),
    "refresh": ("A",),
    "lag": ("B",),
    "pipeline": ("C",),
    "mean_field": ("infinite",),
    "sweep": ("simulate", "train", "run"),
    "explore": ("map", "plot"),
    "watch": ("monitor", "follow"),
}
"""Name of ours -> what the papers and the trainers call it."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` is likely to mean, or None. The last part of a dotted name is enough."""
    names, plain = list(known), word.replace("-", "_")
    same = [name for name in names if name.rpartition(".")[2] == plain]
    meant = [name for name in names if word in MEANT.get(name, ())]
    return next(iter([*same, *meant, *difflib.get_close_matches(plain.lower(), names, n=1)]), None)


def one_of(word: str, known: Iterable[str]) -> str:
    """`one of momentum, seeds (did you mean seeds?)`."""
    names = list(known)
    return f"one of {', '.join(names)}{did_you_mean(word, names)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean momentum?)`, or "" where no known name is near."""
    name = nearest(word, known)
    return f" (did you mean {name}?)" if name else ""


def visible(text: str) -> str:
    r"""`text` on one line, with every character that is not plainly printed as its escape: `\x1b`, `\n`, `\udcff`.

    So no text can move the cursor, hide others or turn the direction of writing, and none is lost: names that are not
    UTF-8 (half surrogates, as the system hands them over) can be encoded and stay different from each other.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def install(extra: str) -> str:
    """How optional dependencies are installed: no index has this package, a clone has it."""
    return f"pip install '.[{extra}]' in a clone of the repository"


def json_visible(text: str) -> str:
    r"""JSON with the same content in which such characters, and those that UTF-8 cannot hold, stand as `\uXXXX`."""
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
