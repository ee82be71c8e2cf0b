"""`summary.json` of `advise`: every number with its unit and origin, null with the reason where there is none."""

from dataclasses import asdict
from typing import Any

from bandit_lab.app.document import ABSENT, Column, Table, Value
from bandit_lab.runs.advise import REACH, SCATTER, SPREAD, StalenessLoop
from bandit_lab.runs.advise.answers import answers, counted, headline
from bandit_lab.runs.advise.show import (
    NO_SIZE,
    NO_SPREAD,
    delay_table,
    group_sizes,
    group_table,
    limit_values,
    margin_values,
)
from bandit_lab.runs.advise.words import LETTERS, assumptions
from bandit_lab.runs.advise.work import INTERVALS, Advice
from bandit_lab.runs.diagnose.oscillation import Oscillation
from bandit_lab.runs.logs.findings import verdict_text
from bandit_lab.runs.logs.settings import AdviseSettings
from bandit_lab.runs.trainers import Fact

_UNITS = {"group_size": "answers", "learning_rate": "", "kl_weight": "reward per nat"}


def summarise(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    """Content of `summary.json`."""
    setup, rule = advice.setup, advice.setup.reading.rule
    return {
        "trainer": {
            "name": setup.trainer.name,
            "rules_as_of": setup.trainer.release,
            "recognised": list(setup.recognised),
            "step_unit": setup.trainer.step_unit or None,
        },
        "settings": {name: _fact(fact) | {"unit": _UNITS.get(name, "")} for name, fact in setup.facts.items()},
        "staleness": _staleness(advice),
        "optimizer": {
            "name": setup.optimizer,
            "momentum": setup.momentum,
            "convention": setup.convention,
            "second_moment": "held at its noise-stationary value" if setup.adaptive else "none",
        },
        "advantage": {k: v for k, v in asdict(rule).items() if k != "text"} | {"description": rule.text},
        "kl": {"weight": setup.reading.kl_weight, "estimator": setup.reading.kl_text},
        "stiffness": _stiffness(advice),
        "headline": headline(advice),
        "assumed_settings": counted(advice)[1],
        "permitted": _permitted(advice),
        "margins": _margins(advice, settings),
        "limits": _limits(advice, settings),
        "by_delay": delay_table(advice),
        "by_refresh_interval": _by_interval(advice),
        "groups": _groups(advice, settings),
        "log": _log(advice),
        "traps": [asdict(trap) for trap in setup.traps],
        "answers": [{"question": question, "answer": answer} for question, answer in answers(advice, settings)],
        "assumptions": assumptions(advice, settings),
    }  # fmt: skip


def _fact(fact: Fact) -> dict[str, Any]:
    return {"value": fact.value, "origin": fact.origin, "key": fact.key, "source": fact.source}


def _staleness(advice: Advice) -> dict[str, Any]:
    loop = advice.setup.loop
    return {
        "model": Value.absent(loop.why) if loop.unbounded else loop.model,
        "letter": Value.absent(loop.why) if loop.unbounded else LETTERS[loop.model],
        "asynchronous": loop.model != "refresh" or bool(loop.late),
        "ages_known": not loop.late,
        "interval": loop.interval,
        "K_ref": loop.block,
        "mean_age": Value.absent(loop.why) if loop.unbounded else advice.loop.mean_age,
        "unit": "optimiser steps",
        "formula": loop.formula,
        "terms": {name: _fact(fact) for name, fact in loop.terms.items()},
        "why": loop.why,
        "knobs": list(loop.knobs),
        "source": loop.source,
        "notes": list(loop.notes),
    }


def _stiffness(advice: Advice) -> dict[str, Any]:
    unit = "1 per unit of learning rate" if advice.setup.adaptive else "reward per logit^2"
    found: dict[str, Any] = {"unit": unit}
    if advice.gain is None:
        return found | dict.fromkeys(("value", "interval_90", "kappa"), Value.absent(advice.strength_reason))
    gain, rate = advice.gain, advice.rate
    if rate is None:
        found |= dict.fromkeys(("value", "interval_90"), Value.absent("no learning rate is known"))
    else:
        found |= {"value": gain.kappa / rate, "interval_90": [gain.lower / rate, gain.upper / rate]}
    found |= {"kappa": gain.kappa, "kappa_interval_90": [gain.lower, gain.upper], "source": gain.source}
    if gain.delay is not None:
        delay = gain.delay
        found["delay"] = {"value": delay.value, "interval_90": [delay.low, delay.high], "unit": "optimiser steps",
                          "cautions": list(delay.cautions)}  # fmt: skip
    return found


def _margins(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    found: dict[str, Any] = {
        "safety": settings.safety,
        "meaning": "what learning rate or stiffness may be multiplied by",
    }
    if advice.margin is None or advice.margin_upper is None:
        return found | dict.fromkeys(("at_value", "at_upper_end"), Value.absent(advice.strength_reason))
    return found | {"at_value": margin_values(advice.margin), "at_upper_end": margin_values(advice.margin_upper)}


def _permitted(advice: Advice) -> dict[str, Any]:
    """What may be run next, and what that rests on."""
    permit = advice.permit
    rate = None if advice.rate is None else permit.factor * advice.rate
    return {
        "learning_rate": Value.of(rate, "no learning rate is known"),
        "learning_rate_factor": permit.factor,
        "refresh_interval": permit.interval,
        "group_sizes": group_sizes(advice),
        "basis": permit.basis,
        "reason": permit.reason,
        "divisor": Value.of(permit.divisor, "nothing is known that could be divided"),
        "spread_of_stiffness": SPREAD,
        "spread_source": "experiments/advice.py, calibrated on ShibukiZero/assignment5-alignment",
        "scatter_of_equal_runs": SCATTER,
        "scatter_source": "experiments/advice.py, 30 runs of 6 repositories",
    }


def _limits(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    if advice.intervals is None or advice.rates is None:
        return dict.fromkeys(("refresh_interval", "learning_rate"), Value.absent(advice.strength_reason))
    rate = advice.rate or 1.0
    return {
        "refresh_interval": {
            "unit": "optimiser steps",
            "threshold": limit_values(advice.intervals.threshold),
            "safe": limit_values(advice.intervals.safe),
        },
        "learning_rate": {
            "unit": "as the trainer's" if advice.rate else "of the present learning rate",
            "threshold": limit_values(advice.rates.threshold, rate),
            "safe": limit_values(advice.rates.safe, rate),
        },
        "safety": settings.safety,
        "judged_up_to": None if advice.gain is None or advice.gain.delay is None else f"{REACH:g} times as run",
    }


def _by_interval(advice: Advice) -> Table[StalenessLoop]:
    def over(value: float) -> Any:
        return ABSENT if advice.gain is None else value / advice.gain.kappa

    intervals = sorted({*INTERVALS, max(advice.loop.interval, 1)})
    return Table([advice.loop.at(interval) for interval in intervals], [
        Column("interval", "refresh interval", lambda there: there.interval, "optimiser steps"),
        Column("kappa_law", "kappa, law", lambda there: there.law),
        Column("kappa_exact", "kappa, exact", lambda there: there.exact.kappa),
        Column("margin_law", "margin, law", lambda there: over(there.law)),
        Column("margin_exact", "margin, exact", lambda there: over(there.exact.kappa)),
    ])  # fmt: skip


def _groups(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    groups = advice.groups
    if groups is None:
        return {"success": Value.absent(advice.groups_reason)}
    nothing = "not reached by any G up to 4096, or p is 0 or 1"
    source = "given" if settings.success is not None else advice.evidence.success_source
    return {
        "success": groups.success,
        "success_source": source,
        "observed_silent_share": advice.evidence.silent,
        "spread": None if groups.spread is None else asdict(groups.spread) | {"std": groups.spread.std},
        "sizes": group_table(advice),
        "wanted": {
            "signal": settings.signal,
            "group_factor": settings.group_factor,
            "temperature": settings.temperature,
        },
        "needed": {
            "signal": Value.of(groups.for_signal, nothing),
            "signal_with_spread": Value.of(groups.for_signal_spread, NO_SPREAD),
            "group_factor": Value.of(groups.for_factor, nothing),
            "temperature": Value.of(groups.for_temperature, NO_SIZE),
        },
        **({} if groups.rare is None else {"success_below_95": groups.rare, "answers_seen": advice.evidence.answers}),
    }  # fmt: skip


def _wave(wave: Oscillation) -> dict[str, Any]:
    return {"p_value": wave.p_value, "period": wave.period, "unit": "steps of the log", "share": wave.share}


def _log(advice: Advice) -> dict[str, Any] | None:
    curve = advice.evidence.curve
    if curve is None:
        return None
    return {
        "path": curve.source,
        "recognised": list(curve.recognised),
        "points": int(curve.step.size),
        "verdict": "" if (found := advice.evidence.diagnosis) is None else verdict_text(found, short=False),
        "step_unit": curve.step_unit,
        "reward_key": curve.reward_series.key,
        "notes": [*curve.notes, *advice.evidence.notes],
        "scatter": {"value": advice.evidence.scatter, "unit": "reward"},
        "collapse": None
        if (fall := advice.evidence.fall) is None
        else {"share": fall.value, "steps": list(fall.window)},
        "oscillation": None if advice.evidence.wave is None else _wave(advice.evidence.wave),
    }
