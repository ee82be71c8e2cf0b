"""Which of the logged names is what: the alias table, asked once for every name that turns up."""

from collections.abc import Iterable

from grpo_clinic.readers import aliases, limits
from grpo_clinic.readers.record import COLUMNS
from grpo_clinic.readers.which import looks_like_evaluation, match_key, reward_guesses

ROLES = ("reward", "eval", *COLUMNS)


class LogKeys:
    """Name in the log -> role. A role keeps the name that first had it; `framework` is whose names they are.

    `reward_key` and `eval_key` are names that are to be read in place of the known ones.
    """

    def __init__(self, reward_key: str | None = None, eval_key: str | None = None) -> None:
        self.of_role: dict[str, str] = {}
        self._asked = {"reward": reward_key, "eval": eval_key}
        self._seen: set[str] = set()
        self.framework = aliases.OWN

    def roles(self, keys: Iterable[str]) -> dict[str, str]:
        """Role -> name, after these names have been seen."""
        new = [key for key in keys if key not in self._seen]
        if new and len(self._seen) < limits.MAX_KEYS:
            self._seen.update(new[: limits.MAX_KEYS])
            self._look(new)
        return self.of_role

    def _look(self, new: list[str]) -> None:
        self.framework = framework = aliases.framework_of(list(self._seen))
        for role in ROLES:
            if role in self.of_role:
                continue
            if wanted := self._asked.get(role):
                found = match_key(wanted, new)
            else:
                held_out = role == "eval"
                taken = self.of_role.get("reward")
                pool = [key for key in new if looks_like_evaluation(key) == held_out and key != taken]
                ranked = [key for key, _ in aliases.candidates(role, pool, framework)]
                found = next(iter(ranked or (reward_guesses(pool) if role == "reward" else [])), None)
            if found is not None:
                self.of_role[role] = found
