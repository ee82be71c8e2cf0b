"""Words of the field that a page explains where the pointer rests on them."""

import re

MEANINGS = {
    "K_ref": "optimiser updates per batch of rollouts: how stale the policy that sampled may become",
    "kappa": "learning rate times stiffness, a number without unit: how fast one update moves what it corrects",
    "stiffness": "how strongly the gradient pulls a small displacement back: the curvature of the objective, per mode",
    "softest mode": "the direction in which the policy answers most slowly; it sets the time of the reward curve",
    "spread of stiffness": "the stiffest mode over the softest one",
    "stiff end": "the end of the interval at which the margin is smallest",
    "margin": "the factor by which learning rate or stiffness may grow before stability is lost",
    "ringing": "an oscillation that dies out",
    "response time": "how long the reward takes to follow a change, in optimiser steps",
    "silent": "all answers of the group got the same reward, so that it teaches nothing",
    "the law": "arXiv 2606.30789: stable where stiffness times learning rate times K_ref is below 1 - momentum",
    "EMA": "exponential moving average: v <- mu v + (1 - mu) g",
    "mean age": "how many updates old the policy that sampled is, on average",
}
_ANY = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in sorted(MEANINGS, key=len, reverse=True)))


def explained(escaped: str) -> str:
    """Escaped text of a page with each known word, the first time it stands there, in an `abbr` with its meaning."""
    met: set[str] = set()

    def marked(match: re.Match[str]) -> str:
        word = match[0]
        if word in met:
            return word
        met.add(word)
        return f'<abbr title="{MEANINGS[word].replace("<", "&lt;")}">{word}</abbr>'

    return _ANY.sub(marked, escaped)
