"""Name the transform that an error came from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpufeed.errors import GpufeedError, TransformError

if TYPE_CHECKING:
    from gpufeed.transforms.base import Transform

__all__ = ["errors_from"]


@contextlib.contextmanager
def errors_from(transform: Transform) -> Iterator[None]:
    """Re-raise errors of a transform's own code as `TransformError`.

    gpufeed's errors pass through: they are complete, or name an inner transform already. So does
    `MemoryError`, which is not the transform's fault.
    """
    try:
        yield
    except (GpufeedError, MemoryError):
        raise
    except Exception as error:
        # DALI's messages end in a stack trace of its own source.
        text = " ".join(str(error).partition("Stacktrace")[0].split())
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise TransformError(_name(transform), reason) from error


def _name(transform: Transform) -> str:
    kind = type(transform).__name__
    name = getattr(transform, "name", None) if kind == "Lambda" else None
    return f"{kind}({name})" if name else kind
