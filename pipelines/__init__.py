"""Recipes to copy and change, built on gpufeed's public API and the options of `command.py`."""
