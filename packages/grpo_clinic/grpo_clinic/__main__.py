"""`grpo-clinic diagnose LOG`, `compare A B`, `fit LOG`, `watch LOG`."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]  # as `python -P`: the working directory may be somebody's run, and is no place for code

import argparse
import contextlib
import importlib
import io
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from grpo_clinic import __version__, compare, page, report
from grpo_clinic.clinic import Diagnosed, all_fitted, diagnosed
from grpo_clinic.law import OF_OPTIMIZER
from grpo_clinic.logs.gather import Log
from grpo_clinic.logs.settings import LAWS, PASTED, DiagnosisSettings, FitSettings
from grpo_clinic.readers.options import UNITS

BAD_INPUT, STOPPED = 2, 3


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with exit status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: {message}\n")


def parser() -> Parser:
    """The commands and their options."""
    root = Parser(prog="grpo-clinic", description="What a training log of GRPO proves, and what became of its reward.")
    root.add_argument("--version", action="version", version=__version__)
    commands = root.add_subparsers(dest="command", required=True, metavar="diagnose | compare | fit | watch")
    reading = Parser(add_help=False)
    reading.add_argument("paths", nargs="*", metavar="LOG", help=f"files and folders; {PASTED} reads what is pasted")
    reading.add_argument("--logs-index", help="a table of runs instead: CSV, a row per run")
    for name in ("reward", "step", "eval"):
        reading.add_argument(f"--{name}-key", metavar="COLUMN", help=f"column to read as the {name}")
    reading.add_argument("--where", metavar="COLUMN=VALUE", help="rows that count")
    reading.add_argument("--run", metavar="NAME", help="one run of several in a file")
    reading.add_argument("--reward-scale", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of the reward")
    reading.add_argument("--step-unit", choices=sorted(UNITS), help="what the log counts")
    reading.add_argument("--log-every", type=int, metavar="STEPS", help="optimiser steps per logged row")
    reading.add_argument("--convert-to", choices=sorted(UNITS), help="report in these steps")
    reading.add_argument("--eval-path", metavar="FILE", help="held-out results of the run, joined by step")
    reading.add_argument("--beside", action="append", metavar="FILE", help="a further file of the same run")
    reading.add_argument("--refresh-interval", type=float, metavar="N", help="updates per batch of the trainer")
    reading.add_argument("--group-size", type=int, metavar="G", help="answers per prompt of the trainer")
    reading.add_argument("--plugin", action="append", metavar="MODULE", help="a module with readers or rules of yours")
    reading.add_argument("-v", "--verbose", action="store_true", help="everything that was found")
    paged = Parser(add_help=False)
    paged.add_argument("--page", type=Path, metavar="FILE", help="write a page (HTML)")
    written = Parser(add_help=False, parents=[paged])
    written.add_argument("--json", type=Path, metavar="FILE", help="write a row per log")
    recipe = Parser(add_help=False)
    recipe.add_argument("--config", metavar="RECIPE", help="the trainer's configuration: its traps, G and N")
    commands.add_parser("diagnose", parents=[reading, written, recipe], help="judge runs")
    commands.add_parser("compare", parents=[reading], help="what differs between two runs")
    fit = commands.add_parser("fit", parents=[reading, written], help="fit closed-form laws to rewards")
    fit.add_argument("--learning-rate", type=float)
    fit.add_argument("--momentum", type=float)
    fit.add_argument("--optimizer", choices=sorted(OF_OPTIMIZER), default="sgd")
    fit.add_argument("--models", nargs="+", choices=LAWS, default=LAWS)
    fit.add_argument("--level", type=float, default=0.9, help="confidence of the intervals")
    watch = commands.add_parser(
        "watch", parents=[reading, paged, recipe], help="judge a run again whenever its log grows"
    )
    watch.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="between two looks")
    watch.add_argument("--seconds", type=float, help="how long in all")
    watch.add_argument("--idle", type=float, metavar="SECONDS", help="end when nothing new came for so long")
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0; 2 for bad input, 3 where the machine stopped it, said in one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path that is not UTF-8, or an encoding that lacks a letter
        sys.stdout.reconfigure(errors="backslashreplace")
    given = vars(parser().parse_args(arguments))
    command = given.pop("command")
    try:
        for module in given.pop("plugin") or ():
            _import(module)
        return {"diagnose": _diagnose, "compare": _compare, "fit": _fit, "watch": _watch}[command](given)
    except ValueError as error:
        print(f"grpo-clinic {command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more
        return 0
    except OSError as error:
        reason = f"{error.filename}: expected a file that can be written, got {error.strerror}"
        print(f"grpo-clinic {command}: {reason}", file=sys.stderr)
        return STOPPED


def _import(module: str) -> None:
    sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except Exception as error:
        raise ValueError(
            f"plugin: expected a module that can be imported, got {type(error).__name__}: {error}"
        ) from None
    finally:
        sys.path.remove(os.getcwd())


def _options(given: dict[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in given.items() if value is not None}
    return options | {"paths": tuple(options.get("paths", ())), "beside": tuple(options.get("beside", ()))}


def _diagnose(given: dict[str, Any]) -> int:
    whole, at, rows = given.pop("verbose"), given.pop("page"), given.pop("json")
    runs, without = diagnosed(DiagnosisSettings(**_options(given)))
    texts = [report.text(one.report, one.curve, whole) for one in runs]
    _say(texts, without)
    if at is not None:
        page.write(at, _page(runs))
    _write(rows, [report.row(one.report, one.curve) for one in runs], without)
    return 0


def _compare(given: dict[str, Any]) -> int:
    whole = given.pop("verbose")
    runs, without = diagnosed(DiagnosisSettings(**_options(given)))
    if len(runs) != 2:
        raise ValueError(f"paths: expected two runs, got {len(runs)}")
    first, second = runs
    _say([compare.text((first.name, first.curve), (second.name, second.curve), whole)], without)
    return 0


def _page(runs: Sequence[Diagnosed]) -> str:
    texts = [(one, report.text(one.report, one.curve, True)) for one in runs]
    return page.page("Diagnosis", [(one.name, one.curve.step, one.curve.reward, None, text) for one, text in texts])


def _fit(given: dict[str, Any]) -> int:
    whole, at, rows = given.pop("verbose"), given.pop("page"), given.pop("json")
    settings = FitSettings(**_options(given) | {"models": tuple(given["models"])})
    runs, without = all_fitted(settings)
    _say([one.text(settings.level, whole) for one in runs], without)
    if at is not None:
        texts = [(one, one.text(settings.level, True)) for one in runs]
        page.write(at, page.page("Fit", [(one.name, one.curve.step, one.curve.reward, np.asarray(one.best.fitted), text)
                                         for one, text in texts]))  # fmt: skip
    _write(rows, [one.row() for one in runs], without)
    return 0


def _watch(given: dict[str, Any]) -> int:
    whole, at = given.pop("verbose"), given.pop("page")
    loop = {name: given.pop(name) for name in ("every", "seconds", "idle")}
    settings = DiagnosisSettings(**_options(given))
    if len(settings.paths) != 1 or settings.paths[0] == PASTED:
        raise ValueError(f"paths: expected one log or folder, got {', '.join(settings.paths) or 'nothing'}")
    runs: list[Diagnosed] = []
    last = ""
    try:
        for runs in _watched(settings, **loop):
            verdict = "; ".join(_brief(one) for one in runs)
            if verdict != last:
                last = verdict
                print(f"{time.strftime('%H:%M:%S')}  {verdict}", flush=True)
            if at is not None:
                page.write(at, _page(runs))
    except KeyboardInterrupt:  # a watcher is ended by it
        pass
    if not runs:
        raise ValueError(f"paths: expected a log that can be read, got {settings.paths[0]}")
    _say([report.text(one.report, one.curve, whole) for one in runs], [])
    return 0


def _watched(
    settings: DiagnosisSettings, every: float = 5.0, seconds: float | None = None, idle: float | None = None
) -> Iterator[list[Diagnosed]]:
    """The diagnosis of one log or folder whenever it has changed; it need not exist yet.

    every: seconds between two looks. seconds: how long in all. idle: end when nothing new came for so long.
    """
    path = Path(settings.paths[0])
    start = fresh = time.monotonic()
    mark: object = None
    while True:
        now, before = time.monotonic(), mark
        if (mark := _mark(path)) != before:
            fresh = now
            with contextlib.suppress(ValueError):  # not there, or too short to say anything
                yield diagnosed(settings)[0]
        over = seconds is not None and now - start >= seconds
        if over or (idle is not None and now - fresh >= idle):
            return
        time.sleep(every)


def _mark(path: Path) -> object:
    """Sizes and times of what is read; they differ once it has grown."""
    names = [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]
    return [(str(one), os.stat(one).st_size, os.stat(one).st_mtime_ns) for one in names if one.exists()]


def _brief(one: Diagnosed) -> str:
    return ", ".join((one.report.outcome.what, *one.report.verdict)).replace("_", " ")


def _say(texts: Sequence[str], without: Sequence[Log]) -> None:
    print("\n\n".join([*texts, *(log.line for log in without)]))


def _write(path: Path | None, rows: list[dict[str, Any]], without: Sequence[Log]) -> None:
    if path is not None:
        rows = [*rows, *({"log": log.name, "path": log.path, "status": f"no curve: {log.reason}"} for log in without)]
        page.write(path, json.dumps(rows, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
