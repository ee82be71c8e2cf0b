"""What all sides are told of experiments/two_detectors.py."""

RATE = {"units": "logits per unit gradient"}
