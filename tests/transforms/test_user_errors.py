"""What a transform of a user's raises is told with its name, and the record where it is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpufeed import Manifest, SequentialSampler, TransformError
from gpufeed import transforms as tf
from tests.support.loaders import digest, make
from tests.support.media import picture

BATCH = 4
MET = 13
"""The record at which they fail."""


class SpoiltError(ValueError):
    pass


class FaultyDraw(tf.GeometricTransform):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        if MET in records.record_key and len(records) == BATCH:
            raise SpoiltError("no number for it")
        return {}

    def place(self, frame: Any, params: Any) -> Any:  # noqa: ARG002
        return frame


class FaultyPlace(FaultyDraw):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        return {"key": records.record_key}

    def place(self, frame: Any, params: Any) -> Any:
        if MET in params["key"] and len(params["key"]) == BATCH:
            raise SpoiltError("no place for it")
        return frame


class FaultyPixels(tf.PixelTransform):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        if MET in records.record_key and len(records) == BATCH:
            raise SpoiltError("no level for it")
        return {}

    def build(self, image: Any, params: Any) -> Any:  # noqa: ARG002
        return image


class FaultyLate(tf.LateTransform):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        if MET in records.record_key and len(records) == BATCH:
            raise SpoiltError("too late for it")
        return {}

    def build(self, image: Any, params: Any, made: Any) -> Any:  # noqa: ARG002
        return image


class FaultyBuild(tf.PixelTransform):
    _works = False

    def build(self, image: Any, params: Any) -> Any:  # noqa: ARG002
        if not self._works:
            raise SpoiltError("no operator for it")
        return image


OUT = [tf.Resize((16, 16)), tf.ToDtype("uint8")]
FAULTY = {
    "draw": ([FaultyDraw(), *OUT], "FaultyDraw", "no number for it"),
    "place": ([FaultyPlace(), *OUT], "FaultyPlace", "no place for it"),
    "pixels": ([OUT[0], FaultyPixels(), OUT[1]], "FaultyPixels", "no level for it"),
    "nested": ([OUT[0], tf.RandomApply([FaultyPixels()]), OUT[1]], "FaultyPixels", "no level"),
    "late": ([*OUT, FaultyLate()], "FaultyLate", "too late for it"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_transforms_error_is_told_with_its_name(own_pictures: Manifest, fault: str) -> None:
    transforms, name, said = FAULTY[fault]
    sampler = SequentialSampler(len(own_pictures))
    with make(own_pictures, batch_size=BATCH, sampler=sampler, transforms=OUT) as loader:
        healthy = [digest(batch) for batch in loader]
    with make(own_pictures, batch_size=BATCH, sampler=sampler, transforms=transforms) as loader:
        found = []
        iterator = iter(loader)
        for step in range(len(loader)):
            if step != MET // BATCH:
                found.append(digest(next(iterator)))
                continue
            for work in (lambda: next(iterator), lambda step=step: loader.batch(step)):
                with pytest.raises(TransformError, match=said) as caught:
                    work()
                assert f"the transform {name} failed in batch {step}: SpoiltError: " in str(
                    caught.value
                )
                assert isinstance(caught.value.__cause__, SpoiltError)
                assert (caught.value.transform, caught.value.step) == (name, step)
            loader.skip()
        assert found == [each for step, each in enumerate(healthy) if step != MET // BATCH]


def test_an_error_while_the_graph_is_built_is_told(own_pictures: Manifest) -> None:
    faulty = FaultyBuild()
    message = "^the transform FaultyBuild failed: SpoiltError: no operator for it"
    with make(own_pictures, batch_size=BATCH, transforms=[OUT[0], faulty, OUT[1]]) as loader:
        for _ in range(2):
            with pytest.raises(TransformError, match=message):
                next(iter(loader))
            with pytest.raises(TransformError, match=message):
                loader.batch(2)
        with make(own_pictures, batch_size=BATCH, transforms=OUT) as other:
            healthy = [digest(batch) for batch in other]
        faulty._works = True
        assert [digest(batch) for batch in loader] == healthy


def test_an_error_of_a_function_is_told_with_its_record(own_pictures: Manifest) -> None:
    with make(
        own_pictures, batch_size=BATCH, transforms=OUT, sampler=SequentialSampler(len(own_pictures))
    ) as loader:
        healthy = [digest(batch) for batch in loader]
    bad = np.asarray(picture(40, 50, seed=MET)).mean()

    def faulty(pixels: np.ndarray) -> np.ndarray:
        if abs(pixels.mean() - bad) < 0.5:
            raise SpoiltError("no such bird")
        return pixels

    chain = [tf.Lambda(faulty, name="mine"), *OUT]
    with make(
        own_pictures,
        batch_size=BATCH,
        transforms=chain,
        sampler=SequentialSampler(len(own_pictures)),
    ) as loader:
        iterator = iter(loader)
        found = [digest(next(iterator)) for _ in range(MET // BATCH)]
        with pytest.raises(TransformError) as caught:
            next(iterator)
        path = own_pictures.root / f"{MET:05}.jpg"
        assert str(caught.value) == (
            f"the transform Lambda(mine) failed for record {MET} ({path}) in batch {MET // BATCH}: "
            "SpoiltError: no such bird"
        )
        assert caught.value.record_key == MET
        assert isinstance(caught.value.__cause__, SpoiltError)
        loader.skip()
        found += [digest(batch) for batch in iterator]
    assert found == [each for step, each in enumerate(healthy) if step != MET // BATCH]
