"""The examples in the docstrings of what users import, run as they stand."""

import doctest
import importlib
from pathlib import Path

import grpo_clinic
import pytest

import bandit_lab

ROOT = Path(__file__).resolve().parents[1]
MARKS = dict.fromkeys(("check", "reproduce", "sweep"), (pytest.mark.slow,)) | {"explore": (pytest.mark.nightly,)}
NAMES = [
    *(("bandit_lab", name) for name in bandit_lab.__all__ if name != "__version__"),
    *(("grpo_clinic", name) for name in grpo_clinic.__all__ if name != "__version__"),
    ("bandit_lab.loop", "loop_of"),
    ("grpo_clinic.law", "stable_up_to"),
]


def ran(home: str, name: str, **given: object) -> doctest.TestResults:
    """An object's examples, run with the names of the module that defines it."""
    example = getattr(importlib.import_module(home), name)
    names = vars(importlib.import_module(example.__module__)) | given
    (test,) = doctest.DocTestFinder(recurse=False).find(example, name, globs=names)
    return doctest.DocTestRunner().run(test)


@pytest.mark.parametrize(
    ("home", "name"),
    [pytest.param(*one, marks=MARKS.get(one[1], ())) for one in NAMES],
    ids=[name for _, name in NAMES],
)
def test_an_example_runs(home, name, tmp_path, monkeypatch):
    """In an empty folder; that of `reproduce` reads published numbers, so that it runs in a clone."""
    monkeypatch.chdir(ROOT if name == "reproduce" else tmp_path)
    results = ran(home, name)
    assert results.attempted > 0
    assert results.failed == 0
