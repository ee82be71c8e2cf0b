"""What the callback says where its extra is not installed."""

import importlib
import sys

import pytest


def test_without_the_extra_one_line_says_which(monkeypatch):
    monkeypatch.delitem(sys.modules, "grpo_probe.callback", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"^StabilityCallback: .* pip install "):
        importlib.import_module("grpo_probe.callback")
