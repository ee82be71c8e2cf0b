"""The result of a check, and the list of all checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import SkipTest

import numpy as np

if TYPE_CHECKING:
    from bandit_lab.lab.check.subject import Subject

PASS, FAIL, NOT_APPLICABLE = "pass", "FAIL", "not applicable"


class CheckResult(NamedTuple):
    """One check of one variant."""

    check: str
    status: str
    detail: str


@dataclass(frozen=True)
class _Check:
    """A question, the kinds of variants that it is put to, and the function that answers: a line, or an exception."""

    name: str
    kinds: tuple[str, ...]
    function: "Callable[[Subject], str]"


CHECKS: dict[str, _Check] = {}


def check(name: str, *kinds: str) -> Callable[[Any], Any]:
    """Decorator: adds a check for variants of these kinds."""

    def keep(function: "Callable[[Subject], str]") -> "Callable[[Subject], str]":
        CHECKS[name] = _Check(name, kinds, function)
        return function

    return keep


def run_check(name: str, subject: "Subject") -> CheckResult:
    """Put one question to one variant. An error of the variant is a failure."""
    one = CHECKS[name]
    if subject.kind not in one.kinds:
        return CheckResult(name, NOT_APPLICABLE, f"decided by {' and '.join(one.kinds)}, not by the {subject.kind}")
    try:
        return CheckResult(name, PASS, one.function(subject))
    except SkipTest as reason:
        return CheckResult(name, NOT_APPLICABLE, str(reason))
    except AssertionError as error:
        return CheckResult(name, FAIL, str(error))
    except Exception as error:
        return CheckResult(name, FAIL, f"{type(error).__name__}: {error}".splitlines()[0])


def run_checks(subject: "Subject") -> list[CheckResult]:
    """All questions."""
    return [run_check(name, subject) for name in CHECKS]


def not_zero(what: str, *numbers: Any, least: float = 0.0) -> None:
    """Raises AssertionError unless some of these numbers are larger than `least`: equal nothings prove nothing."""
    if not max((float(np.max(np.abs(np.asarray(some, float)), initial=0.0)) for some in numbers), default=0.0) > least:
        size = f"at most {least:g}" if least else "0"
        raise AssertionError(
            f"{what}: nothing to compare: expected numbers that differ from 0, got all of them {size}, or none"
        )


def close(what: str, measured: Any, expected: Any, relative: float, absolute: float) -> str:
    """A line with the largest difference in units of what is allowed. AssertionError beyond it, for NaN or nothing."""
    measured, expected = np.asarray(measured, float), np.asarray(expected, float)
    if measured.shape != expected.shape:
        raise AssertionError(f"{what}: shape {measured.shape}, expected {expected.shape}")
    if not expected.size:
        raise AssertionError(f"{what}: nothing to compare: no numbers")
    allowed = absolute + relative * np.max(np.abs(expected), initial=0.0)
    off = np.max(np.abs(measured - expected), initial=0.0)
    line = f"{what}: off by {off:.1e}, allowed {allowed:.1e}"
    if not off <= allowed:
        raise AssertionError(line)
    return line
