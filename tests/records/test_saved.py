"""Saved manifests: the same as before, shared by processes, and not changed unnoticed."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpufeed
from gpufeed import ConfigError, Manifest, ManifestError, MemorySource, MissingExtraError
from gpufeed import transforms as tf
from gpufeed._util import rows
from gpufeed.records import saved
from gpufeed.records.fingerprint import fingerprint
from gpufeed.records.table_files import read_arrow
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import LocalStorage, Stamp
from gpufeed.tools.find_data import ListOptions
from gpufeed.tools.resolve import list_images, open_manifest
from tests.support.damaged_arrow import astray
from tests.support.loaders import digest, make

MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5)
COLUMNS: dict[str, Any] = {
    "small": pl.Series([1, None, 3], dtype=pl.UInt8),
    "score": [0.5, float("nan"), None],
    "flag": [True, None, False],
    "note": ["é" * 9, None, ""],
    "kind": pl.Series(["b", "a", None], dtype=pl.Enum(["c", "b", "a"])),
    "word": pl.Series(["x", None, "y"], dtype=pl.Categorical),
    "raw": [b"12", None, b""],
    "day": [MOMENT.date(), None, None],
    "time": [MOMENT.time(), None, None],
    "moment": pl.Series([MOMENT, None, None]).dt.replace_time_zone("UTC"),
    "span": [MOMENT - MOMENT, None, None],
    "price": [Decimal("1.50"), None, Decimal("2.25")],
    "pair": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int64, 2)),
    "names": [["a", "b"], None, []],
    "nested": [[["a"], []], [], None],
    "both": [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}],
    "nothing": [None, None, None],
    "boxes": pl.Series(
        [[[0, 0, 1, 1], [1, 1, 9, 9]], [], [[2, 2, 3, 3]]], dtype=pl.List(pl.Array(pl.Float64, 4))
    ),
    "box_labels": pl.Series([["y", "x"], [], ["x"]], dtype=pl.List(pl.Enum(["z", "x", "y"]))),
    "points": pl.Series([[[1, 2, 1]], [[3, 4, 0]], [[5, 6, 1]]]).cast(
        pl.List(pl.Array(pl.Float64, 3))
    ),
}


def every_dtype(copies: int = 1) -> Manifest:
    base = {"path": ["a/1.jpg", "b/2.jpg", "a/3.jpg"], "label": [0, 1, 0]}
    sizes = {"width": [40, 30, 20], "height": [10, 30, 60]}
    frame = pl.DataFrame({**base, **sizes, **COLUMNS})
    return Manifest(pl.concat([frame] * copies, rechunk=False), "/data", ("ant", "bee"))


@pytest.fixture
def table(pictures: Manifest, tmp_path: Path) -> Path:
    """An Arrow file of several record batches, as others write them."""
    path = tmp_path / "list.arrow"
    pictures.frame.write_ipc(path, record_batch_size=5)
    return path


@pytest.mark.parametrize("length", [1, 3, 8, 10])
def test_pieces_do_not_show(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = every_dtype(copies=5)
    whole, pixels = made.fingerprint(), made.most_pixels(limit=1000)
    monkeypatch.setattr(rows, "PIECE", length)
    again = Manifest(made.frame, "/data", made.classes)
    assert (again.fingerprint(), again.most_pixels(limit=1000)) == (whole, pixels) == (whole, 900)
    assert again.most_objects() == 2
    bad = made.frame.with_columns(width=pl.when(pl.int_range(15) == 9).then(1).otherwise("width"))
    with pytest.raises(ManifestError, match=r"row 9 \(a/1.jpg\): the box .* of 1x10 pixels"):
        Manifest(bad, "/data", made.classes)


@pytest.mark.parametrize("copies", [1, 3])
def test_a_saved_manifest_is_the_same(copies: int, tmp_path: Path) -> None:
    made = every_dtype(copies)
    made = Manifest(made.frame, "/data", made.classes, repairs={"x": 2}, reduce_depth=True)
    made.save(tmp_path / "birds.manifest")
    read = gpufeed.read_manifest(tmp_path / "birds.manifest")
    assert read.frame.schema == made.frame.schema
    assert read.frame.equals(made.frame)
    for name in ("classes", "repairs", "reduce_depth", "root", "box_classes", "selected_from"):
        assert getattr(read, name) == getattr(made, name)
    assert read.fingerprint() == Manifest(read.frame, "/", made.classes).fingerprint()
    part = read.filter(pl.col("width") > 20)
    assert part.fingerprint() == made.filter(pl.col("width") > 20).fingerprint()
    part.save(tmp_path / "part.manifest")
    assert gpufeed.read_manifest(tmp_path / "part.manifest").frame.equals(part.frame)


KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "classes": ([1, 0, 1], ("ant", "bee")),
    "several": (pl.Series([[1, 0], [], [0]], dtype=pl.List(pl.Int32)), ("ant", "bee")),
    "numbers": ([0.5, 2.0, -1.0], ()),
    "single precision": (pl.Series([0.5, 2, -1], dtype=pl.Float32), ()),
    "vectors": (pl.Series([[1, 0], [2, 3], [4, 5]], dtype=pl.Array(pl.Float64, 2)), ("x", "y")),
    "none": (None, ()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_points_of_a_saved_manifest(kind: str, tmp_path: Path) -> None:
    label, classes = KINDS[kind]
    faces = [[np.full((2, 3), 7.5), np.ones((2, 3))], [], [np.zeros((2, 3))]]
    frame = (
        every_dtype()
        .frame.drop("label", "points")
        .with_columns(
            box_points=pl.Series(
                [[each.tolist() for each in row] for row in faces],
                dtype=pl.List(pl.Array(pl.Float64, (2, 3))),
            )
        )
    )
    if label is not None:
        frame = frame.with_columns(label=pl.Series(label, dtype=getattr(label, "dtype", None)))
    made = Manifest(frame, "/data", classes, point_names=["left", "right"])
    made.save(tmp_path / "a.manifest")
    read = gpufeed.read_manifest(tmp_path / "a.manifest")
    assert read.frame.equals(made.frame)
    assert read.fingerprint() == made.fingerprint()
    for name in ("classes", "box_classes", "point_names", "num_points"):
        assert getattr(read, name) == getattr(made, name)
    for keys in ([0, 1, 2], [2, 0, 2], [1]):
        rows = np.array(keys)
        assert_same(read.labels.take(rows), made.take(keys).labels.take(np.arange(len(keys))))
        assert_same(read.labels.groups_of(rows), made.labels.groups[rows])
        assert_same(read.box_points(keys), made.take(keys).box_points())
        for mine, theirs in zip(read.objects(keys), made.take(keys).objects(), strict=True):
            assert_same(mine, theirs)
        assert read.box_points(keys).tolist() == [p.tolist() for key in keys for p in faces[key]]
    assert read.take([2]).point_names == ("left", "right")


def assert_same(mine: Any, theirs: Any) -> None:
    assert (mine is None) == (theirs is None)
    if mine is not None:
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)


def test_batches_of_a_mapped_list_are_the_same(
    pictures: Manifest, table: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "transforms": [tf.BoxCrop(), tf.Resize((24, 24)), tf.Normalize()],
        "targets": ("boxes",),
        "collate_fn": "pad",
        "columns": ["path", "width"],
    }
    mapped = gpufeed.read_table(table, root=pictures.root)
    assert mapped.frame.n_chunks() > 3
    mapped.save(tmp_path / "list.manifest")
    read = gpufeed.read_manifest(tmp_path / "list.manifest")
    assert read.frame.n_chunks() == mapped.frame.n_chunks()
    with make(pictures, **options) as loader:
        batches = [digest(batch) for batch in loader]
    for each in (mapped, read):
        keys = [5, 0, 5]
        for look in (each.sizes, each.boxes, each.labels.groups_of):
            assert np.array_equal(look(np.array(keys)), look(None)[keys])
        with make(each, **options) as loader:
            assert [digest(batch) for batch in loader] == batches


PROBE = """
import json, os, signal, sys
from pathlib import Path
import polars as pl
import gpufeed
from tests.support.loaders import make

def own():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))

held = []

def plan(manifest):
    held.append(make(manifest, batch_size=256))
    return [held[-1]._planner.plan(step).sizes.tolist() for step in range(3)]

plan(gpufeed.read_manifest(sys.argv[1]))
before = own()
manifest = gpufeed.read_manifest(sys.argv[2])
plans = plan(manifest)
place = manifest.source.place(len(manifest) - 1)
taken = own() - before
manifest.filter(pl.col("label") == 1)  # starts polars' threads
child = os.fork()
if not child:
    signal.alarm(200)  # polars' threads do not survive a fork, and waiting for them would not end
    os._exit(plan(manifest) != plans)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps({"taken": taken, "child": status, "plans": plans, "place": place}))
"""


def test_processes_share_a_saved_manifest(tmp_path: Path) -> None:
    """Each takes less of its own than a copy of any column but one would, also after a fork."""
    number = pl.int_range(1 << 18, dtype=pl.Int32)
    columns = {"label": number % 7, "width": number % 900 + 100, "height": number % 700 + 100}
    piece = pl.select(
        path=pl.format("folder/{}.jpg", number.cast(pl.String).str.zfill(9)), **columns
    )
    frame = pl.concat([piece] * 8, rechunk=False)
    starts = np.arange(len(frame))
    images = RangeSource(
        LocalStorage("/data"),
        ["0.tar", "1.tar"],
        [Stamp(1 << 40, "0")] * 2,
        starts % 2,
        starts,
        starts + 1,
        frame["path"],
    )
    made = Manifest(frame, images, [*"abcdefg"])
    made.save(tmp_path / "large.manifest")
    made.take(np.arange(1000)).save(tmp_path / "small.manifest")
    command = [
        sys.executable,
        "-c",
        PROBE,
        *(f"{tmp_path}/{s}.manifest" for s in ("small", "large")),
    ]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    found = [json.loads(process.communicate()[0]) for process in started]
    planner = make(made, batch_size=256)._planner
    for each in found:
        assert each["plans"] == [planner.plan(step).sizes.tolist() for step in range(3)]
        assert each["taken"] < 4 * len(made)
        assert each["child"] == 0
        assert each["place"] == ["1.tar", len(made) - 1, len(made), [1 << 40, "0"]]


LISTS = """
import os, signal, sys
import numpy as np
import polars as pl
import gpufeed
from gpufeed import transforms as tf
from tests.support.loaders import make

def plan():
    loader = make(
        manifest,
        batch_size=4,
        targets=("boxes", "box_points", "points"),
        box_columns=["area"],
        flip_pairs=[(0, 1)],
        columns=["width", "pair", "note"],
        collate_fn="pad",
        on_error="substitute",
        transforms=[tf.Resize((24, 24)), tf.SoftLabels(2)],
    )
    plans = [loader._planner.plan(step) for step in range(3)]
    return [(p.labels.tolist(), p.targets[0].objects.others["area"].tolist()) for p in plans]

manifest = gpufeed.read_manifest(sys.argv[1])
plans = plan()
manifest.frame.select("width", pl.col("height") + 1)  # starts polars' threads
child = os.fork()
if not child:
    signal.alarm(200)
    os._exit(plan() != plans)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_lists_after_a_fork(tmp_path: Path) -> None:
    two = [[1.0, 2.0, 1.0], [3.0, 4.0, 1.0]]
    lists = {
        "label": pl.Series([[1, 0], [], [0]], dtype=pl.List(pl.Int32)),
        "area": [[1, 2], [], [3]],
        "points": pl.Series([two] * 3, dtype=pl.List(pl.Array(pl.Float64, 3))),
        "box_points": pl.Series(
            [[two, two], [], [two]], dtype=pl.List(pl.Array(pl.Float64, (2, 3)))
        ),
    }
    frame = every_dtype(4).frame
    lists = {name: pl.concat([pl.Series(name, each)] * 4) for name, each in lists.items()}
    frame = frame.drop(lists, strict=False).with_columns(**lists, note=pl.lit("x"))
    made = Manifest(frame, "/data", ("ant", "bee"), box_columns=["area"])
    made.save(tmp_path / "a.manifest")
    command = [sys.executable, "-c", LISTS, str(tmp_path / "a.manifest")]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path, copied = tmp_path / "a.manifest", tmp_path / "b.manifest"
    every_dtype().save(path)
    shutil.copyfile(path, copied)
    assert gpufeed.read_manifest(copied).fingerprint() == every_dtype().fingerprint()
    with pa.ipc.open_file(path) as reader:
        table = reader.read_all()
    assert b"gpufeed" in table.schema.metadata
    table = table.set_column(1, "label", pa.array([1, 1, 1], pa.int32()))
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ManifestError, match=r"a\.manifest has been changed since it was"):
        gpufeed.read_manifest(path)
    frame = every_dtype().frame.with_columns(path=pl.format("a longer path/{}", "path"))
    Manifest(frame, "/data", ("ant", "bee")).save(path)
    astray(path, frame["path"][0])
    with pytest.raises(ManifestError, match=r"a\.manifest is not a valid Arrow IPC file: .* ref"):
        gpufeed.read_manifest(path)


SMALL = every_dtype()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "a.manifest"
    SMALL.save(path)
    return path


def test_an_intact_file_is_not_read(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(saved, "fingerprint")
    assert gpufeed.read_manifest(small).frame.equals(SMALL.frame)


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), in_time=st.booleans())
def test_a_flipped_bit_changes_nothing_or_is_an_error(
    small: Path, place: float, bit: int, in_time: bool
) -> None:
    """Anywhere; and where the time of the file is kept, in its footer, which is checked anyway."""
    content = bytearray(small.read_bytes())
    (length,) = struct.unpack_from("<i", content, len(content) - 10)
    first = len(content) - 10 - length if in_time else 0
    content[first + int(place * (len(content) - first))] ^= 1 << bit
    damaged = small.with_name("damaged.manifest")
    damaged.write_bytes(content)
    if in_time:
        shutil.copystat(small, damaged)
    with contextlib.suppress(ManifestError):
        read = gpufeed.read_manifest(damaged)
        assert fingerprint(read.frame, read.classes) == SMALL.fingerprint()


def test_a_pickle_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every_dtype().save(tmp_path / "a.manifest")
    monkeypatch.chdir(tmp_path)
    read = gpufeed.read_manifest("a.manifest", root="elsewhere")
    kept = pickle.dumps(read)
    assert len(kept) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(kept)  # noqa: S301
    assert again.frame.equals(read.frame)
    assert again.root == read.root == tmp_path / "elsewhere"
    part = pickle.loads(pickle.dumps(read.take([1])))  # noqa: S301
    assert part.frame.equals(read.frame[[1]])
    read.take([1]).save(tmp_path / "a.manifest")
    assert again.frame.equals(every_dtype().frame)  # of the file that was replaced
    with pytest.raises(ManifestError, match="holds another manifest than when it was pickled"):
        pickle.loads(kept)  # noqa: S301


def test_images_that_are_no_files(tmp_path: Path, pictures: Manifest) -> None:
    images = [(pictures.root / path).read_bytes() for path in pictures.frame["path"]]
    path = tmp_path / "a.manifest"
    Manifest(pictures.frame, MemorySource(images), pictures.classes).save(path)
    read = gpufeed.read_manifest(path, source=MemorySource(images))
    assert read[3].image() == pictures[3].image()
    assert pickle.loads(pickle.dumps(read))[3].image() == pictures[3].image()  # noqa: S301
    with pytest.raises(ManifestError, match=r"to open its images, MemorySource.*; pass source="):
        gpufeed.read_manifest(path)
    with pytest.raises(ManifestError, match=r"there are .* rows, but .* has 1 images"):
        gpufeed.read_manifest(path, source=MemorySource(images[:1]))
    with pytest.raises(ConfigError, match="root is '/', but source is given too"):
        gpufeed.read_manifest(path, root="/", source=MemorySource(images))
    named = dict(zip(pictures.frame["path"], images, strict=True))
    Manifest(pictures.frame, MemorySource(named), pictures.classes).save(path)
    turned = MemorySource(dict(reversed(named.items())))
    with pytest.raises(ManifestError, match=r"in row 0, but image 0 of source is .*; pass the"):
        gpufeed.read_manifest(path, source=turned)


def test_images_that_were_packed_meanwhile(tmp_path: Path, pictures: Manifest) -> None:
    pictures.save(tmp_path / "a.manifest")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in pictures.frame["path"]:
            archive.write(pictures.root / path, f"all/{path}")
    read = gpufeed.read_manifest(tmp_path / "a.manifest", root=tmp_path / "a.zip" / "all")
    assert read[3].image() == pictures[3].image()


def test_commands_take_saved_manifests(tmp_path: Path) -> None:
    path = tmp_path / "a.manifest"
    every_dtype().save(path)
    assert open_manifest(path).frame.equals(every_dtype().frame)
    assert open_manifest(path, options=ListOptions(root=tmp_path)).root == tmp_path
    assert list_images(path).frame.equals(every_dtype().frame)
    with pytest.raises(ConfigError, match=r"label does not apply: .* is a saved manifest"):
        open_manifest(path, options=ListOptions(label="x"))


def test_what_it_refuses(table: Path, tmp_path: Path) -> None:
    made, path = every_dtype(), tmp_path / "a.manifest"
    with pytest.raises(ConfigError) as caught:
        made.save("a.arrow")
    assert str(caught.value) == "path is 'a.arrow'; it must end in .manifest"
    with pytest.raises(ManifestError, match=r"is not a manifest that Manifest.save wrote"):
        gpufeed.read_manifest(table)
    with pytest.raises(ManifestError, match=r"cannot read .*: No such file"):
        gpufeed.read_manifest(path)
    made.save(path)
    os.truncate(path, path.stat().st_size - 100)
    with pytest.raises(ManifestError, match="is not a valid Arrow IPC file: Not an Arrow file"):
        gpufeed.read_manifest(path)
    made.save(path)
    about = json.loads(read_arrow(path)[1][b"gpufeed"])
    with pa.ipc.open_file(path) as reader:
        old = reader.read_all()
    text = json.dumps({**about, "version": 4}).encode()
    newer = {b"gpufeed": text, b"gpufeed.sha256": hashlib.sha256(text).hexdigest().encode()}
    with pa.ipc.new_file(path, old.schema.with_metadata(newer)) as writer:
        writer.write_table(old.replace_schema_metadata(newer))
    with pytest.raises(
        ManifestError, match=r"has version 4 of saved manifests, .* reads version 3"
    ):
        gpufeed.read_manifest(path)


def test_without_pyarrow(
    pictures: Manifest, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.ipc", None)
    read = gpufeed.read_table(table, root=pictures.root)
    assert read.fingerprint() == Manifest(read.frame, "/", read.classes).fingerprint()
    with pytest.raises(MissingExtraError, match=r'pip install "gpufeed\[arrow\]"'):
        read.save(tmp_path / "a.manifest")
    assert not [*tmp_path.glob("*.manifest")]
