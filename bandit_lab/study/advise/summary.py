"""`summary.json` of `advise`: every number with its unit and origin, null with the reason where there is none."""

from dataclasses import asdict
from typing import Any

from bandit_lab.curves.advise import Limit, Margin
from bandit_lab.curves.diagnose.oscillation import Oscillation
from bandit_lab.curves.trainers import Fact
from bandit_lab.study.advise.answers import answers
from bandit_lab.study.advise.assumptions import assumptions
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.wording import LETTERS
from bandit_lab.study.advise.work import INTERVALS, REACH, Advice
from bandit_lab.study.folder.store import with_reasons

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
        "margins": _margins(advice, settings),
        "limits": _limits(advice, settings),
        "by_delay": [
            {"delay": row.delay, "unit": "optimiser steps", "kappa": row.kappa, "margin": _margin(row.margin),
             "safe_refresh_interval": _limit(row.safe_interval)}
            for row in advice.delays
        ],
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
        "model": loop.model,
        "letter": LETTERS[loop.model],
        "interval": loop.interval,
        "K_ref": loop.block,
        "mean_age": advice.loop.mean_age,
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
    if advice.strength is None:
        keys = ("value", "interval_90", "kappa")
        return found | with_reasons(dict.fromkeys(keys), dict.fromkeys(keys, advice.strength_reason))
    strength, rate = advice.strength, advice.rate
    no_rate = "no learning rate is known"
    ends = None if rate is None else [strength.lower / rate, strength.upper / rate]
    found |= with_reasons(
        {"value": None if rate is None else strength.kappa / rate, "interval_90": ends},
        {"value": no_rate, "interval_90": no_rate},
    )
    found |= {"kappa": strength.kappa, "kappa_interval_90": [strength.lower, strength.upper], "source": strength.source}
    if strength.delay is not None:
        delay = strength.delay
        found["delay"] = {"value": delay.value, "interval_90": [delay.low, delay.high], "unit": "optimiser steps",
                          "cautions": list(delay.cautions)}  # fmt: skip
    return found


def _margin(margin: Margin) -> dict[str, Any]:
    law = with_reasons({"law": margin.law}, {"law": "the law has no bound without lag"})
    return law | {"exact": margin.exact, "onset_of_oscillation": margin.onset, "bifurcation": margin.bifurcation}


def _margins(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    found: dict[str, Any] = {
        "safety": settings.safety,
        "meaning": "what learning rate or stiffness may be multiplied by",
    }
    if advice.margin is None or advice.margin_upper is None:
        return found | with_reasons({"at_value": None, "at_upper_end": None},
                                    dict.fromkeys(("at_value", "at_upper_end"), advice.strength_reason))  # fmt: skip
    return found | {"at_value": _margin(advice.margin), "at_upper_end": _margin(advice.margin_upper)}


def _limit(limit: Limit, scale: float = 1.0) -> dict[str, Any]:
    values = {"law": limit.law, "exact": limit.exact}
    scaled = {name: None if value is None else value * scale for name, value in values.items()}
    why = {"law": "no bound by the law, or below the smallest", "exact": "not even the smallest is safe"}
    return with_reasons(scaled, why) | {"at_least": limit.capped, "law_at_least": limit.law_capped}


def _limits(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    if advice.intervals is None or advice.rates is None:
        keys = ("refresh_interval", "learning_rate")
        return with_reasons(dict.fromkeys(keys), dict.fromkeys(keys, advice.strength_reason))
    rate = advice.rate or 1.0
    return {
        "refresh_interval": {
            "unit": "optimiser steps",
            "threshold": _limit(advice.intervals.threshold),
            "safe": _limit(advice.intervals.safe),
        },
        "learning_rate": {
            "unit": "as the trainer's" if advice.rate else "of the present learning rate",
            "threshold": _limit(advice.rates.threshold, rate),
            "safe": _limit(advice.rates.safe, rate),
        },
        "safety": settings.safety,
        "judged_up_to": None if advice.strength is None or advice.strength.delay is None else f"{REACH:g} times as run",
    }


def _by_interval(advice: Advice) -> list[dict[str, Any]]:
    rows = []
    for interval in sorted({*INTERVALS, max(advice.loop.interval, 1)}):
        there = advice.loop.at(interval)
        row: dict[str, Any] = {"interval": interval, "kappa_law": there.law, "kappa_exact": there.exact.kappa}
        if advice.strength is not None:
            row |= {
                "margin_law": there.law / advice.strength.kappa,
                "margin_exact": there.exact.kappa / advice.strength.kappa,
            }
        rows.append(row)
    return rows


def _groups(advice: Advice, settings: AdviseSettings) -> dict[str, Any]:
    groups = advice.groups
    if groups is None:
        return with_reasons({"success": None}, {"success": advice.groups_reason})
    nothing = "not reached by any G up to 4096, or p is 0 or 1"
    no_size = "G of the run is not known"
    no_spread = "needs a logged share of silent groups above the bound"
    source = "given" if settings.success is not None else advice.evidence.success_source
    return {
        "success": groups.success,
        "success_source": source,
        "observed_silent_share": advice.evidence.silent,
        "spread": None if groups.spread is None else asdict(groups.spread) | {"std": groups.spread.std},
        "sizes": [
            {"group_size": row.size, "silent_share_at_least": row.silent, "signal_share_at_most": 1 - row.silent}
            | with_reasons({"silent_share_with_spread": row.silent_spread}, {"silent_share_with_spread": no_spread})
            | with_reasons({"group_factor": row.factor}, {"group_factor": "none at p = 0 or 1"})
            | with_reasons({"temperature_over_now": row.temperature}, {"temperature_over_now": no_size})
            for row in groups.rows
        ],
        "wanted": {
            "signal": settings.signal,
            "group_factor": settings.group_factor,
            "temperature": settings.temperature,
        },
        "needed": with_reasons(
            {"signal": groups.for_signal, "signal_with_spread": groups.for_signal_spread,
             "group_factor": groups.for_factor, "temperature": groups.for_temperature},
            {"signal": nothing, "signal_with_spread": no_spread, "group_factor": nothing,
             "temperature": no_size},
        ),
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
        "step_unit": curve.step_unit,
        "reward_key": curve.reward_series.key,
        "notes": [*curve.notes, *advice.evidence.notes],
        "scatter": {"value": advice.evidence.scatter, "unit": "reward"},
        "collapse": None
        if (fall := advice.evidence.fall) is None
        else {"share": fall.value, "steps": list(fall.window)},
        "oscillation": None if advice.evidence.wave is None else _wave(advice.evidence.wave),
    }
