"""The settings of every command: one dataclass each, the single source of the schema, the defaults and the help.

A mistyped key or a value of the wrong type is thereby an error before any work. Group nodes (`bandit`, `advantage`,
...) are mappings: their keys come from the YAML file of the chosen variant and their values are checked where the
variant is built.
"""

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.diagnose.settings import DiagnosisSettings
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.reproduce.settings import ReproduceSettings
from bandit_lab.study.settings.bench import BenchSettings
from bandit_lab.study.settings.check import CheckSettings
from bandit_lab.study.settings.folder import ExportSettings, StatusSettings
from bandit_lab.study.settings.host import HostSettings
from bandit_lab.study.settings.schema import setting as _setting

GROUPS = ("bandit", "advantage", "estimator", "staleness", "optimizer", "kl_estimator")
MULTIPLES = [0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.2]
TRACED = ("learning_rate", "momentum", "refresh_interval", "kl_weight")


@dataclass
class Settings:
    """What every command that trains or predicts understands."""

    bandit: dict[str, Any] = _setting({}, "group", "what is learned; its options: bandit.rewards, .kind, ...")
    advantage: dict[str, Any] = _setting({}, "group", "from rewards to advantages; options: advantage.eps, ...")
    estimator: dict[str, Any] = _setting({}, "group", "how an old action counts; options: estimator.epsilon, ...")
    staleness: dict[str, Any] = _setting(
        {}, "group", "which old policy acts: refresh is model A, lag model B, pipeline model C"
    )
    optimizer: dict[str, Any] = _setting({}, "group", "momentum's convention, or any of optax by name; .options")
    refresh_interval: Any = _setting(
        1, "steps", "N >= 1; staleness=lag: the lag >= 0, 0 is on-policy; random, random_mean: mean age, real >= 0"
    )
    learning_rate: float = _setting(0.05, "logits per unit gradient", "eta > 0")
    momentum: float = _setting(0.9, "", "mu in [0, 1)")
    kl_weight: float = _setting(1.0, "reward per nat", "beta >= 0, weight of KL(policy || reference)")
    kl_estimator: Any = _setting(
        "exact", "group", "form of the penalty: reverse or forward KL, or sampled (on policy k2 is reverse, k3 forward)"
    )
    entropy_weight: float = _setting(0.0, "reward per nat", ">= 0, of the policy's entropy, added to the objective")
    group_size: int = _setting(64, "actions", "G, actions per group")
    prompts: int = _setting(1, "groups", "groups averaged in one step")
    batch_reuse: bool = _setting(False, "", "use one batch for a whole refresh block")
    dynamics: str = _setting("sampled", "", "mean_field (G = infinity) | finite_group (exact at this G) | sampled")
    seeds: int = _setting(1024, "runs", "replicas per cell of the sampled grid")
    steps: int = _setting(
        1000, "updates", "length of a sampled run; if not given, whole multiples of 1000 >= 30 (N + 1/(1 - mu))"
    )
    seed: int = _setting(0, "", "root of all random numbers")
    precision: str | None = _setting(
        None, "", "float32 | float64, of runs; null: float32 if sampled. Boundaries are always bracketed in float64"
    )
    rng: str | None = _setting(None, "", "random numbers of the fast path: hash | threefry; null: hash")
    path: str = _setting(
        "auto", "", "of sampled runs: fast | reference (the definition, one seed at a time); auto: fast where it serves"
    )
    plugins: list[str] = _setting([], "modules", "Python modules to import first; they may register variants")
    compilation_cache: Any = _setting(
        "auto", "path", "keeps compiled programs for the next run; auto: the user's cache folder; null, false: nowhere"
    )
    run_dir: str | None = _setting(None, "path", "run folder; null: outputs/<command>/<date>_<time>")
    overwrite: bool = _setting(False, "", "replace a finished run in run_dir")
    quiet: bool = _setting(False, "", "no progress on stderr, where it appears only on a terminal")


@dataclass
class PredictSettings(Settings):
    """Settings of `predict`."""


@dataclass
class SampledGrid:
    """The coarse grid of sampled runs: some rows of the fine grid, learning rates as multiples of each row's threshold.

    For developers: a row without a finite threshold takes its learning rates from the fine grid instead.
    """

    refresh_interval: list[float] | None = _setting(None, "steps", "rows; null: up to 4 of the grid's, log-spaced")
    momentum: list[float] | None = _setting(None, "", "columns; null: the grid's")
    multiple: Any = _setting(MULTIPLES.copy(), "", "learning rates of a row / the row's exact threshold")
    start: str = _setting("fixed_point", "", "where runs begin: fixed_point | initial (the bandit's initial policy)")


@dataclass
class ChunkSizes:
    """How work is cut into chunks, each kept on disk once it is finished. No result depends on it."""

    seeds: int | None = _setting(None, "seeds", "of sampled runs, a multiple of 4096; null: some seconds of work")
    cells: int | None = _setting(None, "cells", "of sampled runs, a multiple of 4; null: some seconds of work")
    rows: int | None = _setting(None, "rows", "of thresholds of the mean update; null: about ten seconds of work")


@dataclass
class SweepSettings(Settings):
    """Settings of `sweep`."""

    sweep: dict[str, Any] = _setting(
        {},
        "",
        "sweep.<traced setting>: a list or {start, stop, num, scale: linear|log}; left out: the default study",
    )
    boundary: str = _setting("learning_rate", "", "what is bracketed: learning_rate | refresh_interval")
    sampled: SampledGrid = field(default_factory=SampledGrid)
    keep_runs: bool | None = _setting(
        None, "", "keep every sampled run's summary, or only counts of outcomes and means; null: up to 2^24 runs"
    )
    chunk: ChunkSizes = field(default_factory=ChunkSizes)
    hosts: HostSettings = field(default_factory=HostSettings)
    pictures: bool = _setting(True, "", "draw phase_diagram.png and trajectories.png")
    memory_limit: float | None = _setting(None, "GiB", "refuse larger grids; null: 80% of the free memory")


SCHEMAS: dict[str, type[Any]] = {"sweep": SweepSettings, "predict": PredictSettings, "fit": FitSettings}
SCHEMAS |= {"status": StatusSettings, "export": ExportSettings, "bench": BenchSettings, "advise": AdviseSettings}
SCHEMAS |= {"check": CheckSettings}
SCHEMAS |= {"reproduce": ReproduceSettings, "diagnose": DiagnosisSettings}


def config_dir() -> Path:
    """Absolute folder of the YAML files: beside the package's modules (wheel), else one level up (checkout)."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / "conf", package.parent / "conf"):
        if (candidate / "sweep.yaml").is_file():
            return candidate
    raise FileNotFoundError(f"no conf/ beside {package} or one level up; reinstall bandit-lab")


def variants_on_disk(group: str) -> list[str]:
    """Names of the YAML files of a group, sorted."""
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def register_schemas() -> None:
    """Make the schemas known to Hydra as `<command>_schema`."""
    from hydra.core.config_store import ConfigStore

    for command, schema in SCHEMAS.items():
        ConfigStore.instance().store(name=f"{command}_schema", node=schema)


def described(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, Field[Any]]]:
    """(dotted key, field) of every setting of a schema, in order."""
    for entry in fields(schema):
        if entry.default_factory is not MISSING and isinstance(entry.default_factory, type):
            yield from described(entry.default_factory, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry


def default_of(entry: Field[Any]) -> Any:
    """Default value of a setting."""
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default
