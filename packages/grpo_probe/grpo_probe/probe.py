"""Stiffness of a policy of any size, measured in PyTorch: the leading eigenvalue of minus the derivative of an update.

Derived here. Let l [tokens] be the log-probabilities of the sampled tokens under the parameters theta, o those under
the policy that sampled. g(l, o) is the gradient by l of the trainer's own loss of one group, as the trainer applies it:
what the loss detaches (the ratio in CISPO and VESPO) still moves with l and o. J = dl/dtheta. The expected update and
its two derivatives are

    F(theta, theta_old) = -E[J^T g(l(theta), o)],             groups drawn from pi(theta_old),
    -dF/dtheta     v = E[J^T (g_l t) + sum_i g_i (grad^2 l_i) v],        t = J v                                (fresh)
    -dF/dtheta_old v = E[J^T (g_o t) + s J^T g],                         s = sum of t over the group's tokens   (stale)

The last term is that of the law the groups are drawn from. From s the mean s of the other groups is subtracted, which
leaves the expectation as it is: over n groups this is their covariance of s and J^T g, and the mean update times s adds
no noise. g_l t and g_o t are central differences of g in float64,
g_l t = (g(l + h t, o) - g(l - h t, o))/2h, on the loss's few numbers, without the model. The model is asked for t and
for the second derivative only: by double backward, or by central differences of gradients where a kernel has no second
derivative (attention, a fused head).

An eigenvalue of a mean over n groups is too large: the leading vector fits the noise, by b to second order. Vectors
found on one half of the groups and evaluated on the other give one that is too small by 2b. Hence

    K = (2 K_all + K_crossed)/3.

What is measured is the stiffness at the present parameters, not at a fixed point.
"""

from collections.abc import Callable, Sequence

import numpy as np
from grpo_clinic._checks import choice, integer, require

from grpo_probe.probe_operator import METHODS, Groups, Operator, torch
from grpo_probe.probe_sharpness import along_update
from grpo_probe.stiffness import Stiffness, standard_error


class StiffnessProbe:
    """Measures K on a fixed batch; cost three to four forward-backward passes over it per product, some ten products.

    Args:
      parameters: what is trained; those that need no gradient are left out.
      scale: factor of each parameter's update, a tensor or a number (Adam: 1/(sqrt(v) + eps)); default 1.
      decay: weight decay per parameter, added to the fresh part after scaling; default 0.
      seen: which entries `scale` knows, a tensor of booleans per parameter. The others are left out, for their factor
        says nothing (Adam: 1/eps for a token that was never sampled).
      rows_per_forward: answers that go through the model together; default: one group's.
      products: at most so many per eigenvalue; tolerance: relative residual at which it is found.
      method: `auto` tries double backward on the first group, and takes central differences where it is refused.
        `forward` measures along the update alone, by some dozen forward passes and one backward.

    Raises:
      ValueError: no parameter that requires a gradient, no groups, an unknown method.

    Example:
      >>> StiffnessProbe(torch.nn.Linear(4, 5).parameters(), products=12).size
      25
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        *,
        scale: Sequence[torch.Tensor | float] | None = None,
        decay: Sequence[float] | None = None,
        seen: Sequence[torch.Tensor] | None = None,
        rows_per_forward: int | None = None,
        products: int = 24,
        tolerance: float = 1e-3,
        method: str = "auto",
    ) -> None:
        every = list(parameters)
        places = [place for place, one in enumerate(every) if one.requires_grad]
        require(len(places) > 0, "parameters", "at least one that requires a gradient", f"none of {len(every)}")
        self.parameters = [every[place] for place in places]
        self.scale = None if scale is None else [scale[place] for place in places]
        self.decay = None if decay is None else [decay[place] for place in places]
        self.seen = None if seen is None else torch.cat([seen[place].reshape(-1) for place in places])
        self.rows_per_forward = rows_per_forward
        self.products, self.tolerance = integer("products", products, 2), tolerance
        self.method = choice("method", method, METHODS)
        self.size = sum(one.numel() for one in self.parameters)
        self.vector: torch.Tensor | None = None
        """The leading direction found last [size], where the next search begins."""
        self.step = 1e-3
        """How far the weights went last by `forward`, where the next search begins."""

    def measure(self, groups: Groups) -> Stiffness:
        """K of one batch. Weights and random state are as before, to the last bit.

        Raises ValueError where there is no group, or the model gives no gradient.
        """
        require(len(groups.rows) > 0, "groups", "at least one", "none")
        operator = Operator(self.parameters, groups, self.scale, self.decay, self.rows_per_forward, self.method)
        ranks, count = operator.ranks, len(groups.rows)
        even = np.full(count, 1 / ranks.total)
        weights = np.asarray(groups.weights, float) if groups.weights is not None else even
        quiet = [float(one.applied.abs().sum()) <= ROUNDING for one in operator.tokens]
        silent = int(ranks.join(np.array(quiet)).sum())
        left_out, forward = 0.0, self.method == "forward"
        gradient = operator.gradient(weights) if forward else torch.empty(0)
        if self.seen is not None:
            operator.kept, left_out = self.seen, 1 - float(self.seen.float().mean())
        if forward:
            return self._along(operator, gradient, weights, silent, left_out)
        exact, prompts = groups.weights is not None, ranks.join(np.asarray(groups.prompts))
        pairs, value, residual = self._leading(operator, weights, self.vector)
        self.vector = pairs[0][1]
        each = _along(operator, pairs)
        parts = ranks.join(weights) @ each
        total, error = float(parts.sum()), 0.0
        crossed = total
        if not exact:
            error = standard_error(each.sum(axis=1), prompts)
            crossed = self._crossed(operator, prompts, self.vector) if len(each) > 3 else total
        best = (2 * total + crossed) / 3
        share = best / total if total else 1.0
        return Stiffness(
            value=best,
            standard_error=error,
            fresh=float(parts[0]) * share,
            stale=float(parts[1]) * share,
            in_sample=total,
            crossed=crossed,
            angle=abs(float(np.angle(value))) if value.real > 0 else 0.0,
            residual=residual,
            passes=operator.passes,
            groups=len(each),
            method=operator.method,
            silent=silent,
            left_out=left_out,
        )

    def _along(
        self, operator: Operator, gradient: torch.Tensor, weights: np.ndarray, silent: int, left_out: float
    ) -> Stiffness:
        operator.last_step = self.step
        each, slopes, rate = along_update(operator, gradient, weights)
        self.step = operator.last_step
        shares = operator.ranks.join(weights)
        slope = float(shares @ slopes) or 1.0
        parts = shares @ each / slope
        value = float(parts.sum())
        error = 0.0
        if operator.groups.weights is None:
            prompts = operator.ranks.join(np.asarray(operator.groups.prompts))
            error = standard_error((each.sum(axis=1) - value * slopes) / slope, prompts)
            error = error if len(each) - silent > 1 else float("inf")  # one group alone is its own mean
        fresh, stale = map(float, parts)
        cost = operator.passes, len(each), "forward", silent, left_out
        return Stiffness(value, error, fresh, stale, value, value, 0.0, 0.0, *cost, critical=2 / rate)

    def _crossed(self, operator: Operator, prompts: np.ndarray, start: torch.Tensor) -> float:
        first = np.zeros(len(prompts), bool)
        first[np.argsort(prompts, kind="stable")[::2]] = True  # every second group of each prompt
        values = []
        for half in (first, ~first):
            pairs, _, _ = self._leading(operator, operator.ranks.own(half / half.sum()), start)
            values.append(float(_along(operator, pairs, ~half)[~half].sum(axis=1).mean()))
        return float(np.mean(values))

    def _leading(
        self, operator: Operator, weights: np.ndarray, start: torch.Tensor | None
    ) -> "tuple[Pairs, complex, float]":
        if start is None:
            start = torch.randn(self.size, generator=torch.Generator().manual_seed(0))
        start = start.to(operator.dtype)
        return arnoldi(lambda v: operator.product(v, weights), start, self.products, self.tolerance)


ROUNDING = 1e-6
"""Sum of a group's |g| that is nothing but rounding of equal rewards; of unequal ones it is their mean |advantage|."""
Pairs = list[tuple[torch.Tensor, torch.Tensor]]
"""(u, v) whose u . A v add up to the eigenvalue's real part."""
SLANTED = 0.5
"""Cosine of left and right vector below which the left one is not used: it would blow the noise up."""


def arnoldi(
    apply: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, most: int, tolerance: float
) -> tuple[Pairs, complex, float]:
    """Eigenvalue of largest real part of a linear map [D], its vectors, and its relative residual, by Arnoldi.

    The left vector comes from the same Krylov space. Of a complex pair, and where left and right lie too far apart,
    the right vector stands on both sides. The basis lies in the host's memory.
    """
    most = min(most, start.numel())
    basis = [(start / start.norm()).cpu()]
    matrix = np.zeros((most + 1, most))
    for place in range(most):
        image = apply(basis[place]).cpu()
        size = float(image.norm())
        for _ in range(2):  # twice is enough
            for row, other in enumerate(basis):
                along = float(other @ image)
                matrix[row, place] += along
                image = image - along * other
        rest = float(image.norm())
        matrix[place + 1, place] = rest
        square = matrix[: place + 1, : place + 1]
        values, vectors = np.linalg.eig(square)
        best = int(np.argmax(values.real))
        residual = rest * abs(vectors[-1, best]) / max(abs(values[best]), 1e-300)
        if residual <= tolerance or rest <= 1e-6 * size or place + 1 == most:
            break
        basis.append(image / rest)
    value, mode = complex(values[best]), vectors[:, best]
    if abs(value.imag) > 1e-9 * abs(value):
        parts = [_combined(basis, part) for part in (mode.real, mode.imag)]
        return [(part, part) for part in parts], value, float(residual)
    lefts, others = np.linalg.eig(square.T)
    twin = others[:, int(np.argmin(np.abs(lefts - value)))].real
    overlap = float(twin @ mode.real) / float(np.linalg.norm(twin) * np.linalg.norm(mode.real))
    right = _combined(basis, mode.real / np.linalg.norm(mode.real))
    left = _combined(basis, twin / float(twin @ mode.real)) if abs(overlap) > SLANTED else right
    return [(left / float(left @ right), right)], value, float(residual)


def _along(operator: Operator, pairs: Pairs, chosen: np.ndarray | None = None) -> np.ndarray:
    """Values of the chosen groups, gathered from all processes."""
    mine = None if chosen is None else operator.ranks.own(chosen)
    return operator.ranks.join(np.sum([operator.contributions(u, v, mine) for u, v in pairs], axis=0))


def _combined(basis: list[torch.Tensor], weights: np.ndarray) -> torch.Tensor:
    return sum(float(weight) * one for weight, one in zip(weights, basis, strict=True))
