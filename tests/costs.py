"""`costly.txt` anew: what `make test` leaves out by its measured cost, for `.ci/run` to run.

    BANDIT_LAB_TESTS_COSTS=costs.txt make test
    python tests/costs.py costs.txt > tests/costly.txt

The first leaves out nothing by its cost, and writes the CPU seconds of every test, of its processes too. Of a statement
(a function) that costs more than `MOST` (`MORE`), the cheapest cases stay that cost no more together. Every file
keeps a case of its cheapest statement, and those of `KEPT` stay: the shortest kill, interruption, run folder and
witness of its kind. Of every planted defect that a test has noticed (`defects.txt`, rows of `mutate.py`) the cheapest
such test stays.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

MOST = 0.8
"""Seconds of a core per statement."""
MORE = {"test_drawn_numbers.py": 18.0, "packages/grpo_clinic/tests/test_clinic_numbers.py": 9.0}
"""Where it is more: drawn settings see most for their time."""
KEPT = frozenset(
    {
        "app/test_commands.py::test_killed_sweep_is_not_a_finished_one",
        "app/test_damaged_runs.py::test_every_file_is_on_the_disk_before_its_name_and_the_manifest_is_last",
        "app/test_resume.py::test_failed_chunks_are_null_with_their_reason_and_are_tried_again",
        "grading/test_diagnoses.py::test_the_diagnostics_find_what_is_planted",
        "lab/test_check.py::test_a_failed_check_exits_1_and_says_how_often",
        "lab/test_extending.py::test_the_advantage_that_divides_by_a_spread",
        "lab/test_predict.py::test_a_hot_sampler_collapses_mean_only_training",
        "lab/test_reproduce.py::test_a_signal_half_way_loses_only_the_piece_at_work",
        "lab/test_sweep.py::test_folder_holds_what_is_promised",
        "measure/test_adam.py::test_held_threshold_is_the_preconditioned_closed_form",
        "measure/test_drawn_ages.py::test_the_mean_over_drawn_ages_is_the_averaged_gradient",
        "measure/test_period_jacobian.py::test_thresholds_are_the_closed_forms",
        "measure/test_fluctuation.py::test_stationary_variance_of_one_case",
        "measure/test_fluctuation.py::test_variance_diverges_towards_the_threshold",
        "measure/test_group_size.py::test_invariance_holds_while_many_of_both_kinds_are_drawn",
        "measure/test_neutral.py::test_a_product_of_two_parameters_rests_where_the_flow_leads",
        "simulation/test_engine.py::test_a_cells_bytes_do_not_depend_on_the_grid",
        "simulation/test_fast_path.py::test_without_the_one_kernel_the_runs_are_the_same_up_to_rounding",
    }
)


def costs(lines: Iterable[str]) -> dict[str, dict[str, float]]:
    """Seconds by statement and case, the least of several runs."""
    costs_of: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        seconds, _, node = line.rstrip("\n").partition("\t")
        name, _, case = node.removeprefix("tests/").partition("[")
        case = case.removesuffix("]")
        costs_of[name][case] = min(float(seconds), costs_of[name].get(case, float("inf")))
    return costs_of


def cheapest(cases: dict[str, float], most: float) -> tuple[str, ...]:
    """Cases that cost no more than `most` together."""
    cheap, total = [], 0.0
    for case, cost in sorted(cases.items(), key=lambda item: item[1]):
        total += cost
        if case and total <= most:
            cheap.append(case)
    return tuple(cheap)


def noticing(table: str) -> list[list[tuple[str, str]]]:
    """(statement, case) of the tests that noticed a defect, a list a row."""
    rows = [line.rstrip(" |").rpartition(" | ")[2] for line in table.splitlines() if line.startswith("| ")]
    parted = [[one.partition("[") for one in re.split(r", (?=\S+::)", row) if "::" in one] for row in rows]
    return [[(name.removeprefix("tests/"), case.removesuffix("]")) for name, _, case in row] for row in parted if row]


def costly(
    seconds: dict[str, dict[str, float]], defects: Iterable[list[tuple[str, str]]]
) -> dict[str, tuple[str, ...]]:
    """Statements that cost too much, with the cases that stay."""
    files: dict[str, list[str]] = defaultdict(list)
    for name in sorted(seconds, key=lambda name: sum(seconds[name].values())):
        files[name.partition("::")[0]].append(name)
    alone = {names[0] for names in files.values()}
    left_out = {}
    for name, cases in sorted(seconds.items()):
        most = MORE.get(name.partition("::")[0], MOST)
        most = max(most, min(cases.values())) if name in alone else most
        if name not in KEPT and sum(cases.values()) > most:
            left_out[name] = cheapest(cases, most)
    for tests in defects:
        costs_of = {(name, case): seconds[name][case] for name, case in tests if case in seconds.get(name, ())}
        if costs_of and all(name in left_out and case not in left_out[name] for name, case in costs_of):
            name, case = min(costs_of, key=costs_of.__getitem__)
            if case:
                left_out[name] = (*left_out[name], case)
            else:
                del left_out[name]
    return left_out


if __name__ == "__main__":
    noticed = noticing((Path(__file__).parent / "defects.txt").read_text())
    for statement, cases in costly(costs(Path(sys.argv[1]).read_text().splitlines()), noticed).items():
        print(statement, *(f"    {case}" for case in cases), sep="\n")
