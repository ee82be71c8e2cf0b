"""What the group size does to mean and variance: what experiments/group_size.py is made of."""
