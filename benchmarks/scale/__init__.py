"""How costs grow with what there is more of: `python -m benchmarks.scale`."""
