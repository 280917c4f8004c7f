"""One batch on paper: everything about it that is known before a file is opened."""
