"""The conformance suite: what every variant has to keep, ours and a user's.

`python -m bandit_lab check 'plugins=[my_module]'` runs it on what that module registers; in Python,
`run_checks(subject_of("bandit", "my_bandit"))`.
"""

from bandit_lab.lab.check import alike, limits, sampling, stability
from bandit_lab.lab.check.result import CHECKS, CheckResult, run_check, run_checks
from bandit_lab.lab.check.subject import LEARNS, Subject, subject_of
