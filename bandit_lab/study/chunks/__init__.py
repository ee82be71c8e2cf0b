"""Work that survives anything: cut into chunks, each kept on disk as soon as it is finished.

`durable` writes files that are whole or absent, `store` keeps the chunks of one run folder, `lock` keeps a second
process out, `run` computes what is missing. None of them knows what a chunk computes.
"""

from bandit_lab.study.chunks.lock import Held, RunLock, holder
from bandit_lab.study.chunks.run import Report, Wait, Work, planned, run_chunks
from bandit_lab.study.chunks.store import DONE, FAILED, ChunkStore, Damaged, Planned, Record, Schedule, hash_of
