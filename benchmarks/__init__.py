"""Measurements; each file is run as `python -m benchmarks.NAME`."""
