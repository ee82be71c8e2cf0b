"""requirements.lock, with which `make` sets everything up, holds every package that pyproject.toml asks for."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCKED = ("test", "dev", "docs", "browser")


def unlocked(project, lines):
    """Requirements of the package and of the extras that `make` installs which no line of the lock meets."""
    lock = [Requirement(line) for line in lines if line.strip()]
    versions = {}
    for one in lock:
        versions.setdefault(one.name.lower().replace("_", "-"), []).append(next(iter(one.specifier)).version)
    wanted = [*project["dependencies"], *(text for extra in LOCKED for text in project["optional-dependencies"][extra])]
    asked = [one for one in map(Requirement, wanted) if one.name != "bandit-lab"]
    missing = []
    for one in asked:
        found = versions.get(one.name.lower().replace("_", "-"), [])
        if not found or not all(version in one.specifier for version in found):
            missing.append(str(one))
    return missing


def test_every_requirement_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert unlocked(project, lines) == []
    assert unlocked(project, [line for line in lines if not line.startswith("optax")]) == ["optax>=0.2.5"]
    newer = {"dependencies": ["numpy>=999"], "optional-dependencies": project["optional-dependencies"]}
    assert unlocked(newer, lines) == ["numpy>=999"]
