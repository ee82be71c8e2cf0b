"""Parts of `reproduce`: the verdict, the entries of the cache, what a function is seen to import."""

import ast

import numpy as np
import pytest
import xarray

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce import cache, claims, source
from bandit_lab.study.reproduce.experiment import Claim, Found, as_setting, discover


def _found(predicted: float, measured: float, quality: str = "draft") -> Found:
    data = [xarray.Dataset({"x": ((), value)}) for value in (predicted, measured)]
    return Found(*data, as_setting({"quality": quality, "tolerance": {"x": 0.25}}))


@pytest.mark.parametrize(
    ("measured", "tolerance", "relative", "holds"),
    [
        (2.5, 0.5, False, True),
        (2.50001, 0.5, False, False),
        (1.5, 0.25, True, True),
        (1.4999, 0.25, True, False),
        (1.5, lambda f: f.setting.tolerance.x, True, True),
        (float("nan"), 1e9, False, False),
    ],
)
def test_the_verdict_is_the_distance_against_the_tolerance(measured, tolerance, relative, holds):
    claim = Claim("a.b", "", "", lambda f: float(f.predicted.x), lambda f: float(f.measured.x), tolerance, relative)
    row = claims.row(claim, _found(2.0, measured))
    assert row["holds"] is holds
    assert row["holds"] is bool(abs(row["measured"] - row["predicted"]) <= row["tolerance"])


def test_entries_keep_types_attributes_and_coordinates():
    dataset = xarray.Dataset(
        {
            "number": (("a", "b"), np.array([[1.5, np.nan, np.inf], [-0.0, 1e-300, 3.0]]), {"units": "m", "n": 3}),
            "count": ("a", np.array([1, 2**62])),
            "flag": ("a", np.array([True, False])),
            "pole": ("a", np.array([1j, 2.0])),
            "name": ("a", np.array(["one", "zwölf"], dtype=object)),
            "single": ((), np.float32(0.1)),
        },
        {"a": ["x", "y"], "b": [0.1, 0.2, 0.3], "label": ("a", ["p", "q"])},
        {"about": "all"},
    )
    back = cache.unpack(cache.pack(dataset))
    xarray.testing.assert_identical(back, dataset.assign(name=dataset["name"].astype(str)))
    assert {name: v.dtype.kind for name, v in back.data_vars.items()} == {
        "number": "f",
        "count": "i",
        "flag": "b",
        "pole": "c",
        "name": "U",
        "single": "f",
    }


def test_what_a_function_imports_is_seen_through_its_helpers():
    text = (
        "import bandit_lab.measure as m\nfrom bandit_lab import theory\n"
        "def helper(x):\n    return theory.exact('lag', x, 0.0)\n"
        "def predict(x):\n    return helper(x)\n"
        "def measure(x):\n    from bandit_lab.theory import leading_order\n"
        "    return m.growth_rate(leading_order(x, 0.0))\n"
    )
    assert "bandit_lab.theory.exact" in source.imported(text, "predict")
    assert not any(name.startswith("bandit_lab.measure") for name in source.imported(text, "predict"))
    assert {"bandit_lab.theory.leading_order", "bandit_lab.measure.growth_rate"} <= source.imported(text, "measure")


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A figure in the room of the package: drawing and measurement in files of their own."""
    folder = tmp_path / "bandit_lab" / "study" / "figures" / "squares"
    folder.mkdir(parents=True)
    head = "from bandit_lab.study.figures.squares."
    texts = {
        "problem": "UNIT = 'm'\nWIDE = 3\n",
        "measure": f"{head}problem import UNIT, WIDE\nfrom bandit_lab.theory import exact\n"
        "def measure(x):\n    return helper(x), UNIT\n"
        "def helper(x):\n    return exact(x)\ndef other(x):\n    return WIDE\n",
        "draw": "def draw(x):\n    return 1\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(source, "__file__", str(tmp_path / "bandit_lab" / "study" / "reproduce" / "source.py"))
    return folder


EXPERIMENT = (
    "from bandit_lab.study.figures.squares.draw import draw\n"
    "from bandit_lab.study.figures.squares.measure import measure\n"
)


@pytest.mark.parametrize(
    ("part", "before", "after", "seen"),
    [
        ("measure", "exact(x)", "exact(2 * x)", True),
        ("problem", "'m'", "'km'", True),
        ("problem", "WIDE = 3", "WIDE = 4", False),
        ("measure", "return WIDE", "return 0", False),
        ("draw", "return 1", "return 2", False),
    ],
)
def test_code_of_a_figure_is_followed_into_its_files(room, part, before, after, seen):
    one = source.text(EXPERIMENT, "measure")
    path = room / f"{part}.py"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    assert (source.text(EXPERIMENT, "measure") != one) is seen
    assert "bandit_lab.theory.exact" in source.imported(EXPERIMENT, "measure")


@pytest.mark.parametrize(
    "line",
    [
        "import bandit_lab.study.figures.squares.measure as m",
        "from bandit_lab.study.figures.squares import measure as m",
    ],
)
def test_a_whole_module_of_the_room_is_refused(room, line):
    with pytest.raises(ValueError, match="got the whole module"):
        source.text(f"{line}\ndef measure(x):\n    return m.measure(x)\n", "measure")


def test_claims_of_one_reading_compare_what_it_reads():
    data = [xarray.Dataset({"x": ("i", values)}) for values in ([2.0, 4.0], [2.2, 3.0])]
    found = Found(*data, as_setting({"quality": "draft"}))
    rows = [
        claims.row(claim, found)
        for claim in (
            Claim.ratio("a.b", "", "", lambda d: d.x, 0.2, explanation="no"),
            Claim.same("a.c", "", "", lambda d: d.x[0], 0.11, relative=True),
        )
    ]
    assert [(row["predicted"], row["measured"], row["holds"]) for row in rows] == [(1, 0.75, False), (2, 2.2, True)]


def test_claims_that_follow_from_others_are_no_independent_checks():
    def row(number, **about):
        claim = Claim(f"a.{number}", "", "", lambda f: 1.0, lambda f: float(f.measured.x), 0.5, **about)
        return claims.row(claim, _found(1.0, number))

    rows = [row(1), row(2), row(1.1, follows="a.1", fails_if="it rains"), row(1.2, post_hoc="seen", constant="a book")]
    assert [one["independent"] for one in rows] == [True, True, False, True]
    assert claims.counted(rows) == (
        "4 claims, of which 3 hold. 3 of them are independent checks, of which 2 hold; the others follow from these. "
        "Post hoc: 1."
    )
    said = [claims.doubts(one) for one in rows]
    assert said == ["not stated"] * 2 + [
        "it rains; follows from a.1",
        "not stated; post hoc: seen; constant from a book",
    ]
    before = {key: value for key, value in rows[0].items() if key not in (*claims.ABOUT, "independent")}
    assert claims.counted([before]).startswith("1 claims, of which 1 hold. 1 of them")


def test_farthest_from_one_takes_plain_numbers():
    assert farthest_from_one(np.array([1.1, 0.8]), 1.0) == 0.8
    assert farthest_from_one(np.array([1.1, 5.0]), np.array([1.0, np.nan])) == 1.1
    assert np.isnan(farthest_from_one(np.array([1.1, np.nan]), 1.0))


@pytest.mark.parametrize("name", discover())
def test_an_experiment_is_short_and_has_no_logic_of_its_own(name):
    text = discover()[name].source
    if source.ROOM not in text:
        pytest.skip("all of it stands in one file, as it may")
    assert len(text.splitlines()) <= 180
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    others = [one.name for one in functions if one.returns is None or "Claim" not in ast.unparse(one.returns)]
    assert not others, "what does not make claims belongs into bandit_lab/study/figures"


@pytest.mark.parametrize("experiment", discover().values(), ids=lambda one: one.id)
def test_the_key_covers_the_rooms_of_study_that_a_measurement_uses(experiment):
    """Code that moves out of `ROOMS` would be changed without being measured again. What frames a run is not in it."""
    frame = ("bandit_lab.study.figures.", "bandit_lab.study.reproduce.")
    covered = tuple(f"bandit_lab.{room.replace('/', '.')}." for room in cache.ROOMS)
    used = {name for name in source.imported(experiment.load().source, "measure") if "bandit_lab.study." in name}
    assert [name for name in used if not name.startswith(frame + covered)] == []
