"""Map of variants: what experiments/variants_map.py is made of."""
