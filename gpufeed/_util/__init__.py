"""Internal helpers that are not specific to images: files, threads, limits, text."""
