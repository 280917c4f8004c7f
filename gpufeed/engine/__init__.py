"""DALI runs it."""
