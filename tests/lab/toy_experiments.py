"""Experiments small enough to be run many times: a folder of them, and `reproduce` on it."""

from pathlib import Path

from bandit_lab.app.cli import main
from bandit_lab.lab.reproduce import experiment

SQUARES = '''"""Is the measured square the predicted one?

Prediction: x^2."""

import os
from pathlib import Path
from unittest import SkipTest

import numpy as np
import xarray

from bandit_lab.lab.reproduce.experiment import Claim

TITLE = "Squares"
FINDING = "Squares grow {same:.3f} times as fast"
UNIT = {"units": "m"}


def predict(setting):
    return xarray.Dataset({"square": ("x", np.square(setting.x), UNIT)}, {"x": setting.x})


def measure(setting, lab):
    """Two pieces, each of which says that it ran."""
    parts = [lab.keep(name, lambda n=name: piece(n, setting)) for name in ("low", "high")]
    lab.progress(2, 2)
    return xarray.concat(parts, "x")


def piece(name, setting):
    with Path("ran.txt").open("a") as file:
        file.write(f"ID {name}\\n")
    half = len(setting.x) // 2
    x = np.asarray(setting.x[:half] if name == "low" else setting.x[half:])
    return xarray.Dataset({"square": ("x", x * x * 1.001, UNIT)}, {"x": x})


def draw(figure, found):
    axes = figure.subplots()
    axes.plot(found.predicted.x, found.predicted.square)
    axes.plot(found.measured.x, found.measured.square, "o")
    axes.set(xlabel="x (m)", ylabel="square (m)", title="squares")


CLAIMS = (
    Claim("ID.same", "They are the same", "here", lambda f: 1.0, tolerance=1e-2,
          measured=lambda f: float((f.measured.square / f.predicted.square).max())),
    Claim("ID.larger", "Measured is 10 % larger", "here", lambda f: 1.1 * float(f.predicted.square[-1]), relative=True,
          measured=lambda f: float(f.measured.square[-1]), tolerance=1e-3, explanation="it is 0.1 % larger"),
)
'''
SETTING = "common:\n  x: [1.0, 2.0, 3.0, 4.0]\ndraft: {}\npaper:\n  x: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"


class Lab:
    """A folder with experiments of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "experiments").mkdir(parents=True)

    def write(self, name: str, text: str = SQUARES, setting: str = SETTING) -> None:
        (self.path / "experiments" / f"{name}.py").write_text(text.replace("ID", name))
        (self.path / "experiments" / f"{name}.yaml").write_text(setting)

    def edit(self, name: str, before: str, after: str) -> None:
        path = self.path / "experiments" / f"{name}.py"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def ran(self) -> list[str]:
        """What was measured since the last call."""
        path = self.path / "ran.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


def patch(target: Path, setattr) -> None:
    """Have `reproduce` look for experiments and their settings in `target`."""
    setattr(experiment, "experiments_dir", lambda: target / "experiments")


def reproduce(*arguments: str) -> int:
    return main(["reproduce", "cache=cache", *arguments])
