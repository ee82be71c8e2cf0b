"""The settings of `reproduce`: which figures, how good, where they go."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.settings.schema import setting


@dataclass
class ReproduceSettings:
    """Settings of `reproduce`."""

    figures: Any = setting("all", "ids", "all | name,name,...: the files of experiments/")
    quality: str = setting("draft", "", "draft: all figures in some minutes | paper: what is published")
    publish: str | None = setting(
        None, "path", "also copy pictures, numbers and claims there (figures); claims of other figures stay"
    )
    cache: str | None = setting(
        "outputs/reproduce/cache", "path", "keeps measurements for the next run; null: measure anew, keep nothing"
    )
    plugins: list[str] = setting([], "modules", "Python modules to import first")
    compilation_cache: Any = setting(
        "auto", "path", "keeps compiled programs for the next run; auto: the user's cache folder; null, false: nowhere"
    )
    run_dir: str | None = setting(None, "path", "run folder; null: outputs/reproduce/<date>_<time>")
    overwrite: bool = setting(False, "", "replace a finished run in run_dir")
    quiet: bool = setting(False, "", "no progress on stderr, where it appears only on a terminal")
