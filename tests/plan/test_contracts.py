"""What users' own samplers and decoders return is checked, and they are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import ConfigError, Manifest, Sampler, Visits
from tests.support.loaders import make

VISITS: dict[str, tuple[Callable[..., Any], str]] = {
    "negative": (
        lambda epoch, key: Visits(epoch, key - 60, key),
        r"Own\.visits returned the record key -60, but there are the records 0 to 49",
    ),
    "beyond": (
        lambda epoch, key: Visits(epoch, key + 49, key),
        r"Own\.visits returned the record key 50, but there",
    ),
    "fractions": (
        lambda epoch, key: Visits(epoch, key / 2, key),
        r"returned record_key as float64 \(\d+,\); it must return Visits of three int64",
    ),
    "a list too short": (
        lambda epoch, key: Visits(epoch, [1, 2], key),
        r"returned record_key as int64 \(2,\); it must",
    ),
    "a tuple": (lambda epoch, key: (epoch, key, key), r"returned epoch as object \(\); it must"),
    "another epoch": (
        lambda epoch, key: Visits(epoch + 1, key, key),
        r"returned epoch 1 for position 0, which lies in epoch 0 of Own\.epoch_size = 50",
    ),
}


@pytest.mark.parametrize("kind", VISITS)
def test_a_sampler_that_breaks_its_contract_is_named(pictures: Manifest, kind: str) -> None:
    answer, said = VISITS[kind]

    class Own(Sampler):
        def visits(self, positions: Any) -> Any:
            return answer(*np.divmod(positions, self.epoch_size))

        @property
        def identity(self) -> dict[str, object]:
            return {"kind": "Own"}

    loader = make(pictures, sampler=Own(len(pictures)))
    with loader, pytest.raises(ConfigError, match=said):
        loader.batch(0)


def test_an_identity_that_is_not_json_is_shown(pictures: Manifest) -> None:
    class Own(gpufeed.SequentialSampler):
        @property
        def identity(self) -> dict[str, Any]:
            return {"kind": "Own", "order": np.arange(3)}

    said = r"an identity is \{'kind': 'Own', 'order': array.*ndarray.*; convert arrays with tolist"
    with pytest.raises(ConfigError, match=said):
        make(pictures, sampler=Own(len(pictures)))


IMAGES: dict[str, tuple[Callable[[int, int], Any], str]] = {
    "four channels": (lambda h, w: np.zeros((h, w, 4), np.uint8), r"\(\d+, \d+, 4\); it must"),
    "floats": (lambda h, w: np.zeros((h, w, 3), np.float32), r"\(\d+, \d+, 3\); it must"),
    "too large": (lambda h, w: np.zeros((h + 1, w, 3), np.uint8), r"it must return uint8 \(\d+, "),
    "gray": (lambda h, w: np.zeros((h, w), np.uint8), r"\(\d+, \d+\); it must return"),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_a_decoder_that_breaks_its_contract_is_named(pictures: Manifest, kind: str) -> None:
    answer, said = IMAGES[kind]

    class Own:
        def decode(self, content: Any, start: Any, shape: tuple[int, int]) -> Any:  # noqa: ARG002
            return answer(*shape)

    loader = make(pictures, decoder=Own)
    with loader, pytest.raises(ConfigError, match=rf"^Own\.decode returned .*{said}"):
        loader.batch(0)
    with pytest.raises(
        ConfigError, match=r"decoder is <.*>; it must be callable and make a decoder"
    ):
        make(pictures, decoder=Own())


def test_the_same_sampler_serves_any_loader(pictures: Manifest) -> None:
    sampler = gpufeed.IndexSampler(len(pictures), shuffle=True, epoch_size=30)
    with make(pictures, sampler=sampler) as loader:
        assert set(loader.batch(4)["epoch"].tolist()) == {1}
