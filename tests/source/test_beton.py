"""FFCV's .beton files: `ffcv-1.0.2.beton.xz` was written by FFCV 1.0.2.

By `DatasetWriter(file, fields, page_size=1 << 21, num_workers=1)`, with the fields
`score=FloatField()`, `image=RGBImageField("proportion", jpeg_quality=90)`, `label=IntField()`,
`png=BytesField()`, `meta=JSONField()` and `vector=NDArrayField(np.dtype("float32"), (3,))`; of
`pixels(n)` as images, and as PNG files.
"""

from __future__ import annotations

import lzma
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import Manifest, ManifestError, MemorySource, read_beton
from tests.support.loaders import digest, make

CONTENT = lzma.decompress((Path(__file__).parent / "ffcv-1.0.2.beton.xz").read_bytes())
COUNT = 9
RAW = [True, True, True, True, False, True, False, True, True]
HEADER, FIELD, ROW = 24, 1041, 72
ROWS = HEADER + 6 * FIELD
(TABLE,) = struct.unpack_from("<Q", CONTENT, 16)


def pixels(number: int) -> Any:
    y, x = np.mgrid[0 : 12 + number, 0 : 20 - number]
    return np.stack([(3 * x + number) % 256, 5 * y % 256, (x + y) % 256], -1).astype(np.uint8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "x.beton").write_bytes(CONTENT)
    return tmp_path / "x.beton"


def changed(file: Path, at: int, content: bytes) -> Path:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)
    return file


def test_images_are_what_ffcv_was_given(file: Path) -> None:
    manifest = read_beton(file)
    for number, record in enumerate(manifest):
        image = np.asarray(record.image()).astype(int)
        if RAW[number]:
            assert np.array_equal(image, pixels(number))
        else:
            assert np.abs(image - pixels(number)).mean() < 4
    for number, record in enumerate(read_beton(file, image="png", progress=False)):
        assert np.array_equal(np.asarray(record.image()), pixels(number))


def test_fields_of_one_number_are_columns(file: Path) -> None:
    assert read_beton(file).frame.to_dict(as_series=False) == {
        "path": [f"x.beton/{number}" for number in range(COUNT)],
        "label": [number % 3 for number in range(COUNT)],
        "width": [20 - number for number in range(COUNT)],
        "height": [12 + number for number in range(COUNT)],
        "score": [number / 2 for number in range(COUNT)],
    }
    assert read_beton(file, classes=["x", "y", "z"]).classes == ("x", "y", "z")
    assert read_beton(file, label=None).classes == ()


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_batches_are_those_of_memory(file: Path, opener: str) -> None:
    manifest = read_beton(file)
    contents = manifest.source.read(np.arange(COUNT))
    assert [isinstance(each, np.ndarray) for each in contents] == RAW
    plain = Manifest(manifest.frame, MemorySource(contents), manifest.classes)
    again = pickle.loads(pickle.dumps(manifest))  # noqa: S301
    some = [4, 4, 0, 8, 6]
    pairs = [
        (manifest, plain),
        (again, plain),
        (manifest.take(some), plain.take(some)),
        (gpufeed.concat([plain, manifest]), gpufeed.concat([plain, plain])),
    ]
    for mine, other in pairs:
        with (
            make(mine, batch_size=3, opener=opener) as loader,
            make(other, batch_size=3, opener=opener) as wanted,
        ):
            assert [digest(each) for each in loader] == [digest(each) for each in wanted]


@pytest.mark.parametrize("length", [0, 23, HEADER + FIELD, ROWS + 9 * ROW - 1, TABLE - 1])
def test_a_truncated_file_is_refused(file: Path, length: int) -> None:
    file.write_bytes(CONTENT[:length])
    with pytest.raises(ManifestError, match=r"x\.beton is truncated, or is no \.beton file"):
        read_beton(file)


def test_what_cannot_be_read_is_refused(file: Path) -> None:
    with pytest.raises(ManifestError, match=r"cannot read .*/absent: No such file"):
        read_beton(file.with_name("absent"))
    with pytest.raises(ManifestError, match=r"has no field of images 'photo'; its fields are \["):
        read_beton(file, image="photo")
    with pytest.raises(ManifestError, match="has no field of images 'score'"):
        read_beton(file, image="score")
    with pytest.raises(ManifestError, match="there is no column 'species'"):
        read_beton(file, label="species")
    with pytest.raises(ManifestError, match="has no samples"):
        read_beton(changed(file, 8, bytes(8)))
    with pytest.raises(ManifestError, match="is truncated, or is no"):
        read_beton(changed(file, 8, b"\xff" * 8))
    with pytest.raises(ManifestError, match=r"has the field 'label' of a type of its own"):
        read_beton(changed(file, HEADER + 2 * FIELD, b"\xff"))
    with pytest.raises(ManifestError, match=r"is no \.beton file of FFCV 1: its version is 1"):
        read_beton(changed(file, 0, b"\1"))


def test_a_bad_pointer_costs_no_others(file: Path) -> None:
    """Of pixels it leads beyond the end, or before the start; of a JPEG, to no length."""
    at = 8 + 5  # after the score, in the image's own part of a row
    for number, start in ((1, 1 << 40), (4, 0), (7, 1 << 63)):
        changed(file, ROWS + number * ROW + at, struct.pack("<Q", start))
    manifest = read_beton(file, on_bad_image="drop")
    with make(manifest, batch_size=3, on_error="blank", max_failures=3) as loader:
        seen = np.concatenate([batch["record_key"] for batch in loader])
        said = {failure.record_key: failure.reason for failure in loader.quarantine}
    assert sorted(seen) == list(range(COUNT))
    assert sorted(said) == [1, 4, 7]
    assert "the file ends at byte 1,099,511,627,776" in said[1]
    assert "the image is empty" in said[4]


def test_a_file_that_changes_is_told(file: Path) -> None:
    manifest = read_beton(file)
    changed(file, 0, b"\2").touch()
    with make(manifest) as loader, pytest.raises(gpufeed.DecodeError, match="the file has changed"):
        list(loader)
