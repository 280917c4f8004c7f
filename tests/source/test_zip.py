"""Zip archives: the same as the folder that they hold, and files in them at fault."""

from __future__ import annotations

import bz2
import io
import pickle
import random
import shutil
import tarfile
import zipfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, Manifest, ManifestError, concat, read_folder, read_table
from gpufeed._util.memory import Slices
from gpufeed.source import zipped
from gpufeed.source.base import starter
from gpufeed.source.storage import LocalStorage
from gpufeed.source.zipped import open_archive
from gpufeed.tools.check.dataset import check
from gpufeed.tools.find_data import ListOptions
from gpufeed.tools.resolve import list_images, open_manifest
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture

NAMES = ["jay/b.jpg", "jay/a.PNG", "wren/x-y/2.jpg", "wren/x/1.jpg", "wren/0.jpg", "wren/.x/3.jpg"]
OTHERS = ["README", "jay/notes.txt", "jay/.hidden.jpg", ".git/a.jpg"]
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def content(name: str) -> bytes:
    return jpeg(picture(40 + len(name), 50, seed=len(name)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in [*NAMES, *OTHERS]:
        (tmp_path / "birds" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "birds" / name).write_bytes(content(name))
    return tmp_path / "birds"


def pack(file: Path, names: dict[str, bytes], methods: tuple[int, ...] = METHODS) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, each) in enumerate(names.items()):
            archive.writestr(name, each, methods[number % len(methods)])
    return file


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    names = [*OTHERS, *NAMES, "__MACOSX/jay/._a.jpg"]
    return pack(tmp_path / "birds.zip", {name: content(name) for name in names})


def contents(manifest: Manifest) -> list[bytes]:
    read = manifest.source.read(np.arange(len(manifest)))
    return [b"" if isinstance(each, OSError) else bytes(each) for each in read]


def test_an_archive_is_its_folder(folder: Path, archive: Path) -> None:
    files, ours = read_folder(folder), read_folder(archive)
    assert ours.frame.equals(files.frame)
    assert (ours.classes, ours.fingerprint()) == (files.classes, files.fingerprint())
    assert contents(ours) == contents(files)
    assert ours.source.name(1) == f"{archive}/jay/b.jpg"
    assert repr(ours.source) == f"ZipSource('{archive}', 5 files)"
    with make(files, batch_size=2) as loader, make(ours, batch_size=2, cache="host") as other:
        assert [digest(batch) for batch in loader] == [digest(batch) for batch in other]
    again: Manifest = pickle.loads(pickle.dumps(ours[::-1]))  # noqa: S301
    assert contents(again) == contents(files)[::-1]
    assert contents(concat([again, files])) == contents(files)[::-1] + contents(files)
    reusing = ours.source.reusing_memory(Slices())  # type: ignore[attr-defined]
    keys = np.array([3, 0, 3])
    assert [bytes(each) for each in reusing.read(keys)] == [contents(files)[key] for key in keys]


def test_folders_in_an_archive(folder: Path, tmp_path: Path) -> None:
    names = {f"all/train/{name}": content(name) for name in NAMES}
    names |= {f"all/val/{name}": content(name) for name in NAMES[:1]}
    outer = pack(tmp_path / "outer.zip", names)
    train = read_folder(outer / "all" / "train")
    assert train.frame.equals(read_folder(folder).frame)
    assert train.source.name(0) == f"{outer}/all/train/jay/a.PNG"
    assert read_folder(f"{outer}/all/val/", classes=train).frame["path"].to_list() == ["jay/b.jpg"]
    for path, said in [
        (outer, "has one folder, all, with nothing but folders in it; pass .*/outer.zip/all if"),
        (outer / "all", "are splits rather than classes: train, val; read .*zip/all/train first"),
        (outer / "all/train/jay", "jay has no class folder"),
        (outer / "none", "there is no file in .*/outer.zip/none/"),
    ]:
        with pytest.raises(ManifestError, match=said):
            read_folder(path)
    assert read_folder(outer, classes=["all"]).classes == ("all",)
    with pytest.raises(ManifestError, match="jay has no image"):
        read_folder(pack(tmp_path / "none.zip", {"jay/notes.txt": b""}))


def test_a_table_of_files_in_an_archive(folder: Path, archive: Path) -> None:
    table = {"path": NAMES[::-1], "label": list(range(6))}
    ours, files = read_table(table, root=archive), read_table(table, root=folder)
    assert ours.frame.equals(files.frame)
    assert contents(ours) == [content(name) for name in NAMES[::-1]]
    sized = read_table(ours.frame, root=archive)  # sizes are compared with a few headers
    assert sized.frame.equals(ours.frame)
    inner = read_table({"path": ["0.jpg"]}, label=None, root=archive / "wren")
    assert contents(inner) == [content("wren/0.jpg")]
    missing = {"path": ["jay/b.jpg", "jay/none.jpg"], "label": [0, 1]}
    said = "1 of 2 images are bad: .*/birds.zip/jay/none.jpg: there is no such file in the archive"
    with pytest.raises(ManifestError, match=said):
        read_table(missing, root=archive)
    left = read_table(missing, root=archive, on_bad_image="drop")
    assert (len(left), left.repairs) == (1, {"images_dropped": 1})
    absolute = {"path": ["/jay/b.jpg"], "label": [0]}
    with pytest.raises(ManifestError, match=r"is absolute and not below the root"):
        read_table(absolute, root=archive)


def test_sizes_are_read_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_folder(archive)
    with monkeypatch.context() as patch:
        patch.setattr(zipped.ZipSource, "open", None)
        assert read_folder(archive).frame.equals(first.frame)
    pack(archive, {name: content(name * 2) for name in NAMES})
    assert not read_folder(archive).frame.equals(first.frame)


@given(noise=st.binary(max_size=400), method=st.sampled_from(METHODS), data=st.data())
def test_members_are_files(
    noise: bytes, method: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of any content and read in any pieces, as headers are."""
    whole = noise * data.draw(st.integers(1, 300))
    if not whole:
        return
    file = pack(tmp_path_factory.mktemp("zip") / "a.zip", {"a": b"1", "b": whole}, (method,))
    source = open_archive(file)
    assert source is not None
    (read,) = source.read(np.array([1]))
    assert bytes(read) == whole  # type: ignore[arg-type]
    plain = io.BytesIO(whole)
    with source.open(1) as opened:
        for _ in range(4):
            place = data.draw(st.integers(0, len(whole) + 9))
            assert opened.seek(place) == plain.seek(place)
            assert opened.read(50) == plain.read(50)
        assert opened.seek(-1, io.SEEK_END) == plain.seek(-1, io.SEEK_END)
        assert opened.read() == whole[-1:]


def patched(file: Path, name: str, *, value: bytes, headers: tuple[int, int]) -> None:
    """Change a field of a member in its own header and in the directory, where that has it."""
    whole = bytearray(file.read_bytes())
    own = whole.index(name.encode()) - 30
    listed = whole.rindex(name.encode()) - 46
    for at in (own + headers[0], listed + headers[1]):
        whole[at : at + len(value)] = value
    file.write_bytes(whole)


def fault(kind: str, file: Path) -> None:
    """Write an archive of three images, of which the second is at fault."""
    images = {f"a/{number}.jpg": content("x" * number) for number in range(3)}
    pack(file, images, (zipfile.ZIP_DEFLATED,))
    whole = file.read_bytes()
    packed = whole.index(b"a/1.jpg") + 7
    if kind == "encrypted":
        patched(file, "a/1.jpg", value=b"\x01", headers=(6, 8))
    elif kind == "method":
        patched(file, "a/1.jpg", value=b"\x0c", headers=(8, 10))
    elif kind == "bomb":
        patched(file, "a/1.jpg", value=b"\xff\xff\xff\xf0", headers=(22, 24))
    elif kind == "shorter":
        patched(file, "a/1.jpg", value=(99).to_bytes(4, "little"), headers=(22, 24))
    elif kind == "packed":
        images["a/1.jpg"] = bytes(18 << 20)
        pack(file, images, (zipfile.ZIP_STORED,))
        patched(file, "a/1.jpg", value=(99).to_bytes(4, "little"), headers=(22, 24))
    elif kind == "sum":
        patched(file, "a/1.jpg", value=b"none", headers=(14, 16))
    elif kind == "bits":
        file.write_bytes(whole[:packed] + b"\xff" * 9 + whole[packed + 9 :])
    elif kind == "header":
        file.write_bytes(whole.replace(whole[packed - 37 : packed], b"x" * 37, 1))
    elif kind == "elsewhere":
        listed = whole.rindex(b"a/1.jpg")
        file.write_bytes(whole[: listed - 4] + b"\xff\xff\xff\x7f" + whole[listed:])


FAULTS = {
    "encrypted": "it is encrypted",
    "method": "it is compressed by method 12; write it stored or deflated",
    "bomb": "the file has 4,043,309,055 bytes; the limit is",
    "packed": "the file has 18,7",
    "shorter": "its content is not what the archive's directory says",
    "sum": "its content is not what the archive's directory says",
    "bits": "Error -3 while decompressing data",
    "header": "its header in the archive is damaged",
    "elsewhere": "the image is empty",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_what_is_started_is_what_is_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From storage that starts to read ranges, as that of object stores does."""
    fault("none", tmp_path / "birds.zip")
    sizes = read_folder(tmp_path / "birds.zip").frame
    fault(kind, tmp_path / "birds.zip")
    source = read_table(sizes, root=tmp_path / "birds.zip", on_bad_image="drop").source
    assert starter(source) is None

    def start(storage: LocalStorage, ranges: list[Any], _seconds: float) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(
            [each if isinstance(each, OSError) else storage.read([each])[0] for each in ranges]
        )
        return future

    monkeypatch.setattr(LocalStorage, "start", start, raising=False)
    keys = np.array([2, 0, 1, 0])
    started, read = (
        [str(each) if isinstance(each, OSError) else bytes(each) for each in images]
        for images in (source.start(keys, 9.0).result(), source.read(keys))
    )
    assert started == read
    assert [isinstance(each, str) for each in read] == [False, False, True, False]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_file_at_fault_is_one_bad_image(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "birds.zip"
    fault("none", file)
    sizes = read_folder(file).frame
    fault(kind, file)
    manifest = read_table(sizes, root=file, on_bad_image="drop")
    with make(manifest, batch_size=3, on_error="blank", max_failures=1) as loader:
        (batch,) = list(loader)
    assert batch["image"].any(axis=(1, 2, 3)).sum() >= 2
    (failure,) = loader.quarantine
    assert failure.path == "a/1.jpg"
    assert FAULTS[kind] in failure.reason
    assert manifest.without(loader.quarantine).frame["path"].to_list() == ["a/0.jpg", "a/2.jpg"]
    found = check(manifest.frame.select("path"), manifest.source, progress=False)
    assert found.findings["path"].to_list() == ["a/1.jpg"]
    if kind not in ("sum", "shorter"):  # which do not matter for its header
        with pytest.raises(ManifestError, match=r"1 of 3 images are bad: .*/birds.zip/a/1.jpg: "):
            read_folder(file)


def test_a_file_of_zeros_is_inflated_no_further_than_its_header(tmp_path: Path) -> None:
    """A gigabyte that takes a megabyte: only its first bytes are looked at."""
    file = tmp_path / "bomb.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/0.jpg", content("x"))
        with archive.open("a/1.jpg", "w") as member:
            for _ in range(64):
                member.write(bytes(1 << 20))
    with pytest.raises(ManifestError, match=r"bomb.zip/a/1.jpg: not a JPEG, PNG"):
        read_folder(file)
    frame = read_folder(file, on_bad_image="drop").frame
    both = pl.concat([frame, frame.with_columns(path=pl.lit("a/1.jpg"))])
    manifest = read_table(both, root=file, on_bad_image="drop")
    (read,) = manifest.source.read(np.array([1]))
    assert "the file has 67,108,864 bytes; the limit is" in str(read)


def test_an_archive_that_changes_later(archive: Path) -> None:
    manifest = read_folder(archive)
    content_before = archive.read_bytes()
    archive.write_bytes(content_before + b"\0")
    (read,) = manifest.source.read(np.array([0]))
    assert str(read) == "the file has changed since it was indexed"


@pytest.mark.parametrize("cut", [0, 1, 30, 200, -1, -30, -200])
def test_archives_that_are_none(cut: int, archive: Path) -> None:
    whole = archive.read_bytes()
    archive.write_bytes(whole[:cut])
    said = "is not a valid zip archive: |is not a folder"
    with pytest.raises(ManifestError, match=said):
        read_folder(archive)


def test_damaged_archives_are_errors_of_ours(archive: Path) -> None:
    """Whatever becomes of an archive: a manifest, or an error that names it or an image."""
    whole, drawn = archive.read_bytes(), random.Random(0)  # noqa: S311
    start = whole.index(b"PK\x01\x02")
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            damaged[drawn.randrange(start, len(whole))] = drawn.randrange(256)
        archive.write_bytes(damaged)
        try:
            manifest = read_folder(archive, on_bad_image="drop")
        except ManifestError:
            continue
        for read in manifest.source.read(np.arange(len(manifest))):
            assert isinstance(read, OSError) or bytes(read) in {content(name) for name in NAMES}


def test_archives_without_random_access(folder: Path, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, "birds")
    for name, whole, kind in [
        ("birds.7z", b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        ("birds.rar", b"Rar!\x1a\x07\x01\x00", "a rar archive"),
        ("birds.tbz", bz2.compress(packed.getvalue()), "compressed by bzip2"),
    ]:
        file = tmp_path / name
        file.write_bytes(whole)
        said = f"{file} is {kind}, so no image in it can be read by itself; unpack it, or put"
        with pytest.raises(ManifestError, match=f"^{said}"):
            read_folder(file)
        with pytest.raises(ManifestError, match=f"^{said}"):
            read_table({"path": ["a"], "label": [0]}, root=file)
    (tmp_path / "birds.tar").write_bytes(packed.getvalue())
    with pytest.raises(ManifestError, match=r"birds.tar is a tar archive; read_webdataset reads"):
        read_folder(tmp_path / "birds.tar")
    (tmp_path / "text.txt").write_text("text")
    with pytest.raises(ManifestError, match=r"/text.txt is not a folder"):
        read_folder(tmp_path / "text.txt")


def test_the_tools_take_them(folder: Path, archive: Path) -> None:
    assert open_manifest(archive).frame.equals(open_manifest(folder).frame)
    listed = list_images(archive)
    assert listed.frame.equals(list_images(folder).frame)
    with pytest.raises(ConfigError, match="label does not apply"):
        open_manifest(archive, options=ListOptions(label="x"))
    shutil.move(archive, folder / "moved.zip")
    assert len(open_manifest(folder / "moved.zip")) == 5
