"""Host-side checks of arguments: one clear line that names the setting, what was expected and what was got.

And texts: names that are near another, and text written by others made fit to be shown.
"""

import difflib
import math
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

LARGEST = 1e30
"""Learning rate or KL weight beyond which one step may overflow in single precision, which ends at 3e38."""
LONGEST = 160  # characters of a message of somebody else
_PACKAGE = Path(__file__).resolve().parent
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


class _Word(str):
    """A word of ours in place of a value that was given, such as `nothing`: messages have it without quotes."""

    __repr__ = str.__str__


NOTHING, BOTH = _Word("nothing"), _Word("both")


def require(condition: bool, name: str, expected: str, got: Any) -> None:
    """Raise `ValueError("name: expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise ValueError(f"{name}: expected {expected}, got {got!r}")


def finite_number(name: str, value: Any) -> float:
    """`value` as a float. Raises ValueError if it is not a finite number (booleans are not numbers)."""
    require(_is_finite(value), name, "a finite number", value)
    return float(value)


def _is_finite(value: Any) -> bool:
    """Whether `value` is a number that a float can hold; booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above 1.8e308
        return False


def positive(name: str, value: Any) -> float:
    """`value` as a float > 0. Raises ValueError otherwise."""
    require(finite_number(name, value) > 0, name, "a number > 0", value)
    return float(value)


def non_negative(name: str, value: Any) -> float:
    """`value` as a float >= 0. Raises ValueError otherwise."""
    require(finite_number(name, value) >= 0, name, "a number >= 0", value)
    return float(value)


def momentum(name: str, value: Any) -> float:
    """`value` as a momentum in [0, 1). Raises ValueError otherwise."""
    require(0 <= finite_number(name, value) < 1, name, "a number in [0, 1)", value)
    return float(value)


def integer(name: str, value: Any, minimum: int) -> int:
    """`value` as an int >= `minimum`. Raises ValueError otherwise; 3.0 is accepted, 3.5 and True are not."""
    require(_is_finite(value) and value == int(value) and value >= minimum, name, f"an integer >= {minimum}", value)
    return int(value)


def numbers(name: str, values: Any, length: int | None = None) -> tuple[float, ...]:
    """`values` as a tuple of finite floats, of the given length if one is given. Raises ValueError otherwise."""
    is_sequence = isinstance(values, Iterable) and not isinstance(values, str)
    require(is_sequence, name, "a list of numbers", values)
    result = tuple(finite_number(f"{name}[{i}]", v) for i, v in enumerate(values))
    if length is not None:
        require(len(result) == length, name, f"{length} numbers", list(result))
    return result


def rewards(name: str, values: Any, length: int | None = None) -> tuple[float, ...]:
    """`values` as `numbers` gives them: 0, or of a size whose square a float holds. Raises ValueError otherwise."""
    result = numbers(name, values, length)
    for place, one in enumerate(result):
        require(one == 0 or 1e-100 <= abs(one) <= 1e100, f"{name}[{place}]", "0 or a size from 1e-100 to 1e100", one)
    return result


def choice(name: str, value: Any, choices: Sequence[str] | Iterable[str]) -> str:
    """`value` if it is one of `choices`. Raises ValueError that lists the known names, with the nearest, otherwise."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"{name}: expected {one_of(str(value), choices)}, got {value!r}")
    return str(value)


def attempt(method: str, expected: str, call: Callable[[], T]) -> T:
    """The value of `call`. Raises ValueError for whatever it raises."""
    try:
        return call()
    except Exception as error:
        raise ValueError(f"{method}: expected {expected}, got {described(error)}") from error


def described(error: BaseException) -> str:
    """An exception as `Type: first line (file.py:line)`, the line being the last one outside of all packages."""
    line = next(iter(str(error).strip().splitlines()), "")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}{f': {line[:LONGEST]}' if line else ''}{where}"


def _is_own(file: str) -> bool:
    path = Path(file)
    return path.suffix == ".py" and "site-packages" not in path.parts and _PACKAGE not in path.resolve().parents


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The known name that `word` is likely to mean, or None. The last part of a dotted name is enough."""
    names, plain = list(choices), word.replace("-", "_")
    same = [name for name in names if name.rpartition(".")[2] == plain]
    meant = [name for name in names if word in MEANT.get(name, ())]
    return next(iter([*same, *meant, *difflib.get_close_matches(plain.lower(), names, n=1)]), None)


def one_of(word: str, choices: Iterable[str]) -> str:
    """`one of momentum, seeds (did you mean seeds?)`."""
    names = list(choices)
    return f"one of {', '.join(names)}{did_you_mean(word, names)}"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """` (did you mean momentum?)`, or "" where no known name is near."""
    name = nearest(word, choices)
    return f" (did you mean {name}?)" if name else ""


def visible(text: str) -> str:
    r"""`text` on one line, with every character that is not plainly printed as its escape: `\x1b`, `\n`, `\udcff`.

    So no text can move the cursor, hide others or turn the direction of writing, and none is lost: names that are not
    UTF-8 (half surrogates, as the system hands them over) can be encoded and stay different from each other.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)
