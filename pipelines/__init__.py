"""Recipes to copy and change: each is one file that needs nothing but gpufeed and a framework."""
