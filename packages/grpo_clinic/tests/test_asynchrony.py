"""A run that says by any name that its samples may be stale is never read as synchronous, whatever its trainer."""

import json

import numpy as np
import pytest
from grpo_clinic.readers import read
from grpo_clinic.readers.asynchrony import section, switched_on
from grpo_clinic.trainers import load, understand
from written_configs import TRL, VERL, understood, written

OWN = "group_size: 8\nlearning_rate: 1e-5\nrefresh_interval: 5\n"
RECIPES = {"TRL": TRL, "verl": VERL, "own loop": OWN}
NAMES = [
    *("max_staleness", "max_head_offpolicyness", "max_off_policy_steps", "async_level", "asyncRollout", "STALE_OK"),
    *("max_trajectory_age_steps", "weight_version_lag", "fully_async.depth", "loop.async_steps_ahead"),
]


def nested(name, value):
    """YAML of a dotted name."""
    *sections, last = name.split(".")
    text = "".join(f"{'  ' * depth}{one}:\n" for depth, one in enumerate(sections))
    return f"{text}{'  ' * len(sections)}{last}: {value}\n"


@pytest.mark.parametrize("trainer", RECIPES)
@pytest.mark.parametrize("name", NAMES)
def test_no_trainer_is_synchronous_beside_such_a_name(tmp_path, trainer, name):
    """Names in the style of any trainer, beside a configuration of each. Planted: without the name it is known."""
    found = understood(tmp_path, RECIPES[trainer] + nested(name, 4))
    assert found.loop.why.startswith("asynchronous, ages not known (")
    assert name in found.loop.why
    assert "clip_zero" not in {trap.name for trap in found.traps}
    plain = understood(tmp_path, RECIPES[trainer].replace("async_steps: 1", "async_steps: 0"))
    assert plain.loop.why.startswith("synchronous")
    assert not plain.loop.late


@pytest.mark.parametrize("value", ["0", "false", "none", "null", "off", "0.0", "''", "sync", "[]", "disabled"])
def test_a_value_that_is_off_says_synchronous(tmp_path, value):
    assert not understood(tmp_path, OWN + f"max_staleness: {value}\nasync_mode: {value}\n").loop.late


def test_a_switch_that_is_off_silences_its_section():
    """Defaults of a mode that is not used stand in dumps; a number beside it does not."""
    section_off = {"trainer.fully_async.enabled": False, "trainer.fully_async.max_staleness_steps": 4}
    assert switched_on(section_off) == {}
    assert switched_on(section_off | {"trainer.fully_async.enabled": True}).keys() == {
        "trainer.fully_async.enabled",
        "trainer.fully_async.max_staleness_steps",
    }
    assert switched_on({"async_training": False, "max_staleness": 4, "loop.max_staleness": 2}).keys() == {
        "loop.max_staleness"
    }
    assert switched_on({"async_level": 0, "max_staleness": 4}).keys() == {"max_staleness"}


@pytest.mark.parametrize(
    "key",
    [
        "actor_rollout_ref.rollout.agent.custom_async_server._target_",
        "actor_rollout_ref.rollout.agent.custom_async_server.name",
        "actor_rollout_ref.actor.checkpoint.async_save",
        "reward_model.launch_reward_fn_async",
        "trainer.algorithm.off_policy_correction.geo_mask_high",
        "off_policy_mask_threshold",
        "time/save_checkpoint_async",
        "policy.generation.vllm_cfg.async_engine",
    ],
)
def test_what_is_asynchronous_beside_the_samples(key):
    """From configurations and logs of synchronous runs."""
    assert section(key) == ""


def test_a_trainers_own_rule_is_asked_first(tmp_path):
    """Settings that it reads are off, or are defaults, where it finds the loop synchronous; neighbours in their section
    are too. What it does not read counts."""
    dump = VERL.replace("data:", "trainer: {v1: {trainer_mode: colocate_sync, sampler: {max_off_policy_threshold: 8}, "
                        "separate_async: {parameter_sync_step: 4, queue: 2}}}\ndata:")  # fmt: skip
    assert not understood(tmp_path, dump).loop.late
    mode = dump.replace("colocate_sync", "separate_async")
    assert understood(tmp_path, mode).loop.why.startswith("asynchronous, ages not known")
    foreign = understood(tmp_path, dump + "other: {max_staleness: 2}\n")
    assert "'other.max_staleness' = 2" in foreign.loop.why


def test_what_is_given_wins(tmp_path):
    path = load(written(tmp_path, OWN + "max_staleness: 4\n"))
    assert understand(path, {}, {"refresh_interval": 2}).loop.late
    told = understand(path, {}, {"staleness": "lag", "refresh_interval": 9}).loop
    assert (told.model, told.interval, told.late) == ("lag", 9, "")


def test_columns_of_a_log_that_say_so(tmp_path):
    """A column that is zero throughout says that nothing was stale; one that is not, or words, that something was."""
    rows = [{"step": i, "reward": 0.1 * i, "off_policy/lag": 0.0, "time/save_checkpoint_async": 1.0} for i in range(9)]
    path = tmp_path / "log.jsonl"

    def columns(**more):
        path.write_text("".join(json.dumps({**row, **more}) + "\n" for row in rows))
        return read(path)[0].late_columns

    assert columns() == ()
    assert columns(**{"train/staleness/max": 2}) == ("train/staleness/max",)
    assert columns(weight_version="v7") == ("weight_version",)
    found = understand(None, {}, log_of="own loop", late_columns=columns(buffer_staleness=np.pi))
    assert found.loop.why == "asynchronous, ages not known ('buffer_staleness' in the log)"
