"""Says which transform an error came from."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from gpufeed.errors import GpufeedError, TransformError

if TYPE_CHECKING:
    from gpufeed.transforms.base import Transform

__all__ = ["Blaming"]


class Blaming:
    """Around a call of a transform's own: what that raises comes out as a `TransformError`.

    But for gpufeed's errors, which say all themselves, as those do that an inner transform was
    blamed for; and for memory that is refused, which is nobody's fault.
    """

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, GpufeedError | MemoryError):
            # Of DALI's text without the places in its own source that follow.
            text = " ".join(str(error).partition("Stacktrace")[0].split())
            said = f"{type(error).__name__}: {text}" if text else type(error).__name__
            raise TransformError(_name(self._transform), said) from error


def _name(transform: Transform) -> str:
    kind = type(transform).__name__
    given = getattr(transform, "name", None) if kind == "Lambda" else None
    return f"{kind}({given})" if given else kind
