"""Sources: the same images give the same batches wherever they are, and a bad answer is named."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpufeed
from gpufeed import ConfigError, FileSource, Manifest, ManifestError, MemorySource, SourceError
from gpufeed import transforms as tf
from gpufeed.source import timeout
from gpufeed.source.base import Encoded, open_image, read_images, starter
from gpufeed.source.concurrent import Concurrent
from gpufeed.source.selection import Selection, join, take
from gpufeed.source.threads import LONG, Threaded
from gpufeed.source.timeout import Timeout
from gpufeed.source.wrapper import ReadCancelled
from gpufeed.tools.bench import bench
from gpufeed.tools.check.dataset import check
from gpufeed.tools.show import show_batch
from tests.support.hanging import HangingClock
from tests.support.loaders import digest, make
from tests.support.media import jpeg, make_manifest, picture

Keys = npt.NDArray[np.int64]


class Shelf:
    """A source of a user's own, with nothing but what `gpufeed.Source` asks for."""

    def __init__(self, images: Sequence[Encoded | OSError]) -> None:
        self.images = images

    def read(self, keys: Keys) -> list[Encoded | OSError]:
        return [self.images[key] for key in keys]

    def name(self, key: int) -> str:
        return f"shelf:{key}"


def contents(manifest: Manifest) -> list[bytes]:
    return [(manifest.root / path).read_bytes() for path in manifest.frame["path"]]


def elsewhere(manifest: Manifest, source: gpufeed.Source) -> Manifest:
    """The same records, whose images are in another source."""
    return Manifest(manifest.frame, source, manifest.classes)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Twenty-four images of many sizes."""
    sizes = [(40 + number, 80 - 2 * number) for number in range(24)]
    return make_manifest(tmp_path_factory.mktemp("images"), sizes)


@pytest.fixture(scope="module")
def wanted(pictures: Manifest) -> list[str]:
    with make(pictures) as loader:
        return [digest(batch) for batch in loader]


KINDS: dict[str, Any] = {
    "bytes": MemorySource,
    "bytearray": lambda images: MemorySource([bytearray(each) for each in images]),
    "memoryview": lambda images: MemorySource([memoryview(each) for each in images]),
    "mapping": lambda images: MemorySource({f"{n}.jpg": each for n, each in enumerate(images)}),
    "a user's own": Shelf,
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_the_same_from_any_source(
    pictures: Manifest, wanted: list[str], kind: str
) -> None:
    manifest = elsewhere(pictures, KINDS[kind](contents(pictures)))
    assert manifest.fingerprint() == pictures.fingerprint()
    with make(manifest) as loader:
        assert [digest(batch) for batch in loader] == wanted
        assert digest(loader.batch(1)) == wanted[1]


def test_dali_opens_any_kind_of_bytes(pictures: Manifest) -> None:
    digests = set()
    for kind in KINDS:
        manifest = elsewhere(pictures, KINDS[kind](contents(pictures)))
        with make(manifest, opener="graph") as loader:
            digests.add(digest(loader.batch(0)))
    assert len(digests) == 1


def test_parts_of_a_manifest_take_their_images_along(pictures: Manifest) -> None:
    manifest = elsewhere(pictures, Shelf(contents(pictures)))
    some = manifest.filter(pl.col("label") == 1).take([3, 0, 0])
    for key in range(3):
        row = pictures.frame["path"].to_list().index(some.frame["path"][key])
        assert some.source.name(key) == f"shelf:{row}"
        assert some.source.read(np.array([key])) == [contents(pictures)[row]]


def test_a_table_takes_any_source(pictures: Manifest) -> None:
    labels = pl.DataFrame({"label": ["a", "b"] * (len(pictures) // 2)})
    images = contents(pictures)[: labels.height]
    manifest = gpufeed.read_table(labels, source=Shelf(images))
    assert manifest.frame["path"][:2].to_list() == ["shelf:0", "shelf:1"]
    assert manifest.sizes().tolist() == pictures.sizes()[: labels.height].tolist()
    named = {f"image {number}": each for number, each in enumerate(images)}
    assert gpufeed.read_table(labels, source=MemorySource(named)).frame["path"][1] == "image 1"
    with pytest.raises(ManifestError, match=r"images are not files .* but <.*Shelf"):
        _ = manifest.root


def test_a_bad_image_of_a_source_is_a_bad_record(pictures: Manifest) -> None:
    images: list[Encoded | OSError] = [*contents(pictures)]
    images[5] = FileNotFoundError(2, "not on the shelf")
    images[6] = b""
    images[7] = b"GIF87a"
    labels = pictures.frame.select("label")
    with pytest.raises(ManifestError, match="3 of 24 images are bad: shelf:5: not on the"):
        gpufeed.read_table(labels, source=Shelf(images))
    good = gpufeed.read_table(labels, source=Shelf(images), on_bad_image="drop")
    assert good.repairs == {"images_dropped": 3}
    assert good.frame["path"].to_list() == [f"shelf:{n}" for n in range(24) if n not in (5, 6, 7)]
    assert good.source.name(5) == "shelf:8"
    manifest = elsewhere(pictures, Shelf(images))
    with make(manifest, on_error="blank", max_failures=3) as loader:
        list(loader)
        list(loader)
        said = {failure.record_key: failure.reason for failure in loader.quarantine}
    assert said[5] == "cannot be read: not on the shelf"
    assert "the file is empty" in said[6]
    assert "not a JPEG" in said[7]
    found = check(manifest.frame, manifest.source, max_pixels=1 << 20, progress=False)
    assert found.findings.filter("fails").select("record_key", "kind").rows() == [
        (5, "missing"),
        (6, "empty"),
        (7, "not an image"),
    ]


def test_the_tools_take_any_source(pictures: Manifest) -> None:
    manifest = elsewhere(pictures, Shelf(contents(pictures)))
    report = check(manifest.frame, manifest.source, max_pixels=1 << 20, progress=False)
    assert report.images == len(manifest)
    assert report.failing == 0
    found = bench(manifest, size=32, batch_size=4, rounds=1, seconds=0.01, device="cpu")
    assert found.batches >= 2
    assert show_batch(manifest, size=24, batch_size=8, device="cpu").images == 8


ANSWERS: list[tuple[Any, str]] = [
    (lambda _: [], r"returned 0 items for 8 keys"),
    (lambda keys: [b""] * (len(keys) + 1), r"returned 9 items for 8 keys"),
    (lambda keys: [None] * len(keys), r"returned NoneType for key \d+; an image must be bytes"),
    (lambda keys: ["x"] * len(keys), r"returned str for key \d+; an image must be bytes"),
    (
        lambda keys: [memoryview(b"abcdef")[::2]] * len(keys),
        r"returned memoryview for key \d+; an image must be bytes, a bytearray, or a contiguous",
    ),
    (
        lambda _: 1 / 0,
        r"raised ZeroDivisionError: division by zero; for an image that it cannot read, a source",
    ),
]


@pytest.mark.parametrize(("answer", "said"), ANSWERS)
def test_what_a_source_must_not_return_is_named(answer: Any, said: str) -> None:
    class Wrong(Shelf):
        def read(self, keys: Keys) -> Any:
            return answer(keys)

    with pytest.raises(SourceError, match=r"^Wrong\.read " + said):
        read_images(Wrong([]), np.arange(8))


def test_a_loader_ends_with_the_error_of_its_source(pictures: Manifest) -> None:
    class Wrong(Shelf):
        def read(self, keys: Keys) -> Any:
            return [] if 5 in keys else super().read(keys)

    manifest = elsewhere(pictures, Wrong(contents(pictures)))
    with (
        make(manifest, on_error="blank") as loader,
        pytest.raises(SourceError, match=r"Wrong\.read"),
    ):
        list(loader)


def test_what_is_no_source_is_refused(pictures: Manifest) -> None:
    for wrong in (3, None, object()):
        with pytest.raises(ManifestError, match="must be a folder, or have the methods read and"):
            Manifest(pictures.frame, wrong, pictures.classes)  # type: ignore[arg-type]
    with pytest.raises(ManifestError, match=r"24 rows, but MemorySource\(1 images\) has 1 images"):
        Manifest(pictures.frame, MemorySource([b""]), pictures.classes)
    with pytest.raises(ConfigError, match="root is '/', but source is given too"):
        gpufeed.read_table(pictures.frame, root="/", source=MemorySource([]))
    with pytest.raises(ConfigError, match=r"images\[1\] is str; it must be the content of an"):
        MemorySource([b"", "x"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=r"images\['b'\] is int; it must be the content of an"):
        MemorySource({"a": b"", "b": 3})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="images is bytes; it must be a sequence or mapping"):
        MemorySource(b"x")  # type: ignore[arg-type]


def test_a_source_is_told_what_comes_next(pictures: Manifest) -> None:
    class Told(Shelf):
        def __init__(self, images: Sequence[Encoded]) -> None:
            super().__init__(images)
            self.calls: list[tuple[str, list[int]]] = []

        def read(self, keys: Keys) -> list[Encoded | OSError]:
            self.calls.append(("read", keys.tolist()))
            return super().read(keys)

        def fetch(self, keys: Keys) -> None:
            self.calls.append(("fetch", keys.tolist()))

    source = Told(contents(pictures))
    with make(
        elsewhere(pictures, source), sampler=gpufeed.IndexSampler(24, shuffle=True)
    ) as loader:
        list(loader)
    read: list[int] = []
    told: list[list[int]] = []
    for kind, keys in source.calls:
        if kind == "fetch":
            told.append(keys)
        else:
            read += keys
    batches = [read[start : start + 8] for start in range(0, 24, 8)]
    assert told[:3] == [batches[1], batches[2], []]


def test_a_header_alone_is_read_where_a_source_can_open(pictures: Manifest) -> None:
    images = contents(pictures)

    class Opening(Shelf):
        def read(self, keys: Keys) -> Any:  # noqa: ARG002
            raise AssertionError("whole images are not asked for")

        def open(self, key: int) -> BinaryIO:
            return io.BytesIO(images[key])

    read = gpufeed.read_table(pictures.frame.select("label"), source=Opening(images))
    assert read.sizes().tolist() == pictures.sizes().tolist()


def test_opening_falls_back_to_reading() -> None:
    source = Shelf([b"abc", FileNotFoundError(2, "gone")])
    with open_image(source, 0) as file:
        assert file.read() == b"abc"
    with pytest.raises(FileNotFoundError, match="gone"):
        open_image(source, 1)


@given(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    picks=st.lists(st.integers(0, 10**6), max_size=12),
    again=st.lists(st.integers(0, 10**6), max_size=12),
)
def test_parts_and_joins_are_indexing(
    counts: list[int], picks: list[int], again: list[int]
) -> None:
    """As NumPy's indexing of all images laid side by side, however often it is done."""
    images = [[b"%d.%d" % (n, k) for k in range(count)] for n, count in enumerate(counts)]
    side_by_side = [each for some in images for each in some]
    source = join([Shelf(some) for some in images], counts)
    wanted = side_by_side
    for chosen in (picks, again):
        keys = np.array([key % len(wanted) for key in chosen if wanted], dtype=np.int64)
        source, wanted = take(source, keys), [wanted[key] for key in keys]
    every = np.arange(len(wanted))
    assert read_images(source, every) == wanted
    assert [open_image(source, int(key)).read() for key in every] == wanted
    assert isinstance(source, Selection)


def test_a_join_takes_no_memory_for_its_images() -> None:
    images = [b"%d" % number for number in range(3)]
    source = join([Shelf(images), Shelf(images)], [10**15, 10**15])
    assert len(source) == 2 * 10**15  # type: ignore[arg-type]
    assert source.read(np.array([10**15 + 2, 1])) == [b"2", b"1"]


class Starting(Shelf):
    """A source whose reads end when those of others have begun.

    Args:
        images: the images.
        begun: is told when a read begins.
        others: what else must have begun before it ends.
    """

    def __init__(
        self, images: Sequence[Encoded], begun: threading.Event, others: threading.Event
    ) -> None:
        super().__init__(images)
        self.begun, self.others = begun, others

    def start(self, keys: Keys, seconds: float | None) -> Future[Any]:
        assert seconds == 60
        self.begun.set()
        return POOL.submit(lambda: self.others.wait(60) and self.read(keys))


POOL = ThreadPoolExecutor(4)


def test_sources_are_read_at_the_same_time() -> None:
    """Whether they start reads themselves or not, in any order; each in the place of its keys."""
    first, second, third = (threading.Event() for _ in range(3))

    class Waiting(Shelf):
        def read(self, keys: Keys) -> list[Encoded | OSError]:
            third.set()
            assert second.wait(60)
            return super().read(keys)

    images = [[b"%d.%d" % (n, k) for k in range(5)] for n in range(3)]
    images[1][3] = OSError("no image")  # type: ignore[call-overload]
    source = join(
        [
            Starting(images[0], first, second),
            Starting(images[1], second, third),
            Waiting(images[2]),
        ],
        [5, 5, 5],
    )
    keys = np.random.default_rng(0).integers(0, 15, 100)
    expected = [images[key // 5][key % 5] for key in keys.tolist()]
    start = starter(take(join([source], [15]), keys))
    assert start is not None
    assert start(np.arange(100), 60).result(60) == expected
    assert starter(pickle.loads(pickle.dumps(join([Shelf([])] * 2, [0, 0])))) is None  # noqa: S301


def test_a_read_that_hangs_costs_its_image_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, free = threading.Event(), threading.Event()
    ready.set()

    class Hanging(Shelf):
        def read(self, keys: Keys) -> list[Encoded | OSError]:
            assert 1 not in keys or free.wait(60)
            return super().read(keys)

    class Quick(Starting):
        def start(self, keys: Keys, seconds: float | None) -> Future[Any]:  # noqa: ARG002
            return POOL.submit(self.read, keys)

    images = [b"0", b"1"]
    source = join([Quick(images, ready, ready), Hanging(images)], [2, 2])
    start = starter(source)
    assert start is not None
    monkeypatch.setattr(timeout, "time", HangingClock(lambda key: key == 1))
    with Concurrent(source, start, 0.1) as reader:
        found = reader.read(np.array([3, 1, 2]))
    assert [str(found[0]), *found[1:]] == ["no answer within 0.1 s", b"1", b"0"]
    # Without a limit it is waited for, until that is cancelled.
    cancelled = threading.Event()
    plain = Timeout.cancel
    monkeypatch.setattr(Timeout, "cancel", lambda self: (cancelled.set(), plain(self)))
    with Concurrent(source, start, None) as reader:
        waiting = POOL.submit(reader.read, np.array([3, 1]))
        while not reader._pending:
            threading.Event().wait(0.01)
        reader.cancel()
        with pytest.raises(ReadCancelled):
            waiting.result(60)
        assert cancelled.wait(60)
    free.set()


def test_manifests_of_several_sources_are_one(pictures: Manifest) -> None:
    shelf = elsewhere(pictures, Shelf(contents(pictures)))
    both = gpufeed.concat([pictures, shelf])
    assert both.source.name(3) == f"{pictures.root}/00003.jpg"
    assert both.source.name(24 + 3) == "shelf:3"
    found = read_images(both.source, np.array([27, 3, 30]))
    assert found == [contents(pictures)[key] for key in (3, 3, 6)]
    with make(both, sampler=[24 + 3, 3] * 4, transforms=[tf.Resize((20, 20))]) as loader:
        image = loader.batch(0)["image"]
    assert (image[0] == image[1]).all()


def test_the_files_of_a_source_are_those_of_the_column(pictures: Manifest) -> None:
    """In another order, each image would have another's label."""
    paths = pictures.frame["path"]
    with pytest.raises(ManifestError, match=r"row 0: path is .00000\.jpg., but the source has"):
        Manifest(pictures.frame, FileSource(pictures.root, paths.reverse()), pictures.classes)
    named = gpufeed.read_table(
        pictures.frame.select("label"), source=FileSource(pictures.root, paths.reverse())
    )
    assert named.frame["path"].to_list() == paths.reverse().to_list()


def test_roots_that_go_up_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    for folder in ("up", "work/down"):
        make_manifest(tmp_path / folder / "a", [(9, 8)])
    monkeypatch.chdir(tmp_path / "work")
    manifests = [gpufeed.read_folder("../up"), gpufeed.read_folder("down")]
    both = gpufeed.concat(manifests)
    assert both.frame["path"].to_list() == ["up/a/00000.jpg", "work/down/a/00000.jpg"]
    assert contents(both) == contents(manifests[0]) + contents(manifests[1])


def test_files_pickle_and_survive_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = make_manifest(tmp_path / "data", [(9, 8)] * 2)
    monkeypatch.chdir(tmp_path)
    near = FileSource("data", manifest.frame["path"])
    monkeypatch.chdir("/")
    again: FileSource = pickle.loads(pickle.dumps(near))  # noqa: S301
    assert again.read(np.array([1])) == [contents(manifest)[1]]
    assert repr(again) == f"FileSource('{tmp_path}/data', 2 files)"


def test_a_file_source_keeps_to_its_root() -> None:
    with pytest.raises(ManifestError, match=r"row 1: the path '\.\./x' leaves the root through"):
        FileSource("/data", pl.Series(["a", "../x"]))


def test_long_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "long.jpg").write_bytes(jpeg(picture(9, 8, seed=1)) + bytes(100))
    (found,) = FileSource(tmp_path, pl.Series(["long.jpg"]), max_bytes=50).read(np.zeros(1, int))
    assert isinstance(found, OSError)
    assert found.__traceback__ is None


def test_images_absurdly_long_for_their_size_are_bad(tmp_path: Path) -> None:
    """Also from a source that does not look at lengths."""
    manifest = make_manifest(tmp_path, [(9, 8)] * 4)
    images = contents(manifest)
    images[2] += bytes(20 << 20)
    with make(elsewhere(manifest, Shelf(images)), batch_size=4, on_error="blank") as loader:
        list(loader)
        (failure,) = loader.quarantine
    assert failure.reason.startswith("the file is 20,97")
    assert failure.reason.endswith("bytes long; the limit for its size is 16,778,368")


class Waiting(Shelf):
    """Waits in each read until so many others wait as well."""

    def __init__(self, count: int, together: int) -> None:
        super().__init__([b"%d" % number for number in range(count)])
        self.barrier = threading.Barrier(together)

    def read(self, keys: Keys) -> list[Encoded | OSError]:
        self.barrier.wait(60)
        return super().read(keys)


def test_slow_sources_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.source.threads.SLOW", -1.0)  # whatever the clock says
    shelf = Shelf([b"%d" % number for number in range(100)])
    with Threaded(shelf) as reader:
        keys = np.random.default_rng(0).permutation(100)
        wanted = [b"%d" % key for key in keys]
        assert reader.read(keys) == wanted
        reader.source = Waiting(100, together=8)
        assert reader.read(keys[:32]) == wanted[:32]


def test_fast_sources_are_read_on_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.source.threads.SLOW", 1e9)
    with Threaded(Waiting(100, together=1)) as reader:
        assert reader.read(np.arange(100)) == [b"%d" % number for number in range(100)]
        assert not reader._pool._threads


def test_long_images_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.source.threads.SLOW", 1e9)
    monkeypatch.setattr("gpufeed.source.threads.available_threads", lambda: 2)
    long = [bytes([number]) * (LONG + 1) for number in range(100)]
    keys = np.random.default_rng(0).permutation(100)
    wanted = [long[key] for key in keys]
    with Threaded(Shelf(long)) as reader:
        assert reader.read(keys) == wanted
        together = Waiting(100, together=2)
        together.images = long
        reader.source = together
        assert reader.read(keys) == wanted
        assert len(reader._pool._threads) == 2
