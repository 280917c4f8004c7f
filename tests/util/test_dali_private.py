"""What gpufeed takes from DALI's private parts is there and does what it is needed for."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn, types

from gpufeed._util import dali_private


@pytest.fixture
def pipeline() -> Iterator[Pipeline]:
    """One that adds 10 to the odd numbers of 0, 1, 2, 3."""
    numbers = [np.array(number, np.int32) for number in range(4)]
    made = Pipeline(4, 1, None, prefetch_queue_depth=1, exec_dynamic=True)
    with made:
        node = fn.external_source(lambda: numbers, batch=True)
        mask = fn.cast(node % 2, dtype=types.BOOL)
        odd, even = dali_private.split_batch(node, mask)
        made.set_outputs(dali_private.merge_batch(odd + 10, even, mask))
    made.build()
    yield made
    gc.enable()


def run(pipeline: Pipeline) -> list[int]:
    pipeline.schedule_run()
    (output,) = pipeline.share_outputs()
    numbers = [int(np.asarray(number)) for number in output]
    pipeline.release_outputs()
    return numbers


def test_fn_conditional_splits_and_merges_batches(pipeline: Pipeline) -> None:
    assert run(pipeline) == [0, 11, 2, 13]


def test_check_api_type_scope_can_be_replaced(pipeline: Pipeline) -> None:
    gc.collect()
    gc.disable()  # so that the classes in their cycles are still there to be counted
    before = _checkers()
    run(pipeline)
    assert _checkers() == before + 3, "skip_api_check is no longer needed: delete it"
    dali_private.skip_api_check(pipeline)
    run(pipeline)
    assert _checkers() == before + 3


def _checkers() -> int:
    kinds = [each for each in gc.get_objects() if type(each) is type]
    return sum("Pipeline._check_api_type_scope." in kind.__qualname__ for kind in kinds)


def test_pipe_holds_what_runs(pipeline: Pipeline) -> None:
    pipe = weakref.ref(pipeline._pipe)
    dali_private.abandon(pipeline)
    assert pipeline._pipe is None
    with pytest.raises(RuntimeError, match="destroyed"):
        pipeline.schedule_run()
    gc.collect()
    assert pipe() is not None
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(pipe()))
    gc.collect()
    assert pipe() is None


def test_a_pipeline_that_was_shut_down_is_freed_without_a_word(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pipeline)
    dali_private.shut_down(pipeline)
    monkeypatch.setattr(weakref, "ref", None)
    pipeline.__del__()
