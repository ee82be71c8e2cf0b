"""Parts of `reproduce`: the verdict, the entries of the cache, what a function is seen to depend on."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

from bandit_lab.lab.reproduce import cache, claims, source
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, _as_setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared.readings import share_near_one


def _found(predicted: float, measured: float, quality: str = "draft") -> Results:
    data = [xarray.Dataset({"x": ((), value)}) for value in (predicted, measured)]
    return Results(*data, _as_setting({"quality": quality, "tolerance": {"x": 0.25}}))


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


def test_every_setting_is_part_of_a_measurements_key(monkeypatch):
    monkeypatch.setattr(cache, "_code", lambda: "code")
    loaded = SimpleNamespace(id="a", source="s", inputs=lambda setting: [])
    settings = [{"quality": "draft", "seeds": seeds, "grid": {"num": num}} for seeds in (4, 8) for num in (2, 3)]
    keys = {cache._key(loaded, _as_setting(one), plugins) for one in settings for plugins in ((), ("mine",))}
    assert len(keys) == 8


FILE = """
import bandit_lab.measure as m
import numpy as np
from bandit_lab import theory
from bandit_lab.bandits import k_arm, two_arm
UNIT, WIDE = "m", 3
def shared(x):
    return np.array(x)
def law(x):
    return theory.exact("lag", shared(x), 0.0)
def predict(x):
    return law(x), UNIT
def measure(x):
    draw = bandit(x)
    return m.growth_rate(draw, shared(x)), UNIT
def bandit(x):
    return two_arm(x)
def other(x):
    return k_arm(WIDE)
def draw(figure, found):
    return shared(WIDE)
CLAIMS = (lambda f: f.measured.x,)
"""


def test_what_a_function_uses_is_seen_through_its_helpers():
    used = {part: {name for name, _ in source._uses(FILE, part) if "." in name} for part in ("predict", "measure")}
    assert used == {
        "predict": {"bandit_lab.theory.exact", "numpy.array"},
        "measure": {"bandit_lab.measure.growth_rate", "bandit_lab.bandits.two_arm", "numpy.array"},
    }
    source.check_witnesses(FILE)


PLANTED = {
    "directly": ("theory.exact(", "m.growth_rate(", "predict", "bandit_lab.measure.growth_rate in line 10"),
    "by the other witness": (
        "return law(x)",
        "return measure(x)",
        "predict",
        "bandit_lab.measure.growth_rate in line 15",
    ),
    "by a helper": ("two_arm(x)", "law(x)", "measure", "bandit_lab.theory.exact in line 10"),
    "a default": ("def bandit(x", "def bandit(x=theory.LAW", "measure", "bandit_lab.theory.LAW in line 16"),
    "a decorator": ("def bandit", "@theory.cached\ndef bandit", "measure", "bandit_lab.theory.cached in line 16"),
    "a constant": ('UNIT, WIDE = "m"', "UNIT, WIDE = theory.UNIT", "measure", "bandit_lab.theory.UNIT in line 6"),
    "an import inside": (
        "def bandit(x):",
        "def bandit(x):\n    from bandit_lab.lab.predict.fixed_point import wire",
        "measure",
        "bandit_lab.lab.predict.fixed_point.wire in line 17",
    ),
    "the package": (
        "return law(x), UNIT",
        "import bandit_lab\n    return getattr(bandit_lab, x), UNIT",
        "predict",
        "bandit_lab in line 12",
    ),
    "the module": ("two_arm(x)", "two_arm(theory)", "measure", "bandit_lab.theory in line 17"),
    "a changed module": (
        "def shared",
        "np.x = theory.exact\ndef shared",
        "measure",
        "bandit_lab.theory.exact in line 7",
    ),
    "by text": ("two_arm(x)", "__import__(x)", "measure", "__import__ in line 17"),
    "a picture": ("shared(WIDE)", "law(WIDE)", "draw", "bandit_lab.theory.exact in line 10"),
    "a claim": ("f.measured.x", "law(f.measured.x)", "CLAIMS", "bandit_lab.theory.exact in line 10"),
}


@pytest.mark.parametrize("how", PLANTED)
def test_a_witness_that_uses_the_other_side_is_refused(how):
    before, after, part, got = PLANTED[how]
    assert before in FILE
    with pytest.raises(ValueError, match=rf"^{part}: expected nothing of .*, got {re.escape(got)}$"):
        source.check_witnesses(FILE.replace(before, after, 1))


@pytest.fixture
def shared_files(tmp_path, monkeypatch):
    """Two files beside experiments, the first of which imports the second, whose text is returned to be changed."""
    monkeypatch.setattr(source, "beside_package", lambda folder, holds: tmp_path)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/first.py").write_text("from experiments.shared import second\n")
    yield tmp_path / "shared/second.py"
    source._shared.cache_clear()


USING = FILE.replace("import numpy as np", "import numpy as np\nfrom experiments.shared.first import two_arm as far")
USING = USING.replace("return two_arm(x)", "return far(x)")


def test_a_witness_that_uses_the_other_side_through_a_shared_file_is_refused(shared_files):
    shared_files.write_text("from bandit_lab.bandits import two_arm\n")
    source.check_witnesses.__wrapped__(USING)
    shared_files.write_text("def two_arm(x):\n    from bandit_lab.theory import exact\n")
    with pytest.raises(ValueError, match=r"^measure: .*got bandit_lab\.theory\.exact in line 18$"):
        source.check_witnesses.__wrapped__(USING)


def test_claims_of_one_reading_compare_what_it_reads():
    data = [xarray.Dataset({"x": ("i", values)}) for values in ([2.0, 4.0], [2.2, 3.0])]
    results = Results(*data, _as_setting({"quality": "draft"}))
    rows = [
        claims.row(claim, results)
        for claim in (
            Claim.ratio("a.b", "", "", lambda d: d.x, 0.2, explanation="no"),
            Claim.same("a.c", "", "", lambda d: d.x[0], 0.11, relative=True),
            Claim.one("a.d", "", "", lambda f: f.measured.x[0] - 1, 0.1),
        )
    ]
    seen = [(row["predicted"], row["measured"], row["holds"]) for row in rows]
    assert seen == [(1, 0.75, False), (2, 2.2, True), (1, pytest.approx(1.2), False)]


def test_claims_that_follow_from_others_are_no_independent_checks():
    def row(number, **about):
        claim = Claim(f"a.{number}", "", "", lambda f: 1.0, lambda f: float(f.measured.x), 0.5, **about)
        return claims.row(claim, _found(1.0, number))

    rows = [row(1), row(2), row(1.1, follows="a.1", fails_if="it rains"), row(1.2, post_hoc="seen", constant="a book")]
    assert [one["independent"] for one in rows] == [True, True, False, True]
    assert claims.tally(rows) == (
        "4 claims, of which 3 hold. 3 of them are independent checks, of which 2 hold; the others follow from these. "
        "Post hoc: 1."
    )


def test_farthest_from_one_takes_plain_numbers():
    assert farthest_from_one(np.array([1.1, 0.8]), 1.0) == 0.8
    assert farthest_from_one(np.array([1.1, 5.0]), np.array([1.0, np.nan])) == 1.1
    assert np.isnan(farthest_from_one(np.array([1.1, np.nan]), 1.0))


def test_the_share_near_one_is_of_all_that_is_predicted():
    """What was not found is not near; what is not predicted does not count; axes are told by their names."""
    predicted = xarray.DataArray([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]], dims=("a", "b"))
    measured = xarray.DataArray([[1.1, 4.0], [2.4, 5.0], [1.0, np.nan]], dims=("b", "a"))
    assert share_near_one(measured, predicted, 0.15) == pytest.approx(3 / 5)
    assert share_near_one(np.array([[1.125], [0.875]]), 1.0, 0.125) == 1.0
    assert share_near_one(np.array([1.0, np.nan]), 1.0, 0.125) == 0.5


def test_parts_are_kept_in_their_order_and_told_one_by_one():
    stored: dict = {"b": xarray.Dataset({"x": 7})}
    lines: list = []
    lab = Lab(lambda name, make: stored[name] if name in stored else make(), lambda *seen: lines.append(seen))
    parts = lab.keep_each({name: lambda name=name: xarray.Dataset({"x": ord(name)}) for name in "abc"})
    assert {name: int(part.x) for name, part in parts.items()} == {"a": 97, "b": 7, "c": 99}
    assert (list(parts), lines) == (["a", "b", "c"], [(1, 3), (2, 3), (3, 3)])
