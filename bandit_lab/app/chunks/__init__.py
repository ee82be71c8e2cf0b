"""Work that survives anything: cut into chunks, each kept on disk as soon as it is finished.

`durable` writes files that are whole or absent. `store` keeps the chunks of one run folder, and a second process out.
`run` computes what is missing. None of them knows what a chunk computes.
"""

from bandit_lab.app.chunks.run import (
    Attempt,
    Attempts,
    Report,
    Work,
    attempt,
    key_of,
    one_after_another,
    reason_of,
    run_chunks,
)
from bandit_lab.app.chunks.store import ChunkStore, RunLock, check_free, hash_of, holder, read_json
