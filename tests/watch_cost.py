"""What `watch` costs, measured: `python tests/watch_cost.py` prints CPU-seconds and memory of three cases.

1. A finished log of a million lines, read at full speed.
2. A log to which another process writes 1,000 lines a second for a minute.
3. Both: a log of a million lines, to which another process then writes 1,000 lines a second for a minute.

Start, looks and closing forecast are included. The modules have been compiled to bytecode by an earlier start, which is
not counted, as those of an installed package are. `--seconds` and `--lines` make all smaller. Needs Linux: memory is
read from /proc, because `ru_maxrss` begins with what the parent held.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from typing import NamedTuple

_WRITER = """
import random, sys, time
random.seed({count})
sys.path.insert(0, {here!r})
from watch_cost import line
start = time.time()
with open({path!r}, "a") as file:
    for i in range({count}):
        file.write(line({first} + i))
        if i % 50 == 49:
            file.flush()
            time.sleep(max(0.0, start + i / 1000 - time.time()))
"""


class Cost(NamedTuple):
    """CPU [s] and largest memory [MB] of a `watch`, with what it printed."""

    seconds: float
    memory: float
    out: str


def line(step: int) -> str:
    """One row as TRL logs it, some 310 bytes."""
    a, b, c = (random.gauss(0, 1) for _ in range(3))
    row = {
        "step": step,
        "reward": 0.5 + 0.1 * a,
        "reward_std": 0.2 + 0.01 * b,
        "entropy": 0.5 + 0.01 * b,
        "kl": abs(0.1 * c),
        "grad_norm": 1 + 0.1 * c,
        "loss": 0.01 * a,
        "learning_rate": 1e-6,
        "frac_reward_zero_std": abs(0.03 * c),
        "completion_length": 100 + b,
    }
    return f"{json.dumps(row)}\n"


def watched(path: Path, *arguments: str) -> Cost:
    """One `watch` as a process of its own."""
    command = [sys.executable, "-c", _MEASURED, "watch", str(path), *arguments]
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    if done.returncode not in (0, 4):  # 4: an alarm, which costs what no alarm costs
        raise RuntimeError(done.stderr)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(used, float(done.stderr.split()[-1]) / 1024, done.stdout)


_MEASURED = (
    "import re, sys; from bandit_lab.__main__ import main; code = main(); "
    "held = re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read()); print(held[1], file=sys.stderr); "
    "sys.exit(code)"
)


def growing(folder: Path, seconds: int, lines: int = 0) -> Cost:
    """1,000 lines/s for so many seconds, on a log that holds so many lines already."""
    path, count = folder / "grows.jsonl", 1000 * seconds
    _write(path, lines)
    code = _WRITER.format(here=str(Path(__file__).parent), path=str(path), count=count, first=lines)
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        with_end = f"until={lines + count - 1}", f"for={3 * seconds + 60}"
        made = watched(path, *with_end)
    finally:
        own = writer.wait()
    assert own == 0
    return made


def finished(folder: Path, lines: int) -> Cost:
    """A log of so many lines that is there already."""
    path = folder / "finished.jsonl"
    _write(path, lines)
    return watched(path, f"until={lines - 1}", "for=600")


def _write(path: Path, lines: int) -> None:
    with open(path, "w") as file:
        file.writelines(line(i) for i in range(lines))


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--lines", type=int, default=1_000_000)
    chosen = parser.parse_args()
    random.seed(0)
    with TemporaryDirectory() as name:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(name) / "bytecode")
        finished(Path(name), 1000)
        made = finished(Path(name), chosen.lines)
        print(f"{chosen.lines} lines at full speed: {made.seconds:.2f} CPU-seconds, {made.memory:.0f} MB")
        for lines in (0, chosen.lines):
            made = growing(Path(name), chosen.seconds, lines)
            share = 100 * made.seconds / chosen.seconds
            print(f"1,000 lines/s for {chosen.seconds} s on a log of {lines} lines: {made.seconds:.2f} CPU-seconds = "
                  f"{share:.1f} % of a core, {made.memory:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
