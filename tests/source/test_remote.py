"""Object stores and web servers: the images of files, whatever happens to requests."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, DecodeError, Manifest, ManifestError, RemoteStorage, ShardOptions
from gpufeed.cli import main
from gpufeed.source.base import starter
from gpufeed.source.locate import storage_of
from gpufeed.source.ranges import RangeSource
from gpufeed.source.remote import storage as remote
from gpufeed.source.remote.loop import event_loop
from gpufeed.source.remote.storage import WholeFile
from gpufeed.source.storage import LocalStorage, StoredRange
from tests.support.faulty_store import BUCKET, FAULTS, FaultyStore, put, s3, server_backend
from tests.support.hanging_files import HangingFiles
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture

COUNT = 22
ROOT = f"s3://{BUCKET}/photos"


def photo(number: int) -> tuple[str, bytes]:
    """A path with characters that URLs encode, and an image."""
    name = f"{'abc'[number % 3]}/{number:02} é+%20&.jpg"
    return name, jpeg(picture(40 + number, 90 - 2 * number, seed=number))


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyStore]:
    with s3() as store:
        for name, content in map(photo, range(COUNT)):
            put(f"photos/{name}", content)
        yield store


@pytest.fixture
def store(server: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    """The server without faults, and requests that are made again at once."""
    monkeypatch.setattr(remote, "_FIRST_WAIT", 1e-3)
    server.reset()
    return server


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("photos")
    for name, content in map(photo, range(COUNT)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return gpufeed.read_folder(folder)


@pytest.fixture(scope="module")
def wanted(files: Manifest) -> list[str]:
    with feed(files) as loader:
        return [digest(batch) for batch in loader]


def feed(manifest: Manifest, **options: Any) -> gpufeed.Loader:
    return make(manifest, **{"batch_size": 4, "num_threads": 1, "last_batch": "pad", **options})


def digests(manifest: Manifest, **options: Any) -> list[str]:
    with feed(manifest, **options) as loader:
        return [digest(batch) for batch in loader]


def test_batches_are_those_of_files(store: FaultyStore, files: Manifest, wanted: list[str]) -> None:
    """In the same order, at one and three shards, after a resume, and with each option."""
    manifest = gpufeed.read_folder(ROOT)
    assert manifest.fingerprint() == files.fingerprint()
    assert (manifest.root, manifest.source.name(0)) == (ROOT, f"{ROOT}/{files.frame['path'][0]}")
    assert digests(manifest) == digests(manifest, read_timeout=60) == wanted
    with feed(files) as loader:
        state = {**loader.state_dict(), "records": 8}
    with feed(manifest) as loader:
        loader.load_state_dict(state)
        assert [digest(batch) for batch in loader] == wanted[2:]
    for index in range(3):
        shard = ShardOptions(index, 3)
        assert digests(manifest, shard=shard) == digests(files, shard=shard)
    for _ in range(2):
        assert digests(pickle.loads(pickle.dumps(manifest)), cache="host") == wanted  # noqa: S301


@pytest.mark.parametrize("faults", [*((each,) for each in FAULTS), FAULTS], ids="-".join)
def test_faults_lose_and_double_nothing(
    store: FaultyStore, files: Manifest, wanted: list[str], faults: tuple[str, ...]
) -> None:
    """A fifth of the paths fail twice: while they are listed, measured and read."""
    store.faults = faults
    table = files.frame.drop("width", "height").with_columns(path=f"{ROOT}/" + pl.col("path"))
    manifest = gpufeed.read_table(table, classes=["0", "1", "2"], progress=False)
    assert manifest.frame["width"].to_list() == files.frame["width"].to_list()
    store.seen.clear()
    assert digests(manifest) == wanted
    assert store.spoiled.total() >= len(faults)
    assert set(store.spoiled) == set(faults)


def test_what_is_missing_is_one_bad_record(store: FaultyStore, files: Manifest) -> None:
    manifest = gpufeed.read_folder(ROOT)
    name = manifest.frame["path"][5]
    gone = files.take(np.delete(np.arange(COUNT), 5))
    server_backend().delete_object(BUCKET, f"photos/{name}")
    try:
        with pytest.raises(DecodeError, match="there is no such file") as caught:
            digests(manifest)
        assert caught.value.record_key == 5
        assert str(caught.value).count(f"{ROOT}/{name}") == 1
        assert digests(manifest.without(pl.DataFrame({"path": [name]}))) == digests(gone)
        with feed(manifest, on_error="substitute") as loader:
            keys = np.concatenate([batch["record_key"] for batch in loader])
        assert loader.quarantine.frame()["record_key"].to_list() == [5]
        # Padding repeats two records.
        assert set(keys.tolist()) == set(range(COUNT)) - {5}
    finally:
        put(f"photos/{name}", photo(int(name[2:4]))[1])


REFUSALS = [
    (
        "region",
        "the bucket is in another region (400 AuthorizationHeaderMalformed); set AWS_REGION to "
        "eu-west-3",
    ),
    ("redirect", "the bucket is in another region (301); set AWS_REGION to that of the bucket"),
    (
        "denied",
        "access was denied (403 InvalidAccessKeyId); check the credentials (AWS_PROFILE, or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or set AWS_SKIP_SIGNATURE=true for a public "
        "bucket",
    ),
]


@pytest.mark.parametrize(("fault", "said"), REFUSALS)
def test_refusals_are_told_at_once(store: FaultyStore, fault: str, said: str) -> None:
    store.always = {"photos": fault}
    with pytest.raises(ManifestError) as caught:
        gpufeed.read_folder(ROOT)
    assert str(caught.value) == f"cannot list {ROOT}: {said}"
    with pytest.raises(OSError, match=r"another region|access was denied"):
        storage_of(ROOT).stamp("a/x.jpg")
    (read,) = storage_of(ROOT).read([StoredRange("a/x.jpg", 0, 9)])
    assert said in str(read)
    assert set(store.seen.values()) == {1, 2}


def test_other_errors_say_what_to_do(store: FaultyStore) -> None:
    cases = {
        "s3://nobody/photos": "cannot list s3://nobody/photos: there is no such bucket "
        "(404 NoSuchBucket)",
        f"s3://{BUCKET}/nothing": f"there is nothing below s3://{BUCKET}/nothing",
        "s3://": "s3:// names no bucket; write s3://bucket/folder",
        "https://user:secret@example.com/photos?signature=x": "cannot list "
        "https://example.com/photos: a web server lists no files; pass a table of their URLs",
    }
    for url, said in cases.items():
        with pytest.raises(ManifestError) as caught:
            gpufeed.read_folder(url)
        assert said in str(caught.value)
    with pytest.raises(ConfigError, match=r"nonsense:// cannot be read: .*not known"):
        gpufeed.read_folder("nonsense://photos")
    with pytest.raises(ConfigError, match="pass a URL as text"):
        gpufeed.read_folder(Path(ROOT))
    with pytest.raises(ConfigError, match="cannot be opened with these options"):
        RemoteStorage(ROOT, nonsense=1).find("*")
    for name, value in (("max_requests", 0), ("timeout", 0), ("retry_seconds", "1")):
        with pytest.raises(ConfigError, match=f"{name} is .*; it must be"):
            RemoteStorage(ROOT, **{name: value})
    with pytest.raises(ManifestError, match=r"none of the 2 images exists.*the root s3://.* looks"):
        gpufeed.read_table({"path": ["x.jpg", "y.jpg"]}, label=None, root=ROOT, progress=False)
    with pytest.raises(ManifestError, match="not in the same kind of storage"):
        gpufeed.read_table({"path": [f"{ROOT}/x.jpg", "gs://a/y.jpg"]}, label=None)


def test_credentials_are_where_those_of_aws_are(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def signers(**options: Any) -> set[str]:
        store.signers.clear()
        with contextlib.suppress(PermissionError):
            RemoteStorage(ROOT, **options).find("*")
        return store.signers

    assert signers() == {"user"}
    keys = {"access_key_id": "given", "secret_access_key": "x"}
    assert signers(**keys) == {"given"}
    assert signers(skip_signature=True) == {""}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert signers() == {""}
    profile = "[own]\naws_access_key_id = mine\naws_secret_access_key = x\n"
    (tmp_path / "credentials").write_text(profile)
    monkeypatch.setenv("AWS_PROFILE", "own")
    assert signers() == {"mine"}
    (tmp_path / "config").write_text(f"[profile own]\nendpoint_url = http://{store.address}\n")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert signers() == {"mine"}


def test_retries_end(store: FaultyStore) -> None:
    store.always = {"photos": "busy"}
    storage = RemoteStorage(ROOT, retry_seconds=0.02)
    (read,) = storage.read([StoredRange("a/x.jpg", 0, 9)])
    attempts = store.seen[f"/{BUCKET}/photos/a/x.jpg"]
    said = rf"the server answered 503 SlowDown; given up after \d+ s \(attempts: {attempts}\)"
    assert re.fullmatch(said, str(read))


def test_what_has_changed_is_not_read(store: FaultyStore) -> None:
    """A part has the stamp that was asked for; a file that is open does not change."""
    put("shards/0.bin", bytes(200_000))
    storage = storage_of(f"s3://{BUCKET}/shards")
    stamp = storage.stamp("0.bin")
    source = RangeSource(
        storage, ["0.bin"], [stamp], np.zeros(3, int), np.array([0, 5, 0]), np.array([9, 5, 0]),
        pl.Series(["x", "y", "z"]),
    )  # fmt: skip
    opened = storage.open("0.bin")
    assert opened.read(3) == bytes(3)
    for read in (source.read, lambda keys: source.start(keys, 60).result()):
        first, second, empty = read(np.arange(3))
        assert (bytes(first), bytes(second), str(empty)) == (
            bytes(9),
            bytes(5),
            "the image is empty",
        )
    put("shards/0.bin", b"1" * 200_000)
    assert [str(each) for each in source.read(np.arange(2))] == [
        "the file has changed since it was indexed"
    ] * 2
    with pytest.raises(OSError, match="has changed since"):
        opened.read()


def test_interchangeable_with_local(store: FaultyStore, tmp_path: Path) -> None:
    """Both give the same of the same files."""
    drawn = np.random.default_rng(0)
    for name in ("x.tar", "a/x.tar", "a/b/y.tar", "a/b/z.idx", "c [1]/ü%.tar"):
        content = drawn.bytes(150_000)
        put(f"tree/{name}", content)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    ours, theirs = storage_of(f"s3://{BUCKET}/tree/"), storage_of(tmp_path)
    assert isinstance(theirs, LocalStorage)
    for pattern in (
        "*",
        "*.tar",
        "**/*.tar",
        "a/**/*",
        "a/*/y.tar",
        "a/x.tar",
        "?/x.t[ab]r",
        "n*/*",
    ):
        assert ours.find(pattern) == theirs.find(pattern), pattern
    ranges = [
        StoredRange(path, start, length, stamps.stamp(path) if known else None)
        for stamps in [ours]
        for path in ours.find("**/*")
        for start, length, known in [(0, 150_000, True), (149_000, 1000, False), (70_000, 9, True)]
    ]
    read = theirs.read([each._replace(stamp=None) for each in ranges])
    assert [bytes(each) for each in ours.read(ranges)] == [bytes(each) for each in read]
    with ours.open("a/x.tar") as one, theirs.open("a/x.tar") as other:
        for place in (140_000, 10, 65_530, 149_999, 150_000, 200_000, 66_000):
            assert one.seek(place) == other.seek(place)
            assert one.read(20) == other.read(20)
        assert one.seek(-7, os.SEEK_END) == other.seek(-7, os.SEEK_END)
        assert one.read() == other.read()
        assert one.seek(3) == 3
        assert one.read() == other.read(0) + (tmp_path / "a/x.tar").read_bytes()[3:]
    assert ours.stamp("a/x.tar").length == theirs.stamp("a/x.tar").length
    short = StoredRange("a/x.tar", 149_000, 2000)
    assert [str(each) for each in (*ours.read([short]), *theirs.read([short]))] == [
        "the file ends at byte 150,000, within the image"
    ] * 2
    for storage in (ours, theirs):
        with pytest.raises(FileNotFoundError):
            storage.stamp("nothing")
        with pytest.raises(FileNotFoundError):
            storage.open("nothing")


def test_requests_overlap_up_to_the_limit(store: FaultyStore, wanted: list[str]) -> None:
    """Each answer waits until so many requests are under way, and there are never more."""
    storage = RemoteStorage(ROOT, max_requests=6)
    manifest = gpufeed.read_folder(storage)
    store.reset()
    store.together = 6
    assert len(storage.read([StoredRange(path, 0, 9) for path in manifest.frame["path"]])) == COUNT
    assert store.peak == 6
    # More than a batch, since the next ones are read meanwhile.
    store.reset()
    store.together = 6
    with feed(manifest) as loader:
        assert [digest(batch) for batch in loader] == wanted
        assert store.peak == 6


def test_requests_for_several_sources_overlap(
    store: FaultyStore, files: Manifest, wanted: list[str]
) -> None:
    """Those of two clients, beside files of this machine; none waits until it fails."""
    storages = [RemoteStorage(ROOT, max_requests=count, retry_seconds=1e-3) for count in (6, 7)]
    parts = [*map(gpufeed.read_folder, storages), files]
    order = np.arange(COUNT) + COUNT * (np.arange(COUNT) % 3)
    manifest = gpufeed.concat(parts).take(order)
    store.reset()
    store.together = 6
    with feed(manifest) as loader:
        assert [digest(batch) for batch in loader] == wanted


def test_sizes_come_from_the_beginning_and_are_kept(store: FaultyStore) -> None:
    drawn = np.random.default_rng(0)
    noise = jpeg(Image.fromarray(drawn.integers(0, 256, (500, 600, 3), np.uint8)), quality=100)
    assert len(noise) > 4 * remote.BLOCK
    for number in range(3):
        put(f"large/a/{number}.jpg", noise + bytes([number]))
    root = f"s3://{BUCKET}/large"
    manifest = gpufeed.read_folder(root)
    assert manifest.sizes().tolist() == [[500, 600]] * 3
    assert 3 * remote.BLOCK < store.sent < 4 * remote.BLOCK
    # The listing has the stamps, so nothing is asked for again but what has changed.
    put("large/a/1.jpg", jpeg(picture(30, 40, seed=1)))
    store.reset()
    assert gpufeed.read_folder(root).sizes().tolist() == [[500, 600], [30, 40], [500, 600]]
    assert [path for path in store.seen if "list-type" not in path] == [f"/{BUCKET}/large/a/1.jpg"]
    # A file that is too long for its pixels is not read whole.
    small = manifest.frame.with_columns(width=pl.lit(2, pl.Int32), height=pl.lit(2, pl.Int32))
    limited = Manifest(small, root, ["a"]).source.limited(np.full(3, 1000))
    store.reset()
    read = limited.read(np.array([0, 2]))
    assert {str(each) for each in read} == {
        f"the file has {len(noise) + 1:,} bytes; the limit is 1,000"
    }


def test_a_read_that_hangs_is_given_up(store: FaultyStore, files: Manifest) -> None:
    manifest = gpufeed.read_folder(ROOT)
    name = manifest.frame["path"][7]
    store.hold = name
    held = manifest.source.start(np.array([7]), 0.05).result()
    assert [str(each) for each in held] == ["no answer within 0.05 s"]
    with (
        feed(manifest.take([7]), batch_size=1, read_timeout=0.05) as loader,
        pytest.raises(DecodeError, match=r"no answer within 0\.05 s"),
    ):
        next(iter(loader))
    # Closing a loader does not wait for what hangs: the next batch, when the first is there.
    order = gpufeed.SequentialSampler(2, num_epochs=1)
    with feed(manifest.take([0, 7]), batch_size=1, sampler=order) as loader:
        next(iter(loader))
    store.release()
    (read,) = manifest.source.read(np.array([7]))
    assert bytes(read) == (files.root / name).read_bytes()


def test_threads_end_with_what_used_them(store: FaultyStore) -> None:
    storage = storage_of(ROOT)
    copy = pickle.loads(pickle.dumps(storage))  # noqa: S301
    assert copy.find("a/*") == storage.find("a/*")
    thread = event_loop()._thread
    copy.close()
    assert copy.root == storage.root
    storage.close()
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert storage.find("a/*")


PROCESS = """
import os, sys, threading
import gpufeed, numpy as np
storage = gpufeed.RemoteStorage(sys.argv[1])
{body}
"""


def run(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROCESS.format(body=body), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_forked_processes_are_told(store: FaultyStore) -> None:
    body = """
assert storage.find("a/*")
child = os.fork()
if not child:
    try:
        storage.find("a/*")
    except gpufeed.ConfigError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = run(body, ROOT)
    assert done.returncode == 0, done.stderr
    assert "obstore's threads do not survive a fork; start processes with" in done.stdout


def test_exit_does_not_wait_for_a_request(store: FaultyStore) -> None:
    store.hold = "a/"
    body = """
from concurrent.futures import ThreadPoolExecutor
from gpufeed.source.storage import StoredRange
waiting = ThreadPoolExecutor(1).submit(storage.read, [StoredRange("a/x", 0, 9)])
storage.find("b/*")
print("end", flush=True)
"""
    done = run(body, ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_tables_and_tools_take_urls(
    store: FaultyStore, files: Manifest, wanted: list[str], tmp_path: Path
) -> None:
    listed = files.frame.with_columns(label="class_name").drop("class_name", "width", "height")
    for name, write in (
        ("list.csv", listed.write_csv),
        ("list.parquet", listed.write_parquet),
        ("list.arrow", listed.write_ipc),
    ):
        write(tmp_path / name)
        put(f"photos/{name}", (tmp_path / name).read_bytes())
    tables = [
        gpufeed.read_table(f"{ROOT}/list.csv", progress=False),
        gpufeed.read_table(f"{ROOT}/list.parquet", progress=False),
        gpufeed.read_table(f"{ROOT}/list.arrow", progress=False),
        gpufeed.read_table(listed, root=ROOT, progress=False),
        gpufeed.read_table(listed, root=RemoteStorage(ROOT), progress=False),
        gpufeed.read_table(listed.with_columns(path=f"{ROOT}/" + pl.col("path")), progress=False),
    ]
    assert len({table.fingerprint() for table in tables}) == 1
    assert {table.root for table in tables} == {ROOT}
    both = gpufeed.concat([tables[0].take([0, 1]), gpufeed.read_folder(f"{ROOT}")])
    assert both.root == ROOT
    assert (
        both.take(np.arange(2, COUNT + 2)).frame["path"].to_list() == files.frame["path"].to_list()
    )
    parts = [(name, files.filter(pl.col("class_name") == name).frame) for name in "ab"]
    apart = gpufeed.concat(
        Manifest(frame.with_columns(pl.col("path").str.slice(2)), f"{ROOT}/{name}", list("abc"))
        for name, frame in parts
    )
    assert apart.root == ROOT
    assert (
        apart.frame["path"].to_list() == files.filter(pl.col("label") < 2).frame["path"].to_list()
    )
    for arguments in (
        ["check", ROOT],
        ["check", f"{ROOT}/list.csv"],
        ["check", str(tmp_path / "list.csv"), "--root", ROOT],
        ["show", f"{ROOT}/list.parquet", "--batch-size", "4", "--out", str(tmp_path)],
    ):
        assert main(arguments) == 0
    with pytest.raises(ManifestError, match=r"cannot read s3://.*/none.csv: there is no such file"):
        gpufeed.read_table(f"{ROOT}/none.csv")


@pytest.mark.parametrize("kind", ["tar", "parquet", "arrow", "zip"])
def test_images_in_larger_files(
    kind: str, store: FaultyStore, files: Manifest, wanted: list[str], tmp_path: Path
) -> None:
    contents = [Path(files.root, path).read_bytes() for path in files.frame["path"]]
    rows = list(zip(files.frame["path"], files.labels.column.to_list(), contents, strict=True))
    halves = [rows[:9], rows[9:]]
    for number, half in enumerate(halves if kind != "zip" else [rows]):
        file = tmp_path / f"{number}.{kind}"
        if kind == "tar":
            with tarfile.open(file, "w") as tar:
                for path, label, content in half:
                    for ending, data in ((".jpg", content), (".cls", b"%d" % label)):
                        member = tarfile.TarInfo(path.removesuffix(".jpg") + ending)
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
        elif kind == "zip":
            with zipfile.ZipFile(file, "w") as archive:
                for path, _, content in half:
                    archive.writestr(path, content)
        else:
            frame = pl.DataFrame(half, schema=["path", "label", "image"], orient="row")
            frame.write_parquet(file) if kind == "parquet" else frame.write_ipc(file)
        put(f"larger/{file.name}", file.read_bytes())
    url = f"s3://{BUCKET}/larger"
    if kind == "tar":
        url += "/{0..1}*.tar"
        manifest = gpufeed.read_webdataset(url)
    elif kind == "zip":
        url += "/0.zip"
        manifest = gpufeed.read_folder(url)
    else:
        url += f"/*.{kind}"
        manifest = gpufeed.read_table(url, image="image")
    assert starter(manifest.source) is not None or kind == "parquet"  # which is compressed
    assert digests(manifest) == wanted
    column = ["--image", "image"] if kind in ("parquet", "arrow") else []
    assert main(["check", url, *column]) == 0
    copied = pickle.loads(pickle.dumps(manifest))  # noqa: S301
    assert digests(copied.take(range(5))) == digests(files.take(range(5)))


def test_a_saved_manifest_has_its_url(
    store: FaultyStore, wanted: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "photos.manifest"
    gpufeed.read_folder(ROOT).save(file)
    assert gpufeed.read_manifest(file).root == ROOT
    manifest = gpufeed.read_manifest(file, root=RemoteStorage(ROOT, timeout=9))
    copied = pickle.loads(pickle.dumps(manifest))  # noqa: S301
    assert copied.source.storage.options["timeout"] == 9
    assert digests(copied) == wanted


def test_masks_beside_images(store: FaultyStore) -> None:
    sizes = [(40 + number, 90 - 2 * number) for number in range(2)]
    for number, (height, width) in enumerate(sizes):
        mask = io.BytesIO()
        Image.fromarray(np.full((height, width), number + 1, np.uint8)).save(mask, "PNG")
        put(f"masked/{number}.png", mask.getvalue())
        put(f"masked/{number}.jpg", photo(number)[1])
    table = {"path": ["0.jpg", "1.jpg"], "label": [0, 1], "mask": ["0.png", "1.png"]}
    manifest = gpufeed.read_table(table, root=f"s3://{BUCKET}/masked")
    with feed(manifest, targets=[gpufeed.Mask("mask")]) as loader:
        (batch,) = loader
    assert [np.unique(mask).max() for mask in np.asarray(batch["mask"])[:2]] == [1, 2]


def test_memory_and_files(files: Manifest, wanted: list[str]) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    try:
        memory.put(f"{files.root}/", "/photos", recursive=True)
        for manifest in (
            gpufeed.read_folder("memory://photos"),
            gpufeed.read_folder(files.root.as_uri()),
        ):
            assert manifest.fingerprint() == files.fingerprint()
            assert digests(manifest) == wanted
        assert storage_of("memory://photos").find("a/*") == storage_of(files.root).find("a/*")
        with pytest.raises(FileNotFoundError):
            storage_of("memory://photos").open("none.jpg")
        taken = storage_of("memory://photos").read(
            [StoredRange(files.frame["path"][0], 0, 1 << 20)]
        )
        assert "the file ends at byte" in str(taken[0])
    finally:
        memory.store.clear()


def test_a_short_answer_of_a_file_system_is_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    storage = RemoteStorage("memory://short", retry_seconds=0.01)
    try:
        memory.pipe("/short/a", bytes(100))
        monkeypatch.setattr(type(memory), "cat_file", lambda *_: bytes(50))
        for wanted in (WholeFile("a", 1000), StoredRange("a", 0, 80)):
            (read,) = storage.read([wanted])
            assert "only 50 bytes arrived; given up" in str(read)
    finally:
        memory.store.clear()


@pytest.fixture
def hanging() -> Iterator[HangingFiles]:
    """A file system of which the files below `hung/` do not answer until they are let go."""
    yield HangingFiles.register()
    HangingFiles.free.set()


def test_reads_of_a_file_system_that_hang_hold_up_no_others(hanging: type[HangingFiles]) -> None:
    """However many they are; and each file has one thread at most."""
    storage = RemoteStorage("hanging://", max_requests=8)
    hung = [WholeFile(f"hung/{number}", 1000) for number in range(100)]
    for _ in range(2):
        given_up = storage.start(hung, 0.01).result(60)
        assert {str(each) for each in given_up} == {"no answer within 0.01 s"}
    assert storage.start([WholeFile("good", 1000)]).result(60) == [b"good"]
    assert max(hanging.asked.values()) == 1
    hanging.free.set()
    assert storage.start(hung).result(60) == [each.path.encode() for each in hung]


def test_exit_waits_for_no_file_system() -> None:
    body = """
from gpufeed.source.remote import loop
from gpufeed.source.remote.storage import WholeFile
from tests.support.hanging_files import HangingFiles
loop._RELEASE_SECONDS = 0.1
HangingFiles.register()
storage = gpufeed.RemoteStorage("hanging://")
print(*storage.start([WholeFile("hung/1", 1000)], 0.1).result(), flush=True)
"""
    done = run(body, "memory://")
    assert (done.returncode, done.stdout, done.stderr) == (0, "no answer within 0.1 s\n", "")
