"""The settings of every command: one dataclass each, the single source of the schema, the defaults and the help, which
begins with its docstring.

A mistyped key or a value of the wrong type is thereby an error before any work. Group nodes (`bandit`, `advantage`,
...) are mappings: their keys are those of the chosen variant, their values are checked where it is built.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from bandit_lab import _checks
from bandit_lab._checks import did_you_mean

GROUPS = ("bandit", "advantage", "estimator", "staleness", "optimizer", "kl_estimator", "sampler", "correction")
"""What trains is made of one variant of each."""
CHOICES = (*GROUPS, "engine")
"""All settings that choose a variant."""
MULTIPLES = [0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.2]
TRACED = ("learning_rate", "momentum", "refresh_interval", "kl_weight")
SCHEDULED = ("learning_rate",)
"""Settings that may be a schedule: a mapping with its name under `schedule` and its options."""
LARGEST_WHOLE = 2**1023  # an integer that a float holds


def setting(default: Any, unit: str, text: str) -> Any:
    """A dataclass field; lists and mappings are copied for each instance."""
    metadata = {"unit": unit, "help": text}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(default: str, text: str, names: Sequence[str] = ()) -> Any:
    """A field that holds one variant of a group: `name` and the variant's options. default: the variant's name.

    names: the variants that the command takes; none: all.
    """
    metadata = {"unit": "group", "help": text, "variant": default, "names": tuple(names)}
    return field(default_factory=lambda: {"name": default}, metadata=metadata)


QUIET = "no progress on stderr"


@dataclass
class RunSettings:
    """Settings of every command that writes a run folder."""

    quiet: bool = setting(False, "", QUIET)
    plugins: list[str] = setting([], "modules", "Python modules to import first; they may register variants")
    run_dir: str | None = setting(
        None, "path", "run folder; null: outputs/<command>/<date>_<time>, of predict and check none"
    )
    overwrite: bool = setting(False, "", "replace a finished run in run_dir")


@dataclass
class Settings(RunSettings):
    """What is trained: settings of every command that simulates or predicts."""

    bandit: dict[str, Any] = group("two_arm", "what is learned; its options: bandit.rewards, .kind, ...")
    advantage: dict[str, Any] = group("grpo", "from rewards to advantages; options: advantage.eps, ...")
    estimator: dict[str, Any] = group("frozen", "how an old action counts; options: estimator.epsilon, ...")
    staleness: dict[str, Any] = group("refresh", "which old policy acts: models A, B (lag) and C (pipeline)")
    optimizer: dict[str, Any] = group("sgd", "momentum's convention, or any of optax by name; .options")
    refresh_interval: Any = setting(1, "steps", "N >= 1; staleness=lag: the lag >= 0, 0 is on-policy")
    learning_rate: Any = setting(0.05, "logits per unit gradient", "eta > 0, or a schedule")
    momentum: float = setting(0.9, "", "mu in [0, 1)")
    kl_weight: Any = setting(1.0, "reward per nat", "beta >= 0 of KL(policy || reference)")
    kl_estimator: Any = group("exact", "the penalty: exact reverse KL, or the sampled k3 (on policy the forward KL)")
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
    """Settings of every command that simulates runs."""

    seeds: int = setting(1024, "runs", "replicas per cell of the sampled grid")
    steps: int = setting(1000, "updates", "of a sampled run; not given: multiples of 1000 >= 30 (N + 1/(1 - mu))")
    seed: int = setting(0, "", "root of all random numbers")
    precision: str | None = setting(None, "", "float32 | float64, of runs; null: float32 if sampled with sgd")
    rng: str | None = setting(None, "", "random numbers of the fast path: hash | threefry; null: hash")
    path: str = setting("auto", "", "of sampled runs: fast | reference (the definition); auto: fast where it serves")


@dataclass
class PredictSettings(Settings):
    """Closed-form and exact predictions for one setting, no simulation.

    A verdict in words, then the fixed point, its stiffness, the oscillator, the thresholds and the noise. Unstable
    refresh intervals are searched up to 1,024 (lag with a fresh part of the stiffness: 128).

      python -m bandit_lab predict -m staleness=refresh,lag,pipeline refresh_interval=8
      python -m bandit_lab predict refresh_interval=8 momentum=0.9 learning_rate=0.1 group_size=16
    """

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
    """Sizes of the chunks of work, each kept on disk once it is finished. No result depends on it."""

    seeds: int | None = setting(None, "seeds", "of sampled runs, a multiple of 4096; null: some seconds of work")
    cells: int | None = setting(None, "cells", "of sampled runs, a multiple of 4; null: some seconds of work")
    rows: int | None = setting(None, "rows", "of thresholds of the mean update; null: about ten seconds of work")


@dataclass
class SweepSettings(SimulationSettings):
    """Measures the stability threshold: a grid of training runs, the theory beside it.

    Without arguments: two arms, model A, refresh intervals 1..64, 64 learning rates across the threshold, momenta 0 and
    0.9. An axis that is not swept keeps these values, unless its plain key is given (learning_rate=0.1 runs that rate
    alone). The same command with the same run_dir goes on after a kill. What fails is null, with its reason (exit 1).

      python -m bandit_lab sweep -m group_size=8,64 seeds=256
      python -m bandit_lab sweep staleness=lag 'sweep.refresh_interval=[1,2,4,8]' momentum=0.9
    """

    sweep: dict[str, Any] = setting({}, "", "sweep.<setting>: a list or {start, stop, num, scale: linear|log}")
    boundary: str = setting("learning_rate", "", "what is bracketed: learning_rate | refresh_interval")
    sampled: SampledGrid = field(default_factory=SampledGrid)
    keep_runs: bool | None = setting(None, "", "keep every run's summary, or counts and means; null: up to 2^24 runs")
    chunk: ChunkSizes = field(default_factory=ChunkSizes)
    engine: dict[str, Any] = group("local", "where chunks are computed: here, or on dask's workers")
    pictures: bool = setting(True, "", "draw phase_diagram.png and trajectories.png")
    memory_limit: float | None = setting(None, "GiB", "refuse larger grids; null: 80% of the free memory")


@dataclass
class CheckSettings(RunSettings):
    """The conformance suite for a variant: yours before you rely on it, or ours.

    Checks all that 'plugins=[my_module]' registers and every variant that is chosen (bandit=my_bandit); without either,
    all variants, which takes minutes. Sampling against exact means, derivatives against differences, stiffness by three
    routes, growth of displaced runs, compilations, precision, settings. Exit 1 if one fails.

      python -m bandit_lab check bandit=gaussian advantage=rloo
      python -m bandit_lab check 'plugins=[my_module]'
    """

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
    """The figures of the papers and of the lab, with every claim's prediction and verdict.

    Without arguments: all of them, as drafts. Measurements are kept until the code or a setting changes, and the same
    command goes on after a kill. A figure that cannot run here is skipped with its reason; one that fails (exit 1) does
    not stop the others.

      python -m bandit_lab reproduce two_detectors quality=paper publish=outputs/figures
      python -m bandit_lab reproduce phase_diagram transition
    """

    figures: Any = setting("all", "ids", "all, or names of files in experiments/; plain arguments")
    quality: str = setting("draft", "", "draft: all figures in some minutes | paper: what is published")
    publish: str | None = setting(None, "path", "also copy pictures, numbers and claims there; other claims stay")
    formats: Any = setting("png", "", "png | pdf | svg, or some with commas between")
    numbers: str | None = setting(None, "path", "draw again from the numbers published there; nothing is measured")
    cache: str | None = setting("outputs/reproduce/cache", "path", "keeps measurements; null: measure, keep nothing")


@dataclass
class ExploreSettings:
    """The stability map as one HTML page: drag the point, see threshold and runs move.

    Writes one file that needs no network, and opens it. A sweep's folder shows its measured thresholds. The settings,
    those of `predict` that the page can compute, say where it begins.

      python -m bandit_lab explore staleness=lag refresh_interval=4 run_dir=my_map open=false
      python -m bandit_lab explore outputs/sweep/my_run
    """

    bandit: dict[str, Any] = group("two_arm", "what is learned; bandit.rewards, ...", names=("two_arm", "k_arm"))
    paths: list[str] = setting([], "paths", "a sweep's run folder; a plain argument")
    advantage: dict[str, Any] = group("grpo", "from rewards to advantages", names=("grpo", "dr_grpo", "rloo"))
    estimator: dict[str, Any] = group("frozen", "how an old action counts", names=("frozen", "uncorrected", "ratio"))
    staleness: dict[str, Any] = group("refresh", "which old policy acts", names=("refresh", "lag", "pipeline"))
    optimizer: dict[str, Any] = group("sgd", "momentum's convention", names=("sgd", "sgd_ema", "nesterov"))
    refresh_interval: int = setting(8, "steps", "N, 1 to 64")
    learning_rate: float = setting(0.1, "logits per unit gradient", "eta > 0")
    momentum: float = setting(0.9, "", "mu, 0 to 0.99")
    kl_weight: float = setting(1.0, "reward per nat", "beta, 0 to 10")
    group_size: int = setting(64, "actions", "G, 2 to 512")
    dynamics: str = setting("sampled", "", "sampled | finite_group (both: drift at this G) | mean_field (G = infinity)")
    run_dir: str | None = setting(None, "path", "folder for the page, map.html; null: outputs/<command>/<date>_<time>")
    quiet: bool = setting(False, "", QUIET)
    open: bool = setting(True, "", "show the page in the browser, where there is a display")
    plugins: list[str] = setting([], "modules", "Python modules to import first; they may register readers' variants")


SCHEMAS: dict[str, type[Any]] = {
    "sweep": SweepSettings,
    "predict": PredictSettings,
    "reproduce": ReproduceSettings,
    "check": CheckSettings,
    "explore": ExploreSettings,
}


def _setting_fields(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, Field[Any]]]:
    """(dotted key, field) of every setting of a schema, in order."""
    for entry in fields(schema):
        if entry.default_factory is not MISSING and isinstance(entry.default_factory, type):
            yield from _setting_fields(entry.default_factory, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry


def listed(schema: type[Any]) -> list[tuple[str, Field[Any], Any]]:
    """(dotted key, field, default) of every setting; a command's own stand before those that it shares with others."""
    owners = [inspect.get_annotations(one) for one in schema.__mro__]
    place = {name: number for number, names in reversed(list(enumerate(owners))) for name in names}
    entries = sorted(_setting_fields(schema), key=lambda one: place[one[0].partition(".")[0]])
    return [
        (key, one, one.default if one.default_factory is MISSING else one.default_factory()) for key, one in entries
    ]


def beside_package(folder: str, holds: str) -> Path:
    """Absolute folder that is installed beside the package's modules (wheel), else one level up (checkout)."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / folder, package.parent / folder):
        if any(candidate.glob(holds)):
            return candidate
    raise FileNotFoundError(f"no {folder}/ beside {package} or one level up; reinstall bandit-lab")


def config_dir() -> Path:
    """What every command begins with, and its variants."""
    return beside_package("conf", "predict.yaml")


def check_sweepable(name: str) -> None:
    """Raise ValueError unless `sweep.<name>` is a traced setting; a static one is told to use -m."""
    static = name in {key for schema in SCHEMAS.values() for key in schema.__dataclass_fields__}
    hint = f" ('{name}' recompiles: use -m {name}=a,b)" if static else did_you_mean(name, TRACED)
    _checks.require(name in TRACED, f"sweep.{name}", f"one of {', '.join(TRACED)}{hint}", name)


class IntervalRule(NamedTuple):
    """Limits of a refresh interval: its least value, and whether it is a whole number of steps."""

    least: int = 1
    whole: bool = True


ANY_INTERVAL = IntervalRule()


def value_of(key: str, name: str, value: Any, rule: IntervalRule = ANY_INTERVAL) -> float:
    """One value of a traced setting, checked. Raises ValueError that names `key`."""
    if name == "learning_rate":
        low, high = 1e-300, _checks.LARGEST
        _checks.require(low <= _checks.positive(key, value) <= high, key, f"a number from {low:g} to {high:g}", value)
        return float(value)
    if name == "momentum":
        return _checks.momentum(key, value)
    if name == "refresh_interval":
        return _checks.integer(key, value, rule.least) if rule.whole else _checks.non_negative(key, value)
    _checks.require(_checks.non_negative(key, value) <= _checks.LARGEST, key, f"a number <= {_checks.LARGEST:g}", value)
    return float(value)
