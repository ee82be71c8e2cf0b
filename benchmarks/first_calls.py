"""Seconds of the first call of every variant, each in a process of its own with nothing compiled before.

    python -m benchmarks.first_calls [--sizes A B C D] [--paths reference fast] [--only PART_OF_A_NAME]

A variant is the workload with one rule or the bandit exchanged. Printed are wall-clock seconds and CPU
seconds of `simulation.run` with 4,096 seeds (D: 2,048 cells) and 200 steps, and those of a second call, the run
alone. The import of JAX and the start of its devices are left out. Nothing is judged: a busy machine is slow.

A variant that takes longer than `--patience` seconds is ended, and the next one begins.
"""

import argparse
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax

from bandit_lab import simulation
from bandit_lab.simulation import fast
from benchmarks.engines import CELLS, shortened
from benchmarks.variants import variants
from benchmarks.workload import SIZES, Case

PATHS = ("reference", "fast")


def in_child(work: Callable[[], Any], patience: float | None = None) -> Any:
    """`work()`, as JSON, of a process that is forked before JAX has started a device; None where it failed.

    Raises TimeoutError after so many seconds of `patience`, when the process has been ended.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            jax.config.update("jax_enable_x64", True)  # as in every command
            jax.devices()
            os.write(writer, json.dumps(work()).encode())
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        late = not select.select([pipe], [], [], patience)[0]
        if late:
            os.kill(child, signal.SIGKILL)
        text = pipe.read()
    os.waitpid(child, 0)
    if late:
        raise TimeoutError
    return json.loads(text) if text else None


def timed(case: Case, label: str, path: str) -> list[float] | None:
    """[wall, CPU of the first call, wall, CPU of the second], seconds. None where the path does not serve."""
    learner = next(learner for name, learner, _ in variants(case) if name == label)
    if path == "fast" and fast.unsupported_reason(learner, case.dynamics):
        return None
    times = []
    for seed in range(2):
        wall, used = time.perf_counter(), time.process_time()
        simulation.run(
            learner,
            case.dynamics,
            case.cells(),
            steps=case.steps,
            seeds=case.seeds_per_cell,
            seed=seed,
            path=path,
            summary=False,
        )
        times += [time.perf_counter() - wall, time.process_time() - used]
    return times


def labels_of(case: Case) -> list[str]:
    """Every variant of a case."""
    return [label for label, _, _ in variants(case)]


def main() -> None:
    """Print a line per variant and path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["C", "D"], choices=list(SIZES))
    parser.add_argument("--paths", nargs="+", default=list(PATHS), choices=PATHS)
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a variant is given up")
    chosen = parser.parse_args()
    print(f"{'size':4} {'variant':26} {'path':10} first: wall   CPU   then: wall   CPU")
    for size in chosen.sizes:
        case = shortened("reference", Case(size, *SIZES[size]))
        case = replace(case, seeds=CELLS) if case.mean_field else case
        for label in in_child(partial(labels_of, case)):
            for path in chosen.paths if chosen.only in label else ():
                try:
                    seconds = in_child(partial(timed, case, label, path), chosen.patience)
                except TimeoutError:
                    print(f"{size:4} {label:26} {path:10} both: more than {chosen.patience:g}", flush=True)
                    continue
                if seconds is not None:
                    first, then = (f"{seconds[i]:.2f} {seconds[i + 1]:5.2f}" for i in (0, 2))
                    print(f"{size:4} {label:26} {path:10} {first:>17} {then:>18}", flush=True)


if __name__ == "__main__":
    main()
