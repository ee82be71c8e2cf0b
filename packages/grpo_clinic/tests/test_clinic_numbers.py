"""What the clinic reads, judges and fits stays as it is, on logs with one thing wrong each: see `pinned`."""

import json
import os
import random
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import written_logs
from grpo_clinic import Monitor, diagnose, fit, read
from grpo_clinic.compare import compare
from grpo_clinic.fitting import SHAPES, fit_curve
from grpo_clinic.logs.gather import gather
from grpo_clinic.logs.settings import DiagnosisSettings, FitSettings
from grpo_clinic.readers.aliases import TABLE
from grpo_clinic.readers.options import UNITS
from pinned import check, moments, refusals

N = 120
STEP = np.arange(1, N + 1)
LATE = np.clip((STEP - 70) / 40, 0, 1)
"""0 until a failure begins, 1 at the end."""
CLIMB = 0.15 + 0.6 * (1 - np.exp(-STEP / 25))


def normals(seed, size=1.0):
    return size * np.random.default_rng(seed).normal(size=N)


def healthy(seed=0):
    """Columns of a run in which nothing is wrong."""
    return {
        "reward": CLIMB + normals(seed, 0.02), "kl": 0.002 * STEP + abs(normals(seed + 1, 0.002)),
        "entropy": 1.2 - 0.004 * STEP + normals(seed + 2, 0.01), "grad_norm": 0.4 + abs(normals(seed + 3, 0.05)),
        "frac_reward_zero_std": 0.2 + abs(normals(seed + 4, 0.03)), "learning_rate": np.full(N, 1e-6),
        "completions/mean_length": 300 + STEP + normals(seed + 5, 5), "reward_std": 0.3 + normals(seed + 6, 0.01),
        "completions/clipped_ratio": abs(normals(seed + 7, 0.02)), "clip_ratio": abs(normals(seed + 8, 0.01)),
    }  # fmt: skip


ENGINE = "sampling/sampling_logp_difference/mean"
RATIO = "sampling/importance_sampling_ratio/mean"
OTHERS = {
    "healthy": {},
    "falls": {"reward": CLIMB - 0.5 * LATE + normals(0, 0.02)},
    "dips": {"reward": CLIMB - 0.5 * np.exp(-(((STEP - 70) / 10) ** 2)) + normals(0, 0.02)},
    "lost early": {"reward": 0.7 - 0.5 * np.clip(STEP / 25, 0, 1) + normals(0, 0.02)},
    "swings": {"reward": 0.5 + 0.25 * np.sin(STEP / 4) + normals(0, 0.02)},
    "grows": {"reward": 0.5 + 0.004 * STEP * np.sin(STEP / 5) + normals(0, 0.02)},
    "stands": {"reward": 0.3 + normals(0, 0.02)},
    "stands, silent": {"reward": 0.3 + normals(0, 0.02), "frac_reward_zero_std": 0.85 + normals(1, 0.02)},
    "silent late": {"frac_reward_zero_std": 0.2 + 0.7 * LATE + normals(1, 0.02)},
    "without spread": {"reward_std": 0.3 * (1 - LATE), "frac_reward_zero_std": None},
    "no number": {"reward": np.where(STEP > 100, np.nan, CLIMB)},
    "gradient lost": {"grad_norm": np.where(STEP > 100, np.nan, 0.4)},
    "gradient grows": {"grad_norm": 0.4 * (1 + 150 * LATE)},
    "no gradient": {"grad_norm": np.where(STEP > 60, 0.0, 0.4)},
    "kl grows": {"kl": 0.02 + 80 * LATE},
    "kl jumps": {"kl": 0.02 + 60.0 * (STEP == 90)},
    "kl below 0": {"kl": -0.05 * LATE + 0.001},
    "entropy lost": {"entropy": 1.2 * (1 - LATE) + 0.003, "reward": 0.4 + normals(0, 0.02)},
    "entropy grows": {"entropy": 1.2 + 6 * LATE},
    "truncated": {"completions/clipped_ratio": 0.05 + 0.9 * LATE},
    "clipped": {"clip_ratio": 0.05 + 0.5 * LATE},
    "misreported": {RATIO: 1.63 + normals(1, 0.02)},
    "ratio": {RATIO: 1 - 0.35 * LATE + normals(1, 0.01)},
    "apart": {ENGINE: 0.02 + 0.4 * LATE},
    "apart suddenly": {ENGINE: 0.02 + 0.5 * (abs(STEP - 92) < 3), "reward": CLIMB - 0.5 * (STEP > 94)},
    "effective": {"rollout_is_eff_sample_size": 0.95 - 0.9 * LATE},
    "old": {"training/off_policy/trajectory_staleness/mean": 2 + 3 * LATE,
            "training/off_policy/trajectory_staleness/max": 3 + 8 * LATE},
    "control": {"learning_rate": np.zeros(N), "reward": 0.4 + normals(0, 0.02)},
    "control falls": {"learning_rate": np.zeros(N), "reward": 0.5 - 0.3 * LATE + normals(0, 0.02)},
    "part stays": {"rewards/accuracy/mean": 0.1 + normals(1, 0.01), "rewards/style/mean": CLIMB - 0.1,
                   "reward": CLIMB + normals(1, 0.01)},
    "part of five stays": {"rewards/accuracy/mean": 0.5 + normals(1, 0.05), "rewards/style/mean": 5 * CLIMB - 0.5,
                           "reward": 5 * CLIMB + normals(1, 0.05)},
    "part falls": {"rewards/accuracy/mean": 0.5 - 0.4 * LATE + normals(1, 0.01), "rewards/style/mean": CLIMB - 0.3},
    "form": {"rewards/format_reward/mean": np.clip(0.1 + STEP / 60, 0, 0.99),
             "rewards/accuracy/mean": 0.6 * np.clip(0.1 + STEP / 60, 0, 0.99)},
    "held out falls": {"eval_reward": np.where(STEP % 10, np.nan, 0.5 - 0.3 * LATE)},
    "held out": {"eval_reward": np.where(STEP % 10, np.nan, CLIMB - 0.05)},
    "odd": {"perplexity": 8 + 40 * LATE},
}  # fmt: skip


TROUBLES = {
    key: [one[key] for one in OTHERS.values() if one.get(key) is not None] for one in OTHERS.values() for key in one
}


def drawn(seed):
    """A run of some length, in some unit, with every second column in some trouble of some strength and noise, some
    columns not logged, and some rewards that are no number."""
    draw, changes = random.Random(seed), healthy(seed)
    left_out, last = draw.sample(list(changes)[1:], 3), draw.choice([12, 30, 60, N, N, N])
    for number, (key, shapes) in enumerate(TROUBLES.items()):
        if draw.random() < (0.1 if key == "learning_rate" else 0.5):
            shape, strength, noise = draw.choice(shapes), draw.choice([1, draw.random()]), draw.choice([0, 0.3, 1.5])
            normal = changes.get(key, np.nanmean(shape))
            size = noise * max(map(np.nanstd, shapes))
            changes[key] = normal + strength * (shape - normal) + normals(10 * seed + number, size)
    changes["reward"] = draw.choice([1, 1, 1, 5, -2]) * changes["reward"]
    for end in draw.sample([30, 50, 80, last, last, last], draw.choice([0, 0, 1, 3])):
        changes["reward"][end - draw.choice([2, 5, 12]) : end] = np.nan
    changes |= dict.fromkeys(left_out) if draw.random() < 0.3 else {}
    return changes, last, draw.choice([2, 8, 8, 16])


def rows(changes):
    """Rows as a trainer logs them, of a healthy run but for these columns, without those that are None.

    What is no number is NaN, but for held-out results, which are not in every row.
    """
    named = {key: one for key, one in (healthy() | changes).items() if one is not None}
    held_out = named.pop("eval_reward", np.full(N, np.nan))
    for at, step in enumerate(STEP):
        row = {"step": int(step)} | {key: float(one[at]) for key, one in named.items()}
        yield row | ({"eval_reward": float(held_out[at])} if np.isfinite(held_out[at]) else {})


def written(changes, folder, last=N):
    path = folder / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, list(rows(changes))[:last])))
    return path


def judged(report):
    """A report without its sentences, its facts in an order that no name of a rule decides."""
    facts = [(one.verdict, one.value, one.limit, one.score, one.rows, one.window, one.fires) for one in report.facts]
    outcome = report.outcome
    return {
        "outcome": (outcome.what, outcome.change, outcome.error, outcome.p),
        "verdict": list(report.verdict),
        "noted": sorted(report.notes),
        "moved": [(one.role, one.step, one.times) for one in report.moved],
        "facts": sorted(facts, key=lambda one: (one[0], float(f"{one[1]:.6g}"), one[2])),
        "words": (len(report.not_judged), len(report.not_logged), len(report.traps), report.next[:20]),
    }


def of_curve(curve):
    """What was read: every series and its key."""
    named = {**curve.series, **curve.parts, "reward": curve.reward_series}
    named |= {} if curve.eval is None else {"eval": curve.eval}
    scale = (curve.scale.low, curve.scale.high, curve.scale.given)
    every = {role: (one.key, moments(one.step), moments(one.value)) for role, one in sorted(named.items())}
    lost = [one.tolist() for one in (curve.nonfinite_steps, curve.gradient_lost)]
    return {"columns": every, "scale": scale, "framework": curve.framework, "every": curve.log_every, "lost": lost}


@pytest.mark.parametrize("name", OTHERS)
def test_judgements(name, tmp_path):
    (one,) = diagnose(written(OTHERS[name], tmp_path), group_size=8)
    new = not OTHERS[name] or bool(OTHERS[name].keys() - healthy().keys())
    check("clinic", name, {"read": of_curve(one.curve) if new else None, "judged": judged(one.report)})


@pytest.mark.parametrize("seed", range(100))
def test_judgements_of_drawn_logs(seed, tmp_path):
    changes, last, group_size = drawn(seed)
    (one,) = diagnose(written(changes, tmp_path, last), group_size=group_size)
    check("clinic", f"drawn {seed}", judged(one.report))


def alarms(monitor, rows, at_a_step):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows:
            monitor.feed(row["step"] // at_a_step, row)
    alarms = [(one.failure, one.step, one.row, one.onset, one.score) for one in monitor.alarms]
    return alarms, monitor.scores, monitor.rows, monitor.verdict


@pytest.mark.parametrize("name", list(OTHERS)[::3])
def test_the_monitor(name):
    """Of a name of odd length two rows are logged at one step."""
    answer = alarms(Monitor(group_size=8, patience=40), rows(OTHERS[name]), 1 + len(name) % 2)
    check("clinic", f"monitor, {name}", answer)


@pytest.mark.parametrize("seed", range(20))
def test_the_monitor_of_drawn_logs(seed):
    """With more or less memory. Every third run is started again from a checkpoint, and goes on otherwise."""
    changes, last, group_size = drawn(100 + seed)
    monitor = Monitor(group_size=group_size, patience=24 + 2 * seed, room=48 if seed % 2 else 512)
    again = list(rows(drawn(200 + seed)[0]))[last // 2 if seed % 6 else last - 2 :] if seed % 3 == 0 else []
    check("clinic", f"monitor, drawn {seed}", alarms(monitor, list(rows(changes))[:last] + again, 1 + seed % 2))


@pytest.mark.parametrize("seed", range(12))
def test_two_drawn_runs(seed, tmp_path):
    logs = [drawn(300 + seed), drawn(400 + seed // 2)]
    first, second = (read(written(changes, tmp_path, last))[0] for changes, last, _ in logs)
    compared = compare(first, second)
    check("clinic", f"two runs, {seed}", [compared, [one.differs for one in compared]])


@pytest.mark.parametrize("name", written_logs.WRITERS)
def test_readings(name, tmp_path):
    written_logs.WRITERS[name](tmp_path / name)
    check("clinic", f"reads {name}", [of_curve(one) for one in read(tmp_path / name)])


def test_readings_of_events(tmp_path):
    """Scalars as a number or a tensor; at some steps a tag comes twice."""
    events = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.util.tensor_util import make_tensor_proto

    file = events.EventFileWriter(str(tmp_path))
    for at, reward in enumerate(CLIMB):
        value = {"simple_value": reward} if at % 3 else {"tensor": make_tensor_proto(np.float32(reward))}
        file.add_event(Event(step=at - at % 7 // 6, summary=Summary(value=[Summary.Value(tag="reward", **value)])))
    file.close()
    check("clinic", "reads events", [of_curve(one) for one in read(tmp_path)])


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_of_a_run(seed, tmp_path):
    """A log of some length, in a table of runs or not: numbers that are given, of the table, or of the log."""
    draw = random.Random(seed)
    of_table, given = ([draw.choice([None, one]) for one in (8 + i, 4.0 + i, 0.5 + i)] for i in (0, 1))
    many = N * draw.choice([1, 1, 20, 30, 45])
    reward = np.interp(np.arange(many) * N / many, STEP, healthy(seed)["reward"])
    folder, of_log = tmp_path / "runs", draw.choice([[8, 8], [8, 16]])
    folder.mkdir()
    for place, rewards in ((folder / "log.csv", reward), (folder / "other.csv", CLIMB), (tmp_path / "other.csv", LATE)):
        lines = (f"{i},{one},{of_log[i > 50]}" for i, one in enumerate(rewards))
        place.write_text("\n".join(["step,reward,num_generations", *lines]))
    of_table += [draw.choice([None, "other.csv", "../other.csv", "of 5 tasks: other.csv; more.csv"])]
    of_table = ",".join("" if one is None else str(one) for one in of_table)
    (folder / "index.csv").write_text(f"file,G,K_ref,learning_rate,eval_curve\nlog.csv,{of_table}\n")
    where = {"logs_index": str(folder / "index.csv")}
    settings = FitSettings(
        **(where if draw.random() < 0.7 else {"paths": (str(folder / "log.csv"),)}),
        **dict(zip(("group_size", "refresh_interval", "learning_rate"), given, strict=True)),
        step_unit=draw.choice(list(UNITS)), convert_to=draw.choice([None, *UNITS]),
    )  # fmt: skip
    try:
        logs = gather(settings)
    except ValueError:
        answer = "refused"
    else:
        answer = [[of_curve(one.curve), one.group_size, one.refresh_interval, one.learning_rate] for one in logs]
    check("clinic", f"known {seed}", answer)


@pytest.mark.parametrize("kind", [FitSettings, DiagnosisSettings])
def test_what_a_setting_may_be(kind):
    """Of each value whether it is taken, or what is expected instead."""
    answers = {}
    for one in fields(kind):
        expected = refusals(lambda value, name=one.name: kind(**{name: value}))
        answers |= {f"{one.name} {value}": text[-55:] for value, text in expected.items()}
    check("clinic", kind.__name__, answers)


def fitted(curve):
    laws = {
        law: ({key: (one.value, one.low, one.high) for key, one in fit.parameters.items()}, fit.log_likelihood,
              fit.aicc, fit.r_squared, fit.status)
        for law, fit in curve.laws.items()
    }  # fmt: skip
    return {"best": curve.best.law, "laws": laws}


SHAPED = {
    "oscillator": [3.5, -0.5], "softmax_law": [-3.0, -2.5], "single_exponential": [3.0], "sigmoid": [-4.0, -2.3],
    "constant": [],
}  # fmt: skip


@pytest.mark.parametrize("law", SHAPED)
def test_fits(law):
    time = 3 + 2.0 * np.arange(60)
    time[40:] += 30
    shape = SHAPES[law].growth(time - 3, np.array(SHAPED[law])) if SHAPED[law] else np.zeros(60)
    curve = 0.1 + 0.7 * shape + 0.03 * np.random.default_rng(5).normal(size=60)
    check("clinic", f"fits {law}", fitted(fit_curve(time, curve, level=0.9)), close=1e-4)


def test_a_fit_in_a_trainers_units(tmp_path):
    options = {"learning_rate": 1e-3, "momentum": 0.9, "refresh_interval": 4.0, "convert_to": "optimiser_step"}
    (one,) = fit(written(OTHERS["dips"], tmp_path), **options)
    check("clinic", "fit", {"laws": fitted(one.fit), "stiffness": one.reading, "status": one.status}, close=1e-4)


def test_every_key_has_its_quantity_and_its_place_before_others():
    roles = {one.role: [other for other in TABLE if other.role == one.role] for one in TABLE}
    answer = {role: {f"{one.framework} {one.key}": i for i, one in enumerate(keys)} for role, keys in roles.items()}
    check("clinic", "keys", answer)


def test_a_fit_in_rollout_cycles_has_its_stiffness_in_optimiser_steps(tmp_path):
    """Of a delay D in cycles of 4 steps: the interval is scaled as its value is."""
    options = {"learning_rate": 1e-3, "momentum": 0.9, "refresh_interval": 4.0, "step_unit": "rollout_cycle"}
    (one,) = fit(written(OTHERS["dips"], tmp_path), **options)
    assert one.reading.low < one.reading.stiffness < one.reading.high


@pytest.mark.parametrize("name", ["BANDIT_LAB_LOGS", "BANDIT_LAB_LOG_FAULTS"])
def test_readings_of_public_logs(name):
    if not os.environ.get(name):
        pytest.skip(f"{name} names no folder of logs")
    folder, answers = Path(os.environ[name]), {}
    kinds = (".csv", ".json", ".jsonl", ".txt", ".log")
    for path in sorted(one for one in folder.rglob("*") if one.suffix in kinds and one.name != "index.csv"):
        try:
            curves = read(path)
            parts = [len(one.series) + len(one.parts) for one in curves]
            answers[path.stem] = (parts, [moments(one.reward) for one in curves[:3]])
        except ValueError:
            answers[path.stem] = "refused"
    check("logs", name.rpartition("_")[2].lower(), answers)
