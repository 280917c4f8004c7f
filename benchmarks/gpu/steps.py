"""The steps, in order, and their time limits.

A step is a module of this package with a function `cases`, from a `Job` to `Cases`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STEPS", "Step"]


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        name: its module.
        limit: seconds for all its cases.
        patience: seconds for one case.
        package: where its module is.
    """

    name: str
    limit: float
    patience: float
    package: str = "benchmarks.gpu"


STEPS = (
    Step("info", 90, 60),
    Step("tests", 240, 150),
    Step("decoders", 90, 30),
    Step("pixels", 180, 40),
    Step("lifetimes", 90, 40),
    Step("records", 150, 40),
    Step("openers", 210, 40),
    Step("training", 180, 120),
    Step("bench", 60, 40),
    Step("comparison", 200, 200),
    Step("feeding", 120, 120),
    Step("cache", 120, 120),
)
