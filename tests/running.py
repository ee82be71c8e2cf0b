"""How the tests are run: quickly compiled, long files first, in tiers."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICKLY = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"
AS_RELEASED = "BANDIT_LAB_TESTS_AS_RELEASED"


def compile_quickly() -> None:
    """Have XLA compile with its older code generator and LLVM's first level: most of the tests' time is compilation.

    The programs are the same, and so are their numbers up to rounding. Nothing changes where AS_RELEASED is 1
    (`.ci/run` runs a choice of tests so once more), nor where XLA does not know the flags: it would end every process
    with an abort. To be called before JAX is imported; workers and commands under test inherit it.
    """
    given = os.environ.get("XLA_FLAGS", "")
    if os.environ.get(AS_RELEASED) == "1" or QUICKLY in given:
        return
    flags = f"{given} {QUICKLY}".strip()
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    if subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0:
        os.environ["XLA_FLAGS"] = flags


LONGEST = (
    "simulation/test_fast_path.py",
    "lab/test_check.py",
    "lab/test_reproduce_figures.py",
    "app/test_resume.py",
    "measure/test_adam.py",
    "measure/test_fluctuation.py",
    "measure/test_floquet.py",
    "lab/test_reproduce.py",
    "lab/test_predict.py",
    "app/test_bad_input.py",
    "lab/test_wiring.py",
    "app/test_dask.py",
    "simulation/test_engine.py",
    "lab/test_extending.py",
    "lab/test_sweep.py",
    "measure/test_drawn_ages.py",
    "app/test_commands.py",
    "simulation/test_exact_means.py",
    "grading/test_diagnoses.py",
    "simulation/test_random_bits.py",
    "measure/test_group_size.py",
    "simulation/test_fast_non_silent.py",
    "benchmarks/test_benchmarks.py",
    "simulation/test_dropped_and_clipped.py",
    "simulation/test_fast_draws.py",
    "measure/test_mixed.py",
    "app/test_damaged_runs.py",
    "measure/test_neutral.py",
    "measure/test_thresholds.py",
    "simulation/test_enumerated_groups.py",
    "simulation/test_devices.py",
    "measure/test_stiffness.py",
    "measure/test_escape.py",
)
"""Files of more than about a quarter of a minute, longest first: they begin first, so that no worker is left alone with
one."""


def leave_out(items, mark: str, listed) -> set[str]:
    """Mark what a table of `tiers` leaves out of a tier. Returns what in it is no test's, of the files collected."""
    unused = {(name, "") for name in listed} | {(name, one) for name, kept in listed.items() for one in kept}
    files = set()
    for item in items:
        file = item.path.relative_to(ROOT).as_posix().removeprefix("tests/")
        name, case = f"{file}::{item.originalname}", item.name[len(item.originalname) + 1 : -1]
        files.add(file)
        unused -= {(name, ""), (name, case)}
        if name in listed and case not in listed[name]:
            item.add_marker(mark)
    return {f"{name}[{case}]" for name, case in unused if name.partition("::")[0] in files}


def longest_first(items) -> None:
    """Long files first; the order within a file stays."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get("/".join(item.path.parts[-2:]), len(place)))
