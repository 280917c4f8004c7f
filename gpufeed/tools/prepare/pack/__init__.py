"""Packing prepared images into one file of a number of them: a module for each kind of file."""
