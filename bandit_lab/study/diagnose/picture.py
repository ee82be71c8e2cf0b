"""From a judged run to what is drawn of it."""

from dataclasses import dataclass, field

import numpy as np

from bandit_lab.curves import Series
from bandit_lab.curves.diagnose import Diagnosis
from bandit_lab.study.logs.findings import marks, verdict_text
from bandit_lab.study.logs.runs import Row


@dataclass(frozen=True)
class DiagnosisPicture:
    """What is drawn of one run. `smooth` [n - w + 1] is a running mean at steps `smooth_step`; `others` are logged
    quantities by axis label; `marks` = (first step, last step, text) of the evidence above its threshold; `brief` is
    the verdict in a few letters, `harm` whether it holds a failure that is more than a note."""

    title: str
    verdict: str
    step: np.ndarray
    reward: np.ndarray
    smooth_step: np.ndarray
    smooth: np.ndarray
    unit: str
    held_out: Series | None = None
    others: dict[str, Series] = field(default_factory=dict)
    marks: tuple[tuple[float, float, str], ...] = ()
    brief: str = ""
    harm: bool = False
    lost: np.ndarray = field(default_factory=lambda: np.zeros(0))


def picture_of(row: Row[Diagnosis]) -> DiagnosisPicture:
    """The picture's content for one run."""
    curve, found = row.curve, row.found
    width = int(np.clip(curve.reward.size // 15, 1, 40))
    ones = np.ones(width) / width
    names = {"entropy": "entropy (nats)", "zero_std_frac": "silent groups", "kl": "KL (nats)"}
    return DiagnosisPicture(
        title=row.log.name,
        verdict=_verdict(found),
        step=curve.step,
        reward=curve.reward,
        smooth_step=np.convolve(curve.step, ones, mode="valid"),
        smooth=np.convolve(curve.reward, ones, mode="valid"),
        unit=curve.step_unit,
        held_out=curve.eval,
        others={names[key]: curve.series[key] for key in names if key in curve.series},
        marks=marks(found),
        brief=verdict_text(found, True),
        harm=len(found.notes) < len(found.severity),
        lost=curve.nonfinite_steps,
    )


def _verdict(found: Diagnosis) -> str:
    """The verdict, and what it does not cover: `healthy` says nothing of a failure that could not be judged."""
    unknown = [name.replace("_", " ") for name, score in found.scores.items() if score is None]
    text = verdict_text(found, False)
    return f"{text} (not judged: {', '.join(unknown)})" if unknown else text
