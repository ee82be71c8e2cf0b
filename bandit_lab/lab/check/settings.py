"""Can the variant be chosen by name, and are its bad settings named?"""

from typing import Any

from bandit_lab.app import plugins
from bandit_lab.lab.check.result import check
from bandit_lab.lab.check.subject import LEARNS, Subject, subject_of

NONSENSE: tuple[Any, ...] = ("nonsense", float("nan"))


@check("bad settings are named", *LEARNS)
def _bad_settings(subject: Subject) -> str:
    """An unknown option, and nonsense for every option with a default, raise ValueError with the option's name."""
    cases: dict[str, dict[str, Any]]
    if subject.kind == "optimizer":
        cases = {"options.no_such_option": {"options": {"no_such_option": 1}}}
    else:
        cases = {"no_such_option": {**subject.options, "no_such_option": 1}}
        cases |= {
            f"{key}={bad}": {**subject.options, key: bad}
            for key, value in subject.options.items()
            for bad in (NONSENSE if value is not None else NONSENSE[:1])
        }
    for case, options in cases.items():
        option = case.partition("=")[0]
        key = "no_such_option" if "no_such" in case else plugins.registries()[subject.kind].option(subject.name, option)
        try:
            subject_of(subject.kind, subject.name, options, subject.learner)
        except ValueError as error:
            if key not in str(error):
                raise AssertionError(f"{case}: expected an error that names {key}, got {error}") from error
        except Exception as error:
            raise AssertionError(f"{case}: expected a ValueError that names {key}, got {error!r}") from error
        else:
            raise AssertionError(f"{case}: expected a ValueError that names {key}, got none")
    return f"{len(cases)} cases"
