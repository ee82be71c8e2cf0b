"""From a judged run to what is drawn of it."""

from dataclasses import dataclass, field

import numpy as np

from bandit_lab.curves import Series
from bandit_lab.study.diagnose.table import verdict_text
from bandit_lab.study.diagnose.work import Judged
from bandit_lab.study.pages.findings import marks


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


def picture_of(one: Judged) -> DiagnosisPicture:
    """The picture's content for one run."""
    curve, found = one.curve, one.diagnosis
    width = int(np.clip(curve.reward.size // 15, 1, 40))
    ones = np.ones(width) / width
    names = {"entropy": "entropy (nats)", "zero_std_frac": "silent groups", "kl": "KL (nats)"}
    return DiagnosisPicture(
        title=one.log.name,
        verdict=_verdict(one),
        step=curve.step,
        reward=curve.reward,
        smooth_step=np.convolve(curve.step, ones, mode="valid"),
        smooth=np.convolve(curve.reward, ones, mode="valid"),
        unit=curve.step_unit,
        held_out=curve.eval,
        others={names[key]: curve.series[key] for key in names if key in curve.series},
        marks=marks(one.diagnosis),
        brief=verdict_text(found.verdict, True, found.notes, found.gained),
        harm=len(found.notes) < len(found.severity),
        lost=curve.nonfinite_steps,
    )


def _verdict(one: Judged) -> str:
    """The verdict, and what it does not cover: `healthy` says nothing of a failure that could not be judged."""
    unknown = [name for name, score in one.diagnosis.scores.items() if score is None]
    found = one.diagnosis
    text = verdict_text(found.verdict, False, found.notes, found.gained)
    return f"{text} (not judged: {verdict_text(unknown, False)})" if unknown else text
