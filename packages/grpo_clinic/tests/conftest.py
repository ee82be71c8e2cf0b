"""An error of our own code under a reader fails its test; a file's own readers and rules are forgotten at its end."""

import pytest
from grpo_clinic.readers import READERS, front
from grpo_clinic.rules import RULES

front.STRICT = True


@pytest.fixture(scope="module", autouse=True)
def _forget_what_a_file_registers():
    registered = [(registry, dict(registry)) for registry in (RULES, READERS)]
    yield
    for registry, before in registered:
        registry.clear()
        registry.update(before)
