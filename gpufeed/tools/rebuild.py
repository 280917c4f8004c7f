"""Samplers and transforms made again from their fingerprints in a state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpufeed import transforms
from gpufeed._util.identity import brief, encode, is_packed, unpack
from gpufeed.errors import StateError
from gpufeed.order.balanced import ClassBalancedBatchSampler
from gpufeed.order.mixture import MixtureSampler
from gpufeed.order.uniform import (
    IndexSampler,
    RepeatedAugmentationSampler,
    SequentialSampler,
    SubsetSampler,
)
from gpufeed.order.weighted import WeightedSampler
from gpufeed.transforms import Lambda, Transform, Views

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler

__all__ = ["SAMPLERS", "rebuild_sampler", "rebuild_transforms"]

SAMPLERS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        ClassBalancedBatchSampler,
        IndexSampler,
        MixtureSampler,
        RepeatedAugmentationSampler,
        SequentialSampler,
        SubsetSampler,
        WeightedSampler,
    )
}
"""By their names, as identities have them."""
_BY_HAND = "in the program that has it, loader.batch(step) is that batch"


def rebuild_sampler(fingerprint: str) -> Sampler:
    """Return the sampler that has this fingerprint, without an end.

    Raises:
        StateError: it is no fingerprint of a sampler, or not of one of gpufeed's own.
    """
    identity = _read("sampler", fingerprint)
    if not isinstance(identity, dict) or "kind" not in identity:
        raise StateError(f"the state's sampler is {fingerprint[:60]!r}, which names no kind")
    kind = identity["kind"]
    if kind not in SAMPLERS:
        raise StateError(f"the sampler {kind} is none of gpufeed's own; {_BY_HAND}")
    sampler: Sampler = _call(SAMPLERS[kind], identity)
    _check_same(f"the sampler {kind}", sampler.identity, identity)
    return sampler


def rebuild_transforms(fingerprint: str) -> list[Transform] | Views:
    """Return the transforms that have this fingerprint.

    Raises:
        StateError: it is no fingerprint of transforms, or not only of gpufeed's own.
    """
    identities = _read("transforms", fingerprint)
    if not isinstance(identities, list):
        raise StateError(f"the state's transforms are {fingerprint[:60]!r}, which is no list")
    made = _value(identities)
    for place, (each, identity) in enumerate(zip(made, identities, strict=True)):
        if not isinstance(each, Transform | Views):
            raise StateError(f"the state's transforms[{place}] names no kind")
        _check_same(f"transforms[{place}] ({identity['kind']})", each.identity, identity)
    return made[0] if len(made) == 1 and isinstance(made[0], Views) else made


def _read(what: str, fingerprint: str) -> Any:
    try:
        return json.loads(fingerprint)
    except ValueError as error:
        raise StateError(f"the state's {what} is no JSON: {error}") from None


def _value(told: Any) -> Any:
    """A setting as it was given."""
    if is_packed(told):
        return unpack(told)
    if isinstance(told, list):
        return [_value(each) for each in told]
    if not isinstance(told, dict) or "kind" not in told:
        return told
    kind = told["kind"]
    found = getattr(transforms, kind, None)
    if not (isinstance(found, type) and issubclass(found, Transform | Views)):
        raise StateError(f"the transform {kind} is none of gpufeed's own; {_BY_HAND}")
    if found is Lambda:
        raise StateError(f"no state holds what Lambda({told['name']}) calls; {_BY_HAND}")
    return _call(found, told)


def _call(kind: type[Any], identity: dict[str, Any]) -> Any:
    try:
        return kind(**{name: _value(each) for name, each in identity.items() if name != "kind"})
    except StateError:
        raise
    except (TypeError, ValueError) as error:
        raise StateError(f"{kind.__name__} cannot be made from its fingerprint: {error}") from error


def _check_same(name: str, made: object, told: object) -> None:
    if brief(made) != brief(told):
        raise StateError(
            f"{name} cannot be made from its fingerprint, {encode(brief(told))}: what is made of "
            f"it is {encode(brief(made))}"
        )
