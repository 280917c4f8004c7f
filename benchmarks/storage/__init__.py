"""Tiers in front of a slow store: a simulation, and real runs."""
