"""`prepare`: what transforms do to images in every epoch alike, done once and written to disk."""
