"""Tar shards: what WebDataset's own library writes and reads, the index, and shards at fault."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import webdataset
from webdataset import tariterators

from gpufeed import ConfigError, Manifest, ManifestError, concat, read_webdataset
from gpufeed.records.webdataset import index
from gpufeed.tools.find_data import ListOptions
from gpufeed.tools.resolve import list_images, open_manifest
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture

IMAGES = [jpeg(picture(40 + number, 50, seed=number)) for number in range(10)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shards").mkdir()
    return tmp_path / "shards"


def write(file: Path, members: list[tuple[str, bytes]], **options: Any) -> Path:
    """Write a shard, also one that WebDataset's writer would not write."""
    with tarfile.open(file, "w", **options) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file


def sample(number: int, **members: bytes) -> list[tuple[str, bytes]]:
    own = {"jpg": IMAGES[number % 10], "cls": str(number % 3).encode()} | members
    return [(f"{number:04}.{name}", content) for name, content in own.items()]


def shard(file: Path, numbers: range) -> Path:
    return write(file, [member for number in numbers for member in sample(number)])


def contents(manifest: Manifest) -> list[bytes]:
    read = manifest.source.read(np.arange(len(manifest)))
    return [b"" if isinstance(each, OSError) else bytes(each) for each in read]


def read_by_library(shards: list[str]) -> list[dict[str, Any]]:
    """What `webdataset.WebDataset` reads; it would leave the shards open."""
    with contextlib.ExitStack() as stack:
        streams = [{"url": url, "stream": stack.enter_context(open(url, "rb"))} for url in shards]  # noqa: PTH123
        return list(tariterators.group_by_keys(tariterators.tar_file_expander(streams)))


@pytest.mark.parametrize("kind", ["USTAR_FORMAT", "GNU_FORMAT", "PAX_FORMAT"])
def test_samples_are_those_of_the_library(kind: str, folder: Path) -> None:
    long = "" if kind == "USTAR_FORMAT" else "é" * 90 + "/"
    keys = [f"{long}a{number % 3}/bird {number}" for number in range(23)]
    with webdataset.ShardWriter(f"{folder}/%03d.tar", maxcount=7, verbose=0, format=kind) as writer:
        for number, key in enumerate(keys):
            members: dict[str, Any] = {"cls": number % 5, "seg.png": b"not an image"}
            members["PNG" if number % 4 == 0 else "jpg"] = IMAGES[number % 10]
            members["json"] = {"age": number, "of": {"bird": [number, 0.5]}}
            if number % 2:
                members["txt"] = f"caption\n{number} ü"
            writer.write({"__key__": key, **members})
    ours = read_webdataset(
        f"{folder}/{{000..003}}.tar",
        image="jpg;png",
        fields={"caption": "txt", "age": "json:age", "bird": "json:of.bird", "name": "cls"},
    )
    urls = sorted(map(str, folder.glob("*.tar")))
    theirs = read_by_library(urls)
    frame = ours.frame
    assert frame["key"].to_list() == [each["__key__"] for each in theirs] == keys
    assert contents(ours) == [each.get("jpg") or each["png"] for each in theirs]
    assert frame["label"].to_list() == [int(each["cls"]) for each in theirs]
    assert frame["name"].to_list() == [each["cls"].decode() for each in theirs]
    captions = [each["txt"].decode() if "txt" in each else None for each in theirs]
    assert frame["caption"].to_list() == captions
    values = [json.loads(each["json"]) for each in theirs]
    assert frame["age"].to_list() == [each["age"] for each in values]
    assert frame["bird"].to_list() == [each["of"]["bird"] for each in values]
    names = [Path(each["__url__"]).name for each in theirs]
    extensions = ["PNG" if number % 4 == 0 else "jpg" for number in range(23)]
    paths = [f"{n}/{key}.{end}" for n, key, end in zip(names, keys, extensions, strict=True)]
    assert frame["path"].to_list() == paths
    assert ours.source.name(9) == f"{folder}/{paths[9]}"
    assert frame["height"].to_list() == [40 + number % 10 for number in range(23)]


def test_what_is_no_member_of_a_sample(folder: Path) -> None:
    """As for the library: folders, links, names without a dot, and its own metadata."""
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name, kind in [("a.b", tarfile.DIRTYPE), ("0000.png", tarfile.SYMTYPE)]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "0000.jpg"
            archive.addfile(info)
        for name, content in [
            ("README", b"text"),
            ("__meta__/a.jpg", b""),
            *sample(0)[:1],
            ("._0000.jpg", b"of macOS"),
            *sample(0)[1:],
        ]:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    manifest = read_webdataset(folder / "a.tar", image=["png", "jpg"])
    assert manifest.frame["path"].to_list() == ["a.tar/0000.jpg"]
    assert contents(manifest) == IMAGES[:1]


def test_values_take_types_that_fit_all(folder: Path) -> None:
    values = [1, 2.5, None], ["x", 1, True], [[1], [], [2.5]], [None, {"a": 1}, {"b": "c"}]
    names = ["number", "text", "list", "dict"]
    members = []
    for number in range(3):
        of = {name: each[number] for name, each in zip(names, values, strict=True)}
        members += sample(number, json=json.dumps(of).encode())
    write(folder / "a.tar", members)
    fields = {name: f"json;jsn:{name}" for name in names} | {"count": "cls:", "all": "json:"}
    frame = read_webdataset([folder / "a.tar"], label=None, fields=fields).frame
    assert frame["number"].to_list() == [1.0, 2.5, None]
    assert frame["text"].to_list() == ["x", "1", "true"]
    assert frame["list"].to_list() == [[1.0], [], [2.5]]
    assert frame["dict"].to_list()[1:] == [{"a": 1, "b": None}, {"a": None, "b": "c"}]
    assert frame["count"].to_list() == [0, 1, 2]
    assert frame["all"].struct.field("number").to_list() == [1.0, 2.5, None]


def test_labels(folder: Path) -> None:
    texts = ["wren", " 7\n", "jay"]
    members = [
        member
        for number in range(3)
        for member in sample(
            number,
            txt=texts[number].encode(),
            json=json.dumps({"number": 7 * number, "names": ["a"]}).encode(),
        )
    ]
    write(folder / "a.tar", members)
    path = folder / "a.tar"
    assert read_webdataset(path).classes == ("0", "1", "2")
    named = read_webdataset(path, label="txt")
    assert (named.classes, named.frame["label"].to_list()) == (("7", "jay", "wren"), [2, 0, 1])
    given = read_webdataset(path, label="txt", classes=["jay", "wren", "7"])
    assert given.frame["label"].to_list() == [1, 2, 0]
    numbers = read_webdataset(path, label="json:number", classes="renumber")
    assert numbers.frame["label"].to_list() == [0, 1, 2]
    assert numbers.repairs == {"labels_renumbered": 2}
    assert read_webdataset(path, label=None).classes == ()
    several = read_webdataset(path, label="json:names")
    assert (several.classes, several.frame["label"].to_list()) == (("a",), [[0], [0], [0]])
    with pytest.raises(ManifestError) as error:
        read_webdataset(path, label="txt2")
    assert str(error.value) == (
        f"no sample has the label, 'txt2', neither in {path} nor in any other shard; pass label= "
        "what they have, or None"
    )
    with pytest.raises(ManifestError, match=r"no sample has fields\['x'\], 'json:nummer', neither"):
        read_webdataset(path, fields={"x": "json:nummer"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"image": ""}, "image is ''; it must be the extensions of images, such as \"jpg\""),
        ({"image": ["jpg", 3]}, "image is ['jpg', 3]; it must be"),
        ({"label": 3}, "label is 3; it must be the extension of a member"),
        ({"fields": {"x": "json:a..b"}}, "fields['x'] is 'json:a..b'; it must be"),
        ({"fields": ["x"]}, "fields is ['x']; it must map columns to members"),
        ({"fields": {"path": "txt"}}, "fields has 'path', which is a column of every manifest"),
        ({"on_bad_image": "skip"}, "on_bad_image is 'skip'"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], said: str, folder: Path) -> None:
    shard(folder / "a.tar", range(1))
    with pytest.raises(ConfigError) as error:
        read_webdataset(folder / "a.tar", **options)
    assert said in str(error.value)


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards that are read for their index, sorted when compared."""
    names: list[str] = []

    def recorded(storage: Any, name: str, *rest: Any) -> pl.DataFrame:
        names.append(name)
        return plain(storage, name, *rest)

    plain = index.read_shard
    monkeypatch.setattr(index, "read_shard", recorded)
    return names


@pytest.mark.parametrize("shared", [False, True])
def test_a_shard_is_indexed_once(shared: bool, folder: Path, indexed: list[str]) -> None:
    if shared:
        (folder / ".gpufeed").mkdir()
    for number in range(3):
        shard(folder / f"{number}.tar", range(5 * number, 5 * number + 5))
    pattern = folder / "{0..2}.tar"
    first = read_webdataset(pattern)
    assert sorted(indexed) == ["0.tar", "1.tar", "2.tar"]
    indexed.clear()
    assert read_webdataset(folder / "*.tar").frame.equals(first.frame)
    assert indexed == []
    own = list((folder.parent / "cache").rglob("*.parquet"))
    assert (len(own), len(list(folder.glob(".gpufeed/*")))) == ((0, 3) if shared else (3, 0))

    shard(folder / "1.tar", range(20, 23))
    changed = read_webdataset(pattern)
    assert indexed == ["1.tar"]
    keys = [*range(5), *range(20, 23), *range(10, 15)]
    assert changed.frame["key"].to_list() == [f"{key:04}" for key in keys]


@pytest.mark.parametrize("shared", [False, True])
def test_a_new_field_reads_its_members_alone(
    shared: bool, folder: Path, indexed: list[str]
) -> None:
    """The images are overwritten meanwhile, so that whatever read them would find them bad."""
    if shared:
        (folder / ".gpufeed").mkdir()
    file = folder / "a.tar"
    ages = [{"json": json.dumps({"age": number}).encode()} for number in range(5)]
    write(file, [member for number in range(5) for member in sample(number, **ages[number])])
    first, before = read_webdataset(file), file.stat()
    content = file.read_bytes()
    for image in IMAGES[:5]:
        content = content.replace(image, bytes(len(image)))
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    indexed.clear()
    both = read_webdataset(file, fields={"age": "json:age", "all": "txt;cls"})
    assert both.frame.drop("age", "all").equals(first.frame)
    assert both.frame["age"].to_list() == list(range(5))
    assert both.frame["all"].to_list() == [str(number % 3) for number in range(5)]
    file.write_bytes(bytes(len(content)))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_webdataset(file, fields={"n": "json:age"}).frame["n"].to_list() == list(range(5))
    assert indexed == []


_IMAGE, _MEMBER = pl.col("width").is_not_null(), pl.col("extension").is_not_null()
FORGED = [
    (_IMAGE, "name", None),
    (_IMAGE, "start", None),
    (_IMAGE, "length", -1),
    (_IMAGE, "width", 0),
    (_IMAGE, "bits", None),
    (_MEMBER, "start", 1 << 62),
    (_MEMBER, "start", -1),
    (_MEMBER, "length", 1 << 40),
    (_MEMBER, "length", None),
    (pl.int_range(pl.len()) == 2, "key", None),
    (pl.int_range(pl.len()) == 0, "key", "x"),
    (pl.int_range(pl.len()) == 0, "version", "1"),
]
"""Values of an index that can not be, and where."""


@pytest.mark.parametrize("damage", [b"", b"PAR1", "of another", "too long", *FORGED])
def test_an_index_that_is_none_is_made_anew(damage: Any, folder: Path, indexed: list[str]) -> None:
    (folder / ".gpufeed").mkdir()
    manifest = read_webdataset(shard(folder / "a.tar", range(3)))
    (file,) = (folder / ".gpufeed").iterdir()
    frame = pl.read_parquet(file)
    if isinstance(damage, bytes):
        file.write_bytes(damage)
    elif damage == "of another":
        frame.rename({"bits": "pits"}).write_parquet(file)
    elif isinstance(damage, tuple):
        where, name, value = damage
        spoilt = pl.when(where).then(pl.lit(value, frame.schema[name])).otherwise(name)
        frame.with_columns(spoilt.alias(name)).write_parquet(file)
        assert not pl.read_parquet(file).equals(frame)
    else:
        pl.concat([frame] * 1000).write_parquet(file)
    indexed.clear()
    assert read_webdataset(folder / "a.tar").frame.equals(manifest.frame)
    assert indexed == ["a.tar"]
    assert pl.read_parquet(file).equals(frame)


def test_where_nothing_can_be_kept(
    folder: Path, indexed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    shard(folder / "a.tar", range(3))
    for _ in range(2):
        assert len(read_webdataset(folder / "a.tar")) == 3
    assert len(indexed) == 2


BAD: dict[str, tuple[list[tuple[str, bytes]], str]] = {
    "no image": (
        [("x.cls", b"1"), ("x.txt", b"")],
        "it has no image (no member jpg), but cls, txt",
    ),
    "two": ([*sample(7), ("0007.JPG", IMAGES[0])], "it has two members jpg"),
    "apart": (
        [*sample(7), *sample(8), *sample(7)],
        "there are members of it elsewhere, with others between them",
    ),
    "no header": (sample(7, jpg=b"\xff\xd8\xff"), "the file ends before its first scan"),
    "empty": (sample(7, jpg=b""), "the file is empty"),
    "no label": (sample(7)[:1], "it has no label (cls)"),
    "label": (
        sample(7, cls=b"\xff"),
        "its member cls is not valid: 'utf-8' codec can't decode byte 0xff in position 0",
    ),
    "json": (sample(7, json=b"{"), "its member json is not valid: Expecting property name"),
    "nan": (sample(7, json=b'{"age": NaN}'), "its member json is not valid: NaN is not JSON"),
    "half": (sample(7, json=b'{"age": "\\ud800"}'), "its member json is not valid: 'utf-8' codec"),
    "deep": (sample(7, json=b"[" * 99999), "its member json is not valid: its JSON is nested"),
    "long": (
        sample(7, json=b" " * (1 << 20) + b"1"),
        "its member json has 1,048,577 bytes; the limit is 1,048,576",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sample_is_named_or_dropped(name: str, folder: Path) -> None:
    members, said = BAD[name]
    shard(folder / "a.tar", range(3))
    write(folder / "b.tar", [*members, *sample(9, json=b'{"age": 1}')])
    options: dict[str, Any] = {"image": "jpg", "fields": {"age": "json:age"}}
    for _ in range(2):  # of the shards, and of their index
        with pytest.raises(ManifestError) as error:
            read_webdataset(folder / "*.tar", **options)
        key = members[0][0].partition(".")[0]
        assert f"samples are bad: {folder}/b.tar, sample '{key}': {said}" in str(error.value)
        assert str(error.value).endswith('leave them out with on_bad_image="drop"')
    left = read_webdataset(folder / "*.tar", on_bad_image="drop", **options)
    assert left.repairs == {"images_dropped": 1}
    assert [key for key in left.frame["key"] if key not in ("0007", "0008")] == [
        *("0000", "0001", "0002"),
        "0009",
    ]


def test_images_that_are_too_deep(folder: Path) -> None:
    from tests.support.deep import png, ramp

    write(folder / "a.tar", [*sample(0), *sample(1, jpg=png(ramp()))])
    with pytest.raises(ManifestError, match=r"sample '0001': 16 bits per channel; to reduce them"):
        read_webdataset(folder / "a.tar")
    assert len(read_webdataset(folder / "a.tar", on_bad_image="drop")) == 1
    assert len(read_webdataset(folder / "a.tar", reduce_depth=True)) == 2


def test_all_are_bad(folder: Path) -> None:
    write(folder / "a.tar", sample(0, jpg=b"no"))
    with pytest.raises(ManifestError, match="1 of 1 samples are bad"):
        read_webdataset(folder / "a.tar", on_bad_image="drop")


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_a_shard_may_end_anywhere(kind: int, folder: Path) -> None:
    """Whole samples are kept, none twice, and none that may lack a member."""
    name = "n" * 120 if kind == tarfile.PAX_FORMAT else ""
    members = [(f"{name}{key}", content) for number in range(4) for key, content in sample(number)]
    whole = write(folder / "a.tar", members, format=kind).read_bytes()
    with tarfile.open(folder / "a.tar") as archive:
        ends = [info.offset_data + info.size for info in archive][1::2]
    end = -(-ends[-1] // 512) * 512
    for cut in [0, 1, *range(100, end, 1531), *ends, end, end + 511]:
        (folder / "a.tar").write_bytes(whole[:cut])
        left = [number for number in range(4) if cut >= ends[number]]
        with pytest.raises(ManifestError, match=f"{folder}/a.tar ends too soon or is damaged"):
            read_webdataset(folder / "a.tar")
        try:
            read = read_webdataset(folder / "a.tar", on_bad_image="drop")
        except ManifestError:
            assert len(left) <= 1
            continue
        assert read.repairs["shards_cut"] == 1
        assert contents(read) in ([IMAGES[n] for n in left], [IMAGES[n] for n in left[:-1]])
    (folder / "a.tar").write_bytes(whole[: end + 512])
    assert len(read_webdataset(folder / "a.tar")) == 4


def header(kind: bytes, size: bytes, name: bytes = b"0005.jpg") -> bytes:
    """A header that tarfile would not write."""
    block = bytearray(name.ljust(100, b"\0") + b"0000644\0" * 3 + size + b"0" * 11 + b"\0")
    block += b" " * 8 + kind + bytes(100) + b"ustar\x0000"
    block += bytes(512 - len(block))
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def sparse() -> bytes:
    """An old sparse file whose map goes on, at the end of the archive."""
    block = bytearray(header(b"S", b"00000000000\0"))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


HUGE = b"77777777777\0"
HOSTILE = {
    "garbage": bytes(range(256)) * 4,
    "negative": header(b"0", b"\xff" * 12),
    "huge": header(b"0", HUGE),
    "huge name": header(b"L", HUGE),
    "huge pax": header(b"x", HUGE),
    "negative name": header(b"L", b"\xff" * 12),
    "names of names": header(b"L", b"00000000000\0") * 3000,
    "pax of pax": header(b"g", b"00000000000\0") * 3000,
    "zero": header(b"0", b"\x80" + b"\0" * 11) + b"x" * 512,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_headers_that_mean_harm(name: str, folder: Path) -> None:
    whole = shard(folder / "a.tar", range(3)).read_bytes()
    end = len(whole.rstrip(b"\0")) // 512 * 512 + 512
    (folder / "a.tar").write_bytes(whole[:end] + HOSTILE[name] + whole[end:])
    tracemalloc.start()
    with pytest.raises(ManifestError, match=r"a.tar ends too soon or is damaged: .* after byte"):
        read_webdataset(folder / "a.tar")
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()
    left = read_webdataset(folder / "a.tar", on_bad_image="drop")
    kept = 3 if name == "zero" else 2  # one more sample begins
    assert left.frame["key"].to_list() == ["0000", "0001", "0002"][:kept]
    assert left.repairs == {"shards_cut": 1, "images_dropped": 1}


def test_a_sparse_map_may_end_with_the_shard(folder: Path) -> None:
    file = shard(folder / "a.tar", range(3))
    file.write_bytes(file.read_bytes().rstrip(b"\0") + b"\0")
    whole = file.read_bytes()
    file.write_bytes(whole + bytes(-len(whole) % 512) + sparse())
    with pytest.raises(ManifestError, match=r"a.tar ends too soon or is damaged: .* after byte"):
        read_webdataset(file)
    assert len(read_webdataset(file, on_bad_image="drop")) == 2


def test_sparse_files_are_refused(folder: Path) -> None:
    whole = shard(folder / "a.tar", range(2)).read_bytes()
    sparse = header(b"S", b"%011o\0" % len(IMAGES[1]), b"0001.jpg")
    with tarfile.open(folder / "a.tar") as archive:
        at = archive.getmember("0001.jpg").offset
    (folder / "a.tar").write_bytes(whole[:at] + sparse + whole[at + 512 :])
    with pytest.raises(ManifestError, match="sample '0001': its member jpg is a sparse file"):
        read_webdataset(folder / "a.tar")


def seven_zip(content: bytes) -> bytes:
    return b"7z\xbc\xaf\x27\x1c" + content


def zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.tar", content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (gzip.compress, "is compressed by gzip, so no image in it can be read by itself; unpack"),
        (bz2.compress, "is compressed by bzip2, so"),
        (lzma.compress, "is compressed by xz, so"),
        (seven_zip, "is a 7z archive, so"),
        (zipped, "is a zip archive, not a tar; read_folder and read_table take it"),
    ],
)
def test_archives_without_random_access(
    pack: Callable[[bytes], bytes], said: str, folder: Path
) -> None:
    file = shard(folder / "a.tar", range(2))
    file.write_bytes(pack(file.read_bytes()))
    with pytest.raises(ManifestError) as error:
        read_webdataset(file, on_bad_image="drop")
    assert str(error.value).startswith(f"{file} {said}")


def test_shards_that_are_not_there(folder: Path) -> None:
    shard(folder / "0.tar", range(2))
    for shards, said in [
        (folder / "{0..1}.tar", f"cannot read the shard {folder}/1.tar: No such file or directory"),
        (folder / "x*.tar", f"no file matches {folder}/x*.tar"),
        ([folder / "0.tar", folder / "*.tar"], f"{folder}/0.tar is listed twice"),
        ([], "there are no files: the list is empty"),
        (folder, f"no sample|cannot read the shard {folder}"),
    ]:
        with pytest.raises(ManifestError, match=said.replace("*", r"\*")):
            read_webdataset(shards)
    write(folder / "0.tar", [])
    with pytest.raises(ManifestError, match=r"there is no sample in .*/0.tar, nor in any other"):
        read_webdataset(folder / "0.tar")


def test_a_shard_that_changes_later(folder: Path) -> None:
    """Its records fail, each by its name, and a substitute takes its place."""
    for number in range(2):
        shard(folder / f"{number}.tar", range(12 * number, 12 * number + 12))
    manifest = read_webdataset(folder / "*.tar")
    os.utime(folder / "1.tar", ns=(1, 1))
    with make(manifest, on_error="blank", max_failures=24) as loader:
        batches = list(loader)
    assert sum(len(batch["label"]) for batch in batches) == 24
    failed = sorted(failure.path for failure in loader.quarantine)
    assert failed == [f"1.tar/{number:04}.jpg" for number in range(12, 24)]
    assert "has changed since it was indexed" in loader.quarantine.frame()["reason"][0]
    good = manifest.without(loader.quarantine)
    assert good.frame["key"].to_list() == [f"{number:04}" for number in range(12)]


def test_selections_pickles_and_joins(folder: Path) -> None:
    for place in ("a", "b"):
        (folder / place).mkdir()
        shard(folder / place / "0.tar", range(10))
    manifest = read_webdataset([folder / "a" / "0.tar", folder / "b" / "0.tar"])
    assert manifest.frame["path"][[0, 10]].to_list() == ["a/0.tar/0000.jpg", "b/0.tar/0000.jpg"]
    again: Manifest = pickle.loads(pickle.dumps(manifest[5:15]))  # noqa: S301
    assert contents(again) == IMAGES[5:] + IMAGES[:5]
    joined = concat([again, manifest])
    assert contents(joined) == IMAGES[5:] + IMAGES[:5] + IMAGES * 2
    with make(manifest) as loader, make(manifest, read_timeout=60, cache="host") as other:
        assert [digest(batch) for batch in loader] == [digest(batch) for batch in other]


def test_the_tools_take_them(folder: Path) -> None:
    write(folder / "0.tar", [*sample(0), *sample(1, jpg=b"no"), *sample(2, txt=b"x")])
    images = list_images(folder / "*.tar")
    assert images.frame["path"].to_list() == [f"0.tar/000{number}.jpg" for number in range(3)]
    assert images.reader == "read_webdataset"
    shard(folder / "1.tar", range(3))
    pattern = str(folder / "{1..1}.tar")
    assert open_manifest(pattern).classes == ("0", "1", "2")
    with pytest.raises(ManifestError, match="no sample has the label, 'txt'"):
        open_manifest(pattern, options=ListOptions(label="txt"))
    with pytest.raises(ConfigError, match="root does not apply"):
        open_manifest(pattern, options=ListOptions(root=folder))
    with (folder / "1.tar").open("r+b") as file:
        file.truncate(3000)
    with pytest.raises(ManifestError, match="ends too soon"):
        list_images(pattern)  # what `gpufeed check` lists
