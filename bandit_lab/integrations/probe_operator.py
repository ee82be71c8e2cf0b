"""Products with minus the derivative of an expected update; the formulas stand in `probe`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np

from bandit_lab._checks import require

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    raise ImportError("StiffnessProbe: needs PyTorch, the extra trl: pip install 'bandit-lab[trl]'") from None

METHODS = ("auto", "double_backward", "central")
MOVED = 0.03
"""Nats by which central differences move log-probabilities: their error is its square over six."""


@dataclass(frozen=True)
class Groups:
    """The fixed batch: groups of sampled answers, each with the trainer's loss.

    log_probs: of some rows (their numbers), [rows, T] with graph. mask: [R, T], 1 where a token was sampled. rows: of
    each group.
    losses: of each group, a scalar of (l, o), both [rows, T]; its gradient by l is the trainer's. prompts: to which
    each group belongs. weights: of each group, sum 1 (exact expectations); default: all the same. differentiable: as
    log_probs, by operations that have second derivatives, for double backward; default: log_probs.
    """

    log_probs: Callable[[torch.Tensor], torch.Tensor]
    mask: torch.Tensor
    rows: Sequence[slice]
    losses: Sequence[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]
    prompts: Sequence[int]
    weights: np.ndarray | None = None
    differentiable: Callable[[torch.Tensor], torch.Tensor] | None = None


@dataclass(frozen=True)
class _Tokens:
    """One group's loss at the token level: l and o, leaves [rows, T]; gradients by them, with graph."""

    rows: slice
    present: torch.Tensor
    by_present: torch.Tensor
    by_old: torch.Tensor | None

    def along(self, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f_ll t and f_lo t [rows, T]."""
        return self._second(self.by_present, t), self._second(self.by_old, t)

    def _second(self, first: torch.Tensor | None, t: torch.Tensor) -> torch.Tensor:
        if first is None or not first.requires_grad:
            return torch.zeros_like(t)
        found = torch.autograd.grad((first * t).sum(), self.present, retain_graph=True, allow_unused=True)[0]
        return torch.zeros_like(t) if found is None else found.detach()


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
        self.rows_passed = 0
        self.method, self.seed, self.last_step = method, 0, 1e-3
        self.dtype = torch.promote_types(torch.float32, torch.result_type(self.parameters[0], self.parameters[-1]))
        self.tokens = [self._prepare(place) for place in range(len(groups.rows))]
        self.batches = _packed(groups.rows, rows_per_forward)
        if method == "auto":
            self.method = self._supported()

    def product(self, v: torch.Tensor, weights: np.ndarray) -> torch.Tensor:
        """A v [D], groups weighted by `weights` [groups]; those of weight 0 cost nothing."""
        v = v.to(self.parameters[0].device, self.dtype)
        image = torch.zeros_like(v)
        for batch in self.batches:
            members = [place for place in batch if weights[place] != 0]
            if members:
                self._add(members, v, weights, image, image)
        return self._scaled(image, v)

    def parts(self, v: torch.Tensor, weights: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Fresh and stale part of A v [D]; one backward pass more than `product`."""
        v = v.to(self.parameters[0].device, self.dtype)
        fresh, stale = torch.zeros_like(v), torch.zeros_like(v)
        for batch in self.batches:
            members = [place for place in batch if weights[place] != 0]
            if members:
                self._add(members, v, weights, fresh, stale)
        return self._scaled(fresh, v), self._scaled(stale, None)

    def contributions(self, u: torch.Tensor, v: torch.Tensor, chosen: np.ndarray | None = None) -> np.ndarray:
        """u . A v of each group alone [groups, 2], fresh and stale; zero where not `chosen`. One product's cost."""
        u = u.to(self.parameters[0].device, self.dtype)
        count = len(self.tokens)
        each = np.zeros((count, 2))
        for place in range(count):
            if chosen is None or chosen[place]:
                each[place] = [float(u @ part) for part in self.parts(v, np.eye(1, count, place)[0])]
        return each

    def _prepare(self, place: int) -> _Tokens:
        rows = self.groups.rows[place]
        with torch.no_grad():
            reached = self._forward(_numbers(rows))
        present, old = (reached.detach().clone().requires_grad_() for _ in range(2))
        with torch.enable_grad():
            loss = self.groups.losses[place](present, old)
            require(loss.requires_grad, "loss", "a function of the log-probabilities", "one without a gradient")
            by_present, by_old = torch.autograd.grad(loss, (present, old), create_graph=True, allow_unused=True)
        require(by_present is not None, "loss", "a function of the present log-probabilities", "one of the old alone")
        return _Tokens(rows, present, by_present, by_old)

    def _add(
        self, members: list[int], v: torch.Tensor, weights: np.ndarray, fresh: torch.Tensor, stale: torch.Tensor
    ) -> None:
        """Add both parts of some groups, before `scale`; into one vector if it is the same one."""
        tokens = [self.tokens[place] for place in members]
        shares = [float(weights[place]) for place in members]
        rows = torch.cat([_numbers(one.rows) for one in tokens])
        cotangent = torch.cat([share * one.by_present.detach() for share, one in zip(shares, tokens, strict=True)])
        derivative = self._double if self.method == "double_backward" else self._central
        with self._differentiable():
            reached, t = derivative(rows, cotangent, v, fresh)
            new, old, start = [], [], 0
            for share, one in zip(shares, tokens, strict=True):
                mine = t[start : (start := start + one.rows.stop - one.rows.start)]
                present, sampled = one.along(mine)
                score = (mine * self.groups.mask[one.rows]).sum()
                new.append(share * present)
                old.append(share * (sampled + score * one.by_present.detach()))
            if fresh is stale:
                self._backward(reached, torch.cat(new) + torch.cat(old), fresh)
            else:
                self._backward(reached, torch.cat(new), fresh, keep=True)
                self._backward(reached, torch.cat(old), stale)

    def _double(
        self, rows: torch.Tensor, cotangent: torch.Tensor, v: torch.Tensor, image: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """l with graph and t; adds sum c grad^2 l v to `image`."""
        reached = self._forward(rows, self.groups.differentiable or self.groups.log_probs)
        y = cotangent.to(reached.dtype).requires_grad_()
        first = torch.autograd.grad(reached, self.parameters, y, create_graph=True, materialize_grads=True)
        along = sum((one * part).sum() for one, part in zip(first, self._spread(v), strict=True))
        del first
        self.rows_passed += 6 * len(rows)
        t, *bent = torch.autograd.grad(along, [y, *self.parameters], retain_graph=True, materialize_grads=True)
        self._accumulate(image, bent, 1.0)
        return reached, t.detach()

    def _central(
        self, rows: torch.Tensor, cotangent: torch.Tensor, v: torch.Tensor, image: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `_double`, by moving the weights along v and back; they come back to the last bit."""
        before = [one.detach().clone() for one in self.parameters]
        step, sides = self._step(rows, before, v), []
        try:
            for sign in (1, -1):
                self._move(before, v, sign * step)
                reached = self._forward(rows)
                self._backward(reached, cotangent, image, factor=sign / (2 * step))
                sides.append(reached.detach())
        finally:
            self._move(before, None, 0.0)
        del before
        return self._forward(rows), (sides[0] - sides[1]) / (2 * step)

    def _step(self, rows: torch.Tensor, before: list[torch.Tensor], v: torch.Tensor) -> float:
        """How far along v: log-probabilities move by about `MOVED`, and no weight by more than a hundredth of all."""
        coarsest = max(torch.finfo(one.dtype).eps for one in before)
        require(coarsest < 1e-6, "parameters", "float32 or finer for central differences", before[0].dtype)
        length = float(torch.sqrt(sum((one.float() ** 2).sum() for one in before)))
        most = 0.01 * length / float(v.norm())
        with torch.no_grad():
            start = self._forward(rows)
        step = min(self.last_step, most)
        for _ in range(4):
            self._move(before, v, step)
            with torch.no_grad():
                moved = float((self._forward(rows) - start).abs().max())
            if MOVED / 10 < moved < 3 * MOVED or (moved < MOVED and step == most):
                break
            step = min(step * min(max(MOVED / max(moved, 1e-30), 1e-3), 1e3), most)
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
        self,
        reached: torch.Tensor,
        cotangent: torch.Tensor,
        image: torch.Tensor,
        keep: bool = False,
        factor: float = 1.0,
    ) -> None:
        """Add factor * J^T cotangent to `image`."""
        require(reached.requires_grad, "model", "log-probabilities that have a gradient", "some without")
        self.rows_passed += 2 * len(reached)
        cotangent = cotangent.to(reached.dtype)
        parts = torch.autograd.grad(reached, self.parameters, cotangent, retain_graph=keep, materialize_grads=True)
        self._accumulate(image, parts, factor)

    def _accumulate(self, image: torch.Tensor, parts: Sequence[torch.Tensor], factor: float) -> None:
        start = 0
        for one in parts:
            here = slice(start, start := start + one.numel())
            image[here].add_(one.detach().reshape(-1).to(image.device, image.dtype), alpha=factor)

    def _supported(self) -> str:
        """`double_backward` if the model has a second derivative that agrees with differences, else `central`.

        Some functions of one's own return a wrong second derivative without an error.
        """
        v = torch.randn(sum(one.numel() for one in self.parameters), generator=torch.Generator().manual_seed(1))
        weights, found = np.eye(1, len(self.tokens))[0], []
        for self.method in ("central", "double_backward"):
            try:
                found.append(self.product(v, weights))
            except (RuntimeError, NotImplementedError, TypeError) as error:
                if self.method == "central":
                    raise ValueError(f"model: expected one with a gradient, got {str(error).splitlines()[0]}") from None
                return "central"
        apart = float((found[0] - found[1]).norm() / found[1].norm().clamp(min=1e-30))
        return "double_backward" if apart < 0.02 else "central"

    @contextmanager
    def _differentiable(self) -> Iterator[None]:
        """Attention in plain operations where its fused kernel has no second derivative."""
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH) if self.method == "double_backward" else nullcontext():
            yield

    def _spread(self, v: torch.Tensor) -> list[torch.Tensor]:
        parts = torch.split(v.to(self.parameters[0].device), [one.numel() for one in self.parameters])
        return [part.view_as(one).to(one.device) for part, one in zip(parts, self.parameters, strict=True)]

    def _scaled(self, image: torch.Tensor, v: torch.Tensor | None) -> torch.Tensor:
        """The optimiser's factors; with `v`, its weight decay too."""
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
