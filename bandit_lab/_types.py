"""Aliases and codes that every room shares."""

from enum import IntEnum

import jax

Array = jax.Array


class Outcome(IntEnum):
    """The outcome of one run. A diverged run is a result, not an exception; `text` says what each code means."""

    UNDECIDED = 0
    CONVERGED = 1
    OSCILLATING = 2
    UNSTABLE = 3
    COLLAPSED = 4
    NON_FINITE = 5

    @property
    def label(self) -> str:
        """The name used in files: lower case, as in `summary.json`."""
        return self.name.lower()

    @property
    def text(self) -> str:
        """One sentence for tables and legends."""
        return _TEXT[self]


_TEXT = {
    Outcome.UNDECIDED: "too slow or too close to a boundary to tell within the steps given",
    Outcome.CONVERGED: "returns to the fixed point without overshoot",
    Outcome.OSCILLATING: "returns to the fixed point, overshooting it on the way",
    Outcome.UNSTABLE: "grows away from the fixed point or keeps cycling around it",
    Outcome.COLLAPSED: "policy at a vertex, groups silent",
    Outcome.NON_FINITE: "a logit became infinite or not a number",
}
