"""Every experiment as a draft through the real command: files, numbers, claims, and verdicts that can turn.

An experiment is found by its file: a new one is tested here without an edit. The planted defect multiplies every number
of the prediction by 1.5: each claim that held must then fail.
"""

import contextlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import xarray
from settings import nightly_but

from bandit_lab.app.cli import OK, main
from bandit_lab.lab.reproduce import claims, numbers, publish, source
from bandit_lab.lab.reproduce.cache import MEASURED, Cache
from bandit_lab.lab.reproduce.experiment import (
    Claim,
    Loaded,
    Results,
    Setting,
    discover,
    experiments_dir,
    read_setting,
)

EXPERIMENTS = discover()
FIGURES = experiments_dir().parent / "figures"
REPRESENTATIVES = ("normalisation", "transfer", "transition")
"""Run in `make test`, the others nightly: the shortest ones that bisect thresholds, fit curves and run long."""
every = pytest.mark.parametrize("name", EXPERIMENTS)
drafted = pytest.mark.parametrize("name", nightly_but(REPRESENTATIVES, EXPERIMENTS))
MOST_NUMBERS = 20_000


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("reproduce")


@cache
def run(place: Path, name: str) -> dict:
    """summary.json of one experiment's draft, run by the command; published beside those before it."""
    here = place / name
    options = [f"cache={place / 'cache'}", f"publish={place / 'figures'}"]
    assert main(["reproduce", f"figures={name}", "quality=draft", f"run_dir={here}", *options]) == OK, errors(here)
    return json.loads((here / "summary.json").read_text())


def errors(folder: Path) -> str:
    return "\n".join(path.read_text() for path in folder.glob("*.error.txt"))


@cache
def results_of(place: Path, name: str) -> tuple[Loaded, Results]:
    """What claims and pictures of a draft were made from, or a skip where it cannot run here."""
    summary = run(place, name)
    if summary["figures"][0]["status"] == "skipped":
        pytest.skip(summary["figures"][0]["reason"])
    loaded, setting = EXPERIMENTS[name].load(), read_setting(name, "draft")
    measured = Cache(place / "cache", loaded, setting).load(MEASURED)
    assert measured is not None
    return loaded, Results(loaded.predict(setting), measured, setting)


@pytest.mark.slow
@drafted
def test_files_numbers_and_claims_exist(place, name):
    loaded, data = results_of(place, name)
    published = {path.name for path in (place / "figures").iterdir()}
    assert {f"{name}{ending}" for ending in (".png", ".csv")} <= published
    rows = [row for row in run(place, name)["claims"] if row["figure"] == name]
    assert len(rows) == len(loaded.claims) >= 1
    for row in rows:
        assert row["holds"] == (row["measured"] is not None and _close(row)), row["id"]
        assert np.isfinite(row["predicted"])
        assert row["predicted"] != 0
        assert row["tolerance"] > 0
        assert row["statement"]
        assert row["source"]
        assert row["holds"] or row["explanation"], f"{row['id']} does not hold and says no reason: {row}"
    lines = (place / "figures" / f"{name}.csv").read_text().splitlines()
    assert 1 < len(lines) <= MOST_NUMBERS
    for part in (data.predicted, data.measured):
        assert part.data_vars
        for key, variable in part.data_vars.items():
            assert "units" in variable.attrs, f"{key}: expected attrs['units']"


def _close(row: dict) -> bool:
    return abs(row["measured"] - row["predicted"]) <= row["tolerance"]


@pytest.mark.slow
@drafted
def test_a_prediction_that_is_off_by_half_turns_every_verdict(place, name):
    loaded, data = results_of(place, name)
    scaled = data.predicted.copy()
    for key, variable in data.predicted.data_vars.items():
        if variable.dtype.kind in "fc":
            scaled[key] = 1.5 * variable
    before = {row["id"]: row["holds"] for row in (claims.row(claim, data) for claim in loaded.claims)}
    wrong = data._replace(predicted=scaled)
    stubborn = [claim.id for claim in loaded.claims if before[claim.id] and claims.row(claim, wrong)["holds"]]
    assert not stubborn, "claims that no prediction can break"


@every
def test_prediction_and_measurement_are_independent_witnesses(name):
    source.check_witnesses(EXPERIMENTS[name].source)


IDS = {claim.id for one in EXPERIMENTS.values() for claim in one.load().claims}


@every
def test_every_claim_says_what_could_have_made_it_fail_and_from_which_it_follows(name):
    for claim in EXPERIMENTS[name].load().claims:
        assert claim.fails_if, claim.id
        for other in filter(None, claim.follows.split(", ")):
            full = other if "." in other else f"{claim.follows.partition('.')[0]}.{other}"
            assert full in IDS - {claim.id}, claim.id


class Seen:
    """`Results` that notes whether a claim has looked at what was predicted."""

    measured, setting, looked = MagicMock(), MagicMock(), False

    @property
    def predicted(self) -> MagicMock:
        self.looked = True
        return MagicMock()


def compares(claim) -> bool:
    """Whether a claim's numbers come from what was predicted, or it says which constant it takes."""
    seen = Seen()
    for number in (claim.predicted, claim.measured):
        with contextlib.suppress(Exception):  # mocks are no numbers; what was looked at is noted all the same
            number(seen)
    return seen.looked or bool(claim.constant)


@every
def test_predictions_are_computed_or_name_their_constant(name):
    assert [claim.id for claim in EXPERIMENTS[name].load().claims if not compares(claim)] == []


def test_a_typed_prediction_is_noticed():
    typed = Claim("a.b", "", "", lambda f: 38.0, lambda f: float(f.measured.x), 0.1)
    assert not compares(typed)
    assert compares(replace(typed, constant="a closed form"))
    assert compares(replace(typed, predicted=lambda f: float(f.predicted.x)))


def published() -> dict:
    if not (FIGURES / publish.CLAIMS).exists():
        pytest.skip("nothing is published yet")
    return publish.read(FIGURES)


def stored(name: str) -> tuple[Loaded, Results, list]:
    """An experiment with its published numbers and claims, or a skip where there are none."""
    content = published()
    if name not in content["figures"]:
        pytest.skip("not published yet")
    text = (FIGURES / f"{name}.csv").read_text(encoding="utf-8")
    data = Results(*numbers.from_csv(text), read_setting(name, content["figures"][name]["quality"]))
    return EXPERIMENTS[name].load(), data, [row for row in content["claims"] if row["figure"] == name]


@every
def test_published_claims_are_those_of_the_experiment(name):
    content = published()
    loaded, rows = EXPERIMENTS[name].load(), [row for row in content["claims"] if row["figure"] == name]
    assert name in content["figures"], f"not published yet: {claims.command(name)} publish=figures"
    assert content["figures"][name]["quality"] == "paper"
    assert content["figures"][name]["question"] == loaded.question
    about = ("id", "statement", "source", *claims.ABOUT)
    assert [[row[key] or "" for key in about] for row in rows] == [
        [getattr(claim, key) for key in about] for claim in loaded.claims
    ]
    for row, claim in zip(rows, loaded.claims, strict=True):
        given = row["relative_tolerance"] if claim.relative else row["tolerance"]
        assert callable(claim.tolerance) or given == claim.tolerance, row["id"]
        assert row["holds"] == (row["measured"] is not None and _close(row)), row["id"]
        assert row["holds"] or row["explanation"], row["id"]
    assert content["figures"][name]["finding"] == claims.finding(loaded, rows)
    for ending in (".png", ".csv"):
        assert (FIGURES / f"{name}{ending}").is_file()


@every
def test_published_claims_are_those_of_the_published_numbers(name):
    """Ten digits of every number give each claim's numbers, to a millionth of it or of its tolerance."""
    loaded, data, rows = stored(name)
    for old, new in zip(rows, (claims.row(claim, data) for claim in loaded.claims), strict=True):
        assert new["holds"] == old["holds"], old["id"]
        for key in ("predicted", "measured"):
            allowed = 1e-6 * max(abs(old[key]), old["tolerance"])
            assert abs(new[key] - old[key]) <= allowed, f"{old['id']}: {key} {new[key]}, published {old[key]}"


def test_numbers_are_read_back_from_their_table():
    """Axes in any order, of one label, without labels, with one label twice; text, truth values, complex, missing."""
    one = xarray.Dataset(
        {
            "grid": (("b", "a"), np.array([[1.234567891, np.nan, -0.25]] * 2), {"units": "m"}),
            "pole": ("a", np.array([1j, 2.0, -1.0]), {"units": "1"}),
            "flag": ("a", np.array([True, False, True]), {"units": "1"}),
            "alone": (("c", "a"), np.array([[1.0, 2.0, 3.0]]), {"units": "1"}),
            "whole": ((), 0.1, {"units": "1"}),
        },
        {"a": [0.1, 0.2, 0.4], "c": ["only"], "label": ("a", ["x", "y", "x"])},
    )
    twice = xarray.Dataset({"seen": ("d", [1.0, 2.0, 3.0], {"units": "s"})}, {"d": ["p", "q", "p"]})
    back = numbers.from_csv(numbers.as_csv(Results(one, twice, Setting())))
    for mine, there in zip((one, twice), back, strict=True):
        xarray.testing.assert_equal(mine, there)
        assert {name: x.attrs for name, x in mine.data_vars.items()} == {
            name: x.attrs for name, x in there.data_vars.items()
        }
