"""`python -m bandit_lab` that is gone, as after `kill -9`, when it has finished two chunks."""

import os
import sys

from bandit_lab.__main__ import main
from bandit_lab.study.chunks import ChunkStore

save, done = ChunkStore.save, []


def save_and_die(store, record, arrays):
    done.append(save(store, record, arrays))
    if len(done) == 2:
        os._exit(137)
    return done[-1]


ChunkStore.save = save_and_die
sys.exit(main())
