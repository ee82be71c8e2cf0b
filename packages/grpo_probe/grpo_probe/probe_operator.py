"""Products with minus the derivative of an expected update; the formulas stand in `probe`."""

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
from grpo_clinic._checks import require

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    raise ImportError("StiffnessProbe: needs PyTorch: pip install torch") from None

from grpo_probe.probe_ranks import Ranks

METHODS = ("auto", "double_backward", "central", "forward")
MOVED = 0.03
"""Nats by which central differences move log-probabilities: their error is its square over six."""
BENT = 0.1
"""The same for second differences: float32 leaves an error of 1e-6 over its square, and its square over twelve."""
COARSE = 1e-6
"""Rounding beyond that of float32, by which weights are too coarse for differences."""


@dataclass(frozen=True)
class Groups:
    """The fixed batch: groups of sampled answers, each with the trainer's loss.

    log_probs: of some rows (their numbers), [rows, T] with graph. mask: [R, T], 1 where a token was sampled. rows: of
    each group.
    losses: of each group, a scalar of (l, o), both [rows, T]; its gradient by l is the trainer's. prompts: to which
    each group belongs. weights: of each group, sum 1 (exact expectations); default: all the same. differentiable: as
    log_probs, by operations that have second derivatives, for double backward; default: log_probs. exact: a context in
    which both compute in the weights' own precision, where the trainer rounds to bfloat16 or float16 on the way.
    """

    log_probs: Callable[[torch.Tensor], torch.Tensor]
    mask: torch.Tensor
    rows: Sequence[slice]
    losses: Sequence[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]
    prompts: Sequence[int]
    weights: np.ndarray | None = None
    differentiable: Callable[[torch.Tensor], torch.Tensor] | None = None
    exact: Callable[[], AbstractContextManager[None]] = nullcontext
    distributed: bool = False


@dataclass(frozen=True)
class _Tokens:
    """One group's loss at the token level, at l = o = `start` [rows, T]; applied: g there, the gradient by l."""

    rows: slice
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    start: torch.Tensor
    applied: torch.Tensor

    def along(self, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """g_l t and g_o t [rows, T]."""
        return self._difference(t, 1, 0), self._difference(t, 0, 1)

    def along_both(self, t: torch.Tensor) -> torch.Tensor:
        """g_l t + g_o t [rows, T], at half the cost."""
        return self._difference(t, 1, 1)

    def curvature(self, t: torch.Tensor, back: torch.Tensor, bent: float) -> tuple[float, float, float]:
        """Fresh back . g_l t + bent, stale back . g_o t and the slope g . back, of t and back [rows, T].

        bent: g . b of the second derivative b of l, along what makes t and what makes back.
        """
        present, old = self.along(t)
        return float((back * present).sum()) + bent, float((back * old).sum()), float((self.applied * back).sum())

    def value(self, present: torch.Tensor) -> float:
        """loss(present, start)."""
        with torch.no_grad():
            return float(self.loss(present, self.start))

    def _difference(self, t: torch.Tensor, present: int, old: int) -> torch.Tensor:
        t = t.to(self.start.dtype)
        if (largest := float(t.abs().max())) == 0:
            return torch.zeros_like(t)
        step = torch.finfo(t.dtype).eps ** (1 / 3) / largest  # errors of step^2 and of eps/step are then alike
        up, down = (
            applied(self.loss, self.start + sign * step * present * t, self.start + sign * step * old * t)
            for sign in (1, -1)
        )
        return (up - down) / (2 * step)


def applied(
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], present: torch.Tensor, old: torch.Tensor
) -> torch.Tensor:
    """g(l, o) [rows, T]: what the trainer takes for the loss's gradient by l, whatever it detaches on the way."""
    present = present.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(present, old.detach())
        require(value.requires_grad, "loss", "a function of the present log-probabilities", "one without a gradient")
        return torch.autograd.grad(value, present)[0]


class Operator:
    """A = -d(scale F)/dtheta, fresh and stale parts apart, from products with vectors [D].

    rows_passed: forward passes that the rows of the batch have cost; a backward pass counts two, through a graph of
    first derivatives four.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        groups: Groups,
        scale: Sequence[torch.Tensor | float] | None,
        decay: Sequence[float] | None,
        rows_per_forward: int | None,
        method: str,
    ) -> None:
        self.parameters, self.groups, self.scale, self.decay = list(parameters), groups, scale, decay
        self.ranks = Ranks.of(len(groups.rows)) if groups.distributed else Ranks((len(groups.rows),))
        self.rows_passed = 0
        self.kept: torch.Tensor | None = None
        """Entries that move [D]; None: all."""
        self.method, self.seed, self.last_step = method, 0, 1e-3
        self.dtype = torch.promote_types(torch.float32, torch.result_type(self.parameters[0], self.parameters[-1]))
        self.tokens = [self._prepare(place) for place in range(len(groups.rows))]
        self.batches = _packed(groups.rows, rows_per_forward)
        if method == "auto":
            self.method = self._supported()

    def product(self, v: torch.Tensor, weights: np.ndarray) -> torch.Tensor:
        """A v [D] of all processes, groups of this one weighted by `weights` [groups]; weight 0 costs nothing."""
        v = v.to(self.parameters[0].device, self.dtype)
        image = torch.zeros_like(v)
        with self._differentiable():
            along = self._moved(v, weights, image)
            scores = self.scores(along)
            for members in self._members(weights):
                tokens = [(place, self.tokens[place]) for place in members]
                cotangent = [
                    float(weights[place]) * (one.along_both(along[place]) + float(scores[place]) * one.applied)
                    for place, one in tokens
                ]
                self._backward(self._forward(self._rows(members)), torch.cat(cotangent), image)
        return self.scaled(self.ranks.add(image), v)

    def scores(self, along: dict[int, torch.Tensor]) -> np.ndarray:
        """Score of each group along v [groups], the sum of its t, less the mean of the other groups that are given.

        What others do does not depend on a group's draw: the expectation stays as it is, and a score times the mean
        update is no noise any more.
        """
        own = np.zeros(len(self.tokens))
        for place, t in along.items():
            own[place] = float((t * self.mask(self.tokens[place])).sum())
        mean, factor = self.mean_of(own, along)
        return (own - mean) * factor

    def mean_of(self, own: np.ndarray, along: Container[int]) -> tuple[np.ndarray, np.ndarray]:
        """For numbers of the groups in `along`: the mean over n of them [groups], and n/(n - 1) [groups].

        Over groups of the same prompt, where each has three, else over all: of two, both have the same covariance, and
        no spread of it is seen. Zero and one with exact weights, where the mean score is zero, and for one or two.
        """
        mine = np.array([place in along for place in range(len(own))])
        every, given = self.ranks.join(own), self.ranks.join(mine)
        mean, factor = np.zeros(len(every)), np.ones(len(every))
        prompts = self.ranks.join(np.asarray(self.groups.prompts))[given]
        _, kind, counts = np.unique(prompts, return_inverse=True, return_counts=True)
        if counts.min() < 3:
            kind, counts = np.zeros_like(kind), np.array([len(kind)])
        if counts.min() > 2 and self.groups.weights is None:
            mean[given] = (np.bincount(kind, every[given]) / counts)[kind]
            factor[given] = (counts / (counts - 1))[kind]
        return self.ranks.own(mean), self.ranks.own(factor)

    def gradient(self, weights: np.ndarray) -> torch.Tensor:
        """-F = E[J^T g] [D] of all processes, groups of this one weighted by `weights`, before `scale`."""
        total = torch.zeros(sum(one.numel() for one in self.parameters), dtype=self.dtype)
        total = total.to(self.parameters[0].device)
        for batch in self.batches:
            tokens = [self.tokens[place] for place in batch]
            cotangent = torch.cat([float(weights[place]) * self.tokens[place].applied for place in batch])
            with torch.enable_grad():
                self._backward(self._forward(torch.cat([_numbers(one.rows) for one in tokens])), cotangent, total)
        return self.ranks.add(total)

    def contributions(self, u: torch.Tensor, v: torch.Tensor, chosen: np.ndarray | None = None) -> np.ndarray:
        """u . A v of each group alone [groups, 2], fresh and stale; zero where not `chosen`. Two products' cost.

        u . scale J^T w is taken as w . J (scale u), so that no group's vector [D] is worked out but grad^2 l v.
        """
        u, v = (one.to(self.parameters[0].device, self.dtype) for one in (u, v))
        count, left = len(self.tokens), self.scaled(u.clone(), None)
        asked = np.ones(count) if chosen is None else chosen.astype(float)
        along: dict[int, torch.Tensor] = {}
        parts = np.zeros((count, 3))
        with self._differentiable():
            back = self._moved(left, asked, torch.zeros_like(v))
            for place in back:
                image = torch.zeros_like(v)
                along |= self._moved(v, np.eye(1, count, place)[0], image)
                parts[place] = self.tokens[place].curvature(along[place], back[place], float(left @ image))
        slopes, places = parts[:, 2], list(along)
        parts[:, 1] += self.scores(along) * (slopes - self.mean_of(slopes, along)[0])  # the spread of a covariance
        parts[places, 0] += self.decayed(u, v)
        return parts[:, :2]

    @contextmanager
    def moving(self, v: torch.Tensor) -> Iterator[Callable[[float], list[torch.Tensor]]]:
        """Gives a function of a step: every group's l at theta + step v, by forward passes alone.

        Computed as in `Groups.exact`; the weights come back to the last bit.
        """
        with torch.no_grad(), self.groups.exact():
            before = [one.detach().clone() for one in self.parameters]

            def moved(step: float) -> list[torch.Tensor]:
                self._move(before, v, step)
                log_probs: list[torch.Tensor] = []
                for batch in self.batches:
                    tokens = [self.tokens[place] for place in batch]
                    reached = self._forward(torch.cat([_numbers(one.rows) for one in tokens]))
                    parts = torch.split(reached, [len(one.start) for one in tokens])
                    log_probs += [part.to(one.start.dtype) for part, one in zip(parts, tokens, strict=True)]
                return log_probs

            try:
                yield moved
            finally:
                self._move(before, None, 0.0)

    @property
    def passes(self) -> float:
        """Forward-backward passes over this process's rows."""
        return self.rows_passed / 3 / self.groups.mask.shape[0]

    def mask(self, tokens: _Tokens) -> torch.Tensor:
        """1 where a token of this group was sampled [rows, T]."""
        return self.groups.mask[tokens.rows]

    def decayed(self, gradient: torch.Tensor, d: torch.Tensor) -> float:
        """Weight decay's share of u . A d."""
        if self.decay is None:
            return 0.0
        parts = zip(self.decay, self._spread(gradient * d), strict=True)
        return float(sum(decay * part.sum() for decay, part in parts))

    def _prepare(self, place: int) -> _Tokens:
        rows, loss = self.groups.rows[place], self.groups.losses[place]
        exact = self.groups.exact() if self.method == "forward" else nullcontext()
        with torch.no_grad(), exact:
            reached = self._forward(_numbers(rows))
        start = reached.to(torch.float32 if reached.device.type == "mps" else torch.float64)  # which MPS has not
        return _Tokens(rows, loss, start, applied(loss, start, start))

    def _moved(self, v: torch.Tensor, weights: np.ndarray, image: torch.Tensor) -> dict[int, torch.Tensor]:
        """t = J v [rows, T] of every group that has a weight; adds sum c grad^2 l v to `image`."""
        derivative = self._double if self.method == "double_backward" else self._central
        along: dict[int, torch.Tensor] = {}
        for members in self._members(weights):
            cotangent = torch.cat([float(weights[place]) * self.tokens[place].applied for place in members])
            t = derivative(self._rows(members), cotangent, v, image)
            parts = torch.split(t, [len(self.tokens[place].start) for place in members])
            along |= dict(zip(members, parts, strict=True))
        return along

    def _members(self, weights: np.ndarray) -> list[list[int]]:
        """Groups that have a weight, by batch."""
        weighted = ([place for place in batch if weights[place] != 0] for batch in self.batches)
        return [batch for batch in weighted if batch]

    def _rows(self, members: list[int]) -> torch.Tensor:
        return torch.cat([_numbers(self.tokens[place].rows) for place in members])

    def _double(
        self, rows: torch.Tensor, cotangent: torch.Tensor, v: torch.Tensor, image: torch.Tensor
    ) -> torch.Tensor:
        """t of some rows; adds sum c grad^2 l v to `image`."""
        reached = self._forward(rows, self.groups.differentiable or self.groups.log_probs)
        y = cotangent.to(reached.dtype).requires_grad_()
        first = torch.autograd.grad(reached, self.parameters, y, create_graph=True, materialize_grads=True)
        along = sum((one * part).sum() for one, part in zip(first, self._spread(v), strict=True))
        del first
        self.rows_passed += 6 * len(rows)
        t, *bent = torch.autograd.grad(along, [y, *self.parameters], materialize_grads=True)
        self._accumulate(image, bent, 1.0)
        return t.detach()

    def _central(
        self, rows: torch.Tensor, cotangent: torch.Tensor, v: torch.Tensor, image: torch.Tensor
    ) -> torch.Tensor:
        """As `_double`, by moving the weights along v and back; they come back to the last bit."""
        before = [one.detach().clone() for one in self.parameters]
        sides = []
        try:
            step = self._step(rows, before, v)
            for sign in (1, -1):
                self._move(before, v, sign * step)
                reached = self._forward(rows)
                self._backward(reached, cotangent, image, factor=sign / (2 * step))
                sides.append(reached.detach())
        finally:
            self._move(before, None, 0.0)
        del before
        return (sides[0] - sides[1]) / (2 * step)

    def step(self, v: torch.Tensor, moved: Callable[[float], list[torch.Tensor]]) -> float:
        """Step size along v that changes log-probabilities by about BENT and weights by at most 10 %."""
        length = float(torch.sqrt(sum((one.float() ** 2).sum() for one in self.parameters)))

        def away(step: float) -> float:
            pairs = zip(moved(step), self.tokens, strict=True)
            mine = [float(((one - was.start) * self.mask(was)).abs().max()) for one, was in pairs]
            return float(self.ranks.join(np.array(mine)).max())

        return self._found(away, 0.1 * length / float(v.norm()), BENT, 2.0)

    def _step(self, rows: torch.Tensor, before: list[torch.Tensor], v: torch.Tensor) -> float:
        """As `step` for first differences, on some rows: `MOVED`, and at most a hundredth."""
        require(not self._coarse, "parameters", "float32 or finer for central differences", before[0].dtype)
        length = float(torch.sqrt(sum((one.float() ** 2).sum() for one in before)))
        with torch.no_grad():
            start = self._forward(rows)

        def away(step: float) -> float:
            self._move(before, v, step)
            with torch.no_grad():
                return float((self._forward(rows) - start).abs().max())

        return self._found(away, 0.01 * length / float(v.norm()), MOVED, 10.0)

    def _found(self, away: Callable[[float], float], most: float, wanted: float, within: float) -> float:
        """A step of at most `most` for which `away` is `wanted`, by a factor `within` less or three times more."""
        step = min(self.last_step, most)
        for _ in range(4):
            moved = away(step)
            if wanted / within < moved < 3 * wanted or (moved < wanted and step == most):
                break
            step = min(step * min(max(wanted / max(moved, 1e-30), 1e-3), 1e3), most)
        self.last_step = step
        return step

    @torch.no_grad()
    def _move(self, before: list[torch.Tensor], v: torch.Tensor | None, step: float) -> None:
        parts = before if v is None else self._spread(v)
        for one, rest, part in zip(self.parameters, before, parts, strict=True):
            one.copy_(rest if v is None else rest + step * part)

    def _forward(self, rows: torch.Tensor, model: Callable[[torch.Tensor], torch.Tensor] | None = None) -> torch.Tensor:
        """Log-probabilities; the same dropout at every call, and the global random state left as it was."""
        self.rows_passed += len(rows)
        devices = sorted({one.device.index for one in self.parameters if one.device.type == "cuda"})
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.seed)
            return (model or self.groups.log_probs)(rows)

    def _backward(
        self, reached: torch.Tensor, cotangent: torch.Tensor, image: torch.Tensor, factor: float = 1.0
    ) -> None:
        """Add factor * J^T cotangent to `image`."""
        require(reached.requires_grad, "model", "log-probabilities that have a gradient", "some without")
        self.rows_passed += 2 * len(reached)
        cotangent = cotangent.to(reached.dtype)
        parts = torch.autograd.grad(reached, self.parameters, cotangent, materialize_grads=True)
        self._accumulate(image, parts, factor)

    def _accumulate(self, image: torch.Tensor, parts: Sequence[torch.Tensor], factor: float) -> None:
        start = 0
        for one in parts:
            here = slice(start, start := start + one.numel())
            image[here].add_(one.detach().reshape(-1).to(image.device, image.dtype), alpha=factor)

    def _supported(self) -> str:
        """`double_backward` if the model has a second derivative that agrees with differences, else `central`.

        Some functions of one's own return a wrong second derivative without an error. Weights that are too coarse for
        differences cannot be asked: theirs is believed.
        """
        v = torch.randn(sum(one.numel() for one in self.parameters), generator=torch.Generator().manual_seed(1))
        weights, self.method = np.eye(1, len(self.tokens), self._loudest())[0], "double_backward"
        try:
            with self.groups.exact():
                double = self.product(v, weights)
        except (RuntimeError, NotImplementedError, TypeError):
            return "central"
        if self._coarse:
            return self.method
        self.method = "central"
        apart = float((self.product(v, weights) - double).norm() / double.norm().clamp(min=1e-30))
        return "double_backward" if apart < 0.02 else "central"

    def _loudest(self) -> int:
        """The group with the largest gradient: equal rewards have none, of which every method says 0."""
        return int(np.argmax([float(one.applied.abs().max()) for one in self.tokens]))

    @property
    def _coarse(self) -> bool:
        return max(torch.finfo(one.dtype).eps for one in self.parameters) > COARSE

    @contextmanager
    def _differentiable(self) -> Iterator[None]:
        """Attention in plain operations, where its fused kernel has no second derivative; differences unrounded.

        Rounding to bfloat16 moves log-probabilities by about as much as central differences do.
        """
        double = self.method == "double_backward"
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH) if double else self.groups.exact():
            yield

    def _spread(self, v: torch.Tensor) -> list[torch.Tensor]:
        parts = torch.split(v.to(self.parameters[0].device), [one.numel() for one in self.parameters])
        return [part.view_as(one).to(one.device) for part, one in zip(parts, self.parameters, strict=True)]

    def scaled(self, image: torch.Tensor, v: torch.Tensor | None) -> torch.Tensor:
        """The optimiser's factors; with `v`, its weight decay too."""
        if self.kept is not None:
            image = torch.where(self.kept, image, 0.0)  # before their factors, which may be infinite
        start = 0
        for place, one in enumerate(self.parameters):
            here = slice(start, start := start + one.numel())
            if self.scale is not None:
                factor = self.scale[place]
                image[here] *= factor.reshape(-1) if isinstance(factor, torch.Tensor) else factor
            if self.decay is not None and v is not None:
                image[here] += self.decay[place] * v[here].to(image.device)
        return image


def _numbers(rows: slice) -> torch.Tensor:
    return torch.arange(rows.start, rows.stop)


def _packed(rows: Sequence[slice], most: int | None) -> list[list[int]]:
    """Groups that go through the model together: as many as fit into `most` rows, at least one."""
    batches: list[list[int]] = []
    filled = 0
    for place, one in enumerate(rows):
        size = one.stop - one.start
        if not batches or most is None or filled + size > most:
            batches.append([])
            filled = 0
        batches[-1].append(place)
        filled += size
    return batches
