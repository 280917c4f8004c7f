"""Every use that gpufeed makes of DALI's private API.

Any DALI release may change it; `tests/util/test_dali_private.py` names the part that is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

__all__ = ["abandon", "merge_batch", "shut_down", "skip_api_check", "split_batch"]

_UNCHECKED = contextlib.nullcontext()


def split_batch(node: Any, mask: Any) -> tuple[Any, Any]:
    """Split a batch into the records where `mask` is true and the others.

    DALI compiles an `if` in a pipeline definition to this.
    """
    from nvidia.dali import fn

    selected, others = fn._conditional.split(node, predicate=mask, _if_stmt=True)
    return selected, others


def merge_batch(selected: Any, others: Any, mask: Any) -> Any:
    """Undo `split_batch`."""
    from nvidia.dali import fn

    return fn._conditional.merge(selected, others, predicate=mask)


def skip_api_check(pipeline: Any) -> None:
    """Disable DALI's check that a pipeline is always run through the same API.

    Each call of the check creates a class in a reference cycle, three per batch (as of 2.4.0, even
    with `enable_api_check(False)`).
    """
    pipeline._check_api_type_scope = lambda _: _UNCHECKED


def shut_down(pipeline: Any) -> None:
    """End a pipeline for good as the interpreter exits, a little before DALI does.

    DALI ends a pipeline again when it is freed, with modules that the interpreter may have cleared
    by then.
    """
    pipeline._shutdown()
    pipeline._shutdown = _nothing


def _nothing() -> None:
    """Do nothing."""


def abandon(pipeline: Any) -> None:
    """Leak a pipeline, so that it is never destroyed; its memory is freed when the process ends.

    In a forked process the pipeline's threads do not exist: destroying it would hang or crash.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pipeline._pipe))
    pipeline._pipe = None
