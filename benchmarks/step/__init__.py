"""What a training step feels of the loader that feeds it."""
