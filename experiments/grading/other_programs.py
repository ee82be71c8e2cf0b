"""What other programs say of a run: rldoctor reads files itself, rlprobe and rlwatch are fed.

All three are installed in an environment of their own. Their findings are translated into our names, and count from a
warning on. Fed means: rows under the program's own names, with the columns that our readers found.
"""

import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_clinic.readers import Curve

DETECTORS = {
    "rldoctor": {
        "advantage_collapse": "advantage_degeneracy",
        "entropy_collapse": "policy_concentration",
        "reward_hacking": "reward_hacking",
        "length_pathology": "truncated_answers",
        "clip_saturation": "dynamical_instability",
        "kl_drift": "diverging",
        "gradient_pathology": "diverging",
        "plateau": "stalled",
        "reward_composition": "reward_hacking",
    },
    "rlprobe": {
        "KL_BLOWUP": "diverging",
        "ENTROPY_COLLAPSE": "policy_concentration",
        "REWARD_HACK_LENGTH": "reward_hacking",
        "FORMAT_GAMING": "format_only",
        "CLIP_SATURATION": "dynamical_instability",
        "DEGENERATE_GROUPS": "advantage_degeneracy",
        "ADV_COLLAPSE": "advantage_degeneracy",
        "REWARD_STD_DEATH": "advantage_degeneracy",
        "GRAD_PATHOLOGY": "diverging",
        "TRUNCATION_STARVE": "truncated_answers",
    },
    "rlwatch": {
        "entropy_collapse": "policy_concentration",
        "kl_explosion": "diverging",
        "reward_hacking": "reward_hacking",
        "advantage_variance": "dynamical_instability",
        "loss_nan": "diverging",
        "gradient_norm_spike": "diverging",
        "reward_mean_drift up": "reward_hacking",
        "reward_mean_drift down": "collapsed",
    },
}
"""Program -> its detectors -> our names, by what each says it means. rlprobe's four others look at what no log here has
(value head, repetition, KL by position) or at no failure of training (throughput)."""
NAMES = {
    "rldoctor": {
        "entropy": "entropy",
        "kl": "kl",
        "grad_norm": "grad_norm",
        "clip_frac": "pg_clipfrac",
        "zero_std_frac": "zero_var_group_frac",
        "reward_std": "reward_std",
        "reward_min": "reward_min",
        "reward_max": "reward_max",
        "lr": "lr",
        "length": "completions/mean_length",
        "truncation": "completions/clipped_ratio",
        "reward": "reward",
        "eval": "eval_score",
    },
    "rlprobe": {
        "entropy": "entropy_mean",
        "kl": "kl_mean",
        "grad_norm": "grad_norm",
        "clip_frac": "clip_fraction",
        "zero_std_frac": "zero_variance_group_frac",
        "reward_std": "reward_std",
        "reward_min": "reward_min",
        "reward_max": "reward_max",
        "lr": "lr",
        "length": "completion_len_mean",
        "truncation": "truncation_rate",
        "reward": "reward_mean",
    },
    "rlwatch": {
        "entropy": "entropy",
        "kl": "kl_divergence",
        "grad_norm": "grad_norm",
        "clip_frac": "clip_fraction",
        "reward_std": "reward_std",
        "lr": "learning_rate",
        "reward": "reward_mean",
    },
}
"""Program -> our roles -> its names: `rldoctor fields` (length and truncation are TRL's), rlprobe's StepRecord,
rlwatch's log_step."""
TITLES = ("rldoctor 0.2.0", "rldoctor 0.2.0, fed", "rlprobe 0.1.0, fed", "rlwatch 0.5.1, fed")
_GRAVE = ("warn", "warning", "critical")
Said = dict[str, frozenset[str] | None]


def asked(
    python: str, paths: Mapping[str, Path], curves: Mapping[str, Curve]
) -> tuple[dict[str, Said], dict[str, str]]:
    """(title -> run -> failures named, None where nothing was read; program -> version). `python`: that of their
    environment; `paths`: every run's own file; `curves`: those that our readers found."""
    doctor = str(Path(python).parent / "rldoctor")
    versions = {"rldoctor": _run([doctor, "--version"]).split()[-1]}
    answers: dict[str, Said] = {TITLES[0]: {name: _rldoctor(doctor, path) for name, path in paths.items()}}
    with tempfile.TemporaryDirectory() as folder:
        fed = _fed("rldoctor", curves, Path(folder))
        answers[TITLES[1]] = {name: _rldoctor(doctor, fed[name]) if name in fed else None for name in paths}
    for program, title in zip(("rlprobe", "rlwatch"), TITLES[2:], strict=True):
        with tempfile.TemporaryDirectory() as folder:
            fed = _fed(program, curves, Path(folder))
            script = str(Path(__file__).with_name("fed_programs.py"))
            answer = json.loads(_run([python, script, program, *map(str, fed.values())]))
        versions[program] = answer["version"]
        verdicts = {name: _ours(program, answer["said"][str(path)]) for name, path in fed.items()}
        answers[title] = {name: verdicts.get(name) for name in paths}
    return answers, versions


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _fed(program: str, curves: Mapping[str, Curve], folder: Path) -> dict[str, Path]:
    """Run -> a file of JSON lines under the program's names."""
    files: dict[str, Path] = {}
    for name, curve in curves.items():
        files[name] = folder / f"{len(files)}.jsonl"
        files[name].write_text("".join(json.dumps(row) + "\n" for row in rows_for(program, curve)), encoding="utf-8")
    return files


def rows_for(program: str, curve: Curve) -> list[dict[str, Any]]:
    """A run's rows under the program's names, one per step. Steps count from the first row where they are no whole
    numbers. rlprobe has a place for parts of the reward, and for steps at which something was no number."""
    series = {**curve.series, "reward": curve.reward_series} | ({} if curve.eval is None else {"eval": curve.eval})
    rows: dict[float, dict[str, Any]] = defaultdict(dict)
    for role, one in series.items():
        if role in NAMES[program]:
            for step, value in zip(one.step.tolist(), one.value.tolist(), strict=True):
                rows[step][NAMES[program][role]] = value
    if program == "rlprobe":
        for part, one in curve.parts.items():
            for step, value in zip(one.step.tolist(), one.value.tolist(), strict=True):
                rows[step].setdefault("parts", {})[part] = value
        for step in {*curve.nonfinite_steps.tolist(), *curve.gradient_lost.tolist()}:
            rows[step]["nan_count"] = 1
    whole = all(step == int(step) for step in rows)
    return [{"step": int(step) if whole else place} | row for place, (step, row) in enumerate(sorted(rows.items()))]


def _rldoctor(command: str, path: Path) -> frozenset[str] | None:
    """What it says of a file; None where it cannot read it. A file of several runs is not taken apart."""
    done = subprocess.run(
        [command, "diagnose", str(path), "--format", "json"], capture_output=True, text=True, check=False
    )
    try:
        findings = json.loads(done.stdout)["findings"]
    except ValueError:
        return None
    return _ours("rldoctor", [[one["detector"], one["severity"]] for one in findings])


def _ours(program: str, findings: Sequence[Sequence[str]]) -> frozenset[str]:
    """Its findings from a warning on, in our names."""
    names = DETECTORS[program]
    return frozenset(names[one] for one, grade in findings if grade.lower() in _GRAVE and one in names)
