"""What every package needs and nothing of the field: files, threads, limits, texts."""
