"""Do trainers still have the functions that the probe, the wrappers of docs/trainer.md and the readers stand on?

    python tests/upstream.py                    # a shallow clone of each newest source, from GitHub
    python tests/upstream.py verl=../verl       # a clone of yours, as it is checked out at its HEAD

One line for each statement, with the commit that was looked at. Exit 1: one does not hold any more.
"""

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Statement(NamedTuple):
    """A function in a file: (dotted) name, names of its arguments in order; async or not."""

    file: str
    function: str
    arguments: tuple[str, ...]
    coroutine: bool = False


SOURCES = {
    "trl": "https://github.com/huggingface/trl",
    "verl": "https://github.com/volcengine/verl",
    "openrlhf": "https://github.com/OpenRLHF/OpenRLHF",
    "prime_rl": "https://github.com/PrimeIntellect-ai/prime-rl",
}
_GRPO, _ASYNC = "trl/trainer/grpo_trainer.py", "trl/experimental/async_grpo/async_grpo_trainer.py"
_PPO, _LOGS = "openrlhf/trainer/ppo_trainer.py", "openrlhf/utils/logging_utils.py"
STATEMENTS = {
    "trl": (  # grpo_probe/probe_trl.py; read at f2cd577
        Statement(_GRPO, "GRPOTrainer._compute_loss", ("self", "model", "inputs")),
        Statement(_GRPO, "GRPOTrainer._generate_and_score_completions", ("self", "inputs")),
        Statement(_ASYNC, "AsyncGRPOTrainer.log", ("self", "logs", "start_time")),
    ),
    "verl": (  # docs/trainer.md; read at 1dda039
        Statement("verl/utils/tracking.py", "Tracking.log", ("self", "data", "step", "backend")),
    ),
    "openrlhf": (  # docs/trainer.md; read at 3c3be62
        Statement(_PPO, "*.save_logs_and_checkpoints", ("self", "global_step", "logs_dict", "client_states")),
        Statement(_LOGS, "WandbLogger.log_eval", ("self", "global_step", "logs_dict")),
        Statement(_LOGS, "TensorboardLogger.log_eval", ("self", "global_step", "logs_dict")),
    ),
    "prime_rl": (  # docs/trainer.md; read at 559b447
        Statement("src/prime_rl/monitors/base.py", "Monitor.log_metrics", ("self", "metrics", "step"), True),
        Statement(
            "src/prime_rl/monitors/base.py",
            "Monitor.log_episodes",
            ("self", "episodes", "step", "kind", "subset"),
            True,
        ),
    ),
}


def functions(text: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(dotted name, definition) of all functions and methods of a file."""
    for node in ast.parse(text).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                yield owner + one.name, one


def difference(statement: Statement, text: str | None) -> str | None:
    """What does not hold of a statement on a file's text, None where all does."""
    if text is None:
        return "no such file"
    owner, _, name = statement.function.rpartition(".")
    found = [one for at, one in functions(text) if at.endswith(f".{name}") and owner in ("*", at.rpartition(".")[0])]
    if not found:
        return "no such function"
    for one in found:
        arguments = tuple(each.arg for each in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs))
        if arguments == statement.arguments and isinstance(one, ast.AsyncFunctionDef) == statement.coroutine:
            return None
    return f"{'async ' * isinstance(one, ast.AsyncFunctionDef)}({', '.join(arguments)})"


def git(folder: Path, *command: str) -> str | None:
    """What git says in a clone, bare or not; None where it fails."""
    done = subprocess.run(["git", "-C", str(folder), *command], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def main(given: list[str]) -> int:
    """Exit code 0, 1 where a statement does not hold, 2 for bad arguments."""
    folders = dict(one.partition("=")[::2] for one in given)
    for name, folder in folders.items():
        if name not in SOURCES or git(Path(folder), "rev-parse", "HEAD") is None:
            print(f"upstream: expected NAME=CLONE, one of {', '.join(SOURCES)}, got {name}={folder}", file=sys.stderr)
            return 2
    broken = 0
    with tempfile.TemporaryDirectory() as place:
        for name in folders or SOURCES:
            folder = Path(folders.get(name, f"{place}/{name}"))
            if name not in folders:
                subprocess.run(["git", "clone", "--quiet", "--depth", "1", SOURCES[name], str(folder)], check=True)
            commit = (git(folder, "log", "-1", "--format=%h of %cs") or "").strip()
            for one in STATEMENTS[name]:
                wrong = difference(one, git(folder, "show", f"HEAD:{one.file}"))
                broken += wrong is not None
                print(f"{name} {commit}: {one.function}({', '.join(one.arguments)}): {wrong or 'as read'}")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
