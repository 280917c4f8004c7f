"""Identities of samplers and transforms: canonical JSON, in which long arrays are digests."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError

__all__ = ["LISTED", "Digest", "encode", "is_digest", "listed"]

LISTED = 1000
"""The most values of an array that an identity lists."""


def encode(identity: object) -> str:
    """Return JSON values as canonical text: equal values give equal text.

    Raises:
        ConfigError: there are other values, such as arrays.
    """
    try:
        return json.dumps(identity, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"an identity is {sanitize(repr(identity))}, which is not made of JSON values "
            f"({error}); convert arrays with tolist()"
        ) from None


class Digest(dict[str, object]):
    """A long array in an identity: its number of values, and the SHA-256 of dtype and values."""

    def __repr__(self) -> str:
        return f"<{self['count']:,} values, SHA-256 {str(self['sha256'])[:8]}...>"


def listed(array: npt.NDArray[Any]) -> list[Any] | Digest:
    """Return a one-dimensional array as JSON values: as a list, or as a digest if it is long."""
    if len(array) <= LISTED:
        values: list[Any] = array.tolist()
        return values
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(little.dtype.str.encode())
    digest.update(little.data)
    return Digest(count=len(little), sha256=digest.hexdigest())


def is_digest(value: object) -> bool:
    """Return whether a value, which may have been read from JSON, is a digest."""
    return isinstance(value, dict) and value.keys() == {"count", "sha256"}
