"""One style for all pictures; a figure becomes a file or bytes."""
