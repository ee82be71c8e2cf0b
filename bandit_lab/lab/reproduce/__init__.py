"""`reproduce`: every claim as a figure, numbers and a verdict that is computed."""
