"""Trainers' configurations: updates per batch worked out by hand for each, and the traps."""

import json

import pytest
from grpo_clinic.trainers import TRAINERS, recipe_of
from written_configs import TRL, VERL, understood

# Text, trainer, updates per batch by the arithmetic in the comment, G.
KNOWN = [
    (TRL, "TRL", 1, 8),  # steps_per_generation = gradient accumulation, one iteration
    (TRL + "num_iterations: 3\ngradient_accumulation_steps: 4\n", "TRL", 3, 8),  # 4 * 3 / 4
    (TRL + "steps_per_generation: 16\ngradient_accumulation_steps: 2\nnum_iterations: 2\n", "TRL", 16, 8),  # 16 * 2 / 2
    (TRL + "steps_per_generation: 2\ngradient_accumulation_steps: 8\n", "TRL", 1, 8),  # several batches an update
    (TRL + "steps_per_generation: 3\ngradient_accumulation_steps: 2\n", "TRL", 2, 8),  # 1.5, taken as 2
    (TRL + "generation_batch_size: 64\nworld_size: 2\n", "TRL", 8, 8),  # 64 / (4 * 2) micro-steps
    (TRL + "generation_batch_size: 64\n", "TRL", None, 8),  # the number of processes is missing
    (TRL + "max_staleness: 3\nweight_sync_steps: 2\n", "TRL", None, 8),  # asynchronous
    (VERL, "verl", 8, 8),  # 2 * 512 / 128
    (VERL.replace("data:", "async_training: {staleness_threshold: 0.5}\ndata:"), "verl", None, 8),
    (VERL.replace("rollout: {", "hybrid_engine: false\n  rollout: {"), "verl", None, 8),
    ("group_size: 8\nlearning_rate: 1e-5\nrefresh_interval: 5\n", "own loop", 5, 8),
    ("rollout: {max_head_offpolicyness: 4}\ngconfig: {n_samples: 8}\n", "own loop", 1, None),
    ("lr: 1e-5\nepochs_per_rollout_batch: 2\nrollout_batch_size: 256\ntrain_batch_size: 64\n", "own loop", 8, None),
]


@pytest.mark.parametrize(("text", "trainer", "interval", "group"), KNOWN)
def test_updates_per_batch_as_the_trainer_implements_them(tmp_path, text, trainer, interval, group):
    recipe = understood(tmp_path, text)
    assert (recipe.trainer, recipe.interval, recipe.group_size) == (trainer, interval, group)


def test_every_trainer_has_a_known_answer_and_every_default_its_release():
    assert {one.name for one in TRAINERS} == {row[1] for row in KNOWN}
    assert all(key.release for one in TRAINERS for key in one.keys.values() if key.default is not None)


def names(recipe):
    return {trap.name for trap in recipe.traps}


def test_traps(tmp_path):
    single = understood(tmp_path, VERL.replace("n: 8", "n: 1"))
    assert {"no_baseline", "step_unit"} <= names(single)
    assert "no baseline" in single.without_baseline(1)
    assert "no_baseline" not in names(understood(tmp_path, VERL))
    assert "clip_zero" in names(understood(tmp_path, TRL))
    assert "clip_zero" not in names(understood(tmp_path, TRL + "num_iterations: 2\n"))
    assert "clip_zero" not in names(understood(tmp_path, TRL + "max_staleness: 1\n"))
    assert "zero_std_of_batch" in names(understood(tmp_path, TRL + "scale_rewards: batch\n"))
    for key in ("max_head_offpolicyness", "max_off_policy_steps", "max_trajectory_age_steps"):
        late = understood(tmp_path, f"async: {{{key}: 4}}\nlr: 1e-6\n")
        assert (late.age_bound, late.age_key, names(late)) == (4, f"async.{key}", set())
    assert "kl_default" in names(understood(tmp_path, TRL))
    assert "kl_default" not in names(understood(tmp_path, TRL + "beta: 0.1\n"))
    assert "kl_loss_off" in names(understood(tmp_path, VERL.replace("use_kl_loss: true", "use_kl_loss: false")))
    assert "not_grpo" in names(understood(tmp_path, VERL.replace("adv_estimator: grpo", "adv_estimator: gae")))
    assert "mini_batch_larger" in names(
        understood(tmp_path, VERL.replace("train_batch_size: 512", "train_batch_size: 2"))
    )
    assert all(trap.source for trap in single.traps)


def test_a_bound_on_ages_is_what_is_given(tmp_path):
    recipe = understood(tmp_path, TRL + "max_staleness: 3\n")
    assert (recipe.age_bound, recipe.age_key) == (3, "max_staleness")
    assert understood(tmp_path, TRL).age_bound is None


def test_wandb_wrapping_and_nesting(tmp_path):
    text = TRL + "num_iterations: 3\n"
    wrapped = "".join(
        f"{line.split(': ')[0]}:\n  desc: null\n  value: {line.split(': ')[1]}\n" for line in text.splitlines()
    )
    assert understood(tmp_path, wrapped + "_wandb:\n  value: {num_iterations: 9}\n") == understood(tmp_path, text)
    nested = understood(tmp_path, "training_args:\n" + "".join(f"  {line}\n" for line in text.splitlines()))
    assert (nested.interval, nested.group_size) == (3, 8)
    same = understood(tmp_path, json.dumps({"num_generations": 8, "num_iterations": 2}), "a.json")
    assert same.interval == 2


def test_references_of_hydra(tmp_path):
    text = VERL.replace("ppo_mini_batch_size: 128", "ppo_mini_batch_size: ${data.train_batch_size}")
    assert understood(tmp_path, text).interval == 2
    loop = VERL.replace("ppo_epochs: 2", "ppo_epochs: ${actor_rollout_ref.actor.ppo_epochs}")
    assert understood(tmp_path, loop).interval == 4  # refers to itself: the default 1
    unknown = VERL.replace("ppo_epochs: 2", "ppo_epochs: ${oc.select:nothing,3}")
    assert understood(tmp_path, unknown).interval == 12


def test_a_batch_that_is_no_multiple_of_the_minibatch_has_one_step_more(tmp_path):
    text = VERL.replace("ppo_mini_batch_size: 128", "ppo_mini_batch_size: 200")
    assert understood(tmp_path, text).interval == 2 * 3  # two epochs of 512 in 200s


def test_folders_and_what_is_not_there(tmp_path):
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text(VERL)
    assert recipe_of(str(tmp_path / "run")).trainer == "verl"
    (tmp_path / "bare").mkdir()
    with pytest.raises(ValueError, match=r"got none of these"):
        recipe_of(str(tmp_path / "bare"))
    with pytest.raises(ValueError, match="No such file"):
        recipe_of(str(tmp_path / "missing.yaml"))
