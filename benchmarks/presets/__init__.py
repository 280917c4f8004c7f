"""Measure the CPU cost of each preset, next to DALI's own operators and torchvision.

CPU time per image is that of this whole process with all its threads, including prefetched batches;
the contenders take turns, in alternating order. Next to it stands the cost of planning a batch of
256, which includes all random numbers.

    python -m benchmarks.presets --photos DIR
"""
