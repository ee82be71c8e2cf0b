"""Which gradient estimators have a refresh interval beyond which training is unstable at all?

Prediction (written before the run). The stiffness splits in a part at the current policy (fresh) and a part at the
rollout policy (stale), in closed form (bandit_lab/theory/stiffness.py). `frozen`: all is stale, so that the threshold
falls as 1/N, as arXiv 2606.30789 has it. `ratio`: only the group std is stale; `clipped` is the same near a fixed
point.
With rho = stale/fresh (two arms) the multiplier of a block goes to -rho as N grows (bandit_lab/theory/long_block.py;
the recurrence of arXiv 2503.06639): for |rho| < 1 blocks may be as long as one likes, above there is a threshold. With
momentum there can be islands below: a block ends half a cycle off and is unstable, while longer ones are stable.
Setting: conf/experiment/estimators.yaml. Measured: learning rates and refresh intervals at which a displacement grows,
and multipliers as eigenvalues of the Jacobian of a block of the real update. Drawn: thresholds, an island, the limit.
"""

from bandit_lab.study.figures.estimators.draw import draw
from bandit_lab.study.figures.estimators.measure import measure
from bandit_lab.study.figures.estimators.predict import predict
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Which estimators have a refresh-interval threshold"
THEORY = "derived in bandit_lab/theory/stiffness.py and block_map.py"


NARROW = (
    "Beyond the first crossing there are windows of instability in the learning rate that are narrower than a step of "
    "the scan; the one measured first is not the first that there is."
)


def _threshold_claims(names: tuple[str, ...], note: str, post_hoc: str = "", follows: str = "") -> tuple[Claim, Claim]:
    # Brackets are 2^-13 of a scan step (a factor 1.27) wide; growth over 150 periods resolves thresholds to 3e-4.
    title, many = " and ".join(f"`{name}`" for name in names), len(names) > 1
    return (
        Claim.ratio(
            f"estimators.{names[0]}_threshold",
            f"{title}: measured over predicted learning rate of the threshold, the farthest from 1 over N",
            THEORY,
            lambda d: d.threshold.sel(estimator=list(names)),
            tolerance=1e-3,
            fails_if="clips act at the fixed point, or the split were another" if many else "the split were another",
            follows=follows,
            post_hoc=post_hoc,
            explanation=NARROW,
        ),
        Claim.same(
            f"estimators.{names[0]}_stable_intervals",
            f"{title}: how many refresh intervals from 1 up are stable at learning rate 0.1 and momentum 0.9{note}",
            THEORY,
            lambda d: d.stable_intervals.sel(estimator=list(names)).min(skipna=False),
            tolerance=0.5,
            unit="intervals",
            fails_if="stability in N at one learning rate were not what the block map says, or there were an island",
        ),
    )


def _edge(which: str) -> Claim:
    return Claim.same(
        f"estimators.island_{which}",
        f"The {which} unstable refresh interval of the island: stale/fresh 0.8, fresh kappa 0.01, momentum 0.9",
        THEORY,
        lambda d: d.island.sel(edge=which),
        tolerance=0.5,
        unit="steps",
        fails_if="one interval more or less were unstable",
    )


CLAIMS = (
    *_threshold_claims(("frozen",), "; it has a threshold", follows="phase_diagram.a_exact"),
    *_threshold_claims(("uncorrected",), "; it has a threshold here"),
    *_threshold_claims(
        ("ratio", "clipped"),
        " (the smaller number); all that were tried",
        post_hoc="both scans were refined after one of them had passed over a narrow window of instability",
    ),
    _edge("first"),
    _edge("last"),
    # Floquet multipliers are exact to rounding errors; the fixed point to 1e-11.
    Claim.ratio(
        "estimators.multipliers",
        "Measured over predicted modulus of a block's multiplier, the farthest from 1 over N and three values of rho",
        THEORY,
        lambda d: d.radius,
        tolerance=1e-5,
        fails_if="the Jacobian of a block of the real update were not the block map of the split",
    ),
    # A block of 300 steps forgets its start to 0.9^300 = 2e-14.
    Claim.ratio(
        "estimators.long_blocks",
        "Multiplier of a long block over -rho, the farthest from 1 over rho from -0.9 to 1.5",
        "arXiv 2503.06639 (recurrence); derived in bandit_lab/theory/long_block.py",
        lambda d: d.limit,
        tolerance=1e-5,
        fails_if="the fresh part did not carry a long block to its own fixed point",
    ),
)
