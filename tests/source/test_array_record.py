"""ArrayRecord: the labels of Examples, groups of records, and damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import gpufeed
from gpufeed import ArrayRecordSource, ConfigError, ManifestError, read_array_record, read_table
from gpufeed.source.example import read_example
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture

COUNT = 12
CONTENTS = [jpeg(picture(40 + 3 * key, 70 - 2 * key, seed=key)) for key in range(COUNT)]

Feature = Sequence[bytes] | Sequence[float] | Sequence[int]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values: Feature) -> bytes:
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))  # type: ignore[arg-type]
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(map(varint, values))))  # type: ignore[arg-type]


def example(features: Mapping[str, Feature]) -> bytes:
    """Serialize a `tf.train.Example` by protobuf's encoding, as TensorFlow does."""
    entries = [
        field(1, field(1, name.encode()) + field(2, feature(values)))
        for name, values in features.items()
    ]
    return field(1, b"".join(entries))


def write(file: Path, records: Sequence[bytes], group_size: int = 1) -> None:
    writer = ArrayRecordWriter(str(file), f"group_size:{group_size}")
    for record in records:
        writer.write(record)
    writer.close()


def bird(key: int) -> dict[str, Feature]:
    return {
        "image": [CONTENTS[key]],
        "label": [key % 3],
        "file_name": [f"{key}.jpg".encode()],
        "age": [key / 2],
        "number": [-(2**40) - key],
        "boxes": [0.1, 0.2, 0.3, 0.4],
        "mask": [b"\x89PNG"],
        **({"seen": [b"yes"]} if key % 2 else {"seen": []}),
    }


@pytest.fixture
def shards(tmp_path: Path) -> str:
    """Three files of Examples, of which one is without records."""
    for shard, keys in enumerate((range(7), range(0), range(7, COUNT))):
        name = f"birds-train.array_record-{shard:05}-of-00003"
        write(tmp_path / name, [example(bird(key)) for key in keys])
    return f"{tmp_path}/birds-train.array_record-*"


def test_features_of_one_value_are_columns(shards: str) -> None:
    manifest = read_array_record(shards, progress=False)
    assert manifest.classes == ("0", "1", "2")
    prefix = "birds-train.array_record-0000"
    assert manifest.frame.to_dict(as_series=False) == {
        "path": [f"{prefix}0-of-00003/{k}" for k in range(7)]
        + [f"{prefix}2-of-00003/{k}" for k in range(5)],
        "label": [key % 3 for key in range(COUNT)],
        "width": [70 - 2 * key for key in range(COUNT)],
        "height": [40 + 3 * key for key in range(COUNT)],
        "age": [key / 2 for key in range(COUNT)],
        "file_name": [f"{key}.jpg" for key in range(COUNT)],
        "number": [-(2**40) - key for key in range(COUNT)],
        "seen": ["yes" if key % 2 else None for key in range(COUNT)],
    }


def test_batches_are_those_of_memory(shards: str, tmp_path: Path) -> None:
    manifest = read_array_record(shards, classes=["x", "y", "z"], progress=False)
    plain = gpufeed.Manifest(manifest.frame, gpufeed.MemorySource(CONTENTS), manifest.classes)
    with make(manifest, batch_size=4) as loader, make(plain, batch_size=4) as wanted:
        assert [digest(batch) for batch in loader] == [digest(batch) for batch in wanted]
    manifest.frame.write_parquet(tmp_path / "list.parquet")
    source = ArrayRecordSource(shards, "image")
    again = read_table(tmp_path / "list.parquet", source=source, classes=manifest.classes)
    assert again.fingerprint() == manifest.fingerprint()
    named = read_array_record(shards, label="file_name", progress=False)
    assert named.classes == tuple(sorted(f"{key}.jpg" for key in range(COUNT)))
    assert read_array_record(shards, label=None, progress=False).classes == ()


@pytest.mark.parametrize("group_size", [1, 5, 100])
def test_a_group_may_have_any_size(group_size: int, tmp_path: Path) -> None:
    write(tmp_path / "data", CONTENTS, group_size)
    source = ArrayRecordSource(tmp_path / "data")
    order = np.random.default_rng(0).permutation(COUNT)
    assert source.read(order) == [CONTENTS[key] for key in order]


def test_files_keep_the_order_of_a_list(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / name, [name.encode()])
    files = [tmp_path / "c", str(tmp_path / "a"), f"{tmp_path}/[b]"]
    assert ArrayRecordSource(files).read(np.arange(3)) == [b"c", b"a", b"b"]
    write(tmp_path / "[b]", [b"a pattern may be a name"])
    assert ArrayRecordSource(files[2]).read(np.arange(1)) == [b"a pattern may be a name"]


def test_a_damaged_record_costs_no_others(tmp_path: Path) -> None:
    noise = [np.random.default_rng(key).bytes(3000) for key in range(40)]
    write(tmp_path / "data", noise)
    content = bytearray((tmp_path / "data").read_bytes())
    at = content.index(noise[17])
    content[at + 100] ^= 1
    (tmp_path / "data").write_bytes(content)
    read = ArrayRecordSource(tmp_path / "data").read(np.arange(40))
    assert isinstance(read[17], OSError)
    assert "Corrupted" in str(read[17])
    assert read[:17] + read[18:] == noise[:17] + noise[18:]


def test_an_example_without_an_image_is_a_bad_image(tmp_path: Path) -> None:
    records = [example(bird(key)) for key in range(COUNT)]
    records[3] = example({"label": [0], "image": [b"", b""]})
    records[5] = b"no example"
    records[6] = example({**bird(6), "image": [b"GIF87a"], "label": [9]})
    write(tmp_path / "data", records)
    said = (
        r"3 of 12 images are bad: data/3: the Example has no image in the feature 'image'; it has "
        r"\['image', 'label'\]; data/5: not a tf.train.Example: .*; data/6: not a JPEG"
    )
    with pytest.raises(ManifestError, match=said):
        read_array_record(tmp_path / "data", progress=False)
    kept = read_array_record(tmp_path / "data", on_bad_image="drop", progress=False)
    good = [key for key in range(COUNT) if key not in (3, 5, 6)]
    assert kept.frame["file_name"].to_list() == [f"{key}.jpg" for key in good]
    assert kept.repairs == {"images_dropped": 3}
    assert [kept.source.read(np.array([k]))[0] for k in range(9)] == [CONTENTS[k] for k in good]


def test_what_is_asked_for_must_be_there(shards: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"there is no column 'species'; the columns are \["):
        read_array_record(shards, label="species", progress=False)
    with pytest.raises(ManifestError, match=r"12 of 12 images are bad: .* the feature 'photo'"):
        read_array_record(shards, image="photo", progress=False)
    with pytest.raises(ManifestError, match=r"no file matches .*/absent-[*]"):
        ArrayRecordSource(tmp_path / "absent-*")
    with pytest.raises(ManifestError, match="there are no files: the list is empty"):
        ArrayRecordSource([])
    with pytest.raises(ConfigError, match="3 is not a path"):
        ArrayRecordSource([3])  # type: ignore[list-item]
    write(tmp_path / "empty", [])
    with pytest.raises(ManifestError, match="has no records"):
        ArrayRecordSource(tmp_path / "empty")
    write(tmp_path / "mixed", [example({**bird(0), "age": [b"old"]}), example(bird(1))])
    with pytest.raises(ManifestError, match="the feature 'age' is a number in some records and"):
        read_array_record(tmp_path / "mixed", progress=False)


def test_features_are_read_as_they_were_written() -> None:
    features: dict[str, Feature] = {
        "b": [b"", b"\xff" * 300],
        "f": [1.5, -0.25],
        "i": [0, -1, 2**63 - 1, -(2**63), 300],
        "none": [],
        "ö": [1],
    }
    assert read_example(example(features)) == features
    with pytest.raises(ValueError, match=r"^not a tf\.train\.Example: "):
        read_example(example(features)[:-1])


def test_columns_come_with_batches(shards: str) -> None:
    manifest = read_array_record(shards, progress=False).filter(pl.col("age") > 2)
    with make(manifest, batch_size=4, columns=["age", "file_name"]) as loader:
        batch = loader.batch(0)
    keys = [int(name.removesuffix(".jpg")) for name in batch["file_name"]]
    assert batch["age"].tolist() == [key / 2 for key in keys]
