"""What other programs are fed, and how their findings are counted."""

import numpy as np
from grpo_clinic.readers import Curve, RewardScale, Series

from experiments.grading import other_programs


def series(step, value, key="x"):
    return Series(np.asarray(step, float), np.asarray(value, float), key)


def curve(step=(1, 2, 3), **extra):
    reward = series(step, (0.1, 0.2, 0.3), "reward")
    others = {"kl": series(step[:2], (0.01, 0.02)), "length": series(step, (5, 6, 7))}
    return Curve("x", "", "test", "TRL", reward, RewardScale(0, 1, True), series=others, **extra)


def test_rows_hold_what_the_readers_found_under_the_names_of_the_program():
    rows = other_programs.rows_for("rlwatch", curve())
    assert rows[0] == {"step": 1, "kl_divergence": 0.01, "reward_mean": 0.1}
    assert rows[2] == {"step": 3, "reward_mean": 0.3}
    (*_, last) = other_programs.rows_for("rldoctor", curve(eval=series((3,), (0.5,))))
    assert last == {"step": 3, "completions/mean_length": 7, "reward": 0.3, "eval_score": 0.5}


def test_parts_and_lost_numbers_have_a_place_in_one_program_alone():
    full = curve(parts={"form": series((2,), (0.9,))}, gradient_lost=np.array([3.0]))
    first, second, third = other_programs.rows_for("rlprobe", full)
    assert "parts" not in first
    assert second["parts"] == {"form": 0.9}
    assert third["nan_count"] == 1
    assert not any("parts" in row or "nan_count" in row for row in other_programs.rows_for("rlwatch", full))


def test_steps_that_are_no_whole_numbers_are_counted():
    assert [row["step"] for row in other_programs.rows_for("rlprobe", curve((0.5, 1.0, 1.5)))] == [0, 1, 2]


def test_findings_count_from_a_warning_on_in_our_names():
    told = [["KL_BLOWUP", "critical"], ["DEGENERATE_GROUPS", "info"], ["THROUGHPUT_ROT", "warn"]]
    assert other_programs._ours("rlprobe", told) == {"diverging"}
    assert other_programs._ours("rlwatch", [["reward_mean_drift down", "warning"]]) == {"collapsed"}
    assert other_programs._ours("rldoctor", [["plateau", "OK"]]) == frozenset()


def test_every_translation_is_a_name_of_ours():
    from grpo_clinic.report import ORDER

    ours = {name for names in other_programs.DETECTORS.values() for name in names.values()}
    assert ours <= set(ORDER)
