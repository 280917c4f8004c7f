"""Recipes to copy and change; `command.py` is their command line, the rest is gpufeed's."""
