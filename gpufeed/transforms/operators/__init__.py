"""DALI operators, from which the `build` methods of transforms make their part of the graph.

The modules in here import DALI, so `build` methods import them when they are called.
"""
