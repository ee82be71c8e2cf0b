"""Trainers by name: ours and those of plug-ins."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from grpo_clinic._registry import Registry
from grpo_clinic.trainers.base import Trainer

REGISTRY: Registry[Trainer] = Registry("trainer")
register_trainer = REGISTRY.register
"""Decorator of a function that gives a `Trainer`.

For developers. A new trainer is a module of yours (or a file of this folder) with such a function. A `Trainer` has
`keys` (what each quantity is called there, and the default with the release that it was read in), `marks` (keys that
only it has) and `read`, which turns a `Lookup` into a `TrainerReading`: `Age` (how old the acting policy is) and
`AdvantageRule` (what an advantage is). The registered name is the trainer's name in lower case, with `_` for spaces.

The trainer with most marks among the given keys is taken. Of several those from outside the package stand first, then
ours by `order`; `framework=its_name` chooses one whatever the keys are.
"""


class _Trainers(Mapping[str, Trainer]):
    """Every registered trainer by name, in the order in which they are asked."""

    def __getitem__(self, name: str) -> Trainer:
        if name not in REGISTRY:
            raise KeyError(name)
        return _built(name, REGISTRY[name])

    def __iter__(self) -> Iterator[str]:
        ours = [name for name in REGISTRY if not REGISTRY.is_outside(name)]
        yield from (name for name in REGISTRY if name not in ours)
        yield from sorted(ours, key=lambda name: self[name].order)

    def __len__(self) -> int:
        return len(REGISTRY)


TRAINERS = _Trainers()


@lru_cache
def _built(name: str, builder: object) -> Trainer:
    return REGISTRY[name]()


def plain_name(name: str) -> str:
    """The name under which a trainer is registered, from the one that people read."""
    return name.lower().replace("-", "_").replace(" ", "_")
