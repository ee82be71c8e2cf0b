"""What all sides are told of experiments/phase_diagram.py."""

from bandit_lab.study.reproduce.experiment import Setting

RATE = {"units": "logits per unit gradient"}
LONG = {"refresh": "model A (refresh)", "lag": "model B (constant lag)", "pipeline": "model C (pipeline)"}


def coordinates(setting: Setting) -> dict[str, list]:
    return {"model": setting.models, "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
