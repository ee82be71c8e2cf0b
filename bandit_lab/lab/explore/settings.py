"""The settings of `explore`: where the page begins, what is laid into it, where it is written."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.app.settings.schema import ShellSettings, group, setting


@dataclass
class ExploreSettings(ShellSettings):
    """Settings of `explore`. The learner's are those of `predict`, for what the page can compute."""

    bandit: dict[str, Any] = group(
        "two_arm", "what is learned; its options: bandit.rewards, ...", names=("two_arm", "k_arm")
    )
    paths: list[str] = setting([], "paths", "a sweep's run folder; a plain argument")
    advantage: dict[str, Any] = group("grpo", "from rewards to advantages", names=("grpo", "dr_grpo", "rloo"))
    estimator: dict[str, Any] = group("frozen", "how an old action counts", names=("frozen", "uncorrected", "ratio"))
    staleness: dict[str, Any] = group(
        "refresh", "which old policy acts: models A, B and C", names=("refresh", "lag", "pipeline")
    )
    optimizer: dict[str, Any] = group("sgd", "momentum's convention", names=("sgd", "sgd_ema", "nesterov"))
    refresh_interval: int = setting(8, "steps", "N, 1 to 64")
    learning_rate: float = setting(0.1, "logits per unit gradient", "eta > 0")
    momentum: float = setting(0.9, "", "mu, 0 to 0.99")
    kl_weight: float = setting(1.0, "reward per nat", "beta, 0 to 10")
    group_size: int = setting(64, "actions", "G, 2 to 512")
    dynamics: str = setting("sampled", "", "sampled | finite_group (both: drift at this G) | mean_field (G = infinity)")
    run_dir: str | None = setting(None, "path", "folder for the page, map.html; null: outputs/<command>/<date>_<time>")
    open: bool = setting(True, "", "show the page in the browser, where there is a display")
    plugins: list[str] = setting([], "modules", "Python modules to import first; they may register readers' variants")
