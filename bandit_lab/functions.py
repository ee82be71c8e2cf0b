"""The laboratory in Python: a function for each command, with its settings as keywords.

    import bandit_lab as bl

    bl.predict(refresh_interval=8, bandit={"name": "k_arm", "rewards": [0.9, 0.5, 0.1]}).thresholds.learning_rate.exact

A variant is its name, a dictionary of `name` and its options, or an object. A list may be an array. A schedule is a
dictionary: `{"schedule": "linear", "init_value": 0.3, "end_value": 0.0}`. None where the command has a value means that
nothing is given: the command's own default holds. Nothing is printed but the progress of a long call, on stderr unless
`quiet=True`, and nothing written unless `run_dir` is given. A mistake is a ValueError with the line that the command
prints: which key, what was expected, what was given.
"""

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from bandit_lab import _checks
from bandit_lab.app import plugins, runner
from bandit_lab.app.folder.store import manifest_of
from bandit_lab.app.progress import Progress
from bandit_lab.app.result import ArrayLike, Result
from bandit_lab.app.settings import names
from bandit_lab.app.settings.config import CHOICES, SCHEMAS, TRACED, SimulationSettings
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import KL, Advantage, Correction, Estimator, Optimizer, Sampler, Staleness

if TYPE_CHECKING:
    import xarray

    from bandit_lab.lab.explore.command import Map

D = TypeVar("D", bound=Result)
Options = Mapping[str, Any]
"""`name` and the options of a variant."""
Schedule = Mapping[str, Any]
Folder = str | Path
Values = float | Sequence[float]
"""One value, or several."""
Axis = Sequence[float] | Mapping[str, Any]
"""Values, or `start`, `stop`, `num` and `scale`."""


class Prediction(Result):
    """The result of `predict`; `to_dict()` is the content of `summary.json`. With `stiffness=` those of a run alone:
    verdict, oscillator, regime, thresholds, margin and stationary_std.
    """

    verdict: str
    drift: str
    fixed_point: dict[str, Any]
    stiffness: float
    stiffness_source: str
    stiffness_spectrum: list[Any]
    stiffness_fresh: list[Any]
    stiffness_stale: list[Any]
    oscillator: Any
    thresholds: Any
    bifurcation: str | None
    regime: str
    margin: float
    spectral_radius: float
    spectral_radius_steps: int
    stationary_std: Any
    statements: list[dict[str, Any]]
    notes: list[str]


class Sweep(Result):
    """The result of `sweep`. `data` is the grid with named dimensions and units, `plot()` the diagram."""

    verdict: str
    axes: dict[str, Any]
    drift: list[str]
    convention: str
    boundary: str
    outcomes: dict[str, Any]
    outcomes_of: str
    sampled: dict[str, Any] | None
    threshold: list[dict[str, Any]]
    transition: list[dict[str, Any]]
    stiffness: dict[str, Any]
    throughput: dict[str, Any]
    chunks: dict[str, Any]


class Reproduction(Result):
    """The result of `reproduce`: `claims`, a row each."""

    claims: list[dict[str, Any]]


class Conformance(Result):
    """The result of `check`: a row per question, and how many `failed`."""

    checks: list[dict[str, Any]]
    failed: int


def predict(
    *,
    bandit: names.BanditName | Options | Bandit = "two_arm",
    advantage: names.AdvantageName | Options | Advantage = "grpo",
    estimator: names.EstimatorName | Options | Estimator = "frozen",
    staleness: names.StalenessName | Options | Staleness = "refresh",
    optimizer: names.OptimizerName | Options | Optimizer = "sgd",
    kl_estimator: names.KLEstimatorName | Options | KL = "exact",
    sampler: names.SamplerName | Options | Sampler = "exact",
    correction: names.CorrectionName | Options | Correction = "none",
    stiffness: float | Sequence[float] | None = None,
    refresh_interval: float = 1,
    learning_rate: float | Schedule = 0.05,
    momentum: float = 0.9,
    kl_weight: float = 1.0,
    entropy_weight: float = 0.0,
    group_size: int = 64,
    prompts: int = 1,
    batch_reuse: bool = False,
    dynamics: names.Dynamics = "sampled",
    steps: int | None = None,
    plugins: Sequence[str] = (),
    run_dir: Folder | None = None,
    overwrite: bool = False,
) -> Prediction:
    """Closed-form and exact predictions for one setting: `python -m bandit_lab predict`.

    Args:
      stiffness: in place of a bandit and its advantage, estimator and KL term: the curvature of a run [reward per
        parameter^2], or [fresh, stale], what is felt at the current policy and at the one that acted.
      refresh_interval: N [steps]. learning_rate: eta [logits per unit gradient]. kl_weight: beta [reward per nat].
      steps: length of a run on a schedule.

    Returns:
      A prediction: `verdict`, `thresholds`, `stiffness`, ...

    Raises:
      ValueError: a setting that is out of range: which, what was expected, what was given.

    Example:
      >>> predict(refresh_interval=8, momentum=0).bifurcation
      'flip'
      >>> predict(stiffness=0.5, refresh_interval=4, momentum=0).thresholds.learning_rate.exact
      1.0
    """
    return _called(Prediction, "predict", {**locals()})


def sweep(
    *,
    sweep: Mapping[str, Axis] | None = None,
    bandit: names.BanditName | Options | Bandit = "two_arm",
    advantage: names.AdvantageName | Options | Advantage = "grpo",
    estimator: names.EstimatorName | Options | Estimator = "frozen",
    staleness: names.StalenessName | Options | Staleness = "refresh",
    optimizer: names.OptimizerName | Options | Optimizer = "sgd",
    kl_estimator: names.KLEstimatorName | Options | KL = "exact",
    sampler: names.SamplerName | Options | Sampler = "exact",
    correction: names.CorrectionName | Options | Correction = "none",
    refresh_interval: float | None = None,
    learning_rate: float | Schedule | None = None,
    momentum: float | None = None,
    kl_weight: float | None = None,
    entropy_weight: float = 0.0,
    group_size: int = 64,
    prompts: int = 1,
    batch_reuse: bool = False,
    dynamics: names.Dynamics = "sampled",
    seeds: int = 1024,
    steps: int | None = None,
    seed: int = 0,
    precision: names.Precision | None = None,
    rng: names.Generator | None = None,
    path: names.Path = "auto",
    boundary: Literal["learning_rate", "refresh_interval"] = "learning_rate",
    sampled: Mapping[str, Any] | None = None,
    keep_runs: bool | None = None,
    chunk: Mapping[str, int] | None = None,
    engine: Literal["local", "dask"] | Options = "local",
    pictures: bool = True,
    memory_limit: float | None = None,
    plugins: Sequence[str] = (),
    run_dir: Folder | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Sweep:
    """A grid of training runs with the theory beside it: `python -m bandit_lab sweep`.

    Args:
      sweep: axes of the grid, `{"refresh_interval": [1, 2, 4], "learning_rate": {"num": 16}}`. What is neither here nor
        given keeps the default study's values. sampled: the coarser grid of sampled runs. Others as in `predict` and
        `simulate`.

    Returns:
      A sweep: `threshold`, `transition`, `data`, `plot()`.

    Raises:
      ValueError: as `predict`.

    Example:
      >>> swept = sweep(sweep={"refresh_interval": [1, 2]}, momentum=0, dynamics="mean_field")
      >>> [row["exact"] > row["leading_order"] for row in swept.threshold]
      [True, True]
    """
    return _called(Sweep, "sweep", {**locals(), "pictures": pictures and run_dir is not None})


def reproduce(
    *figures: str,
    quality: Literal["draft", "paper"] = "draft",
    publish: Folder | None = None,
    formats: str | Sequence[str] = "png",
    numbers: Folder | None = None,
    cache: Folder | None = None,
    plugins: Sequence[str] = (),
    run_dir: Folder | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Reproduction:
    """Figures of the papers and of the lab, with their claims: `python -m bandit_lab reproduce`.

    Args:
      figures: names of files in `experiments/`; none: all. cache: a folder that keeps measurements for the next call.
        numbers: draw again from the numbers that are published there.

    Returns:
      A reproduction; `table("claims")` has a row per claim: predicted, measured, tolerance, holds.

    Raises:
      ValueError: as `predict`.

    Example:
      >>> reproduce("temperature", quality="paper", numbers="figures").claims[0]["holds"]
      True
    """
    return _called(Reproduction, "reproduce", {**locals(), "figures": list(figures) or "all"})


def check(
    *,
    bandit: names.BanditName | Options | Bandit | None = None,
    advantage: names.AdvantageName | Options | Advantage | None = None,
    estimator: names.EstimatorName | Options | Estimator | None = None,
    staleness: names.StalenessName | Options | Staleness | None = None,
    optimizer: names.OptimizerName | Options | Optimizer | None = None,
    kl_estimator: names.KLEstimatorName | Options | KL | None = None,
    sampler: names.SamplerName | Options | Sampler | None = None,
    correction: names.CorrectionName | Options | Correction | None = None,
    group_size: int = 4,
    kl_weight: float = 1.0,
    seed: int = 0,
    plugins: Sequence[str] = (),
    run_dir: Folder | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Conformance:
    """The conformance suite for a variant: `python -m bandit_lab check`. Without any: every variant, in minutes.

    Returns:
      `checks` has a row per question (kind, variant, check, status, detail), `failed` their number.

    Raises:
      ValueError: as `predict`.

    Example:
      >>> check(advantage="rloo").failed
      0
    """
    return _called(Conformance, "check", {**locals()})


def simulate(
    *,
    bandit: names.BanditName | Options | Bandit = "two_arm",
    advantage: names.AdvantageName | Options | Advantage = "grpo",
    estimator: names.EstimatorName | Options | Estimator = "frozen",
    staleness: names.StalenessName | Options | Staleness = "refresh",
    optimizer: names.OptimizerName | Options | Optimizer = "sgd",
    kl_estimator: names.KLEstimatorName | Options | KL = "exact",
    sampler: names.SamplerName | Options | Sampler = "exact",
    correction: names.CorrectionName | Options | Correction = "none",
    refresh_interval: Values = 1,
    learning_rate: Values | Schedule = 0.05,
    momentum: Values = 0.9,
    kl_weight: Values = 1.0,
    entropy_weight: float = 0.0,
    group_size: int = 64,
    prompts: int = 1,
    batch_reuse: bool = False,
    dynamics: names.Dynamics = "sampled",
    seeds: int = 1024,
    steps: int = 1000,
    seed: int = 0,
    precision: names.Precision | None = None,
    rng: names.Generator | None = None,
    path: names.Path = "auto",
    curves: bool = False,
    plugins: Sequence[str] = (),
) -> "xarray.Dataset":
    """Many seeds of one setting, on the fast path where it serves.

    Args:
      seeds: S. steps: T updates. curves: whether the reward of every seed is kept, 8 (T + 1) S bytes; the runs are then
        made twice. Several values of a number are a dimension of that name. With dynamics="mean_field"
        or "finite_group" there is one run.

    Returns:
      A data set with units in the variables' `attrs`: reward_mean, reward_variance (step) [T + 1]; final_policy (seed,
      arm) [S, K], with contexts (seed, context, arm); tail_mean, tail_std, overshoot, final_max_probability,
      tail_silent, outcome (seed) [S]; reward (seed, step) with `curves`. Without outcomes `no_outcome` says why.

    Raises:
      ValueError: as `predict`.

    Example:
      >>> simulate(seeds=8, steps=20, learning_rate=[0.1, 0.3]).reward_mean.shape
      (2, 21)
    """
    given = {**locals()}
    from bandit_lab.lab.simulate import simulated_grid

    del given["curves"]
    axes = {name: _plain(name, given.pop(name)) for name in TRACED if np.ndim(given[name])}
    with _working(given) as stack:
        settings = _settings("sweep", given, stack)[0]
        chosen = SimulationSettings(**{one.name: getattr(settings, one.name) for one in fields(SimulationSettings)})
        return simulated_grid(chosen, axes, curves=curves)


def explore(
    folder: Folder | None = None,
    *,
    bandit: Literal["two_arm", "k_arm"] | Options = "two_arm",
    advantage: Literal["grpo", "dr_grpo", "rloo"] = "grpo",
    estimator: Literal["frozen", "uncorrected", "ratio"] = "frozen",
    staleness: Literal["refresh", "lag", "pipeline"] = "refresh",
    optimizer: Literal["sgd", "sgd_ema", "nesterov"] = "sgd",
    refresh_interval: int = 8,
    learning_rate: float = 0.1,
    momentum: float = 0.9,
    kl_weight: float = 1.0,
    group_size: int = 64,
    dynamics: names.Dynamics = "sampled",
    run_dir: Folder | None = None,
    open: bool = False,
) -> "Map":
    """The stability map as one interactive page: `python -m bandit_lab explore`. A notebook shows it.

    Args:
      folder: of a sweep, laid into the map. The settings say where the page begins. run_dir: the folder to write
        `map.html` into. open: whether a browser opens that file.

    Returns:
      The page: its `html`, and what is laid into it.

    Raises:
      ValueError: as `predict`; what the page cannot compute.

    Example:
      >>> explore(staleness="lag").html[:15]
      '<!doctype html>'
    """
    given = {**locals(), "paths": [] if folder is None else [str(folder)], "open": open and run_dir is not None}
    del given["folder"]
    page: Map = _done("explore", given)
    return page


def load(folder: Folder) -> Result:
    """The result of a finished run folder, to be read and drawn again.

    Returns:
      What `summary.json` and `results.zarr` hold. Of a sweep `plot()` draws the diagram as before.

    Raises:
      ValueError: `folder` is not that of one finished run.

    Example:
      >>> load("outputs/nothing")
      Traceback (most recent call last):
      ValueError: folder: expected that of one finished run, got 'outputs/nothing'
    """
    manifest = manifest_of(Path(folder))
    if manifest is None:
        raise ValueError(f"folder: expected that of one finished run, got {str(folder)!r}")
    return runner.loaded(str(manifest["command"]), Path(folder))


def _called(kind: type[D], command: str, given: Mapping[str, Any]) -> D:
    """A command's result; with `run_dir` written as the command writes it."""
    result = _done(command, given)
    return kind(**{one.name: getattr(result, one.name) for one in fields(result)})


def _done(command: str, given: Mapping[str, Any]) -> Any:
    with _working(given) as stack:
        folder = None if given["run_dir"] is None else Path(given["run_dir"])
        return runner.done(command, *_settings(command, given, stack), folder, Progress(given.get("quiet", True)))


@contextlib.contextmanager
def _working(given: Mapping[str, Any]) -> Iterator[contextlib.ExitStack]:
    """Inside, JAX computes in double precision, and plug-ins and objects are variants that have a name."""
    import jax

    config: Any = jax.config
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    try:
        modules = given.get("plugins", ())
        plugins.load(map(str, [modules] if isinstance(modules, str) else modules))
        with contextlib.ExitStack() as stack:
            yield stack
    finally:
        config.update("jax_enable_x64", before)


def _settings(command: str, given: Mapping[str, Any], stack: contextlib.ExitStack) -> tuple[Any, frozenset[str]]:
    """(settings of a command, the keys that are given). A keyword that has its default is not given."""
    schema, usual = SCHEMAS[command], inspect.signature(globals()[command]).parameters
    defaults = schema()
    values: dict[str, Any] = {}
    explicit = set()
    entries = {one.name: one for one in fields(schema)}
    for name, value in given.items():
        if value is None:
            continue
        if name in CHOICES:
            alone = given.get("run_dir") is None
            values[name] = _variant(name, value, stack, getattr(defaults, name)["name"], alone)
        elif is_dataclass(factory := entries[name].default_factory):
            _checks.require(isinstance(value, Mapping), name, "a dictionary", value)
            for key in value:
                _checks.choice(name, key, [one.name for one in fields(factory)])
            values[name] = factory(**{key: _plain(f"{name}.{key}", one) for key, one in value.items()})
            explicit |= {f"{name}.{key}" for key in value}
        else:
            values[name], asked = _plain(name, value), entries[name].type
            for kind, words in ((bool, "true or false"), (dict, "a dictionary")):
                right = isinstance(values[name], kind) or kind not in (asked, get_origin(asked), *get_args(asked))
                _checks.require(right, name, words, value)
        default = usual[name].default if name in usual else None
        if not (value is default or (isinstance(value, str | float) and value == default)):
            explicit.add(name)
    return schema(**values), frozenset(explicit)


def _variant(kind: str, value: Any, stack: contextlib.ExitStack, default: str, alone: bool) -> dict[str, Any]:
    """`name` and all options of a variant, of the default one where none is named. An object without a name is `given`
    until the stack ends: alone, for no configuration in a folder could say what it is."""
    registry = plugins.chosen_from()[kind]
    if isinstance(value, str | Mapping):
        options = {"name": value} if isinstance(value, str) else value
        name = options.get("name", default)
        named = isinstance(name, str) and name.isidentifier()
        _checks.require(named, kind, "a variant's name, or a dictionary with name and options", name)
        settings: dict[str, Any] = {"options": {}} if kind == "optimizer" else {}
        settings |= plugins.settings_of(registry, name) if name in registry else {}
        return {"name": name} | settings | {key: _plain(f"{kind}.{key}", one) for key, one in options.items()}
    for name in registry:
        if registry[name] is value:
            return plugins.settings_of(registry, name)
        if registry[name] is type(value):
            return {"name": name} | {option: getattr(value, option) for option in registry.defaults(name)}
    serves = bool(registry.needs) and not isinstance(value, type) and {*registry.needs} <= {*dir(value)}
    _checks.require(serves, kind, "a variant's name, a dictionary with name and options, or an object", value)
    _checks.require(alone, kind, "the name of a registered variant beside run_dir", value)
    variant = _in_double(value) if kind == "bandit" else value

    def builder() -> Any:
        return variant

    builder.__module__, builder.__wrapped__ = type(value).__module__, type(value)  # type: ignore[attr-defined]
    builder.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    stack.enter_context(registry.standing("given", builder))
    return {"name": "given"}


def _plain(key: str, value: Any) -> Any:
    """A value as a configuration has it. Raises ValueError for what it cannot hold."""
    _checks.require(key.count("[") + key.count(".") < 32, key.partition("[")[0], "a value", "one nested too deeply")
    if isinstance(value, ArrayLike):
        array = np.asarray(value)
        single = array.dtype in (np.float32, np.float16)  # 0.1 stays 0.1
        return _plain(key, (array.astype(str).astype(np.float64) if single else array).tolist())
    if isinstance(value, Mapping):
        return {str(name): _plain(f"{key}.{name}", one) for name, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(f"{key}[{place}]", one) for place, one in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    plain = value is None or isinstance(value, bool | int | float | str)
    _checks.require(plain, key, "a number, text, a list or a mapping", type(value).__name__)
    return value


def _in_double(bandit: Any) -> Any:
    """A bandit that was built in single precision, as JAX builds by default, in double: there everything is predicted.

    Its reference policy adds up to 1 again.
    """
    import jax

    if bandit.reference_log_policy.dtype == np.float64:
        return bandit
    double = jax.tree.map(lambda leaf: jax.numpy.asarray(_plain("bandit", leaf)), bandit)
    return replace(double, reference_log_policy=jax.nn.log_softmax(double.reference_log_policy))
