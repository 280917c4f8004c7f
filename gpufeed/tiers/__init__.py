"""Tiers: encoded images that are kept near the processor, in front of a slow source."""
