"""The conformance suite on readers and trainers: those of the package pass, planted defects do not."""

import itertools
from dataclasses import replace

import pytest

from bandit_lab.lab.check import CHECKS, run_check, subject_of
from bandit_lab.runs.read import READERS, Example, LogTable, Parsed
from bandit_lab.runs.trainers import REGISTRY, Default, Key, trl

KNOWN, READ, DAMAGED = (
    "its own files are known, and no others",
    "its example is read",
    "damaged files are refused in words",
)
KEYS, DEFAULTS = "keys are known quantities", "defaults are possible"
STATED, RECOGNISED = "the staleness can be stated", "its configuration is taken for its own"
COUNT = itertools.count()


class Sound:
    """Lines `* reward` behind a first line."""

    example = Example("#sound\n* 0.25\n* 0.5\n", (0.25, 0.5), "a.sound")

    def owns(self, path, start):
        return start.startswith(b"#sound\n")

    def read(self, path, options):
        table = LogTable()
        for line in self.lines(path):
            if line.startswith("* "):
                table.add({"step": table.rows, "reward": line[2:]})
        if not table.rows:
            raise ValueError("expected lines with a star, got none")
        return Parsed("sound", {"": table})

    def lines(self, path):
        return path.read_text(errors="replace").splitlines()


class Greedy(Sound):
    def owns(self, path, start):
        return True


class Shy(Sound):
    def owns(self, path, start):
        return path.suffix == ".another"


class Doubles(Sound):
    example = Example(Sound.example.content, (0.5, 1.0), "a.sound")


class Stumbles(Sound):
    """Text that is no UTF-8 is a UnicodeDecodeError, a ValueError; a short file is an IndexError."""

    def lines(self, path):
        found = super().lines(path)
        return [found[0], *found[1:]]


class Invents(Sound):
    def lines(self, path):
        return [*super().lines(path), "* 1.0"]


class GivesNothing(Sound):
    def read(self, path, options):
        super().read(path, options)


@pytest.fixture
def registered(monkeypatch):
    def add(registry, builder):
        monkeypatch.setattr(registry, "_builders", {**registry._builders, "defect": builder})

    return add


@pytest.mark.parametrize(
    ("reader", "name"),
    [(Greedy, KNOWN), (Shy, KNOWN), (Doubles, READ), (Stumbles, DAMAGED), (Invents, DAMAGED), (GivesNothing, READ)],
)
def test_planted_defects_of_a_reader_are_caught(reader, name, registered):
    registered(READERS, Sound)
    assert run_check(name, subject_of("reader", "defect")).status == "pass"
    registered(READERS, reader)
    assert run_check(name, subject_of("reader", "defect")).status == "FAIL"


def with_key(key):
    return replace(trl.TRAINER, name="defect", keys=(*trl.TRAINER.keys, key))


def ages(**wrong):
    def read(look):
        found = trl.TRAINER.read(look)
        return replace(found, loop=replace(found.loop, **wrong))

    return replace(trl.TRAINER, name="defect", read=read)


def stumbles(look):
    return {}[look.value("learning_rate")]


SOUND = replace(trl.TRAINER, name="defect", marks=("only_mine", *trl.TRAINER.marks))


@pytest.mark.parametrize(
    ("trainer", "name"),
    [
        (with_key(Key("grup_size", ("n",))), KEYS),
        (with_key(Key("group_size", ("n",))), KEYS),
        (with_key(Key("prompts", ())), KEYS),
        (with_key(Key("kl_estimator", ("n",), (Default({"a": 1}, "1.0"),))), DEFAULTS),
        (with_key(Key("kl_estimator", ("n",), (Default("k3", ""),))), DEFAULTS),
        (with_key(Key("kl_estimator", ("n",), (Default("k3", "1.0", since="of late"),))), DEFAULTS),
        (replace(SOUND, keys=(Key("group_size", ("n",), (Default("many", "1.0"),)),)), DEFAULTS),
        (replace(SOUND, keys=(Key("beta1", ("n",), (Default(1.5, "1.0"),)),)), DEFAULTS),
        (ages(model="fresh"), STATED),
        (ages(interval=0), STATED),
        (ages(interval=1.5), STATED),
        (ages(why=""), STATED),
        (replace(SOUND, read=stumbles), STATED),
        (replace(SOUND, marks=trl.TRAINER.marks[:1]), RECOGNISED),
        (replace(SOUND, name="another"), RECOGNISED),
    ],
)
def test_planted_defects_of_a_trainer_are_caught(trainer, name, registered, monkeypatch):
    registered(REGISTRY, lambda: SOUND)
    assert run_check(name, subject_of("trainer", "defect")).status == "pass"
    monkeypatch.setattr(REGISTRY, "probe", None)  # it refuses some of them before they can be asked
    registered(REGISTRY, lambda: trainer)
    assert run_check(name, subject_of("trainer", "defect")).status == "FAIL"


@pytest.mark.parametrize(("kind", "registry"), [("reader", READERS), ("trainer", REGISTRY)])
def test_the_package_s_own_keep_the_rules(kind, registry):
    for name in registry:
        subject = subject_of(kind, name)
        results = [run_check(check, subject) for check, one in CHECKS.items() if kind in one.kinds]
        assert [result for result in results if result.status == "FAIL"] == []
        assert sum(result.status == "pass" for result in results) >= 3
