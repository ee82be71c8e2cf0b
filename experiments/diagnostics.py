"""What tells four failures of training apart whose reward curves look the same?

Prediction (written before the run). All five kinds of runs rise from 0.2 to 0.3 and level off between 0.4 and 0.6.
Reward hacking, advantage degeneracy and policy concentration leave no trace in such a curve; the held-out result, the
share of silent groups and the entropy show one each. Dynamical instability shows in the curve itself: in model A
without momentum stability is lost by a flip at the end of a block (bandit_lab/theory/thresholds.py), a cycle of 2 N
steps.
Setting: conf/experiment/diagnostics.yaml. Measured: runs of sampled groups, written as the log of a trainer and
diagnosed with the thresholds of `diagnose`; a classifier sees the reward curves of half of them and judges the others.
Drawn: one run of each kind, what its log holds besides, and the verdicts by both.
"""

from bandit_lab.study.figures.diagnostics.draw import draw
from bandit_lab.study.figures.diagnostics.measure import measure
from bandit_lab.study.figures.diagnostics.predict import predict
from bandit_lab.study.figures.diagnostics.read import hidden, judged, named, recall
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Four failures, one shape of reward curve"


LOOKED = "the ranges of the runs were chosen with results in sight"
WISHED = "what a perfect diagnosis would give"
SOURCE = "arXiv 2606.30789 (four diagnostics); detectors: bandit_lab/curves/diagnose"


# Of n runs of each kind in the half that is judged, one is 1/n: 8 at draft, 50 for the paper; some runs are mild. With
# 8 runs of each, one of the three failures may come out either way.
CLAIMS = (
    Claim(
        "diagnostics.named",
        "Mean share of the runs of each failure whose verdict names it",
        SOURCE,
        predicted=lambda f: float(f.predicted.named),
        measured=named,
        tolerance=lambda f: f.setting.tolerance.named,
        fails_if="a detector missed the failure in more than one run in twenty",
        post_hoc=LOOKED,
        constant=WISHED,
    ),
    Claim(
        "diagnostics.healthy",
        "Share of the healthy runs that are called healthy",
        SOURCE,
        predicted=lambda f: float(f.predicted.healthy),
        measured=lambda f: recall(f.measured.by_diagnostics, "healthy", judged(f)),
        tolerance=lambda f: f.setting.tolerance.healthy,
        fails_if="a detector took noise for a failure in more than one run in twenty",
        post_hoc=LOOKED,
        constant=WISHED,
    ),
    Claim(
        "diagnostics.hidden_from_curve",
        "Of hacking, degeneracy and concentration, how many the reward curve alone names clearly less often",
        SOURCE,
        predicted=lambda f: float(f.predicted.hidden_from_curve),
        measured=hidden,
        tolerance=lambda f: f.setting.tolerance.hidden,
        unit="failures",
        fails_if="a reward curve betrayed one of them to a trained classifier, as hacking does",
        post_hoc=LOOKED,
        constant="the number of failures that a reward curve cannot show",
        explanation="a classifier trained on 250 labelled curves of these very kinds knows hacking by its small second "
        "rise as often as the held-out result does; for a real task nobody has such labels",
    ),
    Claim.same(
        "diagnostics.period",
        "The unstable runs oscillate with the period of a flip at the end of a refresh block, 2 N steps",
        "derived in bandit_lab/theory/thresholds.py",
        lambda d: d.period,
        tolerance=lambda f: f.setting.tolerance.period,
        relative=True,
        unit="steps",
        fails_if="stability were lost by a complex pair, or the cycle of noisy runs were another",
    ),
)
