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


def leave_out(items, mark: str, listed) -> set[str]:
    """Mark what a table of `tiers` leaves out of a tier. Returns what in it is no test's, of the files collected."""
    unused = {(name, "") for name in listed} | {(name, one) for name, cases in listed.items() for one in cases}
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
    """Files with much text first, so that no worker is left alone with a long one; the order within a file stays."""
    size = {path: path.stat().st_size for path in {item.path for item in items}}
    items.sort(key=lambda item: -size[item.path])
