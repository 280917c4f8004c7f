"""From encoded images to pixels: their headers, what is accepted, and decoders."""
