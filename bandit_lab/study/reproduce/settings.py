"""The settings of `reproduce`: which figures, how good, where they go."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.settings.schema import OUTPUT, PROBLEM, RUN, CompilingSettings, setting


@dataclass
class ReproduceSettings(CompilingSettings):
    """Settings of `reproduce`."""

    figures: Any = setting("all", "ids", "all | name,name,...: the files of experiments/", PROBLEM)
    quality: str = setting("draft", "", "draft: all figures in some minutes | paper: what is published", RUN)
    publish: str | None = setting(
        None, "path", "also copy pictures, numbers and claims there (figures); claims of other figures stay", OUTPUT
    )
    cache: str | None = setting(
        "outputs/reproduce/cache", "path", "keeps measurements for the next run; null: measure anew, keep nothing"
    )
