"""A page of one or more runs: what the terminal says of each, and its reward as a picture. No file beside it."""

import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from grpo_clinic.readers.record import Floats

_WIDTH, _HEIGHT, _EDGE = 640, 240, 46
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;font-size:.85rem}svg{width:100%;height:auto}"
)


def page(title: str, runs: Sequence[tuple[str, Floats, Floats, Floats | None, str]]) -> str:
    """HTML of runs (name, step [n], reward [n], a curve [n] drawn over it or None, text)."""
    parts = [
        f"<h2>{html.escape(name)}</h2>{_picture(step, reward, over)}<pre>{html.escape(text)}</pre>"
        for name, step, reward, over, text in runs
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"{head}{view}<style>{_STYLE}</style><h1>{html.escape(title)}</h1>{''.join(parts)}</html>\n"


def write(path: Path, text: str) -> None:
    """Write whole or not at all. Raises OSError where that cannot be done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _picture(step: Floats, reward: Floats, over: Floats | None) -> str:
    if step.size < 2:
        return ""
    smooth = max(reward.size // 25, 1)
    drawn = np.convolve(reward, np.ones(smooth) / smooth, "valid") if over is None else over
    low, high = float(min(reward.min(), drawn.min())), float(max(reward.max(), drawn.max()))
    span, width = (high - low) or 1.0, float(step[-1] - step[0]) or 1.0

    def points(values: Floats) -> str:
        begin = (step.size - values.size) // 2
        x = _EDGE + (step[begin : begin + values.size] - step[0]) / width * (_WIDTH - _EDGE - 8)
        y = _HEIGHT - 28 - (values - low) / span * (_HEIGHT - 40)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    texts = (
        f'<text x="2" y="{_HEIGHT - 26}">{low:.3g}</text><text x="2" y="18">{high:.3g}</text>'
        f'<text x="{_EDGE}" y="{_HEIGHT - 6}">step {step[0]:g}</text>'
        f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 6}" text-anchor="end">{step[-1]:g}</text>'
    )
    label = "reward against step"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" font-size="12" fill="#333">'
        f'<polyline points="{points(reward)}" fill="none" stroke="#9ab" stroke-width="1"/>'
        f'<polyline points="{points(drawn)}" fill="none" stroke="#0072b2" stroke-width="2"/>{texts}</svg>'
    )
