"""The claims of README and docs/results.md are the published ones: tables against figures/claims.json and the default
sweep's summary, scores against the files that their scripts wrote."""

import json
import re
from pathlib import Path

import pytest

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


SWEEP = re.compile(r"^" + r"\| (\S+) " * 7 + r"\|$", re.MULTILINE)


def test_the_table_of_the_default_sweep_is_its_summary():
    """Every column: over the law at G = infinity, that of the sampled runs over the law at their own drift."""
    summary = json.loads((ROOT / "figures/default_sweep.summary.json").read_text(encoding="utf-8"))

    def by_cell(summary, drift=None):
        return {(row["momentum"], row["refresh_interval"]): row for row in summary if row.get("drift") == drift}

    threshold, warm = (by_cell(summary["threshold"], f"G = {size}") for size in ("infinity", "64"))
    onset, sampled = by_cell(summary["transition"], "G = infinity"), by_cell(summary["sampled"]["rows"])
    stated = [row for row in SWEEP.findall(text(RESULTS)) if row[1].isdigit()]
    assert [(float(row[0]), int(row[1])) for row in stated] == list(sampled)
    for momentum, interval, law, *numbers in stated:
        at = float(momentum), int(interval)
        expected = threshold[at]["leading_order"]
        assert law == f"{expected:.4g}"
        ratios = [threshold[at][key] / expected for key in ("exact", "measured_learning_rate")]
        ratios.append(onset[at]["measured_learning_rate"] / expected)
        ratios.append(sampled[at]["boundary_learning_rate"] / warm[at]["leading_order"])
        digits = [len(one.replace(".", "").lstrip("0")) for one in numbers]
        assert [float(one) for one in numbers] == [float(f"{x:.{n}g}") for x, n in zip(ratios, digits, strict=True)]


HELD_OUT = json.loads((ROOT / "figures/held_out.summary.json").read_text(encoding="utf-8"))["benchmark"]


def rates(scores) -> tuple[float, float]:
    """(mean recall, false alarms), counted again from the table of failures."""
    shares = [row["found"] / row["present"] for row in scores["failures"]]
    return sum(shares) / len(shares), scores["false_alarms"] / scores["healthy"]


@pytest.mark.parametrize("page", [README, RESULTS], ids=["README", "results"])
def test_the_scores_are_those_of_the_half_that_was_not_looked_at(page):
    half = json.loads((ROOT / "figures/halves.json").read_text(encoding="utf-8"))["second"]
    named, accused = (
        (one["found"], one["runs"], *(round(100 * x) for x in (one["share"], *one["interval"])))
        for one in (half["named"], half["accused"])
    )
    sentence = "named {} of {} documented failures ({} % by repository, 95 % interval {} to {}). It accused ".format(
        *named
    ) + "{} of {} healthy runs ({} % by repository, {} to {})".format(*accused)
    assert sentence in " ".join(text(page).split())


def test_other_programs_are_scored_on_the_same_files():
    halves = json.loads((ROOT / "figures/halves.json").read_text(encoding="utf-8"))
    others, table = halves["second: other programs"], text(RESULTS)
    for part in ("named", "accused"):
        assert {one[part]["runs"] for one in others.values()} == {halves["second"][part]["runs"]}
        for one in (one[part] for one in others.values()):
            percent = [round(100 * share) for share in (one["share"], *one["interval"])]
            assert "| {} of {} | {} % ({} to {}) |".format(one["found"], one["runs"], *percent) in table
    ends = [end for part in ("named", "accused") for end in range_of(one[part]["found"] for one in others.values())]
    assert "named {} to {} and accused {} to {}.".format(*ends) in " ".join(text(README).split())


def range_of(numbers) -> tuple[int, int]:
    every = [*numbers]
    return min(every), max(every)


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


def test_the_claims_are_counted_as_in_the_table():
    holding, alone, late = (sum(bool(row[key]) for row in CLAIMS) for key in ("holds", "independent", "post_hoc"))
    sentences = (
        f"Some of the {len(CLAIMS)} claims, of which {holding} hold; {alone} are independent checks, {late} were made"
    )
    assert sentences in " ".join(text(RESULTS).split())
    assert f"Six of {len(CLAIMS)} claims; {holding} hold." in " ".join(text(README).split())


def test_the_first_screen_counts_what_was_predicted_before_and_how_far_thresholds_agree():
    before = [row["holds"] for row in CLAIMS if not row["post_hoc"]]
    farthest = max(abs(row["measured"] - 1) for row in CLAIMS if re.fullmatch(r"phase_diagram\.._exact", row["id"]))
    first = " ".join(text(README).split("![")[0].split())
    assert f"{len(before)} predictions were written before the measurement, and {sum(before)} hold." in first
    assert f"Another {len(CLAIMS) - len(before)} were added after a first look." in first
    assert f"their thresholds agree to {farthest:.0e}.".replace("e-0", "e-") in first
