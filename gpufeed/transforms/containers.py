"""Transforms made of others: sometimes, one of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import (
    GeometricTransform,
    MixTransform,
    PixelTransform,
    Records,
    Transform,
    Tree,
)
from gpufeed.transforms.blame import Blaming
from gpufeed.transforms.nested import flat

__all__ = ["Compose", "RandomApply", "RandomChoice"]


class Compose(list[Transform]):
    """A list of transforms, under the name it has in torchvision."""


class _Group:
    """Pixel transforms done one after the other, with numbers of their own."""

    def __init__(self, owner: str, transforms: Any) -> None:
        listed: list[PixelTransform] = []
        if isinstance(transforms, str) or not isinstance(transforms, Transform | Iterable):
            raise ConfigError(f"{owner} has {transforms!r}; it takes a list of pixel transforms")
        for transform in flat([transforms]):
            if isinstance(transform, GeometricTransform):
                raise ConfigError(
                    f"{owner} has {type(transform).__name__}, which moves pixels, and so is drawn "
                    "on the host for all records; give it a probability of its own"
                )
            if not isinstance(transform, PixelTransform):
                raise ConfigError(f"{owner} has {transform!r}; it takes pixel transforms")
            listed.append(transform)
        if not listed:
            raise ConfigError(f"{owner} has no transform")
        self.transforms = listed

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
            with Blaming(transform):
                drawn[str(number)] = transform.draw(parts[number], records)
        return drawn

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        for number, transform in enumerate(self.transforms):
            with Blaming(transform):
                image = transform.build(image, params[str(number)])
        return image


class RandomApply(PixelTransform):
    """Do all of some pixel transforms, or none.

    Args:
        transforms: the transforms, in order.
        p: how often.
    """

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        self._group = _Group("RandomApply", transforms)
        self.p = checks.check_probability("p", p)

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings; those of the transforms too."""
        return {**super().identity, "transforms": self._group.identity}

    @property
    def loses_targets(self) -> bool:
        """Whether one of the transforms does."""
        return self._group.loses_targets

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw `mask`, bool (n,), and `parts`: what each of the transforms draws."""
        choice, inner = rng.parts(2)
        return {"mask": choice.bernoulli(self.p), "parts": self._group.draw(inner, records)}

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Do them, to the chosen records."""
        return _where(params["mask"], image, self._group.build, params["parts"])


class RandomChoice(PixelTransform):
    """Do one of several pixel transforms, drawn for each record; or mix in one of several ways.

    Args:
        transforms: the choices, each a transform or a list of them; or several mixes (MixUp,
            CutMix), which stand after the output format.
        p: how often each, relative to the others; all alike where None.
    """

    def __new__(cls, transforms: Sequence[Any] = (), p: Sequence[float] | None = None) -> Any:
        """Make one, or, of mixes, a mix; without arguments for `pickle` and `copy`."""
        if (
            isinstance(transforms, Sequence)
            and transforms
            and all(isinstance(each, MixTransform) for each in transforms)
        ):
            return _MixChoice(transforms, p)
        return super().__new__(cls)

    def __init__(self, transforms: Sequence[Any], p: Sequence[float] | None = None) -> None:
        if not isinstance(transforms, Sequence):
            raise ConfigError(f"transforms is {transforms!r}; it must be a list of transforms")
        self._groups = [_Group("RandomChoice", each) for each in transforms]
        self.p, self._shares = _check_weights(p, len(self._groups))

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings; those of the transforms too."""
        return {**super().identity, "transforms": [group.identity for group in self._groups]}

    @property
    def loses_targets(self) -> bool:
        """Whether one of the choices does."""
        return any(group.loses_targets for group in self._groups)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw `index`, int32 (n,), and `choices`: what each of them draws."""
        first, *others = rng.parts(1 + len(self._groups))
        choices = {
            str(number): group.draw(others[number], records)
            for number, group in enumerate(self._groups)
        }
        return {"index": _choose(first, self._shares), "choices": choices}

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Do each choice to the records that drew it."""
        for number, group in enumerate(self._groups):
            chosen = params["index"] == number
            image = _where(chosen, image, group.build, params["choices"][str(number)])
        return image


class _MixChoice(MixTransform):
    """One of several mixes, drawn for each record."""

    def __init__(self, transforms: Sequence[MixTransform], p: Sequence[float] | None) -> None:
        self._choices = list(transforms)
        self.p, self._shares = _check_weights(p, len(self._choices))
        groups = {each.group for each in self._choices}
        if len(groups) > 1:
            raise ConfigError(f"RandomChoice has mixes of groups of {sorted(groups)}; give one")
        self.group = groups.pop()

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings, as they are given."""
        listed = [each.identity for each in self._choices]
        return {"kind": "RandomChoice", "p": self.p and list(self.p), "transforms": listed}

    def draw(self, rng: BatchRng, records: Records) -> tuple[Tree, npt.NDArray[np.float32]]:
        """Draw `index`, int32 (n,), and `choices`: what each of them draws."""
        first, *others = rng.parts(1 + len(self._choices))
        index = _choose(first, self._shares)
        choices: dict[str, Tree] = {}
        shares = np.ones(len(rng), dtype=np.float32)
        for number, (each, own) in enumerate(zip(self._choices, others, strict=True)):
            choices[str(number)], share = each.draw(own, records)
            shares = np.where(index == number, share, shares)
        return {"index": index, "choices": choices}, shares

    def build(self, image: Any, partner: Any, params: dict[str, Any]) -> Any:
        """Mix the records that drew each choice; partners are as they were before."""
        mixed = image
        for number, each in enumerate(self._choices):

            def branch(image: Any, own: dict[str, Any], each: MixTransform = each) -> Any:
                return each.build(image, own["partner"], own["params"])

            own = {"params": params["choices"][str(number)], "partner": partner}
            mixed = _where(params["index"] == number, mixed, branch, own)
        return mixed


def _check_weights(p: Any, count: int) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
    """The weights as given, and so that they add up to 1."""
    if not count:
        raise ConfigError("RandomChoice has no transform")
    if p is None:
        return None, (1.0 / count,) * count
    try:
        weights = tuple(float(each) for each in p)
    except (TypeError, ValueError):
        weights = ()
    total = sum(weights)
    if len(weights) != count or min(weights) < 0 or not 0 < total < math.inf:
        raise ConfigError(f"p is {p!r}; it must be {count} numbers of 0 or more, not all 0")
    return weights, tuple(weight / total for weight in weights)


def _choose(rng: BatchRng, p: tuple[float, ...]) -> npt.NDArray[np.int32]:
    bounds = np.cumsum(p)[:-1]
    return np.searchsorted(bounds, rng.uniform(), side="right").astype(np.int32)


def _where(
    mask: Any, image: Any, branch: Callable[[Any, dict[str, Any]], Any], params: dict[str, Any]
) -> Any:
    """As `where`, for nodes in dictionaries in dictionaries."""
    from gpufeed.transforms.select import where

    nodes: dict[str, Any] = {}

    def note(node: Any) -> str:
        nodes[str(len(nodes))] = node
        return str(len(nodes) - 1)

    places = _map_nodes(note, params)
    return where(
        mask, image, lambda taken, own: branch(taken, _map_nodes(own.__getitem__, places)), nodes
    )


def _map_nodes(function: Callable[[Any], Any], params: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _map_nodes(function, value) if isinstance(value, dict) else function(value)
        for name, value in params.items()
    }
