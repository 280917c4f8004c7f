"""DALI runs it: the only package, beside pixel transforms' `build`, that imports `nvidia.dali`."""
