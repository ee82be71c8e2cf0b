"""The settings of every command: one dataclass each, the single source of the schema, the defaults and the help.

A mistyped key or a value of the wrong type is thereby an error before any work. Group nodes (`bandit`, `advantage`,
...) are mappings: their keys are those of the chosen variant, their values are checked where it is built.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bandit_lab.app.settings.schema import (
    RunSettings,
    group,
    setting,
)
from bandit_lab.lab.explore.settings import ExploreSettings

GROUPS = ("bandit", "advantage", "estimator", "staleness", "optimizer", "kl_estimator", "sampler", "correction")
"""What trains is made of one variant of each."""
CHOICES = (*GROUPS, "engine")
"""All settings that choose a variant."""
MULTIPLES = [0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.2]
TRACED = ("learning_rate", "momentum", "refresh_interval", "kl_weight")
SCHEDULED = ("learning_rate",)
"""Settings that may be a schedule: a mapping with its name under `schedule` and its options."""
LARGEST_WHOLE = 2**1023  # an integer that a float holds


@dataclass
class Settings(RunSettings):
    """What trains: what every command that simulates or predicts understands."""

    bandit: dict[str, Any] = group("two_arm", "what is learned; its options: bandit.rewards, .kind, ...")
    advantage: dict[str, Any] = group("grpo", "from rewards to advantages; options: advantage.eps, ...")
    estimator: dict[str, Any] = group("frozen", "how an old action counts; options: estimator.epsilon, ...")
    staleness: dict[str, Any] = group(
        "refresh", "which old policy acts: refresh is model A, lag model B, pipeline model C"
    )
    optimizer: dict[str, Any] = group("sgd", "momentum's convention, or any of optax by name; .options")
    refresh_interval: Any = setting(
        1,
        "steps",
        "N >= 1; staleness=lag: the lag >= 0, 0 is on-policy",
    )
    learning_rate: Any = setting(0.05, "logits per unit gradient", "eta > 0, or a schedule")
    momentum: float = setting(0.9, "", "mu in [0, 1)")
    kl_weight: Any = setting(1.0, "reward per nat", "beta >= 0 of KL(policy || reference)")
    kl_estimator: Any = group(
        "exact", "form of the penalty: exact reverse KL, or the sampled k3 (on policy the forward KL)"
    )
    sampler: dict[str, Any] = group("exact", "which law draws the answers, if not the policy; sampler.tau, ...")
    correction: dict[str, Any] = group("none", "how what another law drew is weighed; correction.largest, ...")
    entropy_weight: float = setting(0.0, "reward per nat", ">= 0, of the policy's entropy, added to the objective")
    group_size: int = setting(64, "actions", "G, actions per group")
    prompts: int = setting(1, "groups", "groups averaged in one step")
    batch_reuse: bool = setting(False, "", "use one batch for a whole refresh block")
    dynamics: str = setting("sampled", "", "mean_field (G = infinity) | finite_group (exact at this G) | sampled")
    steps: int = setting(1000, "updates", "length of a run on a schedule")

    def __post_init__(self) -> None:
        for name in SCHEDULED:
            if type(value := getattr(self, name)) is int and abs(value) < LARGEST_WHOLE:
                setattr(self, name, float(value))


@dataclass
class SimulationSettings(Settings):
    """What every command understands that makes runs of it."""

    seeds: int = setting(1024, "runs", "replicas per cell of the sampled grid")
    steps: int = setting(
        1000, "updates", "length of a sampled run; if not given, whole multiples of 1000 >= 30 (N + 1/(1 - mu))"
    )
    seed: int = setting(0, "", "root of all random numbers")
    precision: str | None = setting(
        None,
        "",
        "float32 | float64, of runs; null: float32 if sampled with sgd. Boundaries are always bracketed in float64",
    )
    rng: str | None = setting(None, "", "random numbers of the fast path: hash | threefry; null: hash")
    path: str = setting(
        "auto",
        "",
        "of sampled runs: fast | reference (the definition, one seed at a time); auto: fast where it serves",
    )


@dataclass
class PredictSettings(Settings):
    """Settings of `predict`."""

    stiffness: Any = setting(None, "", "in place of a bandit: the curvature of a run, or [fresh, stale]")
    verbose: bool = setting(False, "", "print every quantity, not some lines; -v for short")


@dataclass
class SampledGrid:
    """The coarse grid of sampled runs: some rows of the fine grid, learning rates as multiples of each row's threshold.

    For developers: a row without a finite threshold takes its learning rates from the fine grid instead.
    """

    refresh_interval: list[float] | None = setting(None, "steps", "rows; null: up to 4 of the grid's, log-spaced")
    momentum: list[float] | None = setting(None, "", "columns; null: the grid's")
    multiple: Any = setting(MULTIPLES.copy(), "", "learning rates of a row / the row's exact threshold")
    start: str = setting("fixed_point", "", "where runs begin: fixed_point | initial (the bandit's initial policy)")


@dataclass
class ChunkSizes:
    """How work is cut into chunks, each kept on disk once it is finished. No result depends on it."""

    seeds: int | None = setting(None, "seeds", "of sampled runs, a multiple of 4096; null: some seconds of work")
    cells: int | None = setting(None, "cells", "of sampled runs, a multiple of 4; null: some seconds of work")
    rows: int | None = setting(None, "rows", "of thresholds of the mean update; null: about ten seconds of work")


@dataclass
class SweepSettings(SimulationSettings):
    """Settings of `sweep`."""

    sweep: dict[str, Any] = setting(
        {},
        "",
        "sweep.<traced setting>: a list or {start, stop, num, scale: linear|log}; left out: the default study",
    )
    boundary: str = setting("learning_rate", "", "what is bracketed: learning_rate | refresh_interval")
    sampled: SampledGrid = field(default_factory=SampledGrid)
    keep_runs: bool | None = setting(
        None, "", "keep every sampled run's summary, or only counts of outcomes and means; null: up to 2^24 runs"
    )
    chunk: ChunkSizes = field(default_factory=ChunkSizes)
    engine: dict[str, Any] = group("local", "where chunks are computed: here, or on dask's workers")
    pictures: bool = setting(True, "", "draw phase_diagram.png and trajectories.png")
    memory_limit: float | None = setting(None, "GiB", "refuse larger grids; null: 80% of the free memory")


@dataclass
class CheckSettings(RunSettings):
    """What is checked, and the learner that it is put into."""

    bandit: dict[str, Any] = group("k_arm", "checked if given, else what the others are checked on")
    advantage: dict[str, Any] = group("grpo", "the same for the advantage")
    estimator: dict[str, Any] = group("ratio", "the same for the estimator")
    staleness: dict[str, Any] = group("refresh", "the same for the staleness model")
    optimizer: dict[str, Any] = group("sgd", "the same for the optimiser")
    kl_estimator: Any = group("exact", "the same for the KL estimator")
    sampler: dict[str, Any] = group("exact", "checked if given; the others are checked with exact")
    correction: dict[str, Any] = group("none", "checked if given, with sampler=temperature")
    group_size: int = setting(4, "actions", "G of the learner; exact means of finite groups are summed over all groups")
    kl_weight: float = setting(1.0, "reward per nat", "beta of the learner")
    seed: int = setting(0, "", "root of all random numbers")


@dataclass
class ReproduceSettings(RunSettings):
    """Settings of `reproduce`."""

    figures: Any = setting("all", "ids", "all, or names of files in experiments/; plain arguments")
    quality: str = setting("draft", "", "draft: all figures in some minutes | paper: what is published")
    publish: str | None = setting(
        None, "path", "also copy pictures, numbers and claims there (figures); claims of other figures stay"
    )
    formats: Any = setting("png", "", "png | pdf | svg, or some with commas between")
    numbers: str | None = setting(
        None, "path", "draw again from the numbers published there (figures): nothing is measured, claims stay"
    )
    cache: str | None = setting(
        "outputs/reproduce/cache", "path", "keeps measurements for the next run; null: measure anew, keep nothing"
    )
    engine: dict[str, Any] = group("local", "where experiments are measured: here, or on dask's workers")


SCHEMAS: dict[str, type[Any]] = {
    "sweep": SweepSettings,
    "predict": PredictSettings,
    "reproduce": ReproduceSettings,
    "check": CheckSettings,
    "explore": ExploreSettings,
}


def beside_package(folder: str, holds: str) -> Path:
    """Absolute folder that is installed beside the package's modules (wheel), else one level up (checkout)."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / folder, package.parent / folder):
        if any(candidate.glob(holds)):
            return candidate
    raise FileNotFoundError(f"no {folder}/ beside {package} or one level up; reinstall bandit-lab")


def config_dir() -> Path:
    """The studies' numbers."""
    return beside_package("conf", "experiment")
