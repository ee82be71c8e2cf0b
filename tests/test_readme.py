"""The claims of README and docs/results.md are the published ones: tables against figures/claims.json and the default
sweep's summary, the diagnostics' scores against the files that their scripts wrote."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.image import imread

ROOT = Path(__file__).resolve().parents[1]
README, RESULTS = "README.md", "docs/results.md"
ROW = re.compile(r"^\| `([\w.]+)` \| .* \| (\S+) \| (\S+) \| (yes|\*\*no\*\*) \|$", re.MULTILINE)


CLAIMS = json.loads((ROOT / "figures/claims.json").read_text(encoding="utf-8"))["claims"]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def rows(page: str) -> list[tuple[str, str, str, str]]:
    """(id, predicted, measured, holds) of every row."""
    return ROW.findall(text(page))


@pytest.mark.parametrize("row", [*rows(README), *rows(RESULTS)], ids=lambda row: row[0])
def test_a_row_is_the_published_claim(row):
    claim = {c["id"]: c for c in CLAIMS}[row[0]]
    expected = f"{claim['predicted']:.4g}", f"{claim['measured']:.4g}", "yes" if claim["holds"] else "**no**"
    assert row[1:] == expected


def test_every_figure_has_a_row():
    assert {row[0].split(".")[0] for row in rows(RESULTS)} == {claim["figure"] for claim in CLAIMS}


def test_the_readme_shows_six_rows_of_the_results_and_one_that_fails():
    assert len(rows(README)) == 6
    assert set(rows(README)) < set(rows(RESULTS))
    assert "**no**" in {row[3] for row in rows(README)}


@pytest.mark.parametrize("path", sorted((ROOT / "figures").glob("*.png")), ids=lambda path: path.stem)
def test_no_picture_is_cut_at_its_edge(path):
    """A label that is longer than the picture is wide leaves ink on its outermost pixels."""
    light = imread(path)[..., :3].min(axis=-1)
    assert min(light[0].min(), light[-1].min(), light[:, 0].min(), light[:, -1].min()) > 0.8


SWEEP = re.compile(r"^" + r"\| (\S+) " * 7 + r"\|$", re.MULTILINE)


def test_the_table_of_the_default_sweep_is_its_summary():
    """Every column: over the law at G = infinity, that of the sampled runs over the law at their own drift."""
    summary = json.loads((ROOT / "figures/default_sweep.summary.json").read_text(encoding="utf-8"))

    def by_cell(found, drift=None):
        return {(row["momentum"], row["refresh_interval"]): row for row in found if row.get("drift") == drift}

    threshold, warm = (by_cell(summary["threshold"], f"G = {size}") for size in ("infinity", "64"))
    onset, sampled = by_cell(summary["transition"], "G = infinity"), by_cell(summary["sampled"]["rows"])
    stated = [row for row in SWEEP.findall(text(RESULTS)) if row[1].isdigit()]
    assert [(float(row[0]), int(row[1])) for row in stated] == list(sampled)
    for momentum, interval, law, *said in stated:
        at = float(momentum), int(interval)
        expected = threshold[at]["leading_order"]
        assert law == f"{expected:.4g}"
        ratios = [threshold[at][key] / expected for key in ("exact", "measured_learning_rate")]
        ratios.append(onset[at]["measured_learning_rate"] / expected)
        ratios.append(sampled[at]["boundary_learning_rate"] / warm[at]["leading_order"])
        digits = [len(one.replace(".", "").lstrip("0")) for one in said]
        assert [float(one) for one in said] == [float(f"{x:.{n}g}") for x, n in zip(ratios, digits, strict=True)]


HELD_OUT = json.loads((ROOT / "figures/held_out.summary.json").read_text(encoding="utf-8"))["benchmark"]
SCORES = re.compile(
    r"names the failure in (\S+) % and raises a false alarm in (\S+) % of healthy\s+runs; "
    r"from the reward curve alone it is (\S+) % and (\S+) % "
    r"\(`python experiments/grading/diagnoses.py split=(\w+) runs=(\d+)`"
)


def rates(found) -> tuple[float, float]:
    """(mean recall, false alarms), counted again from the table of failures."""
    shares = [row["found"] / row["present"] for row in found["failures"]]
    return sum(shares) / len(shares), found["false_alarms"] / found["healthy"]


def test_the_diagnostics_scores_are_those_of_the_file():
    (stated,) = SCORES.findall(text(RESULTS))
    expected = [rate for key in ("diagnose", "reward_only") for rate in rates(HELD_OUT[key])]
    assert list(stated[:4]) == [f"{100 * rate:.2g}" for rate in expected]
    assert stated[4:] == (HELD_OUT["split"], str(HELD_OUT["runs"]))


PUBLIC = re.compile(
    r"names (\d+) % of documented failures \(95 % interval (\d+) to (\d+), a repository counts once; (\d+) of (\d+) "
    r"runs\)\. It raised a false alarm on (\d+) of (\d+) healthy runs"
)


def test_the_scores_of_the_rules_before_are_those_of_the_file():
    (stated,) = PUBLIC.findall(" ".join(text(RESULTS).split()))
    found = json.loads((ROOT / "figures/clinic.json").read_text(encoding="utf-8"))
    named, alarms = found["diagnose"]["named"], found["diagnose"]["false_alarms"]
    expected = [round(100 * x) for x in (named["by_family"], *named["by_family_interval_95"])]
    expected += [named["found"], named["runs"], alarms["found"], alarms["runs"]]
    assert [int(number) for number in stated] == expected


@pytest.mark.parametrize("page", [README, RESULTS], ids=["README", "results"])
def test_the_scores_are_those_of_the_half_that_was_not_looked_at(page):
    half = json.loads((ROOT / "figures/halves.json").read_text(encoding="utf-8"))["second"]
    named, accused = (
        (one["found"], one["runs"], *(round(100 * x) for x in (one["share"], *one["interval"])))
        for one in (half["named"], half["accused"])
    )
    told = "named {} of {} documented failures ({} % by repository, 95 % interval {} to {}) and accused ".format(
        *named
    ) + "{} of {} healthy runs ({} % by repository, {} to {})".format(*accused)
    assert told in " ".join(text(page).split())


def test_the_readme_tells_the_simulated_score_of_diagnose():
    recall, alarms = rates(HELD_OUT["diagnose"])
    said = " ".join(text(README).split())
    assert f"names {100 * recall:.2g} % of large simulated failures ({100 * alarms:.2g} % false alarms)" in said


def test_the_readme_tells_the_speeds_of_the_table():
    """Fast and reference path over NumPy, sizes A to C."""
    cells = [
        line.split("|")[1:-1] for line in text("docs/speed.md").splitlines() if line[:4] in ("| A ", "| B ", "| C ")
    ]
    assert len(cells) == 3
    fast = [float(number) for row in cells for number in (row[4], *re.findall(r"\((\d+)\)", row[5]))]
    reference = [float(row[6]) for row in cells]
    said = f"runs at {min(fast):g} to {max(fast):g} times the speed of vectorised NumPy, the reference path at "
    assert f"{said}{min(reference):g} to {max(reference):g} times" in " ".join(text(README).split())


def test_the_diagnostics_reach_their_targets_on_held_out_runs():
    """Mean recall >= 0.95 where an effect has the demanded size, alarms on <= 2 % of healthy runs; the curve alone
    does not."""
    assert HELD_OUT["runs"] == 1500
    assert HELD_OUT["targets"] == {"recall": 0.95, "false_alarms": 0.02}
    recall, alarms = rates(HELD_OUT["diagnose"])
    assert recall >= 0.95
    assert alarms <= 0.02
    assert rates(HELD_OUT["reward_only"])[0] < 0.95
    assert rates(HELD_OUT["reward_only"])[1] > 0.02
    assert min(row["present"] for row in HELD_OUT["diagnose"]["failures"]) >= 50


def test_recall_grows_with_the_size_of_the_effect():
    """Above the demanded size in total as in the table; the largest effects are found more often than the smallest."""
    for row in HELD_OUT["diagnose"]["failures"]:
        bins = HELD_OUT["diagnose"]["recall_by_effect"][row["failure"]]
        demanded = [one for one in bins if one["low"] >= HELD_OUT["demanded"][row["failure"]]]
        assert sum(one["found"] for one in demanded) == row["found"]
        assert sum(one["runs"] for one in demanded) == row["present"]
        assert bins[-1]["found"] / bins[-1]["runs"] > bins[0]["found"] / bins[0]["runs"]


def test_the_claims_are_counted_as_in_the_table():
    holding, alone, late = (sum(bool(row[key]) for row in CLAIMS) for key in ("holds", "independent", "post_hoc"))
    said = (
        f"Some of the {len(CLAIMS)} claims, of which {holding} hold; {alone} are independent checks, {late} were made"
    )
    assert said in " ".join(text(RESULTS).split())
    assert f"Six of {len(CLAIMS)} claims; {holding} hold." in " ".join(text(README).split())


def test_the_first_screen_counts_what_was_predicted_before_and_how_far_thresholds_agree():
    before = [row["holds"] for row in CLAIMS if not row["post_hoc"]]
    farthest = max(abs(row["measured"] - 1) for row in CLAIMS if re.fullmatch(r"phase_diagram\.._exact", row["id"]))
    first = " ".join(text(README).split("![")[0].split())
    assert f"{len(before)} predictions were written before the measurement, and {sum(before)} hold." in first
    assert f"Another {len(CLAIMS) - len(before)} were added after a first look." in first
    assert f"their thresholds agree to {farthest:.0e}.".replace("e-0", "e-") in first
