"""An asynchronous trainer, event by event: which ages the answers have when they are trained on.

Engines generate answers, `concurrency` at a time each. The `group_size` answers to a prompt make a group; a finished
group waits in a queue, from which the trainer takes `batch` groups, the oldest first, and turns them into one update
of the policy. The engines then get the new weights,

    in_flight   at once: all engines stop for `sync_seconds` and go on with the answers that they are at
    drained     each engine first finishes its answers, starts none, and loads the weights in `sync_seconds`

The age of an answer is the number of updates made between its start and the update that uses it: the policy before
that update has this many updates more than the one that began the answer. In flight every token has an age of its own,
counted from the update before which it was generated.

No new group is begun while `queue` finished groups wait. `max_age` bounds the age: no group is begun that may become
older in order, (updates + max_age + 1) batch groups at most have been begun, and one that was overtaken by others and
has become older is thrown away instead of trained on (so AReaL's max_head_offpolicyness, prime-rl's max_async_level).

Lengths of answers are log-normal; time is in seconds. The events are SimPy's. The ages are what `staleness=ages` takes
as its weights; `theory.cluster_age` has the mean in closed form.
"""

import heapq
from collections.abc import Generator, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bandit_lab import _checks

UPDATES = ("in_flight", "drained")
Process = Generator[Any, Any, None]


@dataclass(frozen=True)
class Cluster:
    """The layout of an asynchronous trainer.

    engines, concurrency: answers at the same time, per engine. group_size: answers per prompt. batch: groups per
    update. answer_seconds: mean time of an answer; spread: its standard deviation over its mean. train_seconds: of one
    update. sync_seconds: new weights into the engines. weights: how they get there. queue: finished groups that may
    wait, at least `batch`; None: any number. max_age: bound on the age in updates; None: none.

    Raises ValueError for numbers out of range.
    """

    engines: int = 8
    concurrency: int = 32
    group_size: int = 8
    batch: int = 32
    answer_seconds: float = 30.0
    spread: float = 0.5
    train_seconds: float = 20.0
    sync_seconds: float = 0.0
    weights: str = "in_flight"
    queue: int | None = None
    max_age: int | None = None

    def __post_init__(self) -> None:
        for name in ("engines", "concurrency", "group_size", "batch"):
            _checks.integer(f"cluster.{name}", getattr(self, name), 1)
        for name in ("answer_seconds", "train_seconds"):
            _checks.positive(f"cluster.{name}", getattr(self, name))
        for name in ("spread", "sync_seconds"):
            _checks.non_negative(f"cluster.{name}", getattr(self, name))
        _checks.choice("cluster.weights", self.weights, UPDATES)
        if self.queue is not None:
            _checks.require(
                _checks.integer("cluster.queue", self.queue, 1) >= self.batch,
                "cluster.queue", f"at least the {self.batch} groups of a batch", self.queue,
            )  # fmt: skip
        if self.max_age is not None:
            _checks.integer("cluster.max_age", self.max_age, 0)
        if self.queue is None and self.max_age is None:
            fastest = self.engines * self.concurrency / self.answer_seconds
            _checks.require(
                fastest * self.train_seconds < self.batch * self.group_size,
                "cluster.queue", "a bound on what waits (or max_age), as answers come faster than they are trained on",
                None,
            )  # fmt: skip

    @classmethod
    def of(cls, settings: dict[str, Any]) -> "Cluster":
        """The layout of these settings. Raises ValueError for a name that is not one of its settings."""
        names = [one.name for one in fields(cls)]
        for key in settings:
            _checks.choice("cluster", key, names)
        return cls(**settings)


@dataclass(frozen=True)
class Ages:
    """What `ages_of` counted.

    starts [A]: share of the trained answers that began a = 0, 1, ... updates before. tokens [A]: the same of their
    tokens, each by the policy that generated it; equal to `starts` where weights do not change in flight.
    seconds_per_update; busy: share of the time in which the trainer trained; dropped: share of groups thrown away.
    """

    starts: np.ndarray
    tokens: np.ndarray
    seconds_per_update: float
    busy: float
    dropped: float

    @property
    def mean_age(self) -> float:
        """Mean age of a trained answer at its start, in updates."""
        return float(np.arange(self.starts.size) @ self.starts)

    @property
    def mean_token_age(self) -> float:
        """Mean age of a trained token, in updates."""
        return float(np.arange(self.tokens.size) @ self.tokens)


def ages_of(cluster: Cluster, updates: int = 400, warm_up: int = 50, seed: int = 0) -> Ages:
    """Run the cluster for `warm_up` + `updates` updates and count the ages of what the last `updates` trained on."""
    run = _Run(cluster, _checks.integer("updates", updates, 1), _checks.integer("warm_up", warm_up, 0), seed)
    run.environment.run(until=run.done)
    return run.counted()


class _Group:
    def __init__(self, place: int, size: int) -> None:
        self.place, self.missing = place, size  # in the order of beginning; answers that are not begun
        self.answers: list[tuple[int, float, float]] = []  # version and time at the start, time at the end
        self.finished = 0


class _Run:
    """The state of one simulation; time in seconds."""

    def __init__(self, cluster: Cluster, updates: int, warm_up: int, seed: int) -> None:
        import simpy

        self.cluster, self.updates, self.warm_up = cluster, updates, warm_up
        self.environment: Any = simpy.Environment()
        self.random = np.random.default_rng(seed)
        self.lengths = iter(self._lengths())
        self.version = self.begun = self.dropped = 0
        self.published: list[float] = []
        self.queue: list[tuple[int, _Group]] = []  # a heap, the oldest group first
        self.trained: list[tuple[int, _Group]] = []  # version before the update, group
        self.busy = 0.0
        self.opened: _Group | None = None
        self.changed, self.arrived = self.environment.event(), self.environment.event()
        self.done = self.environment.event()
        self.loaded = [0] * cluster.engines
        self.running = [0] * cluster.engines
        self.draining = [False] * cluster.engines
        for engine in range(cluster.engines):
            for _ in range(cluster.concurrency):
                self.environment.process(self._slot(engine))
        self.environment.process(self._trainer())

    def _lengths(self) -> Iterator[float]:
        sigma2 = np.log1p(self.cluster.spread**2)
        centre = np.log(self.cluster.answer_seconds) - sigma2 / 2
        while True:
            yield from self.random.lognormal(centre, np.sqrt(sigma2), 4096).tolist()

    def _stalled(self) -> float:
        """Seconds that engines have stood still so far for new weights in flight."""
        if self.cluster.weights != "in_flight" or not self.published:
            return 0.0
        pause = self.cluster.sync_seconds
        return (len(self.published) - 1) * pause + min(self.environment.now - self.published[-1], pause)

    def _may_begin(self) -> bool:
        if self.opened is not None:
            return True
        cluster = self.cluster
        if cluster.queue is not None and len(self.queue) >= cluster.queue:
            return False
        most = float("inf") if cluster.max_age is None else (self.version + cluster.max_age + 1) * cluster.batch
        return self.begun - self.dropped < most

    def _next(self) -> _Group:
        if self.opened is None:
            self.opened = _Group(self.begun, self.cluster.group_size)
            self.begun += 1
        group = self.opened
        group.missing -= 1
        if group.missing == 0:
            self.opened = None
        return group

    def _wake(self, name: str) -> None:
        event = getattr(self, name)
        setattr(self, name, self.environment.event())
        event.succeed()

    def _slot(self, engine: int) -> Process:
        environment = self.environment
        while True:
            while self.draining[engine] or not self._may_begin():
                yield self.changed
            group = self._next()
            began, version = environment.now, self.loaded[engine]
            self.running[engine] += 1
            left = next(self.lengths)
            while left > 1e-9:
                before = environment.now, self._stalled()
                yield environment.timeout(left)
                left -= (environment.now - before[0]) - (self._stalled() - before[1])
            self.running[engine] -= 1
            group.answers.append((version, began, environment.now))
            group.finished += 1
            if group.finished == self.cluster.group_size:
                heapq.heappush(self.queue, (group.place, group))
                self._wake("arrived")
            if self.draining[engine] and self.running[engine] == 0:
                environment.process(self._load(engine))

    def _load(self, engine: int) -> Process:
        version = self.version
        yield self.environment.timeout(self.cluster.sync_seconds)
        self.loaded[engine] = version
        if self.version > version:
            self.environment.process(self._load(engine))
            return
        self.draining[engine] = False
        self._wake("changed")

    def _trainer(self) -> Process:
        cluster = self.cluster
        while len(self.published) < self.warm_up + self.updates:
            batch: list[_Group] = []
            while len(batch) < cluster.batch:
                while not self.queue:
                    yield self.arrived
                group = heapq.heappop(self.queue)[1]
                oldest = self.version - min(version for version, _, _ in group.answers)
                if cluster.max_age is not None and oldest > cluster.max_age:
                    self.dropped += 1
                else:
                    batch.append(group)
            self._wake("changed")
            began = self.environment.now
            yield self.environment.timeout(cluster.train_seconds)
            if len(self.published) >= self.warm_up:
                self.trained += [(self.version, one) for one in batch]
                self.busy += self.environment.now - began
            self._publish()
        self.done.succeed()

    def _publish(self) -> None:
        self.version += 1
        self.published.append(self.environment.now)
        if self.cluster.weights == "in_flight":
            self.loaded = [self.version] * self.cluster.engines
            self._wake("changed")
            return
        for engine in range(self.cluster.engines):
            if not self.draining[engine]:
                self.draining[engine] = True
                if self.running[engine] == 0:
                    self.environment.process(self._load(engine))

    def counted(self) -> Ages:
        """Ages of the trained answers and tokens."""
        used = np.array([version for version, group in self.trained for _ in group.answers])
        versions, began, ended = np.array([one for _, group in self.trained for one in group.answers]).T
        starts = np.bincount((used - versions).astype(int))
        tokens = starts.astype(float)
        if self.cluster.weights == "in_flight":
            tokens = _token_ages(used, began, ended, np.array(self.published), self.cluster.sync_seconds)
        first = self.published[self.warm_up - 1] if self.warm_up else 0.0
        seconds = self.published[-1] - first
        share = self.dropped / max(self.begun, 1)
        return Ages(starts / starts.sum(), tokens / tokens.sum(), seconds / self.updates, self.busy / seconds, share)


def _token_ages(
    used: np.ndarray, began: np.ndarray, ended: np.ndarray, published: np.ndarray, pause: float
) -> np.ndarray:
    """Seconds of generation by age [A], of answers [n] that were used at version `used`; none in pauses [s]."""
    first = np.searchsorted(published, began, "right")
    last = np.searchsorted(published, ended, "right")
    opens, closes = np.concatenate([[-np.inf], published + pause]), np.concatenate([published, [np.inf]])
    seconds = np.zeros(int((used - first).max()) + 1)
    for step in range(int((last - first).max()) + 1):
        version = first + step
        inside = version <= last
        low = np.maximum(began[inside], opens[version[inside]])
        high = np.maximum(np.minimum(ended[inside], closes[version[inside]]), low)
        np.add.at(seconds, np.maximum(used[inside] - version[inside], 0).astype(int), high - low)
    return seconds
