"""The comparison: every loader that people would use instead, at the same work, in one run."""
