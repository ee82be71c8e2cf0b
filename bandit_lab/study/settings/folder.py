"""The settings of the commands that read a run folder: `status` and `export`."""

from dataclasses import dataclass

from bandit_lab.study.settings.schema import OUTPUT, PROBLEM, ShellSettings, setting


@dataclass
class FolderSettings(ShellSettings):
    """What every command that reads a run folder understands."""

    run_dir: str | None = setting(
        None, "path", "run folder to read, also of a -m: the last line that it printed", PROBLEM
    )


@dataclass
class StatusSettings(FolderSettings):
    """Settings of `status`."""

    output: str | None = setting(
        None, "path", "also write the status there as JSON, outside of the run folder or in it", OUTPUT
    )


@dataclass
class ExportSettings(FolderSettings):
    """Settings of `export`."""

    format: str = setting("csv", "", "csv | parquet (needs pip install pyarrow)", PROBLEM)
    table: str = setting(
        "grid", "", "grid: a row per cell of the fine grid | sampled: per cell of the sampled runs", PROBLEM
    )
    output: str | None = setting(None, "path", "file to write; null: <run_dir>/<table>.<format>", OUTPUT)
