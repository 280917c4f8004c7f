"""Rebuilding samplers and transforms from the fingerprints in a state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpufeed import transforms
from gpufeed._util.identity import LISTED, encode, is_digest
from gpufeed.errors import StateError
from gpufeed.order.balanced import ClassBalancedBatchSampler
from gpufeed.order.mixture import MixtureSampler
from gpufeed.order.node_local import NodeLocalSampler
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
        NodeLocalSampler,
        RepeatedAugmentationSampler,
        SequentialSampler,
        SubsetSampler,
        WeightedSampler,
    )
}
"""Samplers by the names in their identities."""
_BY_HAND = "use loader.batch(step) in the program that defines it"


def rebuild_sampler(fingerprint: str) -> Sampler:
    """Return an endless sampler with this fingerprint.

    Raises:
        StateError: it is not the fingerprint of one of gpufeed's samplers.
    """
    identity = _read("sampler", fingerprint)
    if not isinstance(identity, dict) or "kind" not in identity:
        raise StateError(f"the state's sampler is {fingerprint[:60]!r}, which has no 'kind'")
    kind = identity["kind"]
    if kind not in SAMPLERS:
        raise StateError(f"the sampler {kind} is not one of gpufeed's; {_BY_HAND}")
    sampler: Sampler = _call(SAMPLERS[kind], identity)
    _check_same(f"the sampler {kind}", sampler.identity, identity)
    return sampler


def rebuild_transforms(fingerprint: str) -> list[Transform] | Views:
    """Return the transforms with this fingerprint.

    Raises:
        StateError: it is not the fingerprint of a list of gpufeed's transforms.
    """
    identities = _read("transforms", fingerprint)
    if not isinstance(identities, list):
        raise StateError(f"the state's transforms are {fingerprint[:60]!r}; they must be a list")
    rebuilt = _value(identities)
    for place, (each, identity) in enumerate(zip(rebuilt, identities, strict=True)):
        if not isinstance(each, Transform | Views):
            raise StateError(f"the state's transforms[{place}] has no 'kind'")
        _check_same(f"transforms[{place}] ({identity['kind']})", each.identity, identity)
    return rebuilt[0] if len(rebuilt) == 1 and isinstance(rebuilt[0], Views) else rebuilt


def _read(name: str, fingerprint: str) -> Any:
    try:
        return json.loads(fingerprint)
    except ValueError as error:
        raise StateError(f"the state's {name} is not valid JSON: {error}") from None


def _value(encoded: Any) -> Any:
    """Return a setting from its JSON values."""
    if is_digest(encoded):
        raise StateError(
            f"the state has {encoded['count']:,} values of its sampler as a digest only, since "
            f"they are more than {LISTED:,}; {_BY_HAND}"
        )
    if isinstance(encoded, list):
        return [_value(each) for each in encoded]
    if not isinstance(encoded, dict) or "kind" not in encoded:
        return encoded
    kind = encoded["kind"]
    found = getattr(transforms, kind, None)
    if not (isinstance(found, type) and issubclass(found, Transform | Views)):
        raise StateError(f"the transform {kind} is not one of gpufeed's; {_BY_HAND}")
    if found is Lambda:
        raise StateError(
            f"states do not contain the function of Lambda({encoded['name']}); {_BY_HAND}"
        )
    return _call(found, encoded)


def _call(kind: type[Any], identity: dict[str, Any]) -> Any:
    try:
        return kind(**{name: _value(each) for name, each in identity.items() if name != "kind"})
    except StateError:
        raise
    except (TypeError, ValueError) as error:
        raise StateError(
            f"{kind.__name__} cannot be rebuilt from its fingerprint: {error}"
        ) from error


def _check_same(name: str, rebuilt: object, saved: object) -> None:
    if rebuilt != saved:
        raise StateError(
            f"{name} cannot be rebuilt from its fingerprint: {encode(saved)} became "
            f"{encode(rebuilt)}"
        )
