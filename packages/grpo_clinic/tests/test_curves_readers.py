"""Every format gives back the run that was written, and says what it recognised."""

import json
from dataclasses import replace

import numpy as np
import pytest
import written_logs as logs
from grpo_clinic.logs.index import read_index
from grpo_clinic.readers import limits, read, read_all
from grpo_clinic.readers.which import match_key, near


def one(path, **options):
    (curve,) = read(path, **options)
    return curve


@pytest.mark.parametrize("name", logs.WRITERS)
def test_the_written_run_comes_back_without_any_option(tmp_path, name):
    path = tmp_path / name
    logs.WRITERS[name](path)
    curve = one(path)
    np.testing.assert_allclose(curve.reward, logs.REWARD, rtol=1e-12)
    np.testing.assert_array_equal(curve.step, logs.STEP)
    assert any(text.startswith("format: ") for text in curve.recognised)
    if "entropy" in curve.series:
        np.testing.assert_allclose(curve.column("entropy"), logs.ENTROPY + (0.05 if name == "typed.jsonl" else 0))


@pytest.mark.parametrize("name", ["trainer_state.json", "history.json", "trl.log", "verl.log", "typed.jsonl"])
def test_evaluation_rows_become_a_second_series(tmp_path, name):
    path = tmp_path / name
    logs.WRITERS[name](path)
    curve = one(path)
    expected = {8: logs.REWARD[7] - 0.05, 16: logs.REWARD[15] - 0.05, 24: logs.REWARD[23] - 0.05}
    evaluated = dict(zip(curve.eval.step, curve.eval.value, strict=True))
    assert {step: pytest.approx(value) for step, value in expected.items()}.items() <= evaluated.items()


def test_a_log_whose_folder_names_it_has_its_own_name_where_there_is_no_folder(tmp_path, monkeypatch):
    logs.typed_jsonl(tmp_path / "metrics.jsonl")
    assert one(tmp_path / "metrics.jsonl").name == tmp_path.name
    monkeypatch.chdir(tmp_path)
    assert one("metrics.jsonl").name == "metrics"


def test_a_history_is_trls_whatever_it_holds_and_one_value_a_column_is_no_table(tmp_path):
    """Planted: a framework by its keys alone, and columns of one value."""
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"log_history": [{"reward": 0.1 * step, "step": step} for step in range(9)]}))
    assert one(path).framework == "TRL"
    path.write_text(json.dumps({"step": [1], "reward": [0.5]}))
    with pytest.raises(ValueError, match="expected JSON rows, columns"):
        read(path)


def test_steps_are_converted_with_the_refresh_interval(tmp_path):
    logs.verl_console(tmp_path / "b.log")
    verl = one(tmp_path / "b.log")
    np.testing.assert_array_equal(verl.in_unit("optimiser step", 4).step, 4 * logs.STEP)
    np.testing.assert_array_equal(verl.in_unit("optimiser step", 4).eval.step, 4 * verl.eval.step)
    assert verl.in_unit("rollout cycle") is verl
    lost = replace(verl, nonfinite_steps=np.ones(2), gradient_lost=np.ones(3), others={"x": verl.eval})
    lost = lost.in_unit("optimiser step", 4)
    assert (*lost.nonfinite_steps, *lost.gradient_lost) == (4, 4, 4, 4, 4)
    np.testing.assert_array_equal(lost.others["x"].step, lost.eval.step)
    with pytest.raises(ValueError, match="refresh_interval"):
        verl.in_unit("optimiser step")
    logs.wide_csv(tmp_path / "c.csv")
    with pytest.raises(ValueError, match="step_unit"):
        one(tmp_path / "c.csv").in_unit("rollout cycle", 2)
    assert one(tmp_path / "c.csv", step_unit="rollout_cycle").in_unit("optimiser step", 2).step[0] == 2


def test_a_row_filter_chooses_the_rows_of_the_reward(tmp_path):
    rows = [{"phase": p, "step": s, "score": 10 * k + s} for s in range(5) for k, p in enumerate(("warm", "main"))]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    np.testing.assert_array_equal(one(tmp_path / "x.jsonl", where="phase=main").reward, 10 + np.arange(5))
    np.testing.assert_array_equal(one(tmp_path / "x.jsonl", where={"phase": "warm"}).reward, np.arange(5))
    with pytest.raises(ValueError, match="where: expected a column of the log, got 'fase'"):
        one(tmp_path / "x.jsonl", where="fase=main")
    with pytest.raises(ValueError, match="where: expected a condition that some row fulfils"):
        one(tmp_path / "x.jsonl", where="phase=late")
    with pytest.raises(ValueError, match="where"):
        one(tmp_path / "x.jsonl", where="phase")


@pytest.mark.parametrize("write", [logs.long_csv, logs.wandb_csv])
def test_runs_of_one_file_are_kept_apart_and_chosen_by_name(tmp_path, write):
    path = tmp_path / "runs.csv"
    write(path, ("lr - 1e-5, a", "lr - 1e-4, b"))
    both = read(path)
    assert [curve.name for curve in both] == ["lr - 1e-5, a", "lr - 1e-4, b"]
    np.testing.assert_allclose(both[1].reward, logs.REWARD + 1)
    assert one(path, run="1e-4").name == "lr - 1e-4, b"
    with pytest.raises(ValueError, match="it fits"):
        read(path, run="lr")
    with pytest.raises(ValueError, match="there are"):
        read(path, run="absent")


def test_a_shorter_run_of_a_wandb_export_ends_where_it_ends(tmp_path):
    """Its blank cells are no rewards. Planted: they are kept as values that are not finite."""
    rows = [f'"{s}","{0.1 * s}","{0.2 * s if s < 6 else ""}"' for s in range(12)]
    (tmp_path / "x.csv").write_text("\n".join(['"Step","a - train/reward","b - train/reward"', *rows]))
    long, short = read(tmp_path / "x.csv")
    assert (len(long.reward), len(short.reward)) == (12, 6)
    np.testing.assert_allclose(short.reward, 0.2 * np.arange(6))
    assert short.nonfinite_steps.size == 0
    assert not any("left out" in note for note in short.notes)


def test_a_table_of_runs_gives_their_settings(tmp_path):
    (tmp_path / "index.csv").write_text("file,G,K_ref,learning_rate\na.csv,8 answers,4,1.5e-6 (peak)\nb.csv,,0,5E-5\n")
    first, second = (entry.settings for entry in read_index(str(tmp_path / "index.csv")))
    assert first == {"group_size": 8, "refresh_interval": 4, "learning_rate": 1.5e-6}
    assert second == {"group_size": None, "refresh_interval": None, "learning_rate": 5e-5}


def test_rows_without_a_step_are_numbered_without_those_of_evaluations(tmp_path):
    rows = [{"reward": 0.1 * i, "loss": 0.5} if i % 3 else {"eval_reward": 0.4} for i in range(1, 13)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    np.testing.assert_allclose(one(tmp_path / "x.jsonl").step, np.arange(1, 9))


def test_a_key_is_named_by_its_last_part_not_by_a_part_of_a_word():
    keys = ["reward_std", "train/reward", "eval_reward"]
    assert match_key("reward", keys) == "train/reward"
    assert match_key("reward", ["reward_std", "eval_reward"]) is None


def test_strings_null_nan_and_wrapped_numbers(tmp_path):
    values = ["0.125", "np.float64(0.25)", None, float("nan"), "tensor(0.5, device='cuda:0')", "75%", "Infinity"]
    rows = [{"step": i, "reward": v} for i, v in enumerate(values)]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    curve = one(tmp_path / "x.json")
    np.testing.assert_array_equal(curve.reward, [0.125, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(curve.step, [0, 1, 4, 5])
    np.testing.assert_array_equal(curve.nonfinite_steps, [2, 3, 6])


def test_the_scale_is_given_or_said_to_be_estimated(tmp_path):
    logs.wide_csv(tmp_path / "c.csv")
    guessed, stated = one(tmp_path / "c.csv"), one(tmp_path / "c.csv", reward_scale=(0, 2))
    assert (guessed.scale.low, guessed.scale.high, guessed.scale.given) == (0, 1, False)
    assert "estimated" in guessed.scale.text
    assert (stated.scale.high, stated.scale.given) == (2, True)
    with pytest.raises(ValueError, match="reward_scale"):
        one(tmp_path / "c.csv", reward_scale=(2, 0))


def test_an_evaluation_curve_is_read_where_there_is_nothing_else(tmp_path):
    (tmp_path / "x.csv").write_text("step,eval/reward,entropy\n" + "\n".join(f"{s},{s / 10},1" for s in range(8)))
    curve = one(tmp_path / "x.csv")
    assert curve.reward_is_eval
    assert curve.eval is None
    assert "evaluation" in " ".join(curve.recognised)


def test_another_file_of_the_run_adds_columns_and_the_held_out_series(tmp_path):
    logs.wide_csv(tmp_path / "run.csv")
    (tmp_path / "run.kl.json").write_text(json.dumps({"data": {str(s): {"kl": 0.1} for s in logs.STEP.tolist()}}))
    (tmp_path / "run.eval_history.json").write_text(
        json.dumps([{"accuracy": 0.5, "step": 10}, {"accuracy": 0.6, "step": 20}])
    )
    curve = one(tmp_path / "run.csv", beside=[tmp_path / "run.kl.json", tmp_path / "run.eval_history.json"])
    np.testing.assert_array_equal(curve.column("kl"), np.full(logs.N, 0.1))
    np.testing.assert_array_equal(curve.eval.value, [0.5, 0.6])


def test_names_that_are_near_come_first_and_the_rest_is_counted():
    keys = [f"column_{place}" for place in range(12)] + ["entropy"]
    assert near("entrpy", keys).startswith("the log has entropy, column_0, ")
    assert near("entrpy", keys).endswith(" and 5 more")
    assert near("entrpy", ["reward", "kl"]) == "the log has reward, kl"
    assert near("entrpy", []) == "the log has no numeric column"


def test_unknown_keys_are_refused_with_what_there_is(tmp_path):
    logs.wide_csv(tmp_path / "c.csv")
    with pytest.raises(ValueError, match=r"reward_key: expected a column of the log, got 'rewrd'; the log has reward"):
        one(tmp_path / "c.csv", reward_key="rewrd")
    with pytest.raises(ValueError, match="step_key"):
        one(tmp_path / "c.csv", step_key="rounds")
    with pytest.raises(ValueError, match="eval_key"):
        one(tmp_path / "c.csv", eval_key="held")


def test_the_literal_text_before_a_number_can_be_the_reward_key(tmp_path):
    text = "".join(f"counts: {{'a': {i}}}\nShare of right answers:  {i / 10}\n" for i in range(9))
    (tmp_path / "x.txt").write_text(text)
    np.testing.assert_allclose(one(tmp_path / "x.txt", reward_key="Share of right answers:").reward, np.arange(9) / 10)


def test_folders_of_every_kind(tmp_path):
    for size in (100, 20):
        (tmp_path / f"out/checkpoint-{size}").mkdir(parents=True)
    logs.trainer_state(tmp_path / "out/checkpoint-100/trainer_state.json")
    (tmp_path / "out/checkpoint-20/trainer_state.json").write_text('{"log_history": [{"reward": 1, "step": 1}]}')
    assert one(tmp_path / "out").step.size == logs.N
    assert one(tmp_path / "out/checkpoint-100").name == "checkpoint-100"
    (tmp_path / "wandb/run-1/files").mkdir(parents=True)
    logs.trl_console(tmp_path / "wandb/run-1/files/output.log")
    assert one(tmp_path / "wandb/run-1").framework == "TRL"
    logs.wide_csv(tmp_path / "with = and space.csv")
    (tmp_path / "notes.txt").write_text("nothing here\n")
    curves, skipped = read_all([tmp_path, tmp_path / "absent.csv"])
    assert len(curves) == 3
    assert {s.path.rpartition("/")[2] for s in skipped} == {"notes.txt", "absent.csv"}
    (tmp_path / "void").mkdir()
    with pytest.raises(ValueError, match="expected a folder with logs"):
        read(tmp_path / "void")


def test_event_files(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="the optional tensorboard package is not installed")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step, reward in zip(logs.STEP, logs.REWARD, strict=True):
        for tag, value in (("train/reward", reward), ("train/learning_rate", 1e-6)):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(step=int(step), wall_time=0.0, summary=summary))
    writer.close()
    curve = one(tmp_path)
    np.testing.assert_allclose(curve.reward, logs.REWARD, rtol=1e-6)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    monkeypatch.setattr(limits, "MAX_LINE", 30)  # bytes: records of the reward have 25, of the learning rate 32
    short = one(path)
    np.testing.assert_array_equal(short.reward, curve.reward)
    assert short.notes == (f"{len(logs.STEP) + 1} records of more than 30 bytes skipped",)  # and the file's first
    monkeypatch.undo()
    path.write_bytes(whole[:-20])
    assert one(path).notes == ("the file ends inside a record",)
    path.write_bytes(whole[:40] + b"\xff" * 8 + whole[48:])
    with pytest.raises(ValueError, match="event"):
        one(path)


def test_without_tensorboard_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.backend.event_processing.event_file_loader", None)
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\x18" + bytes(11) + b"\x09" * 16 + b"brain.Event:2" + bytes(8))
    with pytest.raises(ValueError, match="pip install tensorboard"):
        one(tmp_path / "events.out.tfevents.1")


def test_a_dictionary_printed_over_several_lines_is_one_row(tmp_path):
    """As pprint writes it, a progress bar in between; one that never ends is damaged and no row."""
    row = "{{'loss': 0.01,\n 'learning_rate': {:.3e},\n 'frac_reward_zero_std': 0.25,\n{} 'reward': {:.3f},\n"
    row += " 'epoch': 1}}\n"
    bar = "  50%|####      | 10/20 [00:10<00:10,  1.0s/it]\n"
    rows = [row.format(1e-6 * (1 - i / 20), bar if i == 10 else "", i / 20) for i in range(1, 21)]
    rows[4] = rows[4].replace("'epoch': 1}", "")
    (tmp_path / "x.log").write_text("".join(rows))
    curve = one(tmp_path / "x.log")
    assert curve.step.tolist() == [i for i in range(1, 21) if i != 5]
    np.testing.assert_allclose(curve.reward, curve.step / 20)
    np.testing.assert_array_equal(curve.column("zero_std_frac"), 0.25)
    assert "1 damaged row" in " ".join(curve.notes)


def test_a_comma_may_be_the_decimal_point_where_it_is_not_the_delimiter(tmp_path):
    (tmp_path / "x.csv").write_text("step;reward\n" + "".join(f"{i};0,{i:02d}\n" for i in range(1, 30)))
    np.testing.assert_allclose(one(tmp_path / "x.csv").reward, np.arange(1, 30) / 100)


@pytest.mark.parametrize(("keys", "top", "high"), [(("accuracy",), 0.1, 1.0), (("reward", "rewards/ndcg"), 0.1, 1.0),
                                                   (("accuracy",), 1.01, 1.01), (("reward",), 0.1, 0.1)])  # fmt: skip
def test_a_share_by_its_name_or_that_of_a_part_that_is_the_reward_reaches_to_1(tmp_path, keys, top, high):
    rows = [",".join([str(n), *[f"{top * n / 9:.4f}"] * len(keys)]) for n in range(10)]
    (tmp_path / "log.csv").write_text("\n".join([f"step,{','.join(keys)}", *rows]))
    (curve,) = read(tmp_path / "log.csv", reward_key=keys[0])
    assert (curve.scale.low, curve.scale.high) == (0.0, high)
