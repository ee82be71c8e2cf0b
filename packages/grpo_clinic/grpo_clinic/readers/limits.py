"""How large a log may be. Text is streamed, so only what is kept counts; a JSON document must fit in memory whole."""


class TooLarge(ValueError):
    """A log beyond one of these bounds: refused as such, whatever other format it could be read as."""


MAX_TEXT_BYTES = 2 * 1024**3
"""Largest streamed file: console text, JSONL, CSV, event file."""
MAX_PIPED_BYTES = 256 * 1024**2
"""Largest log from standard input."""
MAX_DOCUMENT_BYTES = 32 * 1024**2
"""Largest JSON document; a longer history belongs into JSONL, which is streamed."""
MAX_LINE = 4 * 1024**2
"""Longest line [characters], and longest record of an event file or of wandb [bytes]; longer ones are skipped."""
MAX_NODES = 2_000_000
"""Lists and objects in a JSON document, up to 250 bytes each while it is read."""
MAX_CELLS = 10_000_000
"""Numbers kept from one file, 16 bytes each."""
MAX_TEXTS = 1_000_000
"""Short texts kept from one file."""
MAX_KEYS = 10_000
"""Different column names in one table."""
MAX_COLUMNS = 100_000
"""Columns of all runs in one file together, about 500 bytes each beside their numbers."""
MAX_PARTS = 100
"""Parts of the reward that a curve holds; further ones are counted."""
MAX_RUNS = 1_000
"""Runs in one file."""
MAX_KEY = 300
"""Longest column name and longest text cell that is kept [characters]."""
MAX_DEPTH = 6
"""Nesting of a JSON document that is searched for rows."""
FEWEST_POINTS = 8
"""Rewards of a run that a law is fitted to."""
MAX_RECORD = 64 * 1024**2
"""Longest record that an event file may announce [bytes]."""
MAX_INDEX_BYTES = 10_000_000
"""Largest table of runs."""
MAX_SETTINGS_BYTES = 256_000
"""Largest configuration."""
MAX_SETTINGS, MAX_SETTINGS_DEPTH = 20_000, 40
"""Values in a configuration, and its nesting; aliases count each time that they are met."""
LARGEST_SETTING = 1e15
"""Numbers beyond it are no settings, and products of them no floats."""
MAX_HEAD_LINES, MAX_HEAD_CHARACTERS = 20_000, 4_000_000
"""How much of a log is looked at for its settings."""
MAX_DUMP = 200_000
"""Longest printed configuration [characters]."""
MAX_FILES = 2_000
"""Files looked at in one folder; further ones are counted."""
