"""Running batches with NVIDIA DALI."""
