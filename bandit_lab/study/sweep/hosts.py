"""A sweep by several processes: what process 0 tells the others before the work begins, and what the others do."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from bandit_lab.study.arithmetic import arithmetic, changes
from bandit_lab.study.chunks import ChunkStore, hash_of
from bandit_lab.study.chunks.run import reason_of
from bandit_lab.study.folder import resume
from bandit_lab.study.folder.store import RunFolder
from bandit_lab.study.hosts import Hosts
from bandit_lab.study.sweep.compute import compute, failed_text
from bandit_lab.study.sweep.plan import SweepPlan
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.errors import BadInput, Incomplete, bad_input
from bandit_lab.study.terminal.progress import Progress

BEGIN = "begin"
TO_PART = 2.0  # seconds for the others to leave before process 0, which carries their connection, ends
SEEN_WITHIN = 60.0  # seconds after which what process 0 wrote must be visible on every host


@contextlib.contextmanager
def refusal_told(hosts: Hosts) -> Iterator[None]:
    """Inside, process 0 decides whether the run can begin; if not, the others are told why before it leaves."""
    try:
        yield
    except BaseException as error:
        _tell(hosts, {"refused": reason_of(error)}, last=True)
        raise


def begin(hosts: Hosts, state: str, settings: dict[str, Any]) -> None:
    """Process 0: the folder is ready. Returns when every other process holds its lock, or knows that all is done."""
    word = {"state": state, "settings": hash_of(settings), "arithmetic": arithmetic()}
    _tell(hosts, word, state == resume.FINISHED)


def _tell(hosts: Hosts, word: dict[str, Any], last: bool) -> None:
    hosts.agreed(BEGIN, word)
    hosts.meet(BEGIN)
    if last and hosts.count > 1:
        time.sleep(TO_PART)


def take_part(plan: SweepPlan, settings: dict[str, Any], folder: RunFolder, progress: Progress, hosts: Hosts) -> None:
    """What a process other than 0 does: its chunks of every list, nothing else.

    Raises:
      BadInput: process 0 refused the run, runs another one, or writes to another place.
      Stopped: another process was lost.
      Incomplete: some chunks failed.
    """
    store, word = ChunkStore(folder.path), hosts.agreed(BEGIN, None)
    if "refused" in word or word["state"] == resume.FINISHED:
        hosts.meet(BEGIN)
        hosts.part()
        if "refused" in word:
            raise BadInput(f"process 0 refused: {word['refused']}")
        return
    with contextlib.ExitStack() as stack:
        with bad_input():
            stack.enter_context(hosts.at_work(store.folder))
        problem = _why_not(word, settings, store)
        hosts.meet(BEGIN)
        if problem is not None:
            raise BadInput(problem)
        done = compute(plan, store, progress, hosts)
        report.show(f"process {hosts.index} of {hosts.count}: {done.made} chunks computed here")
    if done.failed:
        raise Incomplete(failed_text(done.failed))


def _why_not(word: dict[str, Any], settings: dict[str, Any], store: ChunkStore) -> str | None:
    if word["settings"] != hash_of(settings):
        return "hosts: expected the settings of process 0, got others"
    if different := changes(word["arithmetic"], arithmetic()):
        return (
            f"hosts: expected processes that compute the same bits, got another {', '.join(different)} than process 0"
        )
    end = time.monotonic() + SEEN_WITHIN
    while store.settings() != settings:
        if time.monotonic() > end:
            return f"run_dir: expected a folder that all processes see, got {store.folder.parent}"
        time.sleep(0.1)
    return None
