"""Golden copies: what every command says on fixed seeds, stored in a folder, and two such folders compared.

    python experiments/grading/golden.py store before          # in the tree as it was
    python experiments/grading/golden.py store after           # in the tree as it is: same, or the difference explained
    python experiments/grading/golden.py compare before after

Stored are exit code, standard output and standard error, `summary.json`, and the text of every page. Manifests and
pictures are not, and times are not compared. The commands run one after another, in a
folder of their own, on logs that are made here; together they take some minutes. `--only fit` takes those of one name.
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAME, DIFFERENT = 0, 1
MOST = 12  # lines that are shown of a text that differs, numbers of a summary

_SMALL = ("momentum=0.9", "seeds=64", "steps=50", "pictures=false")
CASES: dict[str, tuple[str, ...]] = {
    "predict": ("predict",),
    "predict_interval": ("predict", "refresh_interval=8", "verbose=true"),
    "predict_adam": ("predict", "optimizer=adam", "learning_rate=0.01"),
    "predict_ages": ("predict", "staleness=ages", "staleness.weights=[0.5,0.3,0.2]", "verbose=true"),
    "predict_lag": ("predict", "staleness=lag", "refresh_interval=3", "learning_rate=3", "momentum=0.5"),
    "predict_mean_field": ("predict", "dynamics=mean_field", "staleness=pipeline", "refresh_interval=4"),
    "predict_refused": ("predict", "momentum=1"),
    "sweep": ("sweep", "sweep.refresh_interval=[1,4]", "sweep.learning_rate={num: 4}", *_SMALL),
    "sweep_mean_field": ("sweep", "sweep.learning_rate=[0.5,2,8]", "dynamics=mean_field", *_SMALL),
    "reproduce": ("reproduce", "two_detectors", "overdamped_limit", "cache=null"),
    "check": ("check", "advantage=dr_grpo"),
    "explore": ("explore",),
    **{f"help_{name}": (name, "--help") for name in ("sweep", "predict", "reproduce")},
    "help": ("--help",),
}
"""Name -> arguments, but for `run_dir`. In order: some read what those before them wrote."""
_TIMES = re.compile(r'\d+\.\d+(?= seconds)|(?<=seconds": )[\d.]+|(?<=_second": )[\d.]+|(?<=memory_bytes": )\d+')
"""What no two runs share: times, throughput, memory."""


class Text(HTMLParser):
    """What a reader of a page sees, a line per piece."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._inside = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Scripts and styles are not read."""
        self._inside += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        """Their end."""
        self._inside -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        """A piece of text."""
        if not self._inside and data.strip():
            self.lines.append(" ".join(data.split()))


def text_of(page: str) -> str:
    """The text of an HTML page."""
    reader = Text()
    reader.feed(page)
    return "\n".join(reader.lines) + "\n"


def store(folder: Path, only: str = "") -> None:
    """Run the commands, with a name that begins with `only`, and keep what they said in a new folder."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        for name, arguments in CASES.items():
            if name.startswith(only):
                print(name, flush=True)
                _one(Path(place) / name, arguments, folder / name)


def _one(place: Path, arguments: tuple[str, ...], folder: Path) -> None:
    place.mkdir()
    folder.mkdir()
    given = "--help" not in arguments
    command = [sys.executable, "-m", "bandit_lab", *arguments, *(["run_dir=found"] if given else [])]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    (folder / "terminal.txt").write_text(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    for path in sorted(one for one in place.rglob("*") if one.is_file() and ".zarr" not in str(one)):
        name = "-".join(path.relative_to(place).parts)
        if path.suffix == ".html":
            (folder / f"{name}.txt").write_text(text_of(path.read_text(encoding="utf-8")))
        elif path.name == "summary.json" or path.suffix in (".csv", ".md"):
            shutil.copy(path, folder / name)


def differences(before: Path, after: Path) -> dict[str, list[str]]:
    """File -> what differs in it, in lines for people; files that are the same are left out."""
    names = {str(path.relative_to(root)) for root in (before, after) for path in root.rglob("*") if path.is_file()}
    differing = {}
    for name in sorted(names):
        if not ((before / name).exists() and (after / name).exists()):
            differing[name] = ["only before" if (before / name).exists() else "only after"]
            continue
        old, new = (_TIMES.sub("0", (root / name).read_text(encoding="utf-8")) for root in (before, after))
        if old != new:
            differing[name] = list(_in_json(old, new) if name.endswith(".json") else _in_text(old, new))
    return differing


def _in_text(old: str, new: str) -> Iterator[str]:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
    yield from (line for line in lines if line[:2] not in ("--", "++", "@@"))


def _in_json(old: str, new: str) -> Iterator[str]:
    one, other = dict(_leaves("", json.loads(old))), dict(_leaves("", json.loads(new)))
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key):
            yield f"{key}: {one.get(key, 'nothing')} -> {other.get(key, 'nothing')}"
    if one == other:
        yield "the same values in another order or layout"


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str]]:
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    if not inner or not value:
        yield key, json.dumps(value)
    for name, one in inner:
        yield from _leaves(f"{key}.{name}" if key else str(name), one)


def compare(before: Path, after: Path) -> int:
    """Print what differs. Returns SAME or DIFFERENT."""
    differing = differences(before, after)
    for name, lines in differing.items():
        print(name)
        print("\n".join(f"    {line[:200]}" for line in lines[:MOST]))
        if len(lines) > MOST:
            print(f"    and {len(lines) - MOST} more")
    count = sum(path.is_file() for path in after.rglob("*"))
    print(f"{len(differing)} of {count} files differ" if differing else f"{count} files are the same")
    return DIFFERENT if differing else SAME


def main(arguments: list[str] | None = None) -> int:
    """The two commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("store")
    one.add_argument("folder", type=Path)
    one.add_argument("--only", default="", help="commands whose name begins so")
    two = what.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    given = parser.parse_args(arguments)
    if given.what == "compare":
        return compare(given.before, given.after)
    store(given.folder, given.only)
    return SAME


if __name__ == "__main__":
    sys.exit(main())
