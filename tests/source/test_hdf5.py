"""HDF5: datasets of pixels, what is not a dataset of images, and what lies in other files."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import Depth, Hdf5Source, ManifestError, Mask, MemorySource, read_table
from gpufeed.source.base import open_image
from tests.support.loaders import digest, make
from tests.support.media import picture

PIXELS = np.stack([np.asarray(picture(40, 50, seed=key)) for key in range(8)])
LABELS = {"label": np.arange(8) % 2}


@pytest.mark.parametrize("options", [{}, {"chunks": (3, 20, 20, 3), "compression": "gzip"}])
@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_batches_of_pixels_are_those_of_memory(
    tmp_path: Path, options: dict[str, Any], opener: str
) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("train/x", data=PIXELS, **options)
    manifest = read_table(LABELS, source=Hdf5Source(tmp_path / "x.h5", "train/x"))
    assert manifest.frame["path"][3] == "train/x/3"
    plain = read_table(LABELS, source=MemorySource(PIXELS))
    with make(manifest, opener=opener) as loader, make(plain, opener=opener) as wanted:
        assert [digest(batch)[:8] for batch in loader] == [digest(batch)[:8] for batch in wanted]


def test_grey_becomes_three_channels(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = PIXELS[..., 1]
    for key, read in enumerate(Hdf5Source(tmp_path / "x.h5", "x").read(np.arange(8))):
        assert np.array_equal(read, np.stack([PIXELS[key, ..., 1]] * 3, axis=-1))


def test_values_are_those_of_masks_and_maps(tmp_path: Path) -> None:
    depth = np.random.default_rng(0).normal(size=(8, 40, 50)).astype(">f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["rgb"], file["depth"], file["mask"] = PIXELS, depth, depth > 0
    images, maps, masks = (Hdf5Source(tmp_path / "x.h5", name) for name in ("rgb", "depth", "mask"))
    manifest = read_table(LABELS, source=images)
    targets = [Depth("depth", source=maps, scale=2), Mask("mask", source=masks)]
    with make(manifest, transforms=[], targets=targets) as loader:
        batch = loader.batch(0)
    assert batch["depth"].dtype == np.float32
    keys = batch["record_key"]
    assert np.array_equal(batch["depth"], 2 * depth[keys])
    assert np.array_equal(batch["mask"], depth[keys] > 0)
    with pytest.raises(ManifestError, match=r"0: it is an array >f4 \(40, 50\), which only Mask"):
        read_table(LABELS, source=maps)


def test_sizes_of_pixels_are_known_without_reading_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = PIXELS
    monkeypatch.setattr(h5py.Dataset, "__getitem__", None)
    source = Hdf5Source(tmp_path / "x.h5", "x")
    assert read_table(LABELS, source=source).sizes().tolist() == [[40, 50]] * 8
    assert open_image(source, 0).read() == b"P6 50 40 255\n"


def test_a_damaged_image_costs_no_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", data=PIXELS, chunks=(1, 40, 50, 3), fletcher32=True)
        at = dataset.id.get_chunk_info(5).byte_offset
    content = bytearray((tmp_path / "x.h5").read_bytes())
    content[at + 9] ^= 1
    (tmp_path / "x.h5").write_bytes(content)
    manifest = read_table(LABELS, source=Hdf5Source(tmp_path / "x.h5", "x"))
    with make(manifest, on_error="blank", max_failures=1) as loader:
        list(loader)
        (failure,) = loader.quarantine
    assert failure.record_key == 5
    assert failure.reason.startswith("cannot be read: Can't synchronously read data")


WRONG: list[tuple[Any, str]] = [
    (PIXELS.astype(np.float32), r"float32 \(8, 40, 50, 3\)"),
    (PIXELS.transpose(0, 3, 1, 2), r"uint8 \(8, 3, 40, 50\)"),
    (PIXELS[0, 0, 0], r"uint8 \(3,\)"),
    (["a", "b"], r"object \(2,\)"),
    (h5py.Empty("u1"), "uint8 None"),
]


@pytest.mark.parametrize(("data", "said"), WRONG)
def test_other_datasets_are_refused(tmp_path: Path, data: Any, said: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = data
    with pytest.raises(
        ManifestError, match=rf"x\.h5: the dataset 'x' is {said}; it must be uint8 of the shape"
    ):
        Hdf5Source(tmp_path / "x.h5", "x")


def test_a_dataset_that_is_not_there_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["train/x"] = PIXELS
        file["train/y"] = [1, 2]
        file["soft"] = h5py.SoftLink("/nowhere")
        file["none"] = PIXELS[:0]
    with pytest.raises(ManifestError, match=r"'soft' is a link, .*; there are 'none', "):
        Hdf5Source(tmp_path / "x.h5", "soft")
    for name in ("images", "train"):
        said = rf"'{name}' does not exist; there are 'none', 'train/x', 'train/y'$"
        with pytest.raises(ManifestError, match=said):
            Hdf5Source(tmp_path / "x.h5", name)
    with pytest.raises(ManifestError, match=r"'none' is empty: its shape is \(0, 40, 50, 3\)"):
        Hdf5Source(tmp_path / "x.h5", "none")


def test_a_dataset_leads_to_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(PIXELS.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = PIXELS
    layout = h5py.VirtualLayout(PIXELS.shape, np.uint8)
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "x", PIXELS.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "x")
        file["soft"] = h5py.SoftLink("/link")
        file["group"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/")
        file.create_virtual_dataset("virtual", layout)
        outside = [(str(tmp_path / "secret"), 0, PIXELS.size)]
        file.create_dataset("stored", PIXELS.shape, np.uint8, external=outside)
    for name in ("virtual", "stored"):
        with pytest.raises(ManifestError, match=f"'{name}' is stored in other files; copy it into"):
            Hdf5Source(tmp_path / "x.h5", name)
    (tmp_path / "other.h5").unlink()  # nor is it opened, which may block
    os.mkfifo(tmp_path / "other.h5")
    for name in ("link", "/link", "soft", "group/x", "./group//x"):
        with pytest.raises(ManifestError, match=f"'{name}' is a link, or in a group that is one"):
            Hdf5Source(tmp_path / "x.h5", name)


def write_encoded(path: Path, values: list[bytes], file: dict[str, Any], **options: Any) -> None:
    with h5py.File(path, "w", **file) as opened:
        kind = h5py.vlen_dtype(np.uint8)
        images = opened.create_dataset("images", (len(values),), dtype=kind, **options)
        for key, value in enumerate(values):
            images[key] = np.frombuffer(value, np.uint8)


@pytest.mark.parametrize(
    "options",
    [{}, {"chunks": (7,)}, {"maxshape": (None,)}, {"chunks": (7,), "compression": "gzip"}],
)
@pytest.mark.parametrize(
    "file", [{}, {"libver": "latest", "userblock_size": 512}], ids=["earliest", "latest"]
)
def test_values_of_variable_length(
    tmp_path: Path, file: dict[str, Any], options: dict[str, Any]
) -> None:
    drawn = np.random.default_rng(0)
    values = [drawn.bytes(length) for length in (1, 9, 70_000, *drawn.integers(2, 9000, 30))]
    write_encoded(tmp_path / "x.h5", values, file, **options)
    source = Hdf5Source(tmp_path / "x.h5")
    keys = drawn.permutation(len(values))
    assert [bytes(read) for read in source.read(keys)] == [values[key] for key in keys]


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoded") / "x.h5"
    write_encoded(path, [bytes([key]) * (100 + key) for key in range(8)], {})
    return path


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("reference", struct.pack("<I", 0xFFFFFFFF), "the value of 4,294,967,295 bytes is not at"),
        ("reference", struct.pack("<IQ", 100, 1 << 60), "HDF5 refers to byte 1,152,921,504,606,84"),
        ("heap", b"COLG", "there are no values at byte"),
        ("object", struct.pack("<HHIQ", 9, 0, 0, 0), "the value of 100 bytes is not at"),
        ("object", struct.pack("<HHIQ", 9, 0, 0, 1 << 63), "the value of 100 bytes is not at"),
    ],
)
def test_what_a_damaged_file_claims(encoded: Path, place: str, value: bytes, said: str) -> None:
    """HDF5 would take gigabytes, or never return."""
    with h5py.File(encoded) as file:
        reference = file["images"].id.get_offset()
    content = bytearray(encoded.read_bytes())
    heap = content.index(b"GCOL")
    start = {"reference": reference, "heap": heap, "object": heap + 16}[place]
    content[start : start + len(value)] = value
    damaged = encoded.with_name("damaged.h5")
    damaged.write_bytes(content)
    (read,) = Hdf5Source(damaged).read(np.array([0]))
    assert said in str(read)


@given(place=st.integers(0, 8 * 16 - 1), bit=st.integers(0, 7), heap=st.booleans())
def test_a_damaged_value_is_no_longer_than_its_file(
    encoded: Path, place: int, bit: int, heap: bool
) -> None:
    with h5py.File(encoded) as file:
        start = file["images"].id.get_offset()
    content = bytearray(encoded.read_bytes())
    content[place + (content.index(b"GCOL") if heap else start)] ^= 1 << bit
    damaged = encoded.with_name("damaged.h5")
    damaged.write_bytes(content)
    for read in Hdf5Source(damaged).read(np.arange(8)):
        assert isinstance(read, OSError) or len(read) <= len(content)
