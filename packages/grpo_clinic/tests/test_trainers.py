"""Trainers' configurations: K_ref worked out by hand for each, and defaults by release."""

import json

import pytest
from grpo_clinic.trainers import TRAINERS, load, understand
from grpo_clinic.trainers.base import Default, Key
from written_configs import TRL, VERL, understood, written

# Text, file name, trainer, model, interval, mean-age arithmetic by hand in the comment, G.
KNOWN = [
    (TRL, "a.yaml", "TRL", "refresh", 1, 8),  # steps_per_generation = gradient accumulation, one iteration
    (TRL + "num_iterations: 3\ngradient_accumulation_steps: 4\n", "a.yaml", "TRL", "refresh", 3, 8),  # 4 * 3 / 4
    (TRL + "steps_per_generation: 16\ngradient_accumulation_steps: 2\nnum_iterations: 2\n", "a.yaml", "TRL", "refresh",
     16, 8),  # 16 * 2 / 2
    (TRL + "generation_batch_size: 64\nworld_size: 2\n", "a.yaml", "TRL", "refresh", 8, 8),  # 64 / (4 * 2) micro-steps
    (TRL + "max_staleness: 3\nweight_sync_steps: 2\n", "a.yaml", "TRL", "lag", 7, 8),  # 3 * 2 + 2 - 1
    (VERL, "a.yaml", "verl", "refresh", 8, 8),  # 2 * 512 / 128
    (VERL.replace("data:", "async_training: {staleness_threshold: 0.5, trigger_parameter_sync_step: 4}\ndata:"),
     "a.yaml", "verl", "pipeline", 8, 8),  # 4 * 1 * 2 epochs, up to one synchronisation old
    (VERL.replace("data:", "async_training: {staleness_threshold: 0, require_batches: 3}\ndata:"), "a.yaml", "verl",
     "refresh", 24, 8),  # 4 (default) * 3 * 2, none stale
    (VERL.replace("data:", "async_training: {staleness_threshold: 1.5}\ndata:"), "a.yaml", "verl", "lag", 23, 8),
    # 8 updates a cycle, two cycles behind: ages 16..23
    ("group_size: 8\nlearning_rate: 1e-5\nrefresh_interval: 5\n", "a.yaml", "own loop", "refresh", 5, 8),
    ("lr: 1e-5\nepochs_per_rollout_batch: 2\nrollout_batch_size: 256\ntrain_batch_size: 64\n", "a.yaml", "own loop",
     "refresh", 8, None),  # 2 * 256 / 64
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "trainer", "model", "interval", "group"), KNOWN)
def test_refresh_interval_as_the_trainer_implements_it(tmp_path, text, name, trainer, model, interval, group):
    found = understood(tmp_path, text, name)
    assert found.trainer.name == trainer
    assert (found.loop.model, found.loop.interval) == (model, interval)
    assert found.number("group_size") == group
    assert found.loop.why
    assert found.loop.source
    assert all(fact.value is not None for fact in found.loop.terms.values())


def test_every_trainer_has_a_known_answer():
    assert {one.name for one in TRAINERS.values()} == {row[2] for row in KNOWN}


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=lambda one: one.name)
def test_every_default_says_where_it_was_read(trainer):
    for key in trainer.keys:
        assert isinstance(key, Key)
        assert key.names
        for default in key.defaults:
            assert isinstance(default, Default)
            assert default.release
    assert len({key.quantity for key in trainer.keys}) == len(trainer.keys)
    quantities = {key.quantity for key in trainer.keys}
    assert {"group_size", "learning_rate", "optimizer", "clip_low"} <= quantities
    assert "beta1" in quantities or "betas" in quantities


def test_fractions_of_a_block(tmp_path):
    several = understood(tmp_path, TRL + "steps_per_generation: 2\ngradient_accumulation_steps: 8\n")
    assert (several.loop.interval, several.loop.block) == (1, 0.25)
    assert "several batches" in several.loop.notes[0]
    uneven = understood(tmp_path, TRL + "steps_per_generation: 3\ngradient_accumulation_steps: 2\n")
    assert (uneven.loop.interval, uneven.loop.block) == (2, 1.5)
    assert "not whole" in uneven.loop.notes[0]


def test_defaults_that_changed(tmp_path):
    path = written(tmp_path, TRL)
    for release, weight in (("0.14.0", 0.04), ("0.18.2", 0.04), ("0.19.0", 0.0), ("1.9", 0.0), (None, 0.0)):
        assert understand(load(path), {}, release=release).reading.kl_weight == weight
    for release, loss in (
        ("0.15.2", "grpo"),
        ("0.16.1", "bnpo"),
        ("0.21.0", "bnpo"),
        ("0.22.0", "dapo"),
        (None, "dapo"),
    ):
        assert f"loss_type={loss})" in understand(load(path), {}, release=release).reading.rule.source
    assert any(trap.name == "kl_default" for trap in understand(load(path), {}).traps)
    assert understand(load(path), {"beta": 0.1}).reading.kl_weight == 0.1
    old = understand(load(path), {"scale_rewards": False}, release="0.17")
    assert (old.reading.rule.name, old.reading.rule.std) == ("dr_grpo", "none")
    with pytest.raises(ValueError, match="version: expected a release"):
        understand(load(path), {}, release="latest")


def test_optimisers(tmp_path):
    adam = understood(tmp_path, VERL)
    assert (adam.convention, adam.momentum, adam.facts["beta2"].value, adam.adaptive) == ("ema", 0.9, 0.999, True)
    sgd = understood(tmp_path, TRL, optimizer="sgd", beta1=0.5)
    assert (sgd.convention, sgd.momentum, sgd.adaptive) == ("heavy_ball", 0.5, False)
    plain = understood(tmp_path, TRL + "optim: sgd\n")
    assert (plain.convention, plain.momentum) == ("heavy_ball", 0.0)
    with pytest.raises(ValueError, match="optim: expected adamw"):
        understood(tmp_path, TRL + "optim: magic\n")
    with pytest.raises(ValueError, match=r"adam_beta1: expected a number in \[0, 1\), got 1.5"):
        understood(tmp_path, TRL + "adam_beta1: 1.5\n")


def test_options_and_given_values_win(tmp_path):
    found = understood(tmp_path, TRL, options={"num_iterations": 4}, group_size=16)
    assert found.loop.interval == 4
    assert (found.number("group_size"), found.facts["group_size"].origin) == (16, "option")
    lag = understood(tmp_path, VERL, staleness="lag", refresh_interval=3)
    assert (lag.loop.model, lag.loop.interval, lag.loop.block) == ("lag", 3, 8)
    batch = TRL + "generation_batch_size: 64\n"
    with pytest.raises(ValueError, match="number of processes beside generation_batch_size"):
        understood(tmp_path, batch)
    assert understood(tmp_path, batch, refresh_interval=2).loop.interval == 2


def names(found):
    return {trap.name for trap in found.traps}


def test_traps(tmp_path):
    single = understood(tmp_path, VERL.replace("n: 8", "n: 1"))
    assert {"no_baseline", "step_unit"} <= names(single)
    assert single.reading.rule.name is None
    assert next(trap for trap in single.traps if trap.name == "no_baseline").severe
    assert "no_baseline" not in names(understood(tmp_path, VERL))
    assert "clip_zero" in names(understood(tmp_path, TRL))
    assert "clip_zero" not in names(understood(tmp_path, TRL + "num_iterations: 2\n"))
    assert "zero_std_of_batch" in names(understood(tmp_path, TRL + "scale_rewards: batch\n"))
    off = understood(tmp_path, VERL.replace("use_kl_loss: true", "use_kl_loss: false"))
    assert "kl_loss_off" in names(off)
    assert off.reading.kl_weight == 0
    assert "not_grpo" in names(understood(tmp_path, VERL.replace("adv_estimator: grpo", "adv_estimator: gae")))
    assert all(trap.source for trap in single.traps)


def test_wandb_wrapping_and_nesting(tmp_path):
    wrapped = "".join(
        f"{line.split(': ')[0]}:\n  desc: null\n  value: {line.split(': ')[1]}\n" for line in TRL.splitlines()
    )
    plain, wandb = understood(tmp_path, TRL), understood(tmp_path, wrapped + "_wandb:\n  value: {num_iterations: 9}\n")
    assert wandb.loop == plain.loop
    assert wandb.facts["learning_rate"].value == 1e-6
    nested = understood(tmp_path, "training_args:\n" + "".join(f"  {line}\n" for line in TRL.splitlines()))
    assert nested.facts["group_size"].key == "training_args.num_generations"
    same = understood(
        tmp_path, json.dumps({"num_generations": 8, "learning_rate": 1e-6, "num_iterations": 2}), "a.json"
    )
    assert same.loop.interval == 2


def test_references_of_hydra(tmp_path):
    text = VERL.replace("ppo_mini_batch_size: 128", "ppo_mini_batch_size: ${data.train_batch_size}")
    assert understood(tmp_path, text).loop.interval == 2
    loop = VERL.replace("ppo_epochs: 2", "ppo_epochs: ${actor_rollout_ref.actor.ppo_epochs}")
    assert understood(tmp_path, loop).loop.interval == 4  # refers to itself: the default 1
    unknown = VERL.replace("ppo_epochs: 2", "ppo_epochs: ${oc.select:nothing,3}")
    assert understood(tmp_path, unknown).loop.interval == 12


def test_scripts(tmp_path):
    shell = (
        "#!/bin/bash\nG=8   # answers\nbsz=64\nexport lr=${LR:-2e-6}\n"
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n"
        "  data.train_batch_size=$((bsz * 4)) actor_rollout_ref.rollout.n=$G \\\n"
        "  +actor_rollout_ref.actor.optim.lr=$lr actor_rollout_ref.actor.ppo_mini_batch_size=${bsz} $@\n"
    )
    found = understood(tmp_path, shell, "run.sh")
    assert (found.loop.interval, found.number("group_size"), found.number("learning_rate")) == (4, 8, 2e-6)
    options = "python train.py --num-generations 16 --learning_rate=3e-6 --bf16 --num_iterations 2 --adam_beta1 0.95\n"
    found = understood(tmp_path, options, "run.sh")
    assert (found.loop.interval, found.number("group_size"), found.momentum) == (2, 16, 0.95)
    python = "G = 4\nargs = trl.GRPOConfig(num_generations=G, num_iterations=3, learning_rate=5e-6, run=open('x'))\n"
    found = understood(tmp_path, python, "train.py")
    assert (found.loop.interval, found.number("group_size")) == (3, 4)


def test_folders_and_what_is_not_there(tmp_path):
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text(VERL)
    assert understand(load(str(tmp_path / "run")), {}).trainer.name == "verl"
    (tmp_path / "bare").mkdir()
    with pytest.raises(ValueError, match=r"got none of these"):
        load(str(tmp_path / "bare"))
    with pytest.raises(ValueError, match="No such file"):
        load(str(tmp_path / "missing.yaml"))
    with pytest.raises(ValueError, match="framework: expected one of"):
        understand(None, {}, framework="other")
