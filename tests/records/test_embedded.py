"""Images inside tables: what is read one by one is what pyarrow reads whole."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from gpufeed.errors import ManifestError
from gpufeed.records.embedded import parquet as parquet_module
from gpufeed.records.embedded.images import take_images
from gpufeed.source import chunks as chunks_module
from gpufeed.source.ranges import RangeSource


def contents(count: int = 60) -> list[bytes | None]:
    """Values like images, which do not compress, and others: short, long, equal, repetitive."""
    draw = np.random.default_rng(0)
    kinds: list[Callable[[int], bytes | None]] = [
        lambda number: b"header" * 30 + draw.bytes(3000 + number),
        lambda number: draw.bytes(70_000 + number),
        lambda number: bytes([number]) * 40_000,
        lambda number: draw.bytes(number + 1),
        lambda _: b"the same",
        lambda _: None,
    ]
    return [kinds[number % len(kinds)](number) for number in range(count)]


def table(values: list[bytes | None], kind: pa.DataType | None = None) -> pa.Table:
    images = [None if value is None else {"bytes": value, "path": "a.jpg"} for value in values]
    kind = kind or pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.array(images if pa.types.is_struct(kind) else values, kind)
    return pa.table({"label": np.arange(len(values)) % 3, "image": column})


def images_of(file: Any) -> RangeSource:
    _, source = take_images(file, "image", "path", False)
    assert source is not None
    return source


def check_images(source: RangeSource, expected: list[bytes | None]) -> None:
    """Any of them, in any order, and after pickling."""
    keys = np.random.default_rng(0).permutation(len(expected))
    for each in (source, pickle.loads(pickle.dumps(source))):  # noqa: S301
        for key, image in zip(keys.tolist(), each.read(keys), strict=True):
            if expected[key] is None:
                assert str(image) == "the image is null"
            else:
                assert not isinstance(image, OSError)
                assert bytes(image) == expected[key]


WRITERS: list[dict[str, Any]] = [
    {"compression": compression, "use_dictionary": dictionary, **more}
    for compression in ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
    for dictionary in (False, True)
    for more in ({}, {"data_page_version": "2.0", "data_page_size": 100_000, "row_group_size": 25})
    if dictionary == bool(more) or compression in ("none", "snappy")
]


@pytest.mark.parametrize("options", WRITERS, ids=str)
def test_parquet_of_pyarrow(options: dict[str, Any], tmp_path: Path) -> None:
    values = contents()
    parquet.write_table(table(values), tmp_path / "a.parquet", **options)
    check_images(images_of(tmp_path / "a.parquet"), values)


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "gzip", "zstd", "lz4"])
def test_parquet_of_polars(compression: Any, tmp_path: Path) -> None:
    values = contents()
    frame = pl.DataFrame({"image": values, "label": range(len(values))})
    frame.write_parquet(tmp_path / "a.parquet", compression=compression, row_group_size=25)
    check_images(images_of(tmp_path / "a.parquet"), values)


def test_snappy_is_read_by_the_block(tmp_path: Path) -> None:
    """Not by the page, of which pyarrow's writer makes one for each row group."""
    draw = np.random.default_rng(0)
    repeated = [b"ten bytes!" + draw.bytes(290) for _ in range(20)]  # copies of each kind
    values = [b"".join([b"header" * 30, *repeated, draw.bytes(70_000)]) for _ in range(30)]
    parquet.write_table(table(values), tmp_path / "a.parquet", compression="snappy")
    chunks = images_of(tmp_path / "a.parquet").storage.chunks["a.parquet"]
    assert np.diff(chunks.begins).max() == 1 << 16
    assert len(chunks.sizes) > 30


def test_pages_that_many_ask_for_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [np.random.default_rng(number).bytes(2000) for number in range(40)]
    parquet.write_table(
        table(values), tmp_path / "a.parquet", compression="zstd", row_group_size=10
    )
    monkeypatch.setattr(chunks_module, "SHARED_BYTES", 5000)
    monkeypatch.setattr(chunks_module, "_KEPT_BYTES", 30_000)
    monkeypatch.setattr(parquet_module, "_MAX_CHUNK", 15_000)
    with pytest.warns(
        UserWarning, match="1 of 1 files, .*compressed in pages .* rewrite it: python"
    ):
        source = images_of(tmp_path / "a.parquet")
    read: list[int] = []
    plain = source.storage.storage.read

    def counted(ranges: Any) -> Any:
        read.extend(each.start for each in ranges)
        return plain(ranges)

    monkeypatch.setattr(source.storage.storage, "read", counted)
    for key in range(40):
        assert bytes(source.read(np.array([key]))[0]) == values[key]
    assert len(read) == 4
    kept = [chunk.content for chunk in source.storage._kept._chunks.values()]
    assert 0 < sum(map(len, filter(None, kept))) <= 30_000
    check_images(source, values)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), None], ids=str)
@pytest.mark.parametrize("form", ["file", "stream"])
def test_arrow_files(kind: pa.DataType | None, form: str, tmp_path: Path) -> None:
    values = contents()
    given = table(values, kind)
    writer = {"file": ipc.new_file, "stream": ipc.new_stream}[form]
    with writer(tmp_path / "a.arrow", given.schema) as sink:
        sink.write_table(given, max_chunksize=7)
    check_images(images_of(tmp_path / "a.arrow"), values)
    check_images(images_of(given.slice(5)), values[5:])


def test_tables_in_memory() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    values = contents()
    structs = table(values)
    frame = pl.DataFrame({"image": values, "label": range(len(values))})
    listed = [{"image": value, "label": 1} for value in values]
    halves = pl.concat([frame[:20], frame[20:]])
    for each in (structs, frame, halves, frame.lazy(), pandas.DataFrame(listed), listed):
        check_images(images_of(each), values)
    large = pa.py_buffer(bytes(1000))
    offsets = pa.array([0, 400, 1000], pa.int64()).buffers()[1]
    array = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, large])
    first, second = images_of(pa.table({"image": array})).read(np.arange(2))
    assert np.frombuffer(first, np.uint8).ctypes.data == large.address  # not copied
    assert np.frombuffer(second, np.uint8).ctypes.data == large.address + 400


def test_names(tmp_path: Path) -> None:
    """They do not say where the data lie, unless an image's own path does."""
    for folder, start in (("one", 0), ("two", 3)):
        names = [f"{start + number}.jpg" for number in range(3)]
        images = [{"bytes": b"x", "path": name} for name in names]
        columns = {"image": images, "mask": images, "raw": [b"y"] * 3, "label": names}
        (tmp_path / folder).mkdir()
        parquet.write_table(pa.table(columns), tmp_path / folder / "a.parquet")
    frame = take_images(f"{tmp_path}/*/a.parquet", "image", "path", False)[0].frame
    assert frame.columns == ["raw", "label", "path"]  # and not the bytes of other images
    assert frame["path"].to_list() == frame["label"].to_list()
    twice = [tmp_path / "two" / "a.parquet", tmp_path / "two" / "a.parquet"]
    loaded, source = take_images(twice, "image", "label", False)
    assert loaded.frame["label"].to_list() == ["3.jpg", "4.jpg", "5.jpg"] * 2
    loaded, source = take_images(twice, "image", "path", False)
    assert loaded.frame["path"].to_list() == [f"a.parquet/{row % 3}" for row in range(6)]
    assert source is not None
    assert source.name(4) == f"{tmp_path}/two/a.parquet/1"
    assert loaded.row_name(4) == f"{tmp_path}/two/a.parquet, row 1"


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ('{"info": {"features": {"label": {"names": ["b", "a", "c"]}}}}', pl.Enum(["b", "a", "c"])),
        ('{"info": {"features": {"label": {"names": null}, "other": {}}}}', pl.Int64()),
        ('{"info": {"features": []}}', pl.Int64()),
        ("nonsense", pl.Int64()),
    ],
)
def test_classes_that_were_written_with_the_labels(
    written: str, dtype: pl.DataType, tmp_path: Path
) -> None:
    named = table([b"x"] * 5).replace_schema_metadata({"huggingface": written})
    parquet.write_table(named, tmp_path / "a.parquet")
    feather.write_feather(named, tmp_path / "a.feather", compression="uncompressed")
    for name in ("a.parquet", "a.feather"):
        loaded, _ = take_images(tmp_path / name, "image", "path", False)
        assert loaded.frame.schema["label"] == dtype


def test_places_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = contents()
    file = tmp_path / "a.parquet"
    parquet.write_table(table(values), file, row_group_size=10)
    check_images(images_of(file), values)
    found: list[int] = []
    plain = parquet_module.locate_images

    def counted(*arguments: Any) -> Any:
        found.append(1)
        return plain(*arguments)

    monkeypatch.setattr(parquet_module, "locate_images", counted)
    check_images(images_of(file), values)
    assert found == []
    parquet.write_table(table(values[1:]), file, row_group_size=10)
    check_images(images_of(file), values[1:])
    assert len(found) == 6


FORGED = [
    ("start", lambda values: [-5, *values[1:]]),
    ("start", lambda values: [1 << 62, *values[1:]]),
    ("length", lambda values: [1 << 40, *values[1:]]),
    ("length", lambda values: [None, *values[1:]]),
    ("begin", lambda values: [1, *values[1:]]),
    ("begin", lambda values: [*values[:-1], 1 << 62]),
    ("begin", lambda values: [*values[:3], *reversed(values[3:])]),
    ("begin", lambda values: [*values[:-1], None]),
    ("offset", lambda values: [-5, *values[1:]]),
    ("offset", lambda values: [None, *values[1:]]),
    ("size", lambda values: [1 << 40, *values[1:]]),
    ("size", lambda values: [-(1 << 62), *values[1:]]),
    ("codec", lambda values: [9, *values[1:]]),
    ("codec", lambda values: [0] * len(values)),
    ("codec", lambda values: [values[0], 4, *values[2:]]),  # within a value of several blocks
]
"""What may be written in the place of a column's values."""


@pytest.mark.parametrize("forged", range(len(FORGED)))
def test_forged_places_are_found_anew(forged: int, tmp_path: Path) -> None:
    """In a folder beside the files, which may have come with them."""
    (tmp_path / ".gpufeed").mkdir()
    values = [np.random.default_rng(number).bytes(150_000) for number in range(4)]
    file = tmp_path / "a.parquet"
    parquet.write_table(table([*values]), file)
    check_images(images_of(file), [*values])
    (cache,) = (tmp_path / ".gpufeed").iterdir()
    kept = pl.read_parquet(cache)
    name, forge = FORGED[forged]
    column = kept[name].drop_nulls().to_list()
    there = pl.Series(name, forge(column), kept.schema[name])
    spoilt = kept.with_columns(there.extend_constant(None, kept.height - len(column)))
    assert not spoilt.equals(kept)
    spoilt.write_parquet(cache)
    check_images(images_of(file), [*values])
    assert pl.read_parquet(cache).equals(kept)


def test_faults(tmp_path: Path) -> None:
    values = [np.random.default_rng(number).bytes(2000) for number in range(40)]
    file = tmp_path / "a.parquet"
    for compression in ("none", "snappy", "zstd"):
        parquet.write_table(table(values), file, compression=compression)
        source = images_of(file)
        changed = bytearray(file.read_bytes())
        changed[5000:5100] = bytes(100)
        file.write_bytes(changed)
        (read,) = source.read(np.array([2]))
        assert str(read) == "the file has changed since it was indexed"
        file.unlink()
        (read,) = pickle.loads(pickle.dumps(source)).read(np.array([2]))  # noqa: S301
        assert isinstance(read, FileNotFoundError)


def write_changed(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    given, file = table([b"some", b"images"] * 20), tmp_path / "a.parquet"
    for write, message in (
        (lambda: parquet.write_table(given, file), None),
        (lambda: write_changed(file, lambda data: data[:-9]), "is not a valid Parquet file"),
        (lambda: write_changed(file, lambda _: b""), "is not a valid Parquet file"),
        (file.unlink, f"cannot read {file}: No such file"),
        (
            lambda: parquet.write_table(
                given,
                file,
                use_dictionary=False,
                column_encoding={"image.bytes": "DELTA_BYTE_ARRAY"},
            ),
            "a.parquet stores its images as values in encoding 7, .* rewrite it: python -c",
        ),
        (
            lambda: parquet.write_table(given.drop("image"), file),
            "there is no column 'image'; .* im",
        ),
        (
            lambda: parquet.write_table(pa.table({"image": ["a.jpg"]}), file),
            "column 'image' must hold encoded images, .*, not string; .* passed as path=",
        ),
        (
            lambda: parquet.write_table(pa.table({"image": [[b"x"]]}), file),
            "column 'image' must hold encoded images, .*, not list",
        ),
    ):
        write()
        if message is None:
            continue
        with pytest.raises(ManifestError, match=message):
            images_of(file)
    file = tmp_path / "a.feather"
    feather.write_feather(given, file, compression="lz4")
    with pytest.raises(ManifestError, match=r"a.feather is compressed, .* rewrite it: python"):
        images_of(file)
    feather.write_feather(given, file, compression="uncompressed")
    write_changed(file, lambda data: data[:200])
    with pytest.raises(ManifestError, match=r"a.feather( is not a valid Arrow file|: )"):
        images_of(file)
    for wrong, message in (
        ([file, tmp_path / "a.parquet"], "pass files of one kind"),
        (tmp_path / "a.csv", r"a.csv ends in '.csv'; a table with images must end in one of .parq"),
        (f"{tmp_path}/*.png", r"no file matches .*/\*.png"),
        (pl.DataFrame({"image": [5]}), "the table: column 'image' must hold encoded images"),
    ):
        with pytest.raises(ManifestError, match=message):
            images_of(wrong)


@settings(max_examples=60, deadline=None)
@given(
    at=st.floats(0, 1),
    byte=st.integers(0, 255),
    codec=st.sampled_from(["none", "snappy", "zstd"]),
    dictionary=st.booleans(),
)
def test_damaged_pages(
    tmp_path_factory: pytest.TempPathFactory, at: float, byte: int, codec: str, dictionary: bool
) -> None:
    """A byte changed in the pages: an error of gpufeed's, or images of which some may differ."""
    file = tmp_path_factory.mktemp("damaged") / "a.parquet"
    values = [b"header" * 20 + bytes([number]) * 30 for number in range(30)]
    parquet.write_table(
        table(list(values)), file, compression=codec, use_dictionary=dictionary, row_group_size=9
    )
    content = bytearray(file.read_bytes())
    end = parquet.read_metadata(file).row_group(0).total_byte_size
    content[4 + int(at * end)] = byte
    file.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = images_of(file)
    except ManifestError:
        return
    assert len(source.read(np.arange(30))) == 30


@pytest.mark.parametrize(
    "header",
    [
        b"\x1c" * 5000,  # structs in structs
        b"\x16" + b"\xff" * 100_000,  # an integer without an end, which takes ever longer
        b"\x15\0\x16" + b"\xfe" * 5 + b"\x7f\x15\2\0",  # a page of terabytes
    ],
    ids=["deep", "endless", "huge"],
)
def test_headers_of_pages_that_mean_harm(header: bytes, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    kept = pa.table({"image": [np.random.default_rng(0).bytes(200_000)]})
    parquet.write_table(kept, file, compression="gzip", use_dictionary=False)
    start = parquet.read_metadata(file).row_group(0).column(0).data_page_offset
    end = start + len(header)
    write_changed(file, lambda content: content[:start] + header + content[end:])
    with pytest.raises(ManifestError, match=r"a page of the image column|does not end"):
        images_of(file)


def test_offsets_of_arrow_must_be_in_order(tmp_path: Path) -> None:
    """Those of text could lead anywhere in memory, so all are checked."""
    file = tmp_path / "a.arrow"
    feather.write_feather(pa.table({"image": [b"x" * 21] * 9}), file, compression="uncompressed")
    offsets = np.arange(0, 10 * 21, 21, dtype="<i4")
    changed = offsets.copy()
    changed[5] = 0
    write_changed(file, lambda data: data.replace(offsets.tobytes(), changed.tobytes()))
    with pytest.raises(ManifestError, match=r"a.arrow is not a valid Arrow file: .* offset"):
        images_of(file)
