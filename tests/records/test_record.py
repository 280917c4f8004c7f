"""A manifest is indexed and iterated as a list is, and a record shows its image."""

from __future__ import annotations

import io
import itertools
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import DecodeError, Loader, Manifest, ManifestError, Record
from gpufeed import transforms as tf
from tests.support.media import TURNS, jpeg, picture


def table(images: list[bytes], **columns: object) -> Manifest:
    return gpufeed.read_table(
        pl.DataFrame({"label": ["x"] * len(images), **columns}),
        source=gpufeed.MemorySource(images),
        on_bad_image="drop",
    )


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_it_is_indexed_as_a_list_is(pictures: Manifest) -> None:
    paths = pictures.frame["path"].to_list()
    assert [record.row["path"] for record in pictures] == paths
    for key in (0, 7, -1, -50, np.int32(3)):
        assert pictures[key].row["path"] == paths[key]
        assert pictures[key] == pictures[int(key) % 50]
        assert pictures[key].row == pictures.frame.row(int(key), named=True)
    for part in (slice(5), slice(-5, None), slice(None, None, -7), slice(3, 100)):
        assert pictures[part].frame["path"].to_list() == paths[part]
        assert pictures[part].classes == pictures.classes
    for key in (50, -51):
        with pytest.raises(IndexError, match=f"no record {key}; there are records 0 to 49"):
            pictures[key]
    for bad in ([1, 2], "path", 1.0, None):
        with pytest.raises(TypeError, match=r"indexed by integers and slices.*take"):
            pictures[bad]
    with pytest.raises(ManifestError, match="at least one image"):
        pictures[3:3]


def test_iterating_reads_nothing(pictures: Manifest, opened: list[str]) -> None:
    first = list(itertools.islice(pictures, 3))
    assert [record.key for record in first] == [0, 1, 2]
    assert not opened
    first[1].image()
    assert [Path(path).name for path in opened] == ["00001.jpg"]


def test_the_image_is_what_a_run_decodes(pictures: Manifest) -> None:
    for record in pictures[:8]:
        image, row = record.image(), record.row
        assert (image.mode, image.size) == ("RGB", (row["width"], row["height"]))
        one = pictures.take([record.key])
        size = row["height"], row["width"]
        transforms = [tf.CenterCrop(size), tf.ToDtype("uint8", layout="NHWC")]
        with Loader(one, transforms=transforms, batch_size=1, device="cpu") as loader:
            np.testing.assert_array_equal(np.asarray(image), loader.batch(0)["image"][0])
        with Image.open(pictures.root / row["path"]) as other:
            apart = np.abs(np.asarray(image).astype(int) - np.asarray(other))
        assert apart.mean() < 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_stands_upright(orientation: int) -> None:
    drawn = picture(24, 32, 0)
    exif = Image.Exif()
    exif[0x0112] = orientation
    record = table([jpeg(drawn, exif=exif.tobytes())])[0]
    with Image.open(io.BytesIO(jpeg(drawn))) as flat:
        wanted = flat.transpose(TURNS[orientation]) if orientation > 1 else flat.copy()
    apart = np.abs(np.asarray(record.image()).astype(int) - np.asarray(wanted))
    assert apart.mean() < 1


def test_16_bits_follow_the_manifest() -> None:
    deep = png(np.arange(0, 65_536, 16, dtype=np.uint16).reshape(64, 64))
    frame, source = pl.DataFrame({"label": ["x"]}), gpufeed.MemorySource([deep])
    made = gpufeed.read_table(frame, source=source, reduce_depth=True)
    wanted = (np.arange(0, 65_536, 16) + 128) // 257
    np.testing.assert_array_equal(
        np.asarray(made[0].image()), np.repeat(wanted, 3).reshape(64, 64, 3)
    )
    refused = Manifest(made.frame, source, made.classes)
    with pytest.raises(DecodeError, match=r"record 0.*16 bits"):
        refused[0].image()


def test_bad_images_are_named(own_pictures: Manifest) -> None:
    (own_pictures.root / "00001.jpg").unlink()
    (own_pictures.root / "00002.jpg").write_bytes(jpeg(picture(30, 30, 0)))
    whole = (own_pictures.root / "00003.jpg").read_bytes()
    (own_pictures.root / "00003.jpg").write_bytes(whole[:200])
    (own_pictures.root / "00004.jpg").write_bytes(b"no image")
    for key, said in (
        (1, r"record 1 \(.*00001.jpg\): cannot be read: No such file"),
        (2, r"record 2 .*the image is 30 x 30 .*, but the manifest gives 50 x 40"),
        (3, r"record 3 \(.*00003.jpg\)"),
        (4, r"record 4 .*not a readable image"),
    ):
        with pytest.raises(DecodeError, match=said):
            own_pictures[key].image()
    with pytest.raises(DecodeError, match="2,000 pixels, more than max_pixels"):
        own_pictures[0].image(max_pixels=1999)


def test_what_a_notebook_shows(pictures: Manifest) -> None:
    record = pictures[4]
    row = record.row
    assert repr(record) == (
        f"<Record 4: '00004.jpg', {row['width']} x {row['height']}, label 1 ('class 1')>"
    )
    with Image.open(io.BytesIO(record._repr_png_())) as shown:
        assert shown.size == (row["width"], row["height"])
    large = table([jpeg(picture(400, 1000, 0))])[0]
    with Image.open(io.BytesIO(large._repr_png_())) as shown:
        assert shown.size == (320, 128)


def test_a_record_goes_to_another_process(pictures: Manifest) -> None:
    record = pickle.loads(pickle.dumps(pictures[3]))  # noqa: S301
    assert isinstance(record, Record)
    assert record.row == pictures[3].row
    assert record.image() == pictures[3].image()
