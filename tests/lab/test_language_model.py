"""The experiment on a language model where a package is missing; the model: `integrations/test_small_lm.py`."""

import sys

import pytest

from bandit_lab.lab.reproduce.experiment import Unavailable, discover, read_setting


def test_without_a_package_it_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    monkeypatch.delitem(sys.modules, "experiments.shared.small_lm", raising=False)
    with pytest.raises(Unavailable, match="language_model: needs TRL and peft, the extra trl: "):
        discover()["language_model"].load().check_available(read_setting("language_model", "draft"))
