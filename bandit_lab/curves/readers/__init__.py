"""Reading logs: what the file is gets recognised from its first bytes, one small module per format does the rest."""

from bandit_lab.curves.readers.front import Skipped, read, read_all
