"""The stub that editors read has the settings that the functions take."""

import stub


def test_the_stub_is_that_of_the_functions():
    assert stub.PATH.read_text(encoding="utf-8") == stub.stub(), "python tests/stub.py"


def test_a_setting_that_is_missing_there_is_found(monkeypatch):
    """Planted: `predict` with the settings of `check`."""
    monkeypatch.setattr(stub.bandit_lab, "predict", stub.bandit_lab.check, raising=False)
    assert stub.PATH.read_text(encoding="utf-8") != stub.stub()
