"""From encoded images to pixels."""
