"""Contact sheets: images with captions, side by side in one image."""
