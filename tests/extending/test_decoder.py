"""A decoder of your own: Pillow."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageOps

import gpufeed


# [docs]
class PillowDecoder:
    """Decode with Pillow; each thread makes one of its own."""

    def decode(self, content, start, shape):
        try:
            with Image.open(io.BytesIO(content)) as image:
                pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        except OSError:
            return None  # a bad image: on_error decides
        (top, left), (height, width) = start, shape
        return pixels[top : top + height, left : left + width]


# [/docs]


@pytest.fixture(scope="module")
def images() -> list[bytes]:
    drawn, images = np.random.default_rng(0), []
    exif = Image.Exif()
    for orientation in range(1, 9):
        buffer = io.BytesIO()
        exif[0x0112] = orientation
        blocks = drawn.integers(0, 256, (6, 5, 3), np.uint8)
        image = Image.fromarray(blocks).resize((50, 60), Image.Resampling.BICUBIC)
        image.save(buffer, "JPEG", exif=exif, quality=95)
        images.append(buffer.getvalue())
    return images


def feed(images: list[bytes], **options: object) -> gpufeed.Loader:
    table = pl.DataFrame({"label": [0] * len(images)})
    return gpufeed.Loader(
        gpufeed.read_table(table, source=gpufeed.MemorySource(images)),
        transforms=[gpufeed.RandomResizedCrop(24), gpufeed.ToDtype("uint8")],
        batch_size=len(images),
        device="cpu",
        **options,
    )


def test_it_decodes_as_the_built_in_decoder_does(images: list[bytes]) -> None:
    with feed(images) as ours, feed(images, decoder=PillowDecoder) as own:
        difference = ours.batch(0)["image"].astype(int) - own.batch(0)["image"].astype(int)
    assert np.abs(difference).max() <= 3


def test_what_it_refuses_is_a_bad_record(images: list[bytes]) -> None:
    cut = [*images[:-1], images[-1][:-400]]
    with feed(cut, decoder=PillowDecoder, on_error="blank", max_failures=1) as loader:
        assert loader.batch(0)["valid"].sum() == len(images) - 1
        (failure,) = loader.quarantine
    assert failure.record_key == len(images) - 1


def test_the_graph_takes_no_decoder(images: list[bytes]) -> None:
    with pytest.raises(
        gpufeed.ConfigError, match="here the DALI graph decodes the images; pass opener="
    ):
        feed(images, decoder=PillowDecoder, opener="graph")
