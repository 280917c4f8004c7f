"""The private parts of DALI that gpufeed needs, all of them.

DALI may change these in any version; `tests/util/test_dali_private.py` names the one that is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

__all__ = ["abandon", "merge_batch", "skip_api_check", "split_batch"]

_UNCHECKED = contextlib.nullcontext()


def split_batch(node: Any, mask: Any) -> tuple[Any, Any]:
    """Split a batch into the records that `mask` chooses and the others.

    This is what DALI makes of an `if` in a pipeline definition.
    """
    from nvidia.dali import fn

    chosen, others = fn._conditional.split(node, predicate=mask, _if_stmt=True)
    return chosen, others


def merge_batch(chosen: Any, others: Any, mask: Any) -> Any:
    """Undo `split_batch`."""
    from nvidia.dali import fn

    return fn._conditional.merge(chosen, others, predicate=mask)


def skip_api_check(pipeline: Any) -> None:
    """Skip DALI's check that nobody mixes ways to run a pipeline.

    The check creates a class at each call, three a batch, each in a reference cycle (as of 2.4.0,
    and with `enable_api_check(False)` too).
    """
    pipeline._check_api_type_scope = lambda _: _UNCHECKED


def abandon(pipeline: Any) -> None:
    """Keep a pipeline from ever being ended; its memory goes with the process.

    In a forked process, where its threads are missing, DALI would wait for them forever or crash.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pipeline._pipe))
    pipeline._pipe = None
