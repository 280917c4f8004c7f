"""Identities of samplers and transforms: canonical JSON, with packed arrays.

A packed array is a mapping of its dtype, length, digest and compressed bytes. Compressed bytes may
differ between machines, so identities are compared by `brief`, which omits them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError

__all__ = ["brief", "encode", "is_packed", "pack", "unpack"]

_PACKED = {"dtype", "length", "sha256", "zlib"}


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


def pack(array: npt.NDArray[Any]) -> dict[str, object]:
    """Return a one-dimensional array as a mapping of JSON values."""
    little = array.astype(array.dtype.newbyteorder("<"))
    content = little.tobytes()
    return {
        "dtype": little.dtype.str,
        "length": len(little),
        "sha256": hashlib.sha256(content).hexdigest()[:16],
        "zlib": base64.b64encode(zlib.compress(content, 1)).decode(),
    }


def is_packed(value: object) -> bool:
    """Return whether a value has the form that `pack` returns."""
    return isinstance(value, dict) and value.keys() == _PACKED


def unpack(packed: dict[str, Any]) -> npt.NDArray[Any]:
    """Return the array that `pack` packed.

    Raises:
        ValueError: it is damaged.
    """
    try:
        content = zlib.decompress(base64.b64decode(packed["zlib"]))
        return np.frombuffer(content, np.dtype(packed["dtype"]))
    except (TypeError, zlib.error) as error:
        raise ValueError(f"a packed array is damaged ({error})") from None


def brief(identity: Any) -> Any:
    """Return an identity without the bytes of its packed arrays."""
    if is_packed(identity):
        return {name: value for name, value in identity.items() if name != "zlib"}
    if isinstance(identity, dict):
        return {name: brief(value) for name, value in identity.items()}
    if isinstance(identity, list):
        return [brief(value) for value in identity]
    return identity
