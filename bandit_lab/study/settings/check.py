"""The settings of `check`."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.settings.schema import setting


@dataclass
class CheckSettings:
    """What is checked, and the learner that it is put into."""

    bandit: dict[str, Any] = setting({}, "group", "checked if given, else what the others are checked on")
    advantage: dict[str, Any] = setting({}, "group", "the same for the advantage")
    estimator: dict[str, Any] = setting({}, "group", "the same for the estimator")
    staleness: dict[str, Any] = setting({}, "group", "the same for the staleness model")
    optimizer: dict[str, Any] = setting({}, "group", "the same for the optimiser")
    kl_estimator: Any = setting("exact", "group", "the same for the KL estimator")
    diagnostic: str | None = setting(None, "", "a diagnostic that is checked, by its failure; on simulated logs")
    group_size: int = setting(4, "actions", "G of the learner; exact means of finite groups are summed over all groups")
    kl_weight: float = setting(1.0, "reward per nat", "beta of the learner")
    seed: int = setting(0, "", "root of all random numbers")
    plugins: list[str] = setting([], "modules", "Python modules to import first; all that they register is checked")
    compilation_cache: Any = setting(
        "auto", "path", "keeps compiled programs for the next run; auto: the user's cache folder; null, false: nowhere"
    )
    run_dir: str | None = setting(None, "path", "run folder; null: outputs/check/<date>_<time>")
    overwrite: bool = setting(False, "", "replace a finished run in run_dir")
    quiet: bool = setting(False, "", "no progress on stderr, where it appears only on a terminal")
