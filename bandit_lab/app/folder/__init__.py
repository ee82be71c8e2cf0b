"""Run folders: what is written into them and when, what is in one, its results as a table."""
