"""Numbers of settings that were drawn, so that no choice of ours leaves a combination out: see `pinned`.

A setting is the one of its number (a seed). Where it is refused, the key that the line names is what stays.
"""

import random
from contextlib import ExitStack
from dataclasses import fields, replace

import numpy as np
import pytest
from by_hand_settings import VARIED
from pinned import check, refusals
from test_numbers import whole

import bandit_lab as bl
from bandit_lab import functions, measure
from bandit_lab.app.settings.config import PredictSettings, SweepSettings
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict import build
from bandit_lab.lab.sweep import plan

POINT = [
    {"name": "two_arm", "rewards": [0.7, 0.2], "reference_logits": [0.2, -0.1], "initial_logits": [0.5, 0.1]},
    {"name": "two_arm", "rewards": [1.0, 0.25], "kind": "fixed"},
    {"name": "k_arm", "rewards": [0.85, 0.5, 0.2], "reference_logits": [0.0, 0.3, -0.2]},
    {"name": "k_arm", "rewards": [1.3, 0.2, -0.4], "kind": "fixed", "initial_logits": [0.4, 0.0, -0.3]},
    {"name": "k_arm", "rewards": [0.85, 0.7, 0.45, 0.3], "reference_logits": [0.3, -0.2, 0.1, 0.4]},
    {"name": "gaussian", "rewards": [0.9, 0.4, 0.1], "stds": [0.3, 0.1, 0.5], "initial_logits": [0.2, 0.0, -0.1]},
    {"name": "noisy_verifier", "rewards": [0.9, 0.4, 0.2], "true_positive": 0.9, "false_positive": 0.2},
    {"name": "proxy", "kind": "fixed", "initial_logits": [0.2, 0.0, -0.1]},
    {"name": "modes", "rewards": [0.9, 0.8, 0.1], "sizes": [1, 2, 3], "spread": 0.4},
    {"name": "sequence", "length": 2},
    {"name": "contextual", "contexts": 2, "arms": 3, "seed": 3},
]
OTHERS = {
    "advantage": ("grpo", "dr_grpo", "rloo", "dapo", "batch_std", "median", "none", "sign", "tempered"),
    "estimator": ("frozen", "uncorrected", "ratio", "clipped", "clip_higher", "cispo", "gspo", "tpo"),
    "staleness": ("refresh", "lag", "pipeline", "ages"),
    "optimizer": ("sgd", "sgd_ema", "nesterov", "adam", "adamw"),
    "kl_estimator": ("exact", "k3"),
    "sampler": ("exact", "temperature", "top_p", "top_k", "logit_noise", "rounding"),
    "correction": ("none", "importance", "tis", "icepop"),
}
AGES = [{"weights": [0.5, 0.2, 0.3]}, {"law": "poisson", "mean": 1.5}, {"weights": [0.2, 0.0, 0.8], "draws": 2}]
"""Names are listed: a variant that is new must not change what is drawn."""


def drawn(seed):
    """A setting: about half of the rules are those by default, of the others half have other options."""
    draw = random.Random(seed)
    setting = {"bandit": draw.choice(POINT[:5] if draw.random() < 0.5 else POINT)}
    chance = 0.35 if draw.random() < 0.8 else 1.0
    for kind, names in OTHERS.items():
        name = draw.choice(names) if draw.random() < chance else names[0]
        options = VARIED[kind].get(name, {}) if kind in VARIED and draw.random() < 0.5 else {}
        options = draw.choice(AGES) if name == "ages" else options
        options = {key: one for key, one in options.items() if key not in ("noise", "b1")}  # three arms; momentum
        setting[kind] = {"name": name, **({"options": options} if kind == "optimizer" and options else options)}
    return setting | {
        "refresh_interval": draw.choice([1, 2, 3, 5, 8]),
        "momentum": draw.choice([0.0, 0.5, 0.9]),
        "learning_rate": round(draw.choice([0.1, 0.3, 1.0]) * (1 + draw.random()), 3),
        "kl_weight": draw.choice([0.0, 0.4, 0.8, 1.5, 1.5]),
        "entropy_weight": draw.choice([0.0, 0.0, 0.0, 0.1]),
        "group_size": draw.choice([2, 3, 4, 6, 16]),
        "prompts": draw.choice([1, 1, 1, 2]),
        "batch_reuse": draw.random() < 0.2,
    }


def answer_of(call):
    """What it answers, or the key of the line that refuses it."""
    try:
        return call()
    except ValueError as error:
        return {"refused": str(error).partition(":")[0][:50].lower()}


def cases(count, long=()):
    """Seeds, without those that take seven seconds and more."""
    return [seed for seed in range(count) if seed not in long]


@pytest.mark.parametrize("seed", cases(120, (18, 65, 85)))
def test_predictions(seed):
    setting = drawn(seed) | {"dynamics": random.Random(seed).choice(["sampled", "finite_group", "mean_field"])}
    check("drawn_predict", f"{seed}", answer_of(lambda: whole(bl.predict(**setting))))


@pytest.mark.parametrize("seed", cases(90, (77, 84)))
def test_runs(seed):
    draw = random.Random(seed)
    setting = drawn(1000 + seed) | {
        "dynamics": draw.choice(["sampled", "sampled", "sampled", "finite_group", "mean_field"]),
        "path": draw.choice(["auto", "auto", "reference"]),
        "rng": draw.choice(["hash", "threefry"]),
        "curves": draw.random() < 0.2,
    }
    shape = {"steps": 13, "seeds": 7, "seed": seed, "precision": "float64"}
    check("drawn_simulate", f"{seed}", answer_of(lambda: bl.simulate(**setting, **shape)))


@pytest.mark.parametrize("seed", cases(24, (4, 13, 21)))
def test_sweeps(seed):
    draw = random.Random(seed)
    setting = drawn(2000 + seed) | {"dynamics": draw.choice(["sampled", "finite_group", "mean_field"])}
    axes = {"refresh_interval": [1, 4], "learning_rate": {"start": 0.2, "stop": 20, "num": 5}}
    axes |= draw.choice([{}, {"momentum": [0.0, 0.7]}, {"kl_weight": [0.5, 1.0]}])
    for end in ("start", "stop")[seed % 3 : seed % 3 + 1]:  # it is left to us
        del axes["learning_rate"][end]
    fixed = {key: value for key, value in setting.items() if key not in axes}

    def swept():
        answer = bl.sweep(sweep=axes, seeds=8, steps=20, precision="float64", quiet=True, **fixed)
        summary = {"summary": whole(answer)["summary"]}  # what is shown: differences near rounding
        areas = [path.vertices for part in answer.plot().collections for path in part.get_paths()]
        return {"data": answer.data, "whole": summary, "areas": areas}

    check("drawn_sweep", f"{seed}", answer_of(swept), close=1e-5)


NO_NUMBERS = ("settings", "learner", "trained")
AXES = {
    "refresh_interval": [[1, 4], {"start": 1, "stop": 20, "num": 6, "scale": "log"}, {"num": 7}],
    "learning_rate": [{"num": 5}, {"start": 0.2, "stop": 20}, [0.3, 0.1]],
    "momentum": [[0.98, 0.0], {"num": 4}, {"start": 0.5, "stop": 0.99, "num": 5}],
    "kl_weight": [[0.5, 1.0], {"start": 0.1, "stop": 2}],
}
SAMPLED = {
    "refresh_interval": [[1, 3], {"start": 2, "stop": 9, "num": 3, "scale": "log"}],
    "momentum": [[0.9], [0, 0.5]],
    "multiple": [[0.5, 1.5], {"num": 4}, {"start": 0.1, "stop": 1, "num": 3, "scale": "linear"}],
}


@pytest.mark.parametrize("seed", range(60))
def test_plans(seed):
    """What a sweep is about to compute: its axes, rows, steps and sizes, of all that it leaves to us."""
    draw = random.Random(seed)
    setting = {key: one for key, one in drawn(5000 + seed).items() if draw.random() < 0.5}
    axes = {name: draw.choice(some) for name, some in AXES.items() if draw.random() < 0.5}
    chosen = {name: draw.choice(some) for name, some in SAMPLED.items() if draw.random() < 0.3}
    setting = {key: one for key, one in setting.items() if key not in axes or draw.random() < 0.1}
    setting |= {"dynamics": draw.choice(["sampled", "sampled", "finite_group", "mean_field"]), "sweep": axes}
    setting |= {"steps": draw.choice([50, 500])} if draw.random() < 0.3 else {}
    setting |= {"sampled": chosen, "memory_limit": draw.choice([None, 8.0, 0.01])}

    def planned():
        with ExitStack() as stack:
            ready = plan.prepare(*functions._settings("sweep", setting, stack))
            return {key: getattr(ready, key) for key in dir(ready) if key[0] != "_" and key not in NO_NUMBERS}

    check("drawn_plan", f"{seed}", answer_of(planned))


@pytest.mark.parametrize("name", [one.name for one in fields(SweepSettings) if one.name != "run_dir"])
def test_what_a_setting_may_be(name):
    """Of each value whether it is taken, or what is expected instead."""

    def planned(value):
        with ExitStack() as stack:
            plan.prepare(*functions._settings("sweep", {"memory_limit": 1.0, name: value}, stack))

    expected = refusals(planned).items()
    check("settings", name, {value: text.partition(" one of ")[0][-55:] for value, text in expected})


MATRICES = ("fresh", "stale", "relaxation_matrix")


def measured(setting, dynamics):
    """Everything that measure says of one setting."""
    weight, hyper = setting["kl_weight"], Hyper(*(setting[key] for key in Hyper._fields))
    learner = build.build_learner(PredictSettings(**setting), hyper.refresh_interval)
    point = measure.find_fixed_point(learner, dynamics, weight)
    turned = replace(point, basis=point.basis @ point.basis.T)  # which basis of the same space is rounding
    answer = [turned, measure.critical_kl_weight(learner, dynamics, max(weight, 0.4))]
    if point.exists:
        stiffness = measure.measure_stiffness(learner, dynamics, weight, point)
        matrices = {key: point.basis @ getattr(stiffness, key) @ point.basis.T for key in MATRICES}
        answer += [replace(stiffness, **matrices)]
    floquet = measure.floquet(learner, dynamics, hyper, count=20)
    largest = None if floquet.multipliers is None else np.abs(floquet.multipliers[:3])  # those at 0 are rounding
    return [*answer, largest, floquet.second_moment, floquet.moment_error, floquet.reason is None, floquet.cycle]


@pytest.mark.parametrize("seed", cases(50))
def test_measurements(seed):
    """Not of samplers that cut: a mean update that jumps takes long."""
    dynamics = random.Random(seed).choice(["mean_field", "finite_group"])
    setting = drawn(3000 + seed) | {"batch_reuse": False}
    if setting["sampler"]["name"] in ("top_p", "top_k", "rounding"):
        setting["sampler"] = {"name": "exact"}
    check("drawn_measure", f"{seed}", answer_of(lambda: measured(setting, dynamics)), close=1e-5)
