"""Names of the variants that the package has, as types: an editor and a type checker know them without JAX."""

from typing import Literal, get_args

BanditName = Literal[
    "two_arm", "k_arm", "gaussian", "noisy_verifier", "proxy", "contextual", "sequence", "modes", "neural",
]  # fmt: skip
AdvantageName = Literal["grpo", "dr_grpo", "rloo", "dapo", "batch_std", "median", "none", "sign", "tempered"]
EstimatorName = Literal["frozen", "uncorrected", "ratio", "clipped", "clip_higher", "cispo", "gspo", "tpo"]
StalenessName = Literal["refresh", "lag", "pipeline", "ages"]
OptimizerName = Literal["sgd", "sgd_ema", "nesterov", "adam", "adamw"]
"""Ours, and two of optax, of which any may be named."""
KLEstimatorName = Literal["exact", "k3"]
SamplerName = Literal["exact", "temperature", "top_p", "top_k", "logit_noise", "rounding"]
CorrectionName = Literal["none", "importance", "tis", "icepop"]
Dynamics = Literal["sampled", "finite_group", "mean_field"]
Precision = Literal["float32", "float64"]
Path = Literal["auto", "fast", "reference"]
Generator = Literal["hash", "threefry"]

NAMES: dict[str, tuple[str, ...]] = {
    "bandit": get_args(BanditName),
    "advantage": get_args(AdvantageName),
    "estimator": get_args(EstimatorName),
    "staleness": get_args(StalenessName),
    "optimizer": get_args(OptimizerName),
    "kl_estimator": get_args(KLEstimatorName),
    "sampler": get_args(SamplerName),
    "correction": get_args(CorrectionName),
    "engine": ("local", "dask"),
}
"""Setting -> the names that it takes, those of plug-ins aside."""

FORMS = {
    "heavy_ball": "heavy ball, v <- mu v + g",
    "ema": "EMA momentum, v <- mu v + (1 - mu) g",
    "nesterov": "Nesterov",
}
"""Momentum conventions in words."""
