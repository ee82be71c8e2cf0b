"""One case in a process of its own: seconds of the first and of a later call, and the memory that they take.

`python -m bandit_lab.lab.bench.probe '{"engine": "fast", "case": {...}, ...}'` prints one line of JSON.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bandit_lab.lab.bench.workload import Case


def probe(
    engine: str, case: Case, rng: str, threads: int, cores: int | None = None, calls: int = 3
) -> dict[str, float]:
    """first_seconds (import of JAX left out, nothing cached), later_seconds, peak_bytes, above_import_bytes.

    calls: how many are made. cores: on how many the process may run (only where the system can restrict that). Raises
    RuntimeError with the process's last line if it fails.
    """
    request = {"engine": engine, "case": asdict(case), "rng": rng, "threads": threads, "cores": cores, "calls": calls}
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "bandit_lab.lab.bench.probe", json.dumps(request)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).resolve().parents[3],
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RuntimeError(f"{engine} on {case.label}: {reason}")
    return json.loads(done.stdout.splitlines()[-1])


def resident(key: str) -> int:
    """`VmRSS` (now) or `VmHWM` (peak) of this process, bytes. Not getrusage: it counts the parent's pages, too."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
    except (OSError, StopIteration):
        from bandit_lab.app.folder.manifest import peak_memory_bytes

        return peak_memory_bytes()


def main(text: str) -> None:
    """Answer one request on stdout."""
    request: dict[str, Any] = json.loads(text)
    if request["cores"] and hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[: request["cores"]])
    import jax

    jax.devices()
    imported = resident("VmRSS")
    from bandit_lab.lab.bench.engines import ENGINES

    case = Case(**request["case"])
    seconds = []
    start = time.perf_counter()
    run = ENGINES[request["engine"]](case, request["rng"], request["threads"])
    for seed in range(request["calls"]):
        run(seed)
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    peak = resident("VmHWM")
    answer = {
        "first_seconds": seconds[0],
        "later_seconds": min(seconds[1:] or seconds),
        "peak_bytes": peak,
        "above_import_bytes": peak - imported,
    }
    print(json.dumps(answer))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
