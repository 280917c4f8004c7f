"""The effect of a loader on the training steps that it feeds."""
