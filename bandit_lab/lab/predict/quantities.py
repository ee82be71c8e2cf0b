"""What `predict` says about one setting: every quantity of the theory, its unit, its meaning and how good it is.

The single source of what `predict` prints, of `statements` in its summary and of its help. Texts alone, so that the
help starts without JAX; the values stand in `statements.VALUES` under the same keys.
"""

from typing import NamedTuple

EXACT, LINEAR, LEADING = "exact", "exact, linear", "leading order"
STATUS = {
    EXACT: "exact for the mean update",
    LINEAR: "exact for the update linearised at the fixed point",
    LEADING: "first term of an expansion, a law or an oscillator",
}
RATE = "logits per unit gradient"  # as the help says of learning_rate
HORIZON = 1000  # steps until which runs are counted as collapsed


class Quantity(NamedTuple):
    """One line of the table, less its value."""

    key: str
    name: str
    unit: str
    status: str
    meaning: str


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("critical_kl_weight", "critical KL weight", "reward/nat", EXACT,
             "below it the policy runs to a vertex: no interior fixed point"),
    Quantity("sampler_bias", "bias of the sampler", "reward", EXACT,
             "expected reward of the fixed point, less that of the one which the policy's own answers lead to"),
    Quantity("group_factor", "group factor", "", EXACT,
             "mean reward gradient at this G over that at G = infinity, at the fixed point; c_G for grpo"),
    Quantity("group_factor_expansion", "  first order 1 - 1/(8 G J (1-J))", "", LEADING,
             "the same to first order in 1/G; fails where G J (1-J) is of order 1"),
    Quantity("stiffness_shift", "  stiffness, at G over infinity - 1", "", EXACT,
             "group size is not only a temperature: thresholds move the other way"),
    Quantity("silent_groups", "silent groups", "share", EXACT,
             "probability that all rewards of a group are equal"),
    Quantity("reward_spread", "within-group reward std", "reward", EXACT,
             "by which GRPO divides; bounds the local curvature (arXiv 2601.23135)"),
    Quantity("mean_age_law", "learning rate: safe by the mean age", RATE, LINEAR,
             "lower bound for averaged ages and real stiffness: K eta (mean age) = 1 - mu, or flipping at age 0"),
    Quantity("guarantee", "  safe by the largest age", RATE, LINEAR,
             "lower bound for averaged ages that are never above S: the threshold of the constant age S"),
    Quantity("averaged_ages", "  random ages, age-averaged drift", RATE, LINEAR,
             "threshold if the ages (geometric ones of the same mean, but for staleness=ages) were averaged over"),
    Quantity("drawn_ages", "  random ages, drawn: mean square", RATE, LINEAR,
             "threshold of the mean square if such an age were drawn at every step"),
    Quantity("adam", "learning rate: Adam at this noise", RATE, LEADING,
             "threshold, b1 = mu, with the second moment held at its noise-stationary value; about as 1/sqrt(G)"),
    Quantity("held_moment", "learning rate: this optimiser at this noise", RATE, LEADING,
             "the same of the chosen optimiser with its options, by derivatives of its own update"),
    Quantity("long_block", "long blocks: multiplier", "", LINEAR,
             "N -> infinity limit of the block map, |H_fresh^-1 H_stale|; below 1 every N is safe at small steps"),
    Quantity("time_constant", "time constant (1-mu)/(eta K)", "steps", LEADING,
             "of the single exponential, the over-damped limit"),
    Quantity("decay_time", "  slowest decay", "steps", LINEAR,
             "1/e time of a displacement by the dominant multiplier"),
    Quantity("period", "  period", "steps", LINEAR,
             "of the cycle of the dominant multiplier"),
    Quantity("damping_ratio", "  damping ratio", "", LEADING,
             "of the oscillator with lag N; below 1 it rings, below 0 it grows"),
    Quantity("fastest_update", "  fastest update, from rest, N = 1", "update", LINEAR,
             "number of the update that moves most: the inertial part of a slow start"),
    Quantity("stationary_reward", "stationary std: expected reward", "reward", LINEAR,
             "over all steps of a long run, discrete Lyapunov equation with the optimiser's state"),
    Quantity("stationary_logit", "  log-odds of the best arm", "nats", LINEAR,
             "the same for the log-odds"),
    Quantity("small_step_logit", "  small-step temperature", "nats", LEADING,
             "sqrt(eta s^2/(2 K (1-mu))), N-fold variance with batch reuse"),
    Quantity("correlation_time", "  correlation time", "steps", LINEAR,
             "integrated autocorrelation time of the noisiest direction"),
    Quantity("reuse_gain", "  variance gain of reusing a batch", "", LINEAR,
             "variance with one batch per block over variance with fresh groups; N at small steps"),
    Quantity("half_rise", "half of the rise from the start", "steps", LEADING,
             "of the gradient flow, softmax geometry without inertia; momentum adds mu/(1-mu) (1 + ln speed-up) steps"),
    Quantity("collapsed", f"collapsed after {HORIZON} steps", "share", EXACT,
             "runs carried by noise from the fixed point to the vertex: below the threshold, too"),
)  # fmt: skip
