"""What each preset costs on the CPU, beside the same by DALI's own operators and by torchvision.

CPU ms an image are those of this whole process with all its threads, up to the end of what was
begun ahead; the contenders take turns, in an order that goes to and fro. Beside them stands what
planning a batch of 256 costs, which is all that is drawn.

    python -m benchmarks.presets --photos DIR
"""
