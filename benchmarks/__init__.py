"""Measurements; run each module as `python -m benchmarks.NAME`."""
