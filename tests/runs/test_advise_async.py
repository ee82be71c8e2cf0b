"""`advise` on recipes and logs of asynchronous trainers: what was run, and nothing above it."""

import json
from pathlib import Path

import numpy as np
import pytest
from advised import QUICK, TRL, advise, config, write_log

AREAL = (
    "rollout: {max_head_offpolicyness: 4, consumer_batch_size: 256}\ngconfig: {n_samples: 8}\n"
    "actor: {optimizer: {lr: 1.7e-5, beta1: 0.9, beta2: 0.999}, ppo_n_minibatches: 4, kl_ctl: 0.0, eps_clip: 0.4}\n"
)
SKYRL = (
    "python -m x trainer.algorithm.advantage_estimator=grpo trainer.policy.optimizer_config.lr=1e-6 "
    "trainer.train_batch_size=128 trainer.policy_mini_batch_size=128 generator.n_samples_per_prompt=8 "
    "trainer.fully_async.max_staleness_steps=4\n"
)
SLIME = (
    "python train_async.py --lr 1e-6 --n-samples-per-prompt 8 --rollout-batch-size 32 --global-batch-size 256 "
    "--num-steps-per-rollout 1 --update-weights-interval 2 --advantage-estimator grpo --use-tis\n"
)
STALE = {"ppo_actor/update/sample_staleness_theta_avg": 1.3}
CASES = [
    (AREAL, "areal.yaml", "ppo_actor/task_reward/avg", {"ppo_actor/update/entropy/avg": 0.5, **STALE}, "AReaL", 1.7e-5),
    (SKYRL, "skyrl.sh", "reward/avg_raw_reward", {"policy/policy_entropy": 0.5}, "SkyRL", 1e-6),
    (SLIME, "slime.sh", "rollout/raw_reward", {"train/grad_norm": 0.3}, "slime", 1e-6),
]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rising(reward_key, **more):
    """80 rows of a slow, quiet rise to .8: by its curve alone more would be permitted."""
    noise = 0.003 * np.random.default_rng(4).normal(size=80)
    rows = [{"step": i, reward_key: 0.8 - 0.6 * float(np.exp(-i / 40)) + float(e), **more} for i, e in enumerate(noise)]
    Path("run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "run.jsonl"


def keeps(found):
    """That nothing above what ran is permitted, and that it is said why."""
    permitted = found["permitted"]
    assert "asynchronous, ages not known" in found["headline"]
    assert found["staleness"]["asynchronous"]
    assert not found["staleness"]["ages_known"]
    assert permitted["learning_rate_factor"] <= 1
    assert permitted["refresh_interval"] <= found["staleness"]["interval"]
    assert len(permitted["group_sizes"]) == 1
    return " synchronous" not in json.dumps(found).replace("asynchronous", "")


@pytest.mark.parametrize(("text", "name", "key", "more", "trainer", "rate"), CASES, ids=lambda one: str(one)[:12])
def test_recipes_of_asynchronous_trainers(text, name, key, more, trainer, rate):
    found = advise(config(text, name), rising(key, **more), QUICK)
    assert keeps(found)
    assert found["trainer"]["name"] == trainer
    assert found["settings"]["learning_rate"]["value"] == rate
    assert found["staleness"]["model"] == "lag"


@pytest.mark.parametrize("place", ["setting", "column", "option"])
def test_a_synchronous_recipe_beside_such_a_name(capsys, place):
    """Anywhere, although by the curve alone more would be permitted: see the next test."""
    log = write_log(delay=150.0, points=450)
    if place == "setting":
        found = advise(config(TRL + "rollout: {max_staleness_batches: 3}\n"), log, QUICK)
    elif place == "column":
        found = advise(config(), write_log(delay=150.0, points=450, **{"buffer/trajectory_age/mean": 0.4}), QUICK)
    else:
        found = advise(config(), log, QUICK, "options.max_staleness=3")
    assert keeps(found)
    out = capsys.readouterr().out
    assert "asynchronous, ages not known" in out
    assert found["staleness"]["model"] == ("lag" if place == "option" else None)
    if place != "option":
        assert found["stiffness"]["kappa"] is None
        assert "staleness=lag" in found["answers"][1]["answer"]


@pytest.mark.parametrize("given", [(), ("staleness=lag", "refresh_interval=3", "options.max_staleness=3")])
def test_a_synchronous_run_and_a_given_age_are_judged_by_the_curve(given):
    """Planted: the same log permits more without such a name, and with the age that somebody gave."""
    found = advise(config(), write_log(delay=150.0, points=450), QUICK, *given)
    assert found["permitted"]["learning_rate_factor"] > 1.5
    assert found["staleness"]["ages_known"]


def test_a_stiffness_does_not_tell_the_ages():
    found = advise(config(AREAL), "stiffness=1", QUICK)
    assert keeps(found)
    low = advise(config(AREAL), "stiffness=10000", QUICK)
    assert low["permitted"]["learning_rate_factor"] < 1  # unstable even so: less is permitted


def logged_ages(mean):
    recipe = config(AREAL.replace("max_head_offpolicyness: 4", "max_head_offpolicyness: 1"), "areal.yaml")
    age = {"ppo_actor/update/sample_staleness_theta_avg": mean}
    return advise(recipe, rising("ppo_actor/task_reward/avg", **age), QUICK)


def test_ages_that_the_log_has_enter_where_they_are_larger_than_what_is_allowed():
    """A mean of 3 versions, 4 updates each: up to 6 versions, 24 updates, and 3 within the last. The bound of the
    configuration is one version. Margins become smaller by that, and nothing is permitted by it."""
    young, old = logged_ages(0.4), logged_ages(3.0)
    assert old["staleness"]["interval"] == 27
    assert young["staleness"]["interval"] < 27
    assert "twice the largest mean" in old["staleness"]["why"]
    assert keeps(old)
    margins = [one["margins"]["at_value"]["exact"] for one in (young, old)]
    assert margins[1] < margins[0]


def test_the_headline_counts_what_is_assumed():
    """Everything told; then nothing but the learning rate and the group size."""
    told = advise(config(TRL + "optim: adamw\nadam_beta1: 0.9\nadam_beta2: 0.99\nepsilon_high: 0.2\n"), QUICK)
    assert told["assumed_settings"] == []
    assert told["headline"].endswith("None of 8 settings assumed.")
    bare = advise("learning_rate=1e-6", "group_size=8", QUICK)
    assert bare["assumed_settings"] == ["optimiser", "momentum", "clip range", "beta2", "staleness", "KL weight"]
    assert "6 of 8 settings assumed: optimiser" in bare["headline"]
