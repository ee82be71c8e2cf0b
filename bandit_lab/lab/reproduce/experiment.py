"""What an experiment is: one file in `experiments/`, its setting beside it; found by name, nothing to edit.

For developers. `experiments/<id>.py` has a docstring whose first line is the question, and

- `TITLE`: a short one;
- `FINDING`: what was found, in a sentence that stands above the picture; `{name:.2g}` in it is the measured number of
  the claim `<id>.<name>`;
- `predict(setting) -> Dataset`: theory alone;
- `measure(setting, lab) -> Dataset`: simulation alone; kept on disk. Long parts go through `lab.keep`;
- `draw(figure, found)`: fills a figure whose width is set already (`sheet.WIDTH`);
- `CLAIMS`: a tuple of `Claim`, ids `<id>.<name>`;
- and if wanted: `trained(setting) -> str`, what learns what, which stands below the finding;
  `inputs(setting) -> str`, a hash of the files that `measure` reads; `unsupported_reason(setting)` returns the
  reason where it cannot run here; `table(found) -> str` returns a Markdown table below the claims in
  `claims.md`.

What prediction and measurement are both told stands above them. They are independent witnesses: `predict` uses nothing
of `bandit_lab.measure` and `bandit_lab.simulation`, `measure` nothing of `bandit_lab.theory`, what draws and compares
neither. `load` refuses a file in which they do, also through helpers (see `source`). What several experiments share
stands in a folder beside them: `from experiments.shared import ...`.

`experiments/<id>.yaml` has the keys `common`, `draft` and `paper`; the setting is `common` and one of the others.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import SkipTest

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.settings.config import beside_package
from bandit_lab.lab.reproduce import source
from bandit_lab.lab.reproduce.readings import farthest_from_one

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

QUALITIES = ("draft", "paper")
PARTS = ("TITLE", "FINDING", "predict", "measure", "draw", "CLAIMS")
_WITHOUT: dict[str, Any] = {
    "trained": None,
    "table": None,
    "unsupported_reason": lambda setting: None,
    "inputs": lambda setting: "",
}  # what an experiment may leave out


class Setting(SimpleNamespace):
    """The values of a YAML file by attribute; mappings in it are settings too. `quality` is `draft` or `paper`."""

    quality: str

    def __getattr__(self, name: str) -> Any:  # only for mypy and for a better message
        raise AttributeError(f"{name}: expected a key of the experiment's YAML file, one of {sorted(vars(self))}")

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def as_dict(self) -> dict[str, Any]:
        """Nested plain mappings."""
        return {key: value.as_dict() if isinstance(value, Setting) else value for key, value in vars(self).items()}


class Results(NamedTuple):
    """Predictions and measurements from which claims and pictures are made."""

    predicted: "xarray.Dataset"
    measured: "xarray.Dataset"
    setting: Setting


Number = Callable[[Results], float]
Quantity = Callable[["xarray.Dataset"], Any]


@dataclass(frozen=True)
class Claim:
    """|measured - predicted| <= tolerance (times |predicted| if relative). The tolerance is written beforehand.

    source: where the statement comes from.
    explanation: shown where it does not hold.
    fails_if: what could have made it fail.
    follows: the claim that has compared these measured numbers already. Only a mistake in a formula can then break this
        one, so that it is no independent check.
    post_hoc: what had been seen when the prediction was made; empty where the prediction came first.
    constant: where a predicted number comes from that `predict` does not compute.
    """

    id: str
    statement: str
    source: str
    predicted: Number
    measured: Number
    tolerance: float | Number
    relative: bool = False
    unit: str = ""
    explanation: str = ""
    fails_if: str = ""
    follows: str = ""
    post_hoc: str = ""
    constant: str = ""

    @classmethod
    def same(
        cls, id: str, statement: str, source: str, read: "Quantity", tolerance: float | Number, **more: Any
    ) -> "Claim":
        """One number read off both sides alike: `read(dataset)` of the prediction and of the measurement."""
        numbers = (lambda f: float(read(f.predicted))), (lambda f: float(read(f.measured)))
        return cls(id, statement, source, *numbers, tolerance, **more)

    @classmethod
    def one(
        cls, id: str, statement: str, source: str, measured: Number, tolerance: float | Number, **more: Any
    ) -> "Claim":
        """A measured number that is predicted to be 1, as a ratio or a share."""
        return cls(id, statement, source, lambda f: 1.0, measured, tolerance, **more)

    @classmethod
    def ratio(
        cls, id: str, statement: str, source: str, read: "Quantity", tolerance: float | Number, **more: Any
    ) -> "Claim":
        """Measured over predicted `read(dataset)`, an array, where it is farthest from 1."""
        numbers = (lambda f: 1.0), (lambda f: farthest_from_one(read(f.measured), read(f.predicted)))
        return cls(id, statement, source, *numbers, tolerance, **more)


def labelled(columns: "Mapping[str, tuple[Any, Any, str]]", coords: Any = None) -> "xarray.Dataset":
    """(Dimensions, values, unit) by name as a data set of floats. coords: as `xarray.Dataset` takes them."""
    import xarray

    values = {name: (dims, np.asarray(value, float), {"units": unit}) for name, (dims, value, unit) in columns.items()}
    return xarray.Dataset(values, coords)


@dataclass(frozen=True)
class Lab:
    """Given to `measure`: a store of finished parts, and a report of progress.

    keep: (name, function) -> the result of the function; if it is stored under this name already, from there.
    """

    keep: "Callable[[str, Callable[[], xarray.Dataset]], xarray.Dataset]"
    progress: Callable[[int, int], None]

    def keep_each(self, parts: "Mapping[str, Callable[[], xarray.Dataset]]") -> "dict[str, xarray.Dataset]":
        """`keep` of every part by name, one after another, and after each how far it is."""
        datasets = {}
        for name, function in parts.items():
            datasets[name] = self.keep(name, function)
            self.progress(len(datasets), len(parts))
        return datasets


@dataclass(frozen=True)
class Experiment:
    """One experiment, not yet imported."""

    id: str
    path: Path

    @property
    def source(self) -> str:
        """Text of the file."""
        return self.path.read_text(encoding="utf-8")

    @property
    def question(self) -> str:
        """First line of the docstring."""
        return (ast.get_docstring(ast.parse(self.source)) or "").strip().split("\n")[0]

    def load(self) -> "Loaded":
        """Import the file: its text as it is, never bytecode of an earlier one that is as old and as long.

        Raises ValueError where a part is missing, a claim's id is not its own, or prediction and measurement are not
        independent; the last before anything of the file runs.
        """
        try:
            source.check_witnesses(self.source)
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"experiments/{self.id}.py: {error}") from None
        _share()
        name = f"bandit_lab_experiment_{self.id}"
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(self.path)
        exec(compile(self.source, self.path, "exec"), module.__dict__)
        return Loaded(self, module)


class Loaded:
    """An imported experiment."""

    def __init__(self, experiment: Experiment, module: ModuleType) -> None:
        missing = [part for part in PARTS if part not in vars(module)]
        if missing:
            raise ValueError(f"experiments/{experiment.id}.py: expected {', '.join(PARTS)}, no {missing[0]} there")
        ids = [claim.id for claim in module.CLAIMS]
        for identity in ids:
            if not identity.startswith(f"{experiment.id}.") or ids.count(identity) > 1:
                raise ValueError(f"claim: expected an id of its own, {experiment.id}.<name>, got {identity!r}")
        self.id, self.question, self.source = experiment.id, experiment.question, experiment.source
        self.title: str = module.TITLE
        self.finding: str = module.FINDING
        self.claims: tuple[Claim, ...] = tuple(module.CLAIMS)
        self.predict: Callable[[Setting], xarray.Dataset] = module.predict
        self.measure: Callable[[Setting, Lab], xarray.Dataset] = module.measure
        self.draw: Callable[[Figure, Results], None] = module.draw
        parts = _WITHOUT | vars(module)
        self.trained: Callable[[Setting], str] | None = parts["trained"]
        self.table: Callable[[Results], str] | None = parts["table"]
        self._unsupported_reason: Callable[[Setting], Any] = parts["unsupported_reason"]
        self.inputs: Callable[[Setting], str] = parts["inputs"]

    def check_available(self, setting: Setting) -> None:
        """Raise SkipTest where the experiment cannot run."""
        reason = self._unsupported_reason(setting)
        if reason:
            raise SkipTest(str(reason))


def experiments_dir() -> Path:
    """The experiments."""
    return beside_package("experiments", "*.py")


def _share() -> None:
    """Make `experiments` a package whose folders can be imported, wherever the experiments are installed."""
    if "experiments" not in sys.modules:
        sys.modules["experiments"] = ModuleType("experiments")
        sys.modules["experiments"].__path__ = []
    package = sys.modules["experiments"]
    package.__path__ = list(dict.fromkeys([*package.__path__, str(experiments_dir())]))


def discover() -> dict[str, Experiment]:
    """All experiments by id, sorted."""
    paths = sorted(path for path in experiments_dir().glob("*.py") if not path.name.startswith("_"))
    return {path.stem: Experiment(path.stem, path) for path in paths}


def read_setting(identity: str, quality: str) -> Setting:
    """Setting of an experiment at a quality. Raises ValueError for unknown keys at the top of the file."""
    from omegaconf import OmegaConf

    path = experiments_dir() / f"{identity}.yaml"
    _checks.require(path.is_file(), "setting", f"experiments/{identity}.yaml", f"no such file in {path.parent}")
    parts: Any = OmegaConf.load(path)
    odd = sorted({str(key) for key in parts} - {"common", *QUALITIES})
    if odd:
        raise ValueError(f"experiments/{identity}.yaml: expected common, draft, paper, got {odd[0]!r}")
    merged = OmegaConf.merge(parts.get("common") or {}, parts.get(quality) or {}, {"quality": quality})
    values: Any = OmegaConf.to_container(merged, resolve=True)
    return _as_setting(values)


def _as_setting(values: dict[str, Any]) -> Setting:
    """A setting from nested mappings."""
    return Setting(**{str(k): _as_setting(v) if isinstance(v, dict) else v for k, v in values.items()})
