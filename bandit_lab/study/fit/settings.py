"""The settings of `fit`: which logs, how they are read, which laws, what is forecast."""

from dataclasses import dataclass

from bandit_lab.study.settings.log import LogSettings
from bandit_lab.study.settings.schema import LEARNER, OUTPUT, RUN, setting

LAWS = ["oscillator", "softmax_law", "single_exponential", "sigmoid", "constant"]


@dataclass
class FitSettings(LogSettings):
    """Settings of `fit`."""

    learning_rate: float | None = setting(None, "logits per unit gradient", "eta, for the effective stiffness", LEARNER)
    momentum: float | None = setting(None, "", "mu in [0, 1) (Adam: beta1, with the ema convention)", LEARNER)
    convention: str = setting(
        "heavy_ball", "", "heavy_ball (v <- mu v + g) | ema (v <- mu v + (1 - mu) g) | nesterov", LEARNER
    )
    models: list[str] = setting(LAWS, "laws", "which are fitted: " + " | ".join(LAWS), RUN)
    level: float = setting(0.9, "", "confidence of the intervals, in [0.5, 0.99]; interval_90 is always at 0.9", RUN)
    from_fraction: float = setting(1.0, "", "share of the points that the forecast sees, in (0, 1]", RUN)
    horizon: float | None = setting(
        None, "steps", "how far behind the last point seen; null: the run's end, or half its length behind it", RUN
    )
    backtest: bool = setting(False, "", "forecast every run's end from its first parts and score it", RUN)
    fractions: list[float] = setting([0.3, 0.5, 0.7], "", "shares of the points that the back-test sees", RUN)
    backtest_points: int = setting(60, "points", "shorter runs are left out of the back-test", RUN)
    pictures: bool = setting(True, "", "draw fits.png (all runs as small multiples)", OUTPUT)
    report: bool = setting(True, "", "write report/<run>.html, .md and .png, ready to paste into an issue", OUTPUT)
    seed: int = setting(0, "", "root of the random numbers (the verdict's simulated null)", RUN)
