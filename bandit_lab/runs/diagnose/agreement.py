"""How sure a verdict is: what became of the public runs that were told the same.

Two tables are shipped with the package, counted on runs whose outcome somebody wrote down. A repository counts once in
both, however many runs it holds. `experiments/grading/clinic.py` counts how often each finding agreed; its interval is
that of a share of repositories. `experiments/grading/causes.py` has the shares of a naive Bayes, which gives five named
causes a probability: findings are taken as independent given the cause. It was better than the counts on repositories
left out. So it is told first, and the counts alone where there is no probability.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bandit_lab.runs.diagnose.evidence import CONTROL, Diagnosis

STORED = Path(__file__).with_name("agreement.json")
MODEL = Path(__file__).with_name("causes.json")
_FEWEST = 3
"""Repositories below which a share is no statement."""
_NOTHING_FOUND = ("healthy", "not_judged")
_LEAST = 0.01
"""Probability below which no number is told."""
_ALIKE = {"collapsed": "dynamical_instability", "dynamical_instability": "collapsed"}
"""One event under two names."""
_WORDS = {"collapsed": "collapsed or unstable"}
"""Of a cause that has a probability."""
_DECIDES = {
    "plumbing": ("run it at learning rate 0 (control=true)", "the reward falls"),
    "sampler_mismatch": ("compare log-probabilities of engine and trainer on one batch", "they lie apart"),
    "truncated_answers": ("run twenty steps with twice the length limit", "the reward jumps"),
    "diverging": ("restart with half the learning rate", "gradient and KL stay small"),
    "dynamical_instability": ("restart with half the learning rate", "the swings go"),
    "reward_hacking": ("read twenty late answers", "what is paid for is not what is wanted"),
    "format_only": ("read twenty late answers", "the form is right and the answer is not"),
    "policy_concentration": ("draw twenty answers to one prompt", "they are one and the same"),
    "answer_length": ("read ten late answers beside ten early ones", "they gave up or ramble"),
    "advantage_degeneracy": ("look at the rewards within groups", "nearly every group holds one value"),
    "collapsed": ("evaluate the last checkpoint and the best one", "the last one is worse"),
    "stalled": ("run as many steps at twice the learning rate", "the reward rises"),
}
"""Cause -> a test, and what it shows where this is the cause. A group size of one needs none."""


class Agreement(NamedTuple):
    """Public runs with one finding: `runs` of `repositories`, of which `same` had this failure, `other` another one and
    `healthy` none; `share` of the repositories' runs that had it, with the ends of its interval of 95 %."""

    runs: int
    repositories: int
    same: int
    other: int
    healthy: int
    share: float
    low: float
    high: float


class Model(NamedTuple):
    """Naive Bayes of `runs` of `repositories`, in natural logarithms: `log_share` [C] of the `causes`, and by finding
    the share of each cause's runs that had it, and that had it not [C]."""

    runs: int
    repositories: int
    causes: Sequence[str]
    log_share: Sequence[float]
    log_found: Mapping[str, Sequence[float]]
    log_not_found: Mapping[str, Sequence[float]]


@cache
def model() -> Model:
    """The shipped one."""
    return Model(**json.loads(MODEL.read_text(encoding="utf-8")))


def probabilities(found: Diagnosis) -> dict[str, float]:
    """Named cause -> its probability, most probable first; `healthy` is one of them. Empty where the run could not be
    judged, is unlike all public runs, or has a finding that no public run had."""
    named, known = events(_named(found)), model()
    if found.verdict == ("not_judged",) or found.unlike or not known.log_found.keys() >= named:
        return {}
    told = [(known.log_found if name in named else known.log_not_found)[name] for name in known.log_found]
    odds = [math.exp(sum(column)) for column in zip(known.log_share, *told, strict=True)]
    every = {name: one / sum(odds) for name, one in zip(known.causes, odds, strict=True)}
    return dict(sorted(every.items(), key=lambda it: -it[1]))


def events(names: Sequence[str]) -> set[str]:
    """The findings, an instability as the collapse that it is: two names of one event are no two witnesses."""
    return {"collapsed" if name in _ALIKE else name for name in names}


def _named(found: Diagnosis) -> list[str]:
    return [name for name in found.verdict if name not in found.notes and name in found.severity]


@cache
def table() -> Mapping[str, Agreement]:
    """Finding -> how often it was right; `healthy` and `not_judged`: where nothing was found."""
    return {name: Agreement(**row) for name, row in json.loads(STORED.read_text(encoding="utf-8")).items()}


def causes(found: Diagnosis) -> list[str]:
    """The first two causes: those named that are more than notes, and behind one alone the strongest of the others that
    reaches half its limit."""
    named = _named(found)
    rest = sorted(
        (one for one in found.findings if one.score is not None and 0.5 <= one.score < 1 and one.failure not in named),
        key=lambda one: -(one.score or 0.0),
    )
    if not named:
        return []
    every = [*named, *(one.failure for one in rest)]
    return [name for name in every if name != _ALIKE.get(named[0])][:2]


def sure_line(name: str) -> str:
    """What became of the public runs with this finding; that it cannot be told where there are too few."""
    row = table().get(name)
    few = row is None or not row.runs or (name not in _NOTHING_FOUND and row.repositories < _FEWEST)
    return f"How sure: {'cannot tell; ' if few else ''}{_counts(name)}"


def _counts(name: str) -> str:
    words, row = name.replace("_", " "), table().get(name)
    if row is None or not row.runs:
        return f"no public run of known outcome had the finding {words}."
    if name in _NOTHING_FOUND:
        return f"of {row.runs} public runs in which nothing but notes was found, {row.same} were healthy."
    line = f"of {row.runs} public run{'s' * (row.runs > 1)} with the finding {words} {row.same} had this failure"
    line += f", {row.other} another and {row.healthy} none"
    if row.repositories < _FEWEST:
        return f"{line}, all of {'one repository' if row.repositories == 1 else f'{row.repositories} repositories'}."
    return f"{line} (by repository {100 * row.low:.0f} to {100 * row.high:.0f} %)."


def likely(found: Diagnosis) -> list[str]:
    """The two most probable causes, in words; empty where no probability can be told."""
    return [f"{_words(name)} {_percent(one)}" for name, one in probabilities(found).items()][:2]


def _words(cause: str) -> str:
    return _WORDS.get(cause, cause.replace("_", " "))


def _percent(share: float) -> str:
    if not _LEAST <= share <= 1 - _LEAST:
        return "under 1 %" if share < _LEAST else "over 99 %"
    return f"{100 * share:.0f} %"


def how_sure(found: Diagnosis) -> tuple[str, str, str]:
    """One row: what is told, the number, and what stands beside it."""
    if two := likely(found):
        return "most likely", two[0], f"then {two[1]}, by {model().runs} public runs"
    if found.unlike:
        return "how sure", "cannot tell", _none_like(found)
    name = _first(found)
    row, words = table().get(name), name.replace("_", " ")
    if row is None or row.repositories < _FEWEST:
        seen = 0 if row is None else row.repositories
        return "how sure", "cannot tell", f"public repositories with {words}: {seen}"
    if name in _NOTHING_FOUND:
        healthy = "public runs in which nothing but notes was found were healthy"
        return "how sure", f"{row.same} of {row.runs}", healthy
    return "how sure", f"{row.same} of {row.runs}", f"public runs with {words} had this failure"


def _none_like(found: Diagnosis) -> str:
    return f"no public run of known outcome was like this: {found.unlike}"


def _first(found: Diagnosis) -> str:
    return next(iter(causes(found)), "not_judged" if found.verdict == ("not_judged",) else "healthy")


def sure(found: Diagnosis) -> list[str]:
    """Lines for people: the two most probable causes, or how often the first finding agreed; and what would decide."""
    two = [] if found.unlike == CONTROL else causes(found)
    lines = [f"How sure: cannot tell; {_none_like(found)}." if found.unlike else sure_line(_first(found))]
    if text := ", ".join(likely(found)):
        known, named = model(), _named(found)
        lines = [f"Most likely: {text}, by {known.runs} public runs of {known.repositories} repositories."]
        if named and not events(named) & {*known.causes}:
            words = named[0].replace("_", " ")
            lines.append(f"None of them was labelled {words}: this is what runs that showed it were labelled.")
    if len(two) == 1:
        two += [name for name in probabilities(found) if name not in (two[0], _ALIKE.get(two[0]))][:1]
    acts = [_DECIDES[name][0] for name in two if name in _DECIDES]
    shown = [f"{_DECIDES[name][1]} if it is {name.replace('_', ' ')}" for name in two if name in _DECIDES]
    if len(acts) == 2:
        another = "" if acts[0] == acts[1] else f"{acts[1]}: "
        lines.append(f"To decide, {acts[0]}: {shown[0]}; or {another}{shown[1]}.")
    elif acts and two[1:] == ["healthy"]:
        lines.append(f"To decide, {acts[0]}: {shown[0]}, and not if it is healthy.")
    return lines


def counted_alone(found: Diagnosis) -> list[str]:
    """The counts behind a probability, which knows of every finding; nothing where they are told in its place."""
    by_it = "By the first finding alone, which is less than the probability knows"
    return [f"{by_it}: {_counts(_first(found))}"] if probabilities(found) else []


def as_values(found: Diagnosis) -> Sequence[Mapping[str, object]]:
    """For programs: each named cause with its counts; null where no public run had it."""
    rows = ((name, table().get(name)) for name in found.severity if name not in found.notes)
    return [{"finding": name, "public_runs": None if row is None else row._asdict()} for name, row in rows]
