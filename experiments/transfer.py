"""Do held-out tasks that share features learn along the same curve at every group size?

Prediction (written before the run). arXiv 2606.30789: yes, also out of distribution. Derived in
bandit_lab/theory/contextual.py and group_law.py: the mean flow has G in it through h_G(J) alone. With `rloo` h = 1: the
held-out curves are the same at every G. With `grpo` h = c_G(J)/sqrt(J(1-J)): they lag at small G.
Setting: conf/experiment/transfer.yaml. Measured: mean success of eight tasks that are never trained on, along runs on
eight other prompts. Drawn: both advantages at both group sizes.
"""

from bandit_lab.study.figures.transfer.draw import draw
from bandit_lab.study.figures.transfer.measure import measure
from bandit_lab.study.figures.transfer.predict import predict
from bandit_lab.study.figures.transfer.read import area, gap
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Held-out tasks at two group sizes"


FLOW = "bandit_lab/theory/contextual.py"


# Tolerances: a step of 0.5 is off the flow by 0.3 % of the area, 512 seeds scatter by 0.2 %; the gap of 0.04 by 0.001.
CLAIMS = (
    Claim.ratio(
        "transfer.rloo_invariant",
        "rloo: each of eight held-out tasks has the mean success of the flow without G, at G = 4 and at G = 64",
        f"arXiv 2606.30789; {FLOW}",
        lambda d: area(d, advantage="rloo"),
        tolerance=0.02,
        fails_if="the mean over noisy runs left the flow at G = 4, or held-out tasks learned otherwise than it says",
    ),
    Claim.ratio(
        "transfer.grpo_follows_c_g",
        "grpo: each of eight held-out tasks has the mean success of the flow with c_G(J), at G = 4 and at G = 64",
        FLOW,
        lambda d: area(d, advantage="grpo"),
        tolerance=0.02,
        fails_if="the factor c_G(J) of the trained prompts were not what held-out tasks feel",
    ),
    Claim.same(
        "transfer.grpo_depends_on_group_size",
        "grpo is not invariant: mean success of the held-out tasks over the run at G = 64 less that at G = 4",
        FLOW,
        gap,
        tolerance=0.1,
        relative=True,
        unit="reward",
        fails_if="the flow's curves at both sizes were nearer than claimed",
        follows="transfer.grpo_follows_c_g",
    ),
)
