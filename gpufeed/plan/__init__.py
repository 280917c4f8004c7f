"""The plan of a batch: everything that is decided before an image is opened."""
