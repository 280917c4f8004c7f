"""Datasets of Hugging Face, made and stored by the library itself, and never decoded by it."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

datasets = pytest.importorskip("datasets", reason="datasets is not installed")

import gpufeed  # noqa: E402
from gpufeed import ManifestError, read_huggingface, read_table  # noqa: E402
from tests.support.media import jpeg, picture  # noqa: E402

COUNT = 30
IMAGES = [jpeg(picture(40 + number, 70 - number, seed=number)) for number in range(COUNT)]
CLASSES = ["wren", "kite", "coot"]


@pytest.fixture(autouse=True)
def not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("datasets decodes an image")

    monkeypatch.setattr(datasets.Image, "decode_example", refuse)
    datasets.disable_progress_bars()


def in_memory(path: Any = None) -> Any:
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES)}
    )
    images = [{"bytes": image, "path": path} for image in IMAGES]
    labels = [number % 3 for number in range(COUNT)]
    return datasets.Dataset.from_dict({"image": images, "label": labels}, features=features)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("huggingface")
    datasets.disable_progress_bars()
    in_memory().save_to_disk(folder / "disk", num_shards=3)
    in_memory().to_parquet(folder / "train.parquet")
    for number, image in enumerate(IMAGES):
        file = folder / "images" / CLASSES[number % 3] / f"{number:03}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(image)
    return folder


@pytest.fixture
def disk(folder: Path) -> Any:
    return datasets.load_from_disk(folder / "disk")


def check(manifest: gpufeed.Manifest, rows: list[int]) -> None:
    """The images are those of these rows, and so are sizes and labels."""
    keys = np.arange(len(rows))
    assert [bytes(image) for image in manifest.source.read(keys)] == [IMAGES[row] for row in rows]
    expected = [(row % 3, 70 - row, 40 + row) for row in rows]
    assert manifest.frame.select("label", "width", "height").rows() == expected
    assert manifest.classes == tuple(CLASSES)


def test_several_classes_keep_their_names(tmp_path: Path) -> None:
    """Also those that no image has, so that splits agree; in memory and in a file."""
    several = datasets.List(datasets.ClassLabel(names=CLASSES))
    features = datasets.Features({"image": datasets.Image(), "label": several})
    images, labels = [{"bytes": image, "path": None} for image in IMAGES[:3]], [[1], [], [1, 0]]
    made = datasets.Dataset.from_dict({"image": images, "label": labels}, features=features)
    made.to_parquet(tmp_path / "several.parquet")
    for manifest in (
        read_huggingface(made),
        read_table(tmp_path / "several.parquet", image="image"),
    ):
        assert manifest.classes == tuple(CLASSES)
        assert manifest.frame["label"].to_list() == labels


def test_rows_of_every_kind(disk: Any) -> None:
    """As `select`, `shuffle`, `filter` and so on left them."""
    everything = list(range(COUNT))
    shuffled = disk.shuffle(seed=1)
    order = np.random.default_rng(1).permutation(COUNT).tolist()
    added = disk.add_column("note", list("ab" * 15))
    joined = datasets.concatenate_datasets([disk.select(range(9, 14)), disk, in_memory()])
    for given, rows in (
        (disk, everything),
        (in_memory(), everything),
        (disk.select([5, 3, 3, 29]), [5, 3, 3, 29]),
        (disk.select(range(8, 25)), list(range(8, 25))),  # a slice, of several files
        (shuffled, order),
        (shuffled.select(range(4)), order[:4]),
        (disk.filter(lambda label: label == 1, input_columns="label"), list(range(1, COUNT, 3))),
        (added, everything),
        (joined, [*range(9, 14), *everything, *everything]),
        (disk.with_format("numpy"), everything),
        (disk.cast_column("image", datasets.Image(decode=False)), everything),
    ):
        check(read_huggingface(given, progress=False), rows)
    assert read_huggingface(added).frame["note"].to_list() == list("ab" * 15)


def test_what_is_the_same_has_one_fingerprint(folder: Path, disk: Any, tmp_path: Path) -> None:
    """Wherever it lies; another order has another."""
    disk.save_to_disk(tmp_path / "again", num_shards=2)
    loaded = datasets.load_dataset(
        "parquet", data_files=str(folder / "train.parquet"), split="train", cache_dir=tmp_path
    )
    check(read_huggingface(loaded), list(range(COUNT)))
    alike = [disk, in_memory(), datasets.load_from_disk(tmp_path / "again"), loaded]
    prints = {read_huggingface(each).fingerprint() for each in alike}
    assert len(prints) == 1
    assert read_huggingface(disk.shuffle(seed=1)).fingerprint() not in prints
    named = datasets.concatenate_datasets([in_memory("a.jpg").select([0]), disk.select([1])])
    assert read_huggingface(named).frame["path"].to_list() == ["0", "1"]


def test_files_of_class_folders(folder: Path, tmp_path: Path) -> None:
    images = folder / "images"
    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(images), split="train", cache_dir=tmp_path
    )
    manifest = read_huggingface(loaded)
    plain = gpufeed.read_folder(images, classes=manifest.classes)
    assert manifest.root == images
    assert sorted(manifest.frame.rows()) == sorted(
        plain.frame.select(manifest.frame.columns).rows()
    )


def test_images_in_a_process_of_its_own(disk: Any) -> None:
    """Its files are opened there; what is sent says only where they are."""
    manifest = read_huggingface(disk.shuffle(seed=1))
    assert len(pickle.dumps(manifest)) < len(b"".join(IMAGES)) / 2
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_read, (manifest,)) == _read(manifest)


def _read(manifest: gpufeed.Manifest) -> list[bytes]:
    return [bytes(image) for image in manifest.source.read(np.arange(COUNT))]


def test_faults(disk: Any, tmp_path: Path) -> None:
    disk.save_to_disk(tmp_path / "own", num_shards=1)
    manifest = read_huggingface(datasets.load_from_disk(tmp_path / "own"))
    (file,) = (tmp_path / "own").glob("*.arrow")
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)  # a process that has it mapped would be killed
    (read,) = manifest.source.read(np.array([3]))
    assert str(read) == "the file has changed since it was indexed"
    bad = in_memory().to_dict()
    bad["image"][4] = bad["image"][7] = None
    nulls = datasets.Dataset.from_dict(bad, features=disk.features)
    with pytest.raises(ManifestError, match=r"2 of 30 images are bad: .*/4: the image is null; "):
        read_huggingface(nulls)
    dropped = read_huggingface(nulls, on_bad_image="drop")
    check(dropped, [row for row in range(COUNT) if row not in (4, 7)])
    assert dropped.repairs == {"images_dropped": 2}


def test_what_is_no_dataset_of_images(disk: Any) -> None:
    two = disk.add_column("mask", [{"bytes": b"x", "path": None}] * COUNT)
    for given, message in (
        (
            datasets.DatasetDict({"train": disk, "test": disk}),
            r'not datasets.DatasetDict; pass one of its splits, as dataset\["train"\]: it has tr',
        ),
        (disk.to_iterable_dataset(), r"not datasets.IterableDataset; .* without streaming=True"),
        ([1], "dataset must be a datasets.Dataset, not builtins.list$"),
        (disk.remove_columns("image"), r"has 0 columns of the type Image, .* of \['label'\]"),
        (
            two.cast_column("mask", datasets.Image()),
            r"has 2 columns of the type Image, \['image', 'mask'\]; pass image= with the name of",
        ),
    ):
        with pytest.raises(ManifestError, match=message):
            read_huggingface(given)
    check(
        read_huggingface(two.cast_column("mask", datasets.Image()), image="image"), [*range(COUNT)]
    )
    with pytest.raises(ManifestError, match=r"there is no column 'images'; .* pass image="):
        read_table(disk, image="images")
    with pytest.raises(gpufeed.ConfigError, match="image is 'image', but source is given too"):
        read_table(disk, image="image", source=gpufeed.MemorySource([b""]))


@pytest.mark.parametrize("column", ["image", "name"])
def test_a_damaged_file_is_told(tmp_path: Path, column: str) -> None:
    """Whose offsets lead anywhere in memory."""
    names = [f"image {number:02}{'!' * number}" for number in range(COUNT)]
    in_memory().add_column("name", names).save_to_disk(tmp_path)
    (file,) = tmp_path.glob("*.arrow")
    values = IMAGES if column == "image" else names
    offsets = np.cumsum([0, *map(len, values)]).astype("<i4")
    content = file.read_bytes()
    assert content.count(offsets.tobytes()) == 1
    changed = offsets.copy()
    changed[3] = -(1 << 30)
    file.write_bytes(content.replace(offsets.tobytes(), changed.tobytes()))
    with pytest.raises(ManifestError, match=r"^th.* is (damaged|not a valid table): .*[Oo]ffset"):
        read_huggingface(datasets.load_from_disk(tmp_path), image="image", label=None)


@pytest.mark.parametrize("of_lists", [True, False])
def test_boxes_in_structs(of_lists: bool, tmp_path: Path) -> None:
    """As datasets for detection have them: a struct of lists, or a list of structs."""
    inside = {
        "bbox": datasets.List(datasets.Value("float32"), length=4),
        "category": datasets.ClassLabel(names=["x", "y"]),
        "area": datasets.Value("int64"),
    }
    struct: Any = {name: datasets.List(each) for name, each in inside.items()}
    features = datasets.Features(
        {"image": datasets.Image(), "objects": struct if of_lists else datasets.List(inside)}
    )
    objects = [
        [
            {"bbox": [1, 2, 3, 4], "category": 1, "area": 12},
            {"bbox": [0, 0, 5, 6], "category": 0, "area": 30},
        ],
        [],
        [{"bbox": [4, 4, 9, 9], "category": 0, "area": 81}],
    ]
    if of_lists:
        objects = [{name: [each[name] for each in row] for name in inside} for row in objects]
    image = {"bytes": jpeg(picture(20, 30, seed=1)), "path": None}
    made = datasets.Dataset.from_dict({"image": [image] * 3, "objects": objects}, features=features)
    made.to_parquet(tmp_path / "a.parquet")
    options: dict[str, Any] = {
        "label": None,
        "boxes": "objects.bbox",
        "box_format": "xywh",
        "box_labels": "objects.category",
        "box_columns": ["objects.area"],
    }
    read = gpufeed.read_huggingface(made, **options)
    table = gpufeed.read_table(tmp_path / "a.parquet", image="image", **options)
    for manifest in (read, table):
        assert manifest.box_classes == ("x", "y")
        assert manifest.frame["box_labels"].to_list() == [["y", "x"], [], ["x"]]
        assert manifest.frame["objects.area"].to_list() == [[12, 30], [], [81]]
        boxes, labels, offsets = manifest.objects() or ()
        assert boxes.tolist() == [[1, 2, 4, 6], [0, 0, 5, 6], [4, 4, 13, 13]]
        assert (labels.tolist(), offsets.tolist()) == ([1, 0, 0], [0, 2, 2, 3])
    for name, message in (
        (
            "objects",
            "must contain lists of 4 .*; name one of its fields, as 'objects.bbox'",
        ),
        ("bbox", "there is no column 'bbox'; .*; pass 'objects.bbox', which is a field of"),
        ("objects.box", "there is no column 'objects.box'; the columns are .*'objects.bbox'"),
    ):
        with pytest.raises(ManifestError, match=message):
            gpufeed.read_huggingface(made, label=None, boxes=name)
