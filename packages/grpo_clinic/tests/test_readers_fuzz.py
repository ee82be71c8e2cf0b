"""Altered logs, configurations and tables of runs: nothing but the one line of a ValueError leaves the readers.

Seeds are fixed, and what is read stays: see `pinned`. No case may take more than 2 s of processor time or 500 MB.
"""

import dataclasses
import itertools
import json
import random
import re
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import written_logs as logs
from grpo_clinic import trainers
from grpo_clinic.logs.index import read_index
from grpo_clinic.readers import read
from grpo_clinic.readers.epochs import without_data_order
from pinned import check
from test_clinic_numbers import of_curve

MANY = 10**400
ODD = [
    *(None, True, False, 0, -1, 1, 8, 0.5, -0.0, 1e-320, 1e308, MANY, -MANY, float("nan"), float("inf")),
    *(
        "",
        " ",
        "x",
        "8",
        "1e999",
        "9" * 400,
        "nan",
        "1e308",
        "0.5, 2",
        "np.float64(3)",
        "${a.b}",
        "${group_size}",
        "[8]",
    ),
    *("\udcff", "\x1b[2J", "é" * 301, [], [8], [None], [[1, 2, 3]], [0.9, "x"], [1, 2], {}, {"value": 3}),
    *({"step": [1], "value": [2]}, {"a": {"b": {"c": {"d": {}}}}}),
]
BYTES = [
    *(b"\n", b"\r", b"\0", b"\xff", b"\x1b[31m", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b" - ", b"NaN"),
    *(b"null", b"-", b"9" * 400, b"1e999", b"[8]", b"{}", b"step", b"reward", b"epoch", b"\xef\xbb\xbf", b"<<"),
    *(
        b"&a [*a]",
        b"!!x",
        b"$((9**9))",
        b"$((1/0))",
        b"--beta 1 2 3",
        b"\xed\xb3\xbf",
        b"| 1/9 [0<1, 1s/it]",
        b"e+",
        b".",
    ),
]
NAMES = ["x.log", "x.json", "x.jsonl", "x.csv", "x.txt", "x", "trainer_state.json"]
CONFIGS = ["c.json", "c.json", "c.yaml"]
KEYS = [
    *("reward", "step", "run", "type", "eval_reward", "group_size", "learning_rate", "data", "value", "\x1b[31m"),
    *("\udcff", "critic/rewards/mean", "rewards/x/mean", "", "a.b", "x" * 400),
]


def cut_and_paste(content: bytes, rng: random.Random) -> bytes:
    """Some places of a file replaced by odd bytes or by another part of it, perhaps its end cut off."""
    for _ in range(rng.randrange(1, 5)):
        at, length = rng.randrange(len(content) + 1), rng.choice([0, 0, 1, 3, 30, 300])
        other = rng.randrange(len(content) + 1)
        new = rng.choice([*BYTES, content[other : other + rng.randrange(200)]])
        content = content[:at] + new + content[at + length :]
    return content[: rng.randrange(len(content) + 1)] if rng.random() < 0.2 else content


def grafted(node: object, rng: random.Random) -> object:
    """The same nested values with about one in twenty replaced by odd ones, and some keys by others."""
    if rng.random() < 0.05:
        return rng.choice(ODD)
    if isinstance(node, dict):
        return {rng.choice(KEYS) if rng.random() < 0.03 else key: grafted(value, rng) for key, value in node.items()}
    return [grafted(value, rng) for value in node] if isinstance(node, list) else node


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def a_log(folder: Path, rng: random.Random) -> Path:
    """A log of any form, altered as bytes or, where it is rows, as values."""
    form = rng.choice(sorted(logs.WRITERS))
    logs.WRITERS[form](folder / form)
    content, name = (folder / form).read_bytes(), rng.choice([form, form, *NAMES])
    if rng.random() < 0.5:
        rows = grafted(logs.trl_rows(), rng)
        forms = [as_json(rows), as_json({"log_history": rows}), as_json({"r": {"history": rows}})]
        if isinstance(rows, list):
            forms += [b"\n".join(map(as_json, rows)), "\n".join(map(repr, rows)).encode(errors="replace")]
            forms.append(as_json({str(i): row for i, row in enumerate(rows)}))
        content = rng.choice(forms)
    if rng.random() < 0.6:
        content = cut_and_paste(content, rng)
    if rng.random() < 0.15:
        return contained(folder, name, content, rng)
    (folder / name).write_bytes(content)
    return folder / name


def contained(folder: Path, name: str, content: bytes, rng: random.Random) -> Path:
    """The log in a notebook, a folder of rollouts or an MLflow run, altered once more."""
    kind = rng.choice(["notebook", "rollouts", "mlflow"])
    if kind == "notebook":
        text = content.decode(errors="replace")
        page = "<table><tr><th>Step</th><th>reward</th></tr><tr><td>1</td><td>0.5</td></tr></table>"
        shown = rng.choice([{"text": [text]}, {"data": {"text/html": page}}, {"data": {"text/plain": text}}])
        book = {"cells": [{"outputs": [shown, rng.choice(ODD)]}, rng.choice(ODD)]}
        path = folder / "x.ipynb"
        path.write_bytes(as_json(grafted(book, rng)))
    else:
        path = folder / kind
        inner = path / "metrics" if kind == "mlflow" else path
        inner.mkdir(parents=True, exist_ok=True)
        (path / "meta.yaml").write_text("x: 1") if kind == "mlflow" else None
        rows = [{"input": rng.choice(["a", "b"]), "score": rng.choice([0, 1])} for _ in range(4)]
        for step in range(1, 4):
            lines = [as_json(grafted(row, rng)) for row in rows]
            lines = [f"17 {rng.random()} {step}".encode()] if kind == "mlflow" else lines
            text = b"\n".join(lines)
            named = f"reward{step % 2}" if kind == "mlflow" else f"{step}.jsonl"
            (inner / named).write_bytes(cut_and_paste(text, rng) if rng.random() < 0.3 else text)
    return path


def options(rng: random.Random) -> dict:
    values = {
        key: rng.choice([*KEYS, "accuracy"]) for key in ("reward_key", "step_key", "eval_key") if rng.random() < 0.1
    }
    if rng.random() < 0.1:
        values["where"] = rng.choice(["type=rollout", "step=1", "reward=" + "9" * 400, "gone=1", "=", "step=nan"])
    if rng.random() < 0.1:
        values["run"] = rng.choice(["x", "\x1b", ""])
    return values


def reads_a_log(folder: Path, rng: random.Random) -> list:
    path = a_log(folder, rng)
    beside = [a_log(folder, rng)] if rng.random() < 0.1 else []
    curves = read(path, beside=beside, **options(rng))
    for curve in curves:
        assert curve.reward.size > 0
        assert without_data_order(curve).reward.size == curve.reward.size
        (curve.name + "".join(curve.notes + curve.recognised)).encode()
    return [of_curve(curve) for curve in curves]


def nested(flat: dict[str, object]) -> dict:
    """{a.b: value} as {a: {b: value}}."""
    tree: dict = {}
    for key, value in flat.items():
        node, (*inner, last) = tree, key.split(".")
        for part in inner:
            node = node.setdefault(part, {}) if isinstance(node.setdefault(part, {}), dict) else {}
        node[last] = value
    return tree


def a_configuration(folder: Path, rng: random.Random) -> Path:
    """The settings of some trainer, odd values among them, in some language."""
    trainer = rng.choice(trainers.TRAINERS)
    plain = {name: key.default or rng.choice([1, 8, 64]) for key in trainer.keys.values() for name in key.names}
    subset = {name: value for name, value in plain.items() if rng.random() < 0.7}
    values = {name: rng.choice(ODD) if rng.random() < 0.05 else value for name, value in subset.items()}
    as_text = {name: json.dumps(value) for name, value in values.items()}
    forms = [
        as_json(nested(values)),
        as_json(values),
        "\n".join(f"{name}: {text}" for name, text in as_text.items()).encode(),
    ]
    form = rng.randrange(len(forms))
    path = folder / (CONFIGS[form] if rng.random() < 0.8 else rng.choice([*CONFIGS, "c"]))
    path.write_bytes(cut_and_paste(forms[form], rng) if rng.random() < 0.3 else forms[form])
    return path


def reads_a_configuration(folder: Path, rng: random.Random) -> object:
    recipe = trainers.recipe_of(str(a_configuration(folder, rng)))
    assert recipe.interval is None or recipe.interval >= 1
    assert recipe.group_size is None or recipe.group_size >= 1
    return dataclasses.replace(recipe, traps=sorted(trap.name for trap in recipe.traps))


def reads_a_table_of_runs(folder: Path, rng: random.Random) -> list:
    head = ["file", "run_id", "selector", "reward_key", "eval_curve", "G", "K_ref", "learning_rate", "outcome"]
    cells = [
        *(
            "a.csv",
            "",
            "/",
            ".",
            "..",
            "a=b",
            "rows type=rollout: x",
            "metric=x",
            '"x"',
            "list[].a",
            "./b.json; .eval.json",
        ),
        *("8", "-3", "9" * 400, "1e999", "0.5", "x" * 300, "\x1b[2J", "(x)"),
    ]
    rows = [head, *([rng.choice(cells) for _ in head] for _ in range(rng.randrange(4)))]
    content = "\n".join(",".join(row) for row in rows).encode()
    (folder / "index.csv").write_bytes(cut_and_paste(content, rng) if rng.random() < 0.5 else content)
    entries = read_index(str(folder / "index.csv"))
    assert all(number is None or number > 0 for entry in entries for number in entry.settings.values())
    return entries


SECONDS, KILOBYTES = 2.0, 500_000
PROCESS = Path("/proc/self")
KINDS = {"log": reads_a_log, "configuration": reads_a_configuration, "table": reads_a_table_of_runs}


def peak(again: bool = False) -> int:
    """The most memory of this process, kB; on Linux since it was last asked `again`."""
    try:
        if again:
            (PROCESS / "clear_refs").write_text("5")
        return int(re.search(r"VmHWM:\s+(\d+)", (PROCESS / "status").read_text()).group(1))
    except (OSError, AttributeError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def survives(attempt: Callable[[], object], what: str) -> object:
    """What it answers, or its one line. Fails, with `what` it was, for any but a ValueError, and for a warning."""
    answer, message, start, before = None, "expected", time.process_time(), peak(again=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = attempt()
    except ValueError as error:
        answer = message = str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    spent, grown = time.process_time() - start, peak() - before
    assert spent < SECONDS, f"{what}: {spent:.1f} s"
    assert grown < KILOBYTES, f"{what}: {grown / 1e3:.0f} MB more than before"
    assert "expected" in message, f"{what}: {message!r}"
    assert message.isprintable(), f"{what}: {message!r}"
    return answer


def altered(kind: str, seed: int, folder: Path) -> object:
    answer = survives(lambda: KINDS[kind](folder, random.Random(f"{kind} {seed}")), f"{kind} {seed}")
    return answer.replace(str(folder), "") if isinstance(answer, str) else answer


@pytest.mark.parametrize(("kind", "count"), [("log", 400), ("configuration", 400), ("table", 200)])
def test_nothing_but_one_line_leaves_the_readers(kind, count, tmp_path):
    check("fuzz", kind, [altered(kind, seed, tmp_path) for seed in range(count)])


@pytest.mark.parametrize("trainer", trainers.TRAINERS, ids=lambda one: one.name)
def test_every_setting_of_a_trainer_with_every_odd_value(trainer, tmp_path):
    for name, value in itertools.product(sorted(name for key in trainer.keys.values() for name in key.names), ODD):
        path = tmp_path / "c.json"
        path.write_bytes(as_json({name: value}))
        survives(lambda path=path: trainers.recipe_of(str(path)), f"{name}: {value!r}")


def test_a_slow_or_hungry_reader_is_noticed(monkeypatch):
    monkeypatch.setattr(f"{__name__}.SECONDS", 0.01)
    with pytest.raises(AssertionError, match=r"slow: \d+\.\d s"):
        survives(lambda: [time.process_time() for _ in range(10**6)], "slow")
    monkeypatch.setattr(f"{__name__}.SECONDS", 60.0)
    with pytest.raises(AssertionError, match=r"hungry: [56]\d\d MB"):
        survives(lambda: bytearray(600_000_000).count(1), "hungry")


def test_numbers_that_no_setting_can_be_are_refused_by_name(tmp_path):
    """Each is a float, their product is none."""
    huge = {"data.train_batch_size": "1e308", "actor_rollout_ref.actor.ppo_mini_batch_size": "1e308"}
    (tmp_path / "c.json").write_text(json.dumps(huge))
    with pytest.raises(ValueError, match="expected a number >= 1, got '1e308'"):
        trainers.recipe_of(str(tmp_path / "c.json"))


def test_a_table_of_runs_may_name_files_in_odd_ways(tmp_path):
    (tmp_path / "index.csv").write_text("file,eval_curve\na.csv,./b.json; .eval.json\n")
    (entry,) = read_index(str(tmp_path / "index.csv"))
    assert (entry.eval_path, entry.beside) == (tmp_path / "b.json", (tmp_path / "a.eval.json",))
    (tmp_path / "index.csv").write_text("file,eval_curve\n/,b.json\n")
    with pytest.raises(ValueError, match="logs_index: expected the name of a file"):
        read_index(str(tmp_path / "index.csv"))
