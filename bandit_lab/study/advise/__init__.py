"""`advise`: which settings of a run are safe, from its configuration and its log."""
