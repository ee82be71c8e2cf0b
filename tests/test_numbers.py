"""The laboratory's numbers stay as they are, in settings that no other test has: see `pinned`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pinned import check

import bandit_lab as bl
from bandit_lab.bandits import BANDITS

THREE, FIVE = [0.85, 0.5, 0.2], [0.85, 0.7, 0.45, 0.3, 0.1]
AGES = {"name": "ages", "weights": [0.5, 0.2, 0.3]}
K3 = {"name": "k_arm", "rewards": THREE, "reference_logits": [0.0, 0.3, -0.2]}
K5 = {"name": "k_arm", "rewards": FIVE, "reference_logits": [0.0, 0.3, -0.2, 0.1, 0.4]}
COOL = {"name": "temperature", "tau": 0.7}
HOT = {"name": "temperature", "tau": 1.5}
LINEAR = {"schedule": "linear", "init_value": 0.3, "end_value": 0.0}


def many(*cases):
    """Parameters: settings as keywords."""
    return [pytest.param(one, id=f"{at}") for at, one in enumerate(cases)]


def name_of(setting):
    return repr(setting).replace("'", "")


def whole(answer):
    """Its summary and its first screen, without what was timed."""
    timed = ("throughput", "chunks")
    summary = {key: one for key, one in answer.to_dict().items() if key not in timed}
    return {"summary": summary, "shown": answer.shown}


PREDICTED = many(
    {},
    {"refresh_interval": 8, "learning_rate": 0.15},
    {"staleness": "lag", "refresh_interval": 0},
    {"staleness": "lag", "refresh_interval": 700, "dynamics": "mean_field"},
    {"refresh_interval": 300, "momentum": 0.97},
    {"batch_reuse": True, "refresh_interval": 8},
    {"staleness": AGES, "learning_rate": 3.0},
    {"staleness": AGES | {"draws": 4}, "refresh_interval": 2},
    {"staleness": {"name": "ages", "law": "poisson", "mean": 2.5}, "refresh_interval": 3},
    {"staleness": AGES, "optimizer": "nesterov"},
    {"kl_weight": 0.0},
    {"kl_weight": 0.01, "bandit": K3},
    {"advantage": "dr_grpo", "refresh_interval": 3, "optimizer": "nesterov", "momentum": 0.6},
    {"advantage": "median", "group_size": 5},
    {"advantage": "tempered", "group_size": 6, "dynamics": "finite_group"},
    {"estimator": "uncorrected", "staleness": "pipeline", "refresh_interval": 6},
    {"estimator": "ratio", "staleness": "lag", "refresh_interval": 60, "group_size": 8},
    *({"estimator": name, "refresh_interval": 4} for name in ("cispo", "clipped", "clip_higher", "ratio")),
    {"estimator": "gspo", "bandit": "sequence", "refresh_interval": 3},
    {"sampler": COOL, "correction": "tis"},
    {"learning_rate": LINEAR, "steps": 200, "refresh_interval": 4},
    {"stiffness": [0.2, 0.1], "refresh_interval": 6, "learning_rate": 3.0},
    {"stiffness": 0.3, "staleness": AGES},
    {"stiffness": 0.3, "optimizer": "nesterov", "staleness": "pipeline", "refresh_interval": 5, "momentum": 0.8},
    *({"optimizer": name, "dynamics": "mean_field"} for name in ("adagrad", "adamax", "lion", "rmsprop")),
    {"momentum": 0.0, "refresh_interval": 64, "learning_rate": 0.2, "group_size": 4},
    {"stiffness": 0.3, "batch_reuse": True, "refresh_interval": 4, "group_size": 5, "prompts": 3},
    {"stiffness": 0.3, "staleness": "lag", "refresh_interval": 650},
    *({"optimizer": name, "dynamics": "finite_group"} for name in ("nadam", "amsgrad", "yogi", "adabelief")),
    {"bandit": "neural", "dynamics": "mean_field"},
    {"bandit": K3 | {"kind": "fixed"}, "advantage": "rloo", "prompts": 4},
    {"bandit": K3, "sampler": HOT, "advantage": "dr_grpo", "kl_weight": 0.02},
    {"bandit": "sequence", "sampler": HOT, "advantage": "dr_grpo", "kl_weight": 0.02},
    {"bandit": {"name": "two_arm", "rewards": [0.5, 0.5]}, "sampler": HOT},
    {"bandit": K3 | {"kind": "fixed"}, "advantage": "none", "group_size": 5},
)


@pytest.mark.parametrize("setting", PREDICTED)
def test_predictions(setting):
    check("predict", name_of(setting), whole(bl.predict(**setting)))


BUILT = many(
    ("two_arm", {"rewards": [0.7, 0.2]}),
    ("k_arm", {"rewards": THREE, "reference_logits": [0.3, 0.1, -0.2]}),
    ("gaussian", {}),
    ("noisy_verifier", {}),
    ("proxy", {}),
    ("modes", {}),
    ("sequence", {"length": 3}),
    ("contextual", {"contexts": 3, "arms": 4, "seed": 2}),
    *(("neural", {"contexts": 3, "architecture": name, "task": task, "seed": 1, "depth": 2, "scale": 0.5})
      for name, task in (("mlp", "parity"), ("gru", "copy"), ("transformer", "parity"))),
)  # fmt: skip


@pytest.mark.parametrize("built", BUILT)
def test_bandits(built):
    name, options = built
    bandit = BANDITS.build(name, options)
    start = jnp.asarray(bandit.initial_parameters, float)
    moved = start + jnp.asarray(np.random.default_rng(0).normal(size=start.shape))
    answer = [bandit.reference_log_policy, bandit.law, bandit.true_means, bandit.normal_stds, start]
    answer += [bandit.log_policy(start), bandit.log_policy(moved), bandit.costly, bandit.exact_law]
    answer += [bandit.log_token_policy(moved)] if bandit.log_token_policy else []
    check("bandits", name_of(built), [np.atleast_1d(one) for one in jax.tree.leaves(answer)])


NETWORK = {"name": "neural", "contexts": 2, "architecture": "mlp", "task": "parity"}
SHORT = {"steps": 40, "seeds": 12, "refresh_interval": [1, 3], "learning_rate": 0.2, "precision": "float64"}
SIMULATED = many(
    {},
    {"precision": "float32", "rng": "threefry", "curves": True},
    {"bandit": "gaussian", "group_size": 3},
    {"bandit": K3, "advantage": "dapo", "group_size": 4, "estimator": "clip_higher"},
    {"bandit": "contextual", "steps": 12, "group_size": 8},
    {"staleness": "pipeline", "optimizer": "adam", "estimator": "uncorrected", "bandit": K3},
    {"dynamics": "mean_field", "bandit": K5, "estimator": "cispo", "refresh_interval": [2, 4]},
    {"dynamics": "finite_group", "bandit": K3, "group_size": 4, "advantage": "median"},
    {"batch_reuse": True, "advantage": "tempered", "learning_rate": LINEAR},
    {"bandit": "neural", "steps": 8, "group_size": 8},
    {"staleness": AGES | {"draws": 1}, "path": "reference", "steps": 9},
    {"bandit": NETWORK, "prompts": 2, "steps": 6, "group_size": 4},
    {"bandit": NETWORK | {"contexts": 1}, "prompts": 2, "steps": 6, "group_size": 4},
    {"bandit": K3, "estimator": "tpo", "prompts": 2, "group_size": 4},
    {"bandit": {"name": "two_arm", "kind": "fixed"}, "advantage": "dapo", "group_size": 4, "prompts": 2},
    {"advantage": "dapo", "group_size": 4, "staleness": AGES | {"draws": 2}, "steps": 9},
    {"bandit": "noisy_verifier", "advantage": "dapo", "group_size": 4, "curves": True},
)


@pytest.mark.parametrize("setting", SIMULATED)
def test_runs(setting):
    single = setting.get("precision") == "float32"
    check("simulate", name_of(setting), bl.simulate(**(SHORT | setting)), close=1e-3 if single else 1e-6)


SWEPT = many(
    {"momentum": 0.5, "bandit": K3, "learning_rate": {"start": 0.3, "stop": 12, "num": 7}},
    {"staleness": "lag", "boundary": "refresh_interval", "refresh_interval": {"start": 1, "stop": 12, "num": 12}},
    {"staleness": AGES, "optimizer": "nesterov", "kl_weight": [0.5, 1.0]},
    {"optimizer": "adam", "refresh_interval": [1, 2], "learning_rate": {"start": 0.01, "stop": 1, "num": 4}},
    {"kl_weight": 0.0, "refresh_interval": [2, 3]},
)


@pytest.mark.parametrize("setting", SWEPT)
def test_sweeps(setting):
    swept_axes = {"refresh_interval": [1, 4], "learning_rate": {"start": 0.2, "stop": 20, "num": 6}}
    rest = {"dynamics": "mean_field", "momentum": 0.0}
    for key, value in setting.items():
        (swept_axes if isinstance(value, list) or (isinstance(value, dict) and "start" in value) else rest)[key] = value
    swept = bl.sweep(sweep=swept_axes, **{key: value for key, value in rest.items() if key not in swept_axes})
    axes = swept.plot()
    drawn = [path.vertices for part in axes.collections for path in part.get_paths()]
    lines = [np.asarray(line.get_xydata(), float) for line in axes.lines]
    check("sweep", name_of(setting), {"whole": whole(swept), "data": swept.data, "lines": lines, "areas": drawn}, 1e-5)
