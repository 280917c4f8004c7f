"""The synthetic set: files and figures are those of NABirds, and its birds can be told apart."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpufeed
from gpufeed.errors import ConfigError
from gpufeed.tools.synth import Plan, plan_nabirds, write, write_nabirds
from gpufeed.tools.synth.bird import PART_NAMES, draw_look, fit
from gpufeed.tools.synth.scene import draw_image
from gpufeed.tools.synth.taxonomy import MAX_CLASSES, build_taxonomy

IMAGES = 64
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
PER_IMAGE = {
    "images.txt": rf"{UUID} \d{{4}}/[0-9a-f]{{32}}\.(jpg|JPG)",
    "image_class_labels.txt": rf"{UUID} [1-9]\d*",
    "sizes.txt": rf"{UUID} [1-9]\d* [1-9]\d*",
    "bounding_boxes.txt": rf"{UUID} \d+ \d+ [1-9]\d* [1-9]\d*",
    "photographers.txt": rf"{UUID} \S.*\S",
    "train_test_split.txt": rf"{UUID} [01]",
}
OTHERS = {
    "classes.txt": r"\d+ \S.*\S",
    "hierarchy.txt": r"[1-9]\d* \d+",
    "parts/parts.txt": r"\d+ [a-z ]+",
    "parts/part_locs.txt": rf"{UUID} \d+ (\d+ \d+ 1|-1 -1 0)",
}
SMALL: dict[str, Any] = {"images": 40, "seed": 5, "max_side": 96, "progress": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small set of full-size images, which the tests only read."""
    return write_nabirds(tmp_path_factory.mktemp("synth") / "set", images=IMAGES, seed=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_nabirds(tmp_path_factory.mktemp("synth") / "small", **SMALL)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A set large enough for statistics, on paper only."""
    return plan_nabirds(5000, seed=1)


def lines(folder: Path, name: str) -> list[str]:
    text = (folder / name).read_bytes().decode("ascii")
    assert text.endswith("\n")
    assert "\r" not in text
    return text[:-1].split("\n")


def table(folder: Path, name: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in lines(folder, name))


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# The files


def test_every_line_has_its_format_and_all_files_the_same_sorted_ids(folder: Path) -> None:
    ids = list(table(folder, "images.txt"))
    assert len(ids) == IMAGES
    assert ids == sorted(set(ids))
    for name, pattern in (PER_IMAGE | OTHERS).items():
        assert [line for line in lines(folder, name) if not re.fullmatch(pattern, line)] == []
        if name in PER_IMAGE:
            assert [line.split(" ", 1)[0] for line in lines(folder, name)] == ids
    parts = [line.split(" ")[:2] for line in lines(folder, "parts/part_locs.txt")]
    assert parts == [[key, str(part)] for key in ids for part in range(11)]
    assert lines(folder, "parts/parts.txt") == [f"{i} {name}" for i, name in enumerate(PART_NAMES)]
    images = {f"images/{path}" for path in table(folder, "images.txt").values()}
    masks = {re.sub(r"^images/(.*)\....$", r"segmentations/\1.png", path) for path in images}
    assert set(digests(folder)) == images | masks | set(PER_IMAGE) | set(OTHERS) | {"synth.json"}


def test_masks_show_the_birds(folder: Path) -> None:
    """They reach to the ends of the birds' boxes, but for a fiftieth of a side and a pixel."""
    plan = plan_nabirds(IMAGES, seed=3)
    for path, size, box in zip(plan.paths, plan.sizes, plan.subjects, strict=True):
        with Image.open((folder / "segmentations" / path).with_suffix(".png")) as image:
            assert (image.mode, image.size) == ("1", tuple(size))
            places = np.argwhere(np.asarray(image))[:, ::-1]
        gaps = places.min(axis=0) - box[:2], box[:2] + box[2:] - places.max(axis=0) - 1
        assert (np.array(gaps) >= -1).all()
        assert (np.array(gaps) <= 1 + box[2:] / 50).all()


def test_images_are_as_listed(folder: Path) -> None:
    """Baseline JPEGs of NABirds' weight, but for one PNG with transparency to train with."""
    sizes, classes = table(folder, "sizes.txt"), table(folder, "image_class_labels.txt")
    train = table(folder, "train_test_split.txt")
    odd, bits, pixels = [], 0, 0
    for key, path in table(folder, "images.txt").items():
        assert path[:-4] == f"{int(classes[key]):04d}/{key.replace('-', '')}"
        file = folder / "images" / path
        with Image.open(file) as image:
            image.load()
            assert f"{image.width} {image.height}" == sizes[key]
            if image.format != "JPEG":
                odd.append((image.format, image.mode, train[key], file.suffix))
                continue
            assert image.mode == "RGB"
            assert "progressive" not in image.info
            bits, pixels = bits + 8 * file.stat().st_size, pixels + image.width * image.height
    assert odd == [("PNG", "RGBA", "1", ".jpg")]
    assert 2.2 <= bits / pixels <= 2.8


def test_it_is_read_as_nabirds(folder: Path) -> None:
    birds = gpufeed.read_nabirds(folder, labels="species")
    plan = plan_nabirds(IMAGES, seed=3)
    assert birds.frame["path"].str.split("/").list[-1].to_list() == [
        path.split("/")[-1] for path in plan.paths
    ]
    species = np.array(plan.taxonomy.species)[plan.labels]
    assert len(birds.classes) == len(set(species.tolist()))
    assert len(set(zip(species.tolist(), birds.frame["label"].to_list(), strict=True))) == len(
        birds.classes
    )
    assert birds.frame["width", "height"].to_numpy().tolist() == plan.sizes.tolist()
    assert len(birds.split("train")) == plan.is_training.sum()


def test_the_oddities_of_the_real_files_are_there(folder: Path) -> None:
    paths, train = table(folder, "images.txt"), table(folder, "train_test_split.txt")
    assert {train[key] for key, path in paths.items() if path.endswith(".JPG")} == {"0", "1"}
    plan = plan_nabirds(IMAGES, seed=3)
    beyond = plan.boxes[:, :2] + plan.boxes[:, 2:] > plan.sizes
    assert beyond.any(axis=1).sum() == 2
    names = set(table(folder, "classes.txt").values())
    assert {"Tester's Mockfinch (Male)", "Tester's Mockfinch  (Female)"} <= names
    assert set("'(),/-") <= set("".join(build_taxonomy(100).names))
    photographers = " ".join(table(folder, "photographers.txt").values())
    assert set(',"&') <= set(photographers)


def test_visible_parts_lie_in_the_box_and_one_side_is_hidden(folder: Path) -> None:
    boxes, sizes = table(folder, "bounding_boxes.txt"), table(folder, "sizes.txt")
    hidden: dict[str, list[str]] = {key: [] for key in boxes}
    for line in lines(folder, "parts/part_locs.txt"):
        key, part, *at = line.split(" ")
        if at == ["-1", "-1", "0"]:
            hidden[key].append(PART_NAMES[int(part)])
            continue
        px, py = int(at[0]), int(at[1])
        x, y, w, h = map(int, boxes[key].split())
        width, height = map(int, sizes[key].split())
        assert x <= px < min(x + w, width)
        assert y <= py < min(y + h, height)
    assert {tuple(names) for names in hidden.values()} == {
        ("left eye", "left wing"),
        ("right eye", "right wing"),
    }


# The plan


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 17, 100, MAX_CLASSES])
def test_the_leaves_of_the_tree_are_the_classes(classes: int) -> None:
    tree = build_taxonomy(classes)
    assert len(tree.class_ids) == len(tree.species) == classes
    leaves = set(range(len(tree.names))) - set(tree.parents)
    assert set(tree.class_ids) == leaves
    assert len({tree.names[i] for i in leaves}) == classes
    assert tree.parents.index(-1) == 0
    assert all(0 <= parent < child for child, parent in enumerate(tree.parents) if child)

    def depth(node: int) -> int:
        return 0 if node == 0 else 1 + depth(tree.parents[node])

    assert {depth(leaf) for leaf in leaves} == ({3} if classes == 1 else {3, 4})
    species: dict[str, int] = {}
    for node, number in zip(tree.class_ids, tree.species, strict=True):
        name = " ".join(tree.names[node].split("(")[0].split())
        assert species.setdefault(name, number) == number
    assert sorted(species.values()) == list(range(len(species)))
    if classes == MAX_CLASSES:
        assert 380 <= len(species) <= 430


def test_figures_follow_the_real_ones(plan: Plan) -> None:
    width, height = plan.sizes.T
    assert plan.sizes.min() >= 90
    assert plan.sizes.max() == 1024
    assert 885 <= width.mean() <= 912
    assert 698 <= height.mean() <= 727
    assert 0.63 <= (width * height).mean() / 1e6 <= 0.665
    assert 0.64 <= (plan.sizes.max(axis=1) == 1024).mean() <= 0.69
    assert 0.79 <= (width > height).mean() <= 0.84
    share = plan.boxes[:, 2:].prod(axis=1) / plan.sizes.prod(axis=1)
    low, middle, high = np.percentile(share, [5, 50, 95])
    assert 0.055 <= low <= 0.073
    assert 0.26 <= middle <= 0.30
    assert 0.59 <= high <= 0.66
    overruns = (plan.boxes[:, :2] + plan.boxes[:, 2:] > plan.sizes).any(axis=1)
    assert 0.003 <= overruns.mean() <= 0.006
    counts = np.bincount(plan.labels)
    assert len(counts) == len(plan.taxonomy.class_ids) == 5000 // 16
    assert counts.min() * 3 < counts.max()


def test_subjects_lie_in_image_and_box(plan: Plan) -> None:
    for inner, outer in (
        (plan.subjects, np.concatenate([np.zeros_like(plan.sizes), plan.sizes], axis=1)),
        (plan.subjects, plan.boxes),
    ):
        assert (inner[:, :2] >= outer[:, :2]).all()
        assert (inner[:, :2] + inner[:, 2:] <= outer[:, :2] + outer[:, 2:]).all()
    assert plan.subjects[:, 2:].min() >= 20


@pytest.mark.parametrize("images", [2, 3, 4, 7, 32, 200, 5000])
def test_about_half_of_each_class_is_to_train_with(images: int) -> None:
    plan = plan_nabirds(images)
    train = np.bincount(plan.labels[plan.is_training])
    test = np.bincount(plan.labels[~plan.is_training])
    assert len(train) == len(test) == len(plan.taxonomy.class_ids)
    assert min(*train, *test) >= 1
    assert set((test - train).tolist()) <= {0, 1}
    assert plan.is_training[plan.png]


# Same seed, same bytes


def test_same_arguments_same_bytes_at_any_number_of_threads(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.random.default_rng().random()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)))
    assert digests(write_nabirds(tmp_path / "five", **SMALL)) == digests(small)


def test_a_new_process_writes_the_same_bytes(small: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from gpufeed.tools.synth import write_nabirds; "
        f"write_nabirds(sys.argv[1], **{SMALL!r})"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True)
    assert digests(tmp_path / "a") == digests(small)


def test_another_seed_gives_other_ids_and_images() -> None:
    assert not set(plan_nabirds(8, seed=1).uuids) & set(plan_nabirds(8, seed=2).uuids)
    look, box = draw_look(1, 0, 0), (10, 10, 60, 50)
    first, second = (draw_image(seed, 0, (96, 80), box, look)[0] for seed in (1, 2))
    assert first.tobytes() != second.tobytes()


# The images


def test_the_bird_lies_inside_its_box_and_fills_it() -> None:
    for number in range(12):
        box = (40 + number, 31, 130 + 9 * number, 190 - 7 * number)
        bird = fit(draw_look(0, number, number), box, np.random.default_rng(number))
        names = ("body", "tail", "bill", "crest", "wing", "near toes", "far toes")
        points = np.concatenate([bird.shapes[name] for name in names])
        low, high = points.min(axis=0), points.max(axis=0)
        x, y, w, h = box
        assert x <= low[0] <= x + 0.1 * w
        assert y <= low[1] <= y + 0.1 * h
        assert x + 0.9 * w <= high[0] <= x + w
        assert y + 0.9 * h <= high[1] <= y + h


@pytest.mark.parametrize("aspect", [0.8, 1.0, 1.4, 1.8])
def test_a_bird_takes_the_pose_that_needs_little_stretching(aspect: float) -> None:
    stretches = []
    for species in range(40):
        box = (0, 0, round(600 * aspect), 600)
        bird = fit(draw_look(0, species, species), box, np.random.default_rng(species))
        across, down = np.ptp(bird.shapes["eye"], axis=0)
        stretches.append(max(across / down, down / across))
    assert np.median(stretches) < 1.25


def test_the_look_changes_pixels_inside_the_box_only() -> None:
    box = (60, 50, 120, 100)
    one, other = (
        np.asarray(draw_image(0, 3, (300, 240), box, draw_look(0, label, 0))[0]).astype(int)
        for label in (1, 2)
    )
    changed = (np.abs(one - other) > 2).any(axis=2)
    x, y, w, h = box
    # The image is enlarged from half its size, so an edge reaches a little further.
    around = np.zeros_like(changed)
    around[y - 4 : y + h + 4, x - 4 : x + w + 4] = True
    assert changed[y : y + h, x : x + w].mean() > 0.2
    assert not (changed & ~around).any()


def test_classes_can_be_told_by_their_colours() -> None:
    plan = plan_nabirds(160, max_side=128)
    looks = [draw_look(0, label, number) for label, number in enumerate(plan.taxonomy.species)]
    features = []
    for row, label in enumerate(plan.labels):
        x, y, w, h = box = plan.subjects[row].tolist()
        image, *_ = draw_image(0, row, plan.sizes[row].tolist(), box, looks[label])
        # The box's middle: its corners show what is behind the bird.
        middle = image.crop((x + w // 4, y + h // 4, x + 3 * w // 4, y + 3 * h // 4))
        cells = np.asarray(middle.resize((3, 3), Image.Resampling.BOX)).astype(float)
        features.append(((cells + cells[:, ::-1]) / 2)[:, :2].ravel())
    found, train, labels = np.array(features), plan.is_training, plan.labels
    means = np.stack([found[train & (labels == label)].mean(axis=0) for label in range(10)])
    nearest = ((found[~train, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels[~train]).mean() > 0.5  # by chance: 0.1


# Writing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": 1}, "images is 1; it must be from 2 to 10000000"),
        ({"seed": -1}, "seed is -1; it must be from 0 to"),
        ({"seed": 2**64}, "seed is 18446744073709551616; it must be"),
        ({"max_side": 63}, "max_side is 63; it must be from 64 to 1024"),
        ({"max_side": 1025}, "max_side is 1025; it must be from 64 to 1024"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        write_nabirds(tmp_path / "set", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    for target in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(ConfigError) as caught:
            write_nabirds(target, images=4, max_side=64)
        assert str(caught.value) == (
            f"{target} exists and is not a synthetic set of these arguments; use a new or empty "
            "folder, or remove this one first"
        )
    assert [path.read_text() for path in tmp_path.iterdir()] == ["keep"]


def test_an_empty_folder_and_missing_parents_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "a/b/c"):
        folder = write_nabirds(tmp_path / name, images=4, max_side=64)
        assert folder == tmp_path / name
        assert len(table(folder, "images.txt")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "empty"]


def test_a_set_is_reused_only_for_the_same_arguments(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = json.loads((small / "synth.json").read_text())
    assert record.items() >= {
        "format": write.FORMAT, "images": 40, "seed": 5, "max_side": 96
    }.items()  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in small.rglob("*")}
    assert write_nabirds(small, **SMALL) == small
    for other in ({"images": 41}, {"seed": 2}, {"max_side": 65}):
        with pytest.raises(ConfigError, match="exists and is not"):
            write_nabirds(small, **SMALL | other)
    monkeypatch.setattr(write, "FORMAT", write.FORMAT + 1)
    with pytest.raises(ConfigError, match="exists and is not"):
        write_nabirds(small, **SMALL)
    assert {path: path.stat().st_mtime_ns for path in small.rglob("*")} == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_call_leaves_no_set_and_the_next_one_finishes_it(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    calls = []

    def draw(*args: object) -> object:
        calls.append(args)
        if len(calls) == 5:
            raise error
        return draw_image(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(write, "draw_image", draw)
        with pytest.raises(error):
            write_nabirds(tmp_path / "set", **SMALL)
    assert len(calls) < SMALL["images"]
    with pytest.raises(gpufeed.GpufeedError):
        gpufeed.read_nabirds(tmp_path / "set")
    assert digests(write_nabirds(tmp_path / "set", **SMALL)) == digests(small)
    next((tmp_path / "set/images").rglob("*.jpg")).unlink()
    (tmp_path / "set/sizes.txt").unlink()
    assert digests(write_nabirds(tmp_path / "set", **SMALL)) == digests(small)


def test_the_bar_counts_every_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_nabirds(tmp_path / "a", images=20, max_side=64, progress=True)
    assert "20/20" in capsys.readouterr().err
    write_nabirds(tmp_path / "b", images=20, max_side=64, progress=False)
    assert capsys.readouterr().err == ""
