"""Transforms made of others: a list, all with a probability, one of several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import (
    GeometricTransform,
    MixTransform,
    PixelTransform,
    Records,
    Transform,
    Tree,
)
from gpufeed.transforms.error_context import errors_from
from gpufeed.transforms.select import Nodes, where
from gpufeed.transforms.transform_list import flatten

__all__ = ["Compose", "RandomApply", "RandomChoice"]


class Compose(list[Transform]):
    """A list of transforms, under torchvision's name."""

    def __repr__(self) -> str:
        return f"Compose({super().__repr__()})"


class _Group:
    """Pixel transforms in sequence, each with independent random numbers."""

    def __init__(self, owner: str, transforms: Any) -> None:
        if isinstance(transforms, str) or not isinstance(transforms, Transform | Iterable):
            raise ConfigError(
                f"{owner} has {short(transforms)}; it takes a list of pixel transforms"
            )
        self.transforms: list[PixelTransform] = flatten([transforms])
        for transform in self.transforms:
            if isinstance(transform, GeometricTransform):
                raise ConfigError(
                    f"{owner} has {type(transform).__name__}, which moves pixels and so is applied "
                    "to all records; use its own probability instead"
                )
            if not isinstance(transform, PixelTransform):
                raise ConfigError(f"{owner} has {short(transform)}; it takes pixel transforms")
        if not self.transforms:
            raise ConfigError(f"{owner} has no transforms; give at least one")

    @property
    def identity(self) -> list[dict[str, object]]:
        return [transform.identity for transform in self.transforms]

    @property
    def loses_targets(self) -> bool:
        return any(transform.loses_targets for transform in self.transforms)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        parts = rng.parts(len(self.transforms))
        drawn: dict[str, Tree] = {}
        for number, transform in enumerate(self.transforms):
            with errors_from(transform):
                drawn[str(number)] = transform.draw(parts[number], records)
        return drawn

    def build(self, image: Any, params: Nodes) -> Any:
        for number, transform in enumerate(self.transforms):
            with errors_from(transform):
                image = transform.build(image, params[str(number)])
        return image


class RandomApply(PixelTransform):
    """Apply all of some pixel transforms with probability `p`, or none.

    Args:
        transforms: the transforms, in order.
        p: probability.
    """

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        self._group = _Group("RandomApply", transforms)
        self._transforms = self._group.transforms
        self.p = arguments.check_probability("p", p)

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings, including those of the transforms."""
        return {**super().identity, "transforms": self._group.identity}

    @property
    def loses_targets(self) -> bool:
        """Whether any of the transforms does."""
        return self._group.loses_targets

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw `mask`, bool (n,), and `parts`: what each of the transforms draws."""
        choice, inner = rng.parts(2)
        return {"mask": choice.bernoulli(self.p), "parts": self._group.draw(inner, records)}

    def build(self, image: Any, params: Nodes) -> Any:
        """Apply the transforms to the chosen records."""
        return where(params["mask"], image, self._group.build, params["parts"])


class RandomChoice(PixelTransform):
    """Apply one of several pixel transforms, or one of several mixes, drawn for each record.

    Args:
        transforms: the choices, each a transform or a list of them; or mixes (MixUp, CutMix), which
            follow the output format.
        p: weights of the choices; None for equal weights.
    """

    def __new__(cls, transforms: Sequence[Any] = (), p: Sequence[float] | None = None) -> Any:
        """Return a mix if all choices are mixes."""
        # `pickle` and `copy` call this without arguments.
        if (
            isinstance(transforms, Sequence)
            and transforms
            and all(isinstance(each, MixTransform) for each in transforms)
        ):
            return _MixChoice(transforms, p)
        return super().__new__(cls)

    def __init__(self, transforms: Sequence[Any], p: Sequence[float] | None = None) -> None:
        if not isinstance(transforms, Sequence):
            raise ConfigError(f"transforms is {short(transforms)}; it must be a list of transforms")
        self._groups = [_Group("RandomChoice", each) for each in transforms]
        self._transforms = list(transforms)
        self.p, self._probabilities = _check_weights(p, len(self._groups))

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings, including those of the transforms."""
        return {**super().identity, "transforms": [group.identity for group in self._groups]}

    @property
    def loses_targets(self) -> bool:
        """Whether any of the choices does."""
        return any(group.loses_targets for group in self._groups)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw `index`, int32 (n,), and `choices`: what each of them draws."""
        first, *others = rng.parts(1 + len(self._groups))
        choices = {
            str(number): group.draw(others[number], records)
            for number, group in enumerate(self._groups)
        }
        return {"index": _draw_index(first, self._probabilities), "choices": choices}

    def build(self, image: Any, params: Nodes) -> Any:
        """Apply each choice to the records that drew it."""
        for number, group in enumerate(self._groups):
            chosen = params["index"] == number
            image = where(chosen, image, group.build, params["choices"][str(number)])
        return image


class _MixChoice(MixTransform):
    """One of several mixes, drawn for each record."""

    def __init__(
        self, transforms: Sequence[MixTransform], p: Sequence[float] | None = None
    ) -> None:
        self._transforms = list(transforms)
        self.p, self._probabilities = _check_weights(p, len(self._transforms))
        groups = {each.group for each in self._transforms}
        if len(groups) > 1:
            raise ConfigError(
                f"RandomChoice has mixes with group={sorted(groups)}; all must have the same group"
            )
        self.group = groups.pop()

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings of the `RandomChoice` that it was created as."""
        transforms = [each.identity for each in self._transforms]
        return {"kind": "RandomChoice", "p": self.p and list(self.p), "transforms": transforms}

    def draw(self, rng: BatchRng, records: Records) -> tuple[Tree, npt.NDArray[np.float32]]:
        """Draw `index`, int32 (n,), and `choices`: what each of them draws."""
        first, *others = rng.parts(1 + len(self._transforms))
        index = _draw_index(first, self._probabilities)
        choices: dict[str, Tree] = {}
        shares = np.ones(len(rng), dtype=np.float32)
        for number, (each, own) in enumerate(zip(self._transforms, others, strict=True)):
            choices[str(number)], share = each.draw(own, records)
            shares = np.where(index == number, share, shares)
        return {"index": index, "choices": choices}, shares

    def build(self, image: Any, partner: Any, params: Nodes) -> Any:
        """Apply each mix to the records that drew it; partners' images are unmixed."""
        mixed = image
        for number, each in enumerate(self._transforms):

            def branch(image: Any, own: Nodes, each: MixTransform = each) -> Any:
                return each.build(image, own["partner"], own["params"])

            own = {"params": params["choices"][str(number)], "partner": partner}
            mixed = where(params["index"] == number, mixed, branch, own)
        return mixed


_MixChoice.__name__ = "RandomChoice"  # as users know it


def _check_weights(p: Any, count: int) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
    """Return the weights as given, and as probabilities."""
    if not count:
        raise ConfigError("RandomChoice has no transforms; give at least one")
    if p is None:
        return None, (1.0 / count,) * count
    try:
        weights = tuple(float(each) for each in p)
    except (TypeError, ValueError):
        weights = ()
    total = sum(weights)
    if len(weights) != count or min(weights) < 0 or not 0 < total < math.inf:
        raise ConfigError(f"p is {short(p)}; it must be {count} numbers of 0 or more, not all 0")
    return weights, tuple(weight / total for weight in weights)


def _draw_index(rng: BatchRng, probabilities: tuple[float, ...]) -> npt.NDArray[np.int32]:
    bounds = np.cumsum(probabilities)[:-1]
    return np.searchsorted(bounds, rng.uniform(), side="right").astype(np.int32)
