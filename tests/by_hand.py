"""GRPO by hand: published objectives, differentiated by complex steps and summed over every batch that can be drawn.

An independent witness: NumPy alone, nothing of the package. An update is the gradient of a number (surrogate - KL term
+ entropy) at what was drawn; its mean is a sum over `itertools.product` of contexts, arms and rewards. An infinite
group is the group of all (arm, reward) pairs with their probabilities as shares.

A new advantage, estimator, KL estimator, optimiser or staleness model gets its formula here, written from its source.
"""

from dataclasses import dataclass, field
from functools import wraps
from itertools import product

import numpy as np

STEP = 1e-30
"""Of the complex steps: f(x + i h) = f(x) + i h f'(x), to the last digit."""

# Advantages: rewards [P, M] of the P groups of a batch, the share [P, M] of each, its size or None for infinity.


def mean(r, share):
    return np.sum(share * r, axis=1, keepdims=True)


def std(r, share, size, ddof):
    freedom = 1 if size is None else size / (size - ddof)
    return np.sqrt(freedom * np.sum(share * (r - mean(r, share)) ** 2, axis=1, keepdims=True))


def silent(r, share):
    return np.array([[np.ptp(row[s > 0]) == 0] for row, s in zip(r, share, strict=True)])


def divided(numerator, by, zero):
    return np.where(zero, 0, numerator / np.where(zero, 1, by))


def grpo(r, share, size, eps=0.0, ddof=0):
    return divided(r - mean(r, share), std(r, share, size, ddof) + eps, silent(r, share))


def batch_std(r, share, size, eps=0.0, ddof=0):
    whole, even = r.reshape(1, -1), share.reshape(1, -1) / len(r)
    spread = std(whole, even, size and size * len(r), ddof)
    return divided(r - mean(r, share), spread + eps, silent(whole, even))


def middle(r, share):
    """The median of a law: the mean of the two in the middle where it is split in half."""
    order = np.argsort(r)
    reached = np.cumsum(share[order])
    return (r[order][np.argmax(reached > 0.5 - 1e-12)] + r[order][np.argmax(reached > 0.5 + 1e-12)]) / 2


def median(r, share, size):
    return r - np.array([[np.median(row) if size else middle(row, s)] for row, s in zip(r, share, strict=True)])


def leave_one_out(r, share, size):
    if size is None:
        return r - mean(r, share)
    return np.array([[row[i] - np.mean(np.delete(row, i)) for i in range(size)] for row in r])


def tempered(r, share, size, power=0.5):
    return divided(r - mean(r, share), std(r, share, size, 0) ** power, silent(r, share))


ADVANTAGES = {
    "grpo": grpo,
    "dapo": grpo,
    "batch_std": batch_std,
    "dr_grpo": lambda r, share, size: r - mean(r, share),
    "rloo": leave_one_out,
    "none": lambda r, share, size: r,
    "sign": lambda r, share, size, threshold=0.5: np.where(r > threshold, 1.0, np.where(r < threshold, -1.0, 0.0)),
    "median": median,
    "tempered": tempered,
}
DROPS_SILENT = {"dapo"}

# Estimators: what is maximised, from log-probabilities of tokens [S, L, M], old ones, advantages and shares [M].


def at_least(one, other):
    return np.where(one.real < other.real, one, other)


def within(ratio, low, high):
    return np.where(ratio.real < low, low, np.where(ratio.real > high, high, ratio))


def clipped(ratio, a, low, high):
    return at_least(ratio * a, within(ratio, 1 - low, 1 + high) * a)


def by_token(term):
    """A sequence counts by the mean over its tokens, each with its own ratio."""

    @wraps(term)
    def whole(new, old, a, share, **options):
        return np.sum(share * np.mean(term(np.exp(new - old), new, a, **options), axis=-2), axis=-1)

    return whole


def target_policy(new, old, a, share, temperature=1.0):
    new, old = new.sum(axis=-2), old.sum(axis=-2)
    q = share * np.exp(old + a / temperature)
    p = share * np.exp(new)
    return np.sum(q / q.sum(-1, keepdims=True) * (new - np.log(p.sum(-1, keepdims=True))), axis=-1)


def plain(new, old, a, share):
    return np.sum(share * a * new.sum(axis=-2), axis=-1)


def by_sequence(new, old, a, share, epsilon_low=3e-4, epsilon_high=4e-4):
    ratio = np.exp(np.mean(new - old, axis=-2))
    return np.sum(share * clipped(ratio, a, epsilon_low, epsilon_high), axis=-1)


ESTIMATORS = {
    "frozen": plain,
    "uncorrected": plain,
    "ratio": lambda new, old, a, share: np.sum(share * a * np.exp(np.sum(new - old, axis=-2)), axis=-1),
    "clipped": by_token(lambda ratio, new, a, epsilon=0.2: clipped(ratio, a, epsilon, epsilon)),
    "clip_higher": by_token(
        lambda ratio, new, a, epsilon_low=0.2, epsilon_high=0.28: clipped(ratio, a, epsilon_low, epsilon_high)
    ),
    "cispo": by_token(
        lambda ratio, new, a, epsilon_low=1.0, epsilon_high=0.28: (
            np.clip(ratio.real, 1 - epsilon_low, 1 + epsilon_high) * a * new
        )
    ),
    "gspo": by_sequence,
    "tpo": target_policy,
}
AT_SNAPSHOT = {"frozen"}
BY_TOKEN = {"clipped", "clip_higher", "cispo"}
"""Those in which each token has a ratio, and a correction, of its own."""

# Samplers: the law that draws, from probabilities [.., K] of the policy that acts.


def normalised(law):
    return law / law.sum(axis=-1, keepdims=True)


def likeliest(enough):
    """The likeliest arms, one after the other, until `enough` says so of what has been taken."""

    def law(policy, option):
        shares = np.zeros_like(policy)
        for place in np.ndindex(policy.shape[:-1]):
            for arm in sorted(range(policy.shape[-1]), key=lambda k: (-policy[place][k], k)):
                if enough(shares[place], option):
                    break
                shares[place][arm] = policy[place][arm]
        return normalised(shares)

    return law


NUCLEUS = likeliest(lambda shares, p: shares.sum() >= p)
FEW = likeliest(lambda shares, k: np.count_nonzero(shares) >= k)


def static_noise(policy, noise=None, std=0.5, seed=0):
    shape = policy.shape[-2:]
    drawn = std * np.random.default_rng(seed).normal(size=shape) if noise is None else np.broadcast_to(noise, shape)
    return normalised(policy * np.exp(drawn))


def rounded_logits(policy, format="bf16"):
    """Logits of mean 0, their mantissas rounded to 8 bits, or to 4; half to even."""
    logits = np.log(policy) - np.mean(np.log(policy), axis=-1, keepdims=True)
    mantissa, exponent = np.frexp(logits)
    bits = {"bf16": 8, "fp8": 4}[format]
    return normalised(np.exp(np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent)))


SAMPLERS = {
    "exact": lambda policy: policy,
    "temperature": lambda policy, tau=1.25: normalised(policy ** (1 / tau)),
    "top_p": lambda policy, p=0.9: NUCLEUS(policy, p),
    "top_k": lambda policy, k=3: FEW(policy, k),
    "logit_noise": static_noise,
    "rounding": rounded_logits,
}

# Corrections: weights of answers, from the policy's probability over the sampler's.

CORRECTIONS = {
    "none": lambda mismatch: np.ones_like(mismatch),
    "importance": lambda mismatch: mismatch,
    "tis": lambda mismatch, largest=2.0: np.minimum(mismatch, largest),
    "icepop": lambda mismatch, low=0.5, high=5.0: mismatch * ((low <= mismatch) & (mismatch <= high)),
}

# KL terms: of log(pi/ref), per drawn action, or of both logarithms [.., K], summed over all arms.

SAMPLED_KL = {
    "k3": lambda apart: np.exp(-apart) - 1 + apart,
}
EXACT_KL = {
    "exact": lambda log_policy, log_reference: np.sum(np.exp(log_policy) * (log_policy - log_reference), axis=-1),
}
KL_ESTIMATORS = SAMPLED_KL | EXACT_KL

# Optimisers: (ascent direction, parameters, memory, step from 1, eta, mu) -> (change, memory).


def heavy_ball(gain=lambda mu: 1.0, looks_ahead=False):
    def step(g, theta, memory, t, eta, mu):
        v = mu * memory[0] + gain(mu) * g
        return eta * (g + mu * v if looks_ahead else v), (v,)

    return step


def adam(decay=0.0):
    def step(g, theta, memory, t, eta, mu, b1=None, b2=0.999, eps=1e-8, weight_decay=decay):
        b1 = mu if b1 is None else b1
        m, v = b1 * memory[0] + (1 - b1) * g, b2 * memory[1] + (1 - b2) * g**2
        scaled = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        return eta * (scaled - weight_decay * theta), (m, v)

    return step


OPTIMIZERS = {
    "sgd": heavy_ball(),
    "sgd_ema": heavy_ball(lambda mu: 1 - mu),
    "nesterov": heavy_ball(looks_ahead=True),
    "adam": adam(),
    "adamw": adam(1e-4),
}

# Staleness: ages of the policy that acts at step t, with their chances.


def mixed_ages(t, interval, horizon, weights=None, draws=None):
    """Ages in units of the interval: averaged, or one of them drawn, with these chances."""
    shares = weights or [0.5, 0.5]
    return [(min(age * interval, t), share) for age, share in enumerate(shares)]


STALENESS = {
    "refresh": lambda t, n, horizon: [(t % n, 1.0)],
    "lag": lambda t, n, horizon: [(min(t, n), 1.0)],
    "pipeline": lambda t, n, horizon: [(t - max((t // n - 1) * n, 0), 1.0)],
    "ages": mixed_ages,
}


# Policies: parameters [.., D] -> log-probabilities of tokens [.., L, X, K].


def log_softmax(x):
    x = x - np.max(x.real, axis=-1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def log_linear(features, log_base):
    """pi(k | x) ~ base exp(theta . phi(x, k)); features [X, K, D], log_base [X, K]. One token."""
    return lambda theta: log_softmax(log_base + np.einsum("xkd,...d->...xk", features, theta))[..., None, :, :]


def softmax_of_arms(arms):
    return log_linear(np.eye(arms)[None], np.zeros((1, arms)))


def two_tokens(theta):
    """Two tokens out of two, the second given the first: [.., 6] -> [.., 2, 1, 4]."""
    first = log_softmax(theta[..., :2])
    second = log_softmax(theta[..., 2:].reshape(*theta.shape[:-1], 2, 2))
    both = [np.stack([first[..., a], second[..., a, b]], axis=-1) for a, b in product(range(2), repeat=2)]
    return np.stack(both, axis=-1)[..., None, :]


@dataclass(frozen=True)
class Setting:
    """All that an update depends on: policy, chances [X, K, U] of the reward values [U], log_reference [X, K]."""

    policy: object
    values: np.ndarray
    chances: np.ndarray
    log_reference: np.ndarray
    advantage: str = "grpo"
    estimator: str = "frozen"
    kl_estimator: str = "exact"
    sampler: str = "exact"
    correction: str = "none"
    staleness: str = "refresh"
    optimizer: str = "sgd"
    options: dict = field(default_factory=dict)
    """Of a variant, by its kind: {"advantage": {"eps": 0.1}}."""
    group_size: int = 2
    prompts: int = 1
    batch_reuse: bool = False
    horizon: int = 1
    entropy_weight: float = 0.0

    def of(self, kind):
        return self.options.get(kind, {})

    def drawn(self, tokens):
        """Probability of every token [.., L, X, K] as the sampler draws it, from log-probabilities of the policy.

        Sequences are all of V^L in lexicographic order: those with the same beginning stand side by side.
        """
        policy, law = np.exp(tokens), np.empty(tokens.shape)
        length, contexts, arms = tokens.shape[-3:]
        size = round(arms ** (1 / length))
        seen = []  # beginnings of every length, all given to the sampler at once
        for place in range(length):
            each = policy[..., place, :, :].reshape(*policy.shape[:-3], contexts * size**place, size, -1)
            seen.append(each[..., 0])
        rows = SAMPLERS[self.sampler](np.concatenate(seen, axis=-2), **self.of("sampler"))
        begin = 0
        for place in range(length):
            part = rows[..., begin : begin + contexts * size**place, :].reshape(*policy.shape[:-3], contexts, -1)
            law[..., place, :, :] = np.repeat(part, arms // part.shape[-1], axis=-1)
            begin += contexts * size**place
        return law


@dataclass(frozen=True)
class Batch:
    """context [P], arms [P, M], advantage [P, M], share [P, M] of each action in its group."""

    context: np.ndarray
    arms: np.ndarray
    advantage: np.ndarray
    share: np.ndarray


def batch_of(setting, context, arms, rewards, share, size):
    context, arms, rewards, share = (np.array(part) for part in (context, arms, rewards, share))
    rule = ADVANTAGES[setting.advantage]
    return Batch(context, arms, rule(rewards, share, size, **setting.of("advantage")), share)


def finite_batches(setting):
    """(every batch, its chance as a function of the acting policy's log-probabilities [S, L, X, K]: [S, B])."""
    contexts, arms, values = setting.chances.shape
    size = setting.group_size
    cells = list(product(range(arms), range(values)))
    groups = [(x, group) for x in range(contexts) for group in product(cells, repeat=size)]
    if setting.advantage in DROPS_SILENT:
        groups = [(x, group) for x, group in groups if len({u for _, u in group}) > 1]
    drawn = list(product(range(len(groups)), repeat=setting.prompts))
    share = np.full((setting.prompts, size), 1 / size)
    batches = [
        batch_of(
            setting,
            [groups[i][0] for i in places],
            [[k for k, _ in groups[i][1]] for i in places],
            [[setting.values[u] for _, u in groups[i][1]] for i in places],
            share,
            size,
        )
        for places in drawn
    ]

    def chances(tokens):
        policy = np.prod(setting.drawn(tokens), axis=-3)
        each = np.stack(
            [np.prod([policy[:, x, k] * setting.chances[x, k, u] for k, u in group], axis=0) for x, group in groups],
            axis=1,
        )
        each = each / each.sum(axis=1, keepdims=True)
        return np.stack([np.prod(each[:, list(places)], axis=1) for places in drawn], axis=1)

    return batches, chances


def infinite_batch(setting, old):
    """The one batch of infinite groups, one of every context, at acting parameters [D]."""
    contexts, arms, values = setting.chances.shape
    policy = np.prod(setting.drawn(setting.policy(old)), axis=-3)
    share = (policy[:, :, None] * setting.chances).reshape(contexts, -1)
    each = np.tile(np.repeat(np.arange(arms), values), (contexts, 1))
    return batch_of(setting, np.arange(contexts), each, np.tile(setting.values, (contexts, arms)), share, None)


def objective(setting, theta, old, batch, kl_weight):
    """What one batch has the update climb, at complex parameters theta [S, D], old ones acting: [S]."""
    new, acting = setting.policy(theta), setting.policy(old)
    log_policy, total = new.sum(axis=-3), 0.0
    with np.errstate(divide="ignore"):  # answers that are never drawn have no chance
        mismatch = np.exp(acting) / setting.drawn(acting)
        mismatch = mismatch if setting.estimator in BY_TOKEN else np.prod(mismatch, axis=-3)
        weight = CORRECTIONS[setting.correction](mismatch, **setting.of("correction"))
    for x, arms, a, share in zip(batch.context, batch.arms, batch.advantage, batch.share, strict=True):
        a = a * weight[..., x, arms]  # >= 0: no sign of an advantage changes
        tokens, before = new[..., x, arms], acting[..., x, arms]
        value = ESTIMATORS[setting.estimator](tokens, before, a, share, **setting.of("estimator"))
        if setting.kl_estimator in SAMPLED_KL:
            apart = tokens.sum(axis=-2) - setting.log_reference[x, arms]
            value = value - kl_weight * np.sum(share * SAMPLED_KL[setting.kl_estimator](apart), axis=-1)
        total = total + value / len(batch.context)
    if setting.kl_estimator in EXACT_KL:
        total = total - kl_weight * np.mean(EXACT_KL[setting.kl_estimator](log_policy, setting.log_reference), axis=-1)
    entropy = -np.mean(np.sum(np.exp(log_policy) * log_policy, axis=-1), axis=-1)
    return total + setting.entropy_weight * entropy


def gradient(setting, theta, old, batch, kl_weight):
    """Ascent directions [S, D] of one batch at parameters [S, D], drawn from the policies at old ones [S, D]."""
    at = old if setting.estimator in AT_SNAPSHOT else theta
    slopes = [
        objective(setting, at + 1j * STEP * one, old, batch, kl_weight).imag / STEP for one in np.eye(at.shape[-1])
    ]
    return np.stack(slopes, axis=-1)


def mean_update(setting, theta, old, kl_weight, infinite=False):
    """Mean ascent direction [D] at theta [D], old [D] acting: over all batches, or of infinite groups."""
    if not infinite:
        return moments(setting, theta, old, kl_weight)[0]
    theta, old = np.asarray(theta, float)[None], np.asarray(old, float)[None]
    return gradient(setting, theta, old, infinite_batch(setting, old[0]), kl_weight)[0]


def moments(setting, theta, old, kl_weight):
    """(mean [D], covariance [D, D]) of one batch's gradient at theta [D], old [D] acting: over all batches."""
    theta, old = np.asarray(theta, float)[None], np.asarray(old, float)[None]
    batches, chances = finite_batches(setting)
    chance = chances(setting.policy(old))[0]
    each = np.stack([gradient(setting, theta, old, batch, kl_weight)[0] for batch in batches])
    mean = chance @ each
    return mean, (each - mean).T @ (chance[:, None] * (each - mean))


def expected_reward(setting, theta):
    """[S] at parameters [S, D], contexts alike."""
    means = setting.chances @ setting.values
    return np.mean(np.sum(np.exp(setting.policy(theta).sum(axis=-3)) * means, axis=-1), axis=-1)


def mean_run(setting, start, steps, eta, mu, interval, kl_weight, infinite=True):
    """Parameters [T + 1, D] of the mean update (ages averaged where they are drawn)."""
    path, memory = [np.asarray(start, float)], (np.zeros(len(start)),) * 2
    for t in range(steps):
        ages = STALENESS[setting.staleness](t, interval, setting.horizon, **setting.of("staleness"))
        g = sum(c * mean_update(setting, path[t], path[t - age], kl_weight, infinite) for age, c in ages)
        step = OPTIMIZERS[setting.optimizer]
        change, memory = step(g, path[t], memory, t + 1, eta, mu, **setting.of("optimizer"))
        path.append(path[t] + change)
    return np.array(path)


def every_run(setting, start, steps, eta, mu, interval, kl_weight):
    """(expected rewards [S] at the end of every run that can be drawn, chances [S])."""
    batches, chances = finite_batches(setting)
    past = [np.asarray(start, float)[None]]
    memory, weight, last = (np.zeros_like(past[0]),) * 2, np.ones(1), np.zeros(1, int)
    for t in range(steps):
        parts = []
        for age, c in STALENESS[setting.staleness](t, interval, setting.horizon, **setting.of("staleness")):
            old = past[t - age]
            chance = chances(setting.policy(old))
            again = setting.batch_reuse and t % interval != 0
            for i, batch in enumerate(batches):
                rows = np.flatnonzero(last == i) if again else np.arange(len(weight))
                g = gradient(setting, past[t][rows], old[rows], batch, kl_weight)
                state = tuple(m[rows] for m in memory)
                step = OPTIMIZERS[setting.optimizer]
                change, state = step(g, past[t][rows], state, t + 1, eta, mu, **setting.of("optimizer"))
                left = weight[rows] * c * (1.0 if again else chance[rows, i])
                parts.append((rows, past[t][rows] + change, state, left, np.full(len(rows), i)))
        rows = np.concatenate([part[0] for part in parts])
        past = [before[rows] for before in past] + [np.concatenate([part[1] for part in parts])]
        memory = tuple(np.concatenate(each) for each in zip(*(part[2] for part in parts), strict=True))
        weight, last = (np.concatenate([part[place] for part in parts]) for place in (3, 4))
    return expected_reward(setting, past[-1]), weight
