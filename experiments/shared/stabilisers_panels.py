"""Words and maps of `stabilisers`."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bandit_lab.lab.reproduce.experiment import Results

WORDS = {
    "frozen": "old gradient", "uncorrected": "no ratio", "ratio": "ratio, unclipped", "clipped": "PPO clip",
    "decoupled": "decoupled PPO", "m2po": "M2PO", "cispo": "capped weight (CISPO)",
}  # fmt: skip
CORRECTED = {
    "none": "no weight",
    "importance": r"weight $\pi/b$",
    "tis": "truncated (TIS)",
    "icepop": "masked (IcePop)",
}


def by_sampler(panel: Axes, results: Results) -> None:
    base = float(results.measured.sampler_reward.sel(correction="none", error=0))
    value = (results.measured.sampler_reward - base).values
    text = [["none" if np.isnan(x) else f"{x + 0.0:+.2f}" for x in row] for row in value]
    cells(panel, value, text, "PuOr", (-0.3, 0.3))
    panel.set_yticks(range(len(value)), [CORRECTED[one] for one in results.setting.corrections])
    far = results.measured.distance.sel(correction="importance").values
    panel.set_xticks(range(len(far)), [f"{x:.2f}" for x in far])
    panel.set(xlabel="flatter | distance [nats] | sharper", title="bias of the reward, by sampler")


def cells(panel: Axes, value: np.ndarray, text: list[list[str]], colours: str, ends: tuple[float, float]) -> None:
    """A table whose cells are coloured."""
    shown = panel.imshow(value, cmap=colours, vmin=ends[0], vmax=ends[1], aspect="auto")
    for row, column in np.ndindex(value.shape):
        red, green, blue, _ = shown.cmap(shown.norm(value[row, column]))
        dark = np.isfinite(value[row, column]) and 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
        look: dict[str, Any] = {"fontsize": 6.5, "color": "white" if dark else "black"}
        panel.text(column, row, text[row][column], ha="center", va="center", **look)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
