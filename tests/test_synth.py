"""The synthetic set: files and figures are those of NABirds, and its birds can be told apart."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gpufeed.errors import ConfigError, GpufeedError
from gpufeed.tools.synth import Plan, pictures, plan_nabirds, write, write_nabirds
from gpufeed.tools.synth.bird import PART_NAMES, draw_look, fit
from gpufeed.tools.synth.draws import Draws, Stream
from gpufeed.tools.synth.scene import draw_picture
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small set of full-size pictures, which the tests only read."""
    return write_nabirds(tmp_path_factory.mktemp("synth") / "set", images=IMAGES, seed=3)


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


@pytest.mark.parametrize("name", [*PER_IMAGE, *OTHERS])
def test_every_line_has_its_format(folder: Path, name: str) -> None:
    pattern = re.compile((PER_IMAGE | OTHERS)[name])
    assert [line for line in lines(folder, name) if not pattern.fullmatch(line)] == []


def test_the_files_are_those_of_the_distribution(folder: Path) -> None:
    images = {f"images/{path}" for path in table(folder, "images.txt").values()}
    assert set(digests(folder)) == images | set(PER_IMAGE) | set(OTHERS) | {"synth.json"}
    assert len(images) == IMAGES


def test_all_files_have_the_same_ids_in_sorted_order(folder: Path) -> None:
    ids = list(table(folder, "images.txt"))
    assert ids == sorted(set(ids))
    for name in PER_IMAGE:
        assert [line.split(" ", 1)[0] for line in lines(folder, name)] == ids
    parts = [line.split(" ")[:2] for line in lines(folder, "parts/part_locs.txt")]
    assert parts == [[key, str(part)] for key in ids for part in range(11)]


def test_paths_say_class_and_id(folder: Path) -> None:
    classes = table(folder, "image_class_labels.txt")
    for key, path in table(folder, "images.txt").items():
        assert path[:-4] == f"{int(classes[key]):04d}/{key.replace('-', '')}"


def test_sizes_are_the_pictures_own(folder: Path) -> None:
    sizes = table(folder, "sizes.txt")
    for key, path in table(folder, "images.txt").items():
        with Image.open(folder / "images" / path) as picture:
            assert f"{picture.width} {picture.height}" == sizes[key]


def test_pictures_are_baseline_jpegs_but_for_one_rgba_png_to_train_with(folder: Path) -> None:
    train = table(folder, "train_test_split.txt")
    odd = []
    for key, path in table(folder, "images.txt").items():
        with Image.open(folder / "images" / path) as picture:
            picture.load()
            if picture.format == "JPEG":
                assert picture.mode == "RGB"
                assert "progressive" not in picture.info
            else:
                odd.append((picture.format, picture.mode, train[key], Path(path).suffix))
    assert odd == [("PNG", "RGBA", "1", ".jpg")]


def test_jpegs_take_about_two_and_a_half_bits_a_pixel(folder: Path) -> None:
    sizes = table(folder, "sizes.txt")
    bits, pixels = 0, 0
    for key, path in table(folder, "images.txt").items():
        data = (folder / "images" / path).read_bytes()
        if data.startswith(b"\xff\xd8"):
            width, height = map(int, sizes[key].split())
            bits, pixels = bits + 8 * len(data), pixels + width * height
    assert 2.2 <= bits / pixels <= 2.8


def test_the_oddities_of_the_real_files_are_there(folder: Path) -> None:
    paths, train = table(folder, "images.txt"), table(folder, "train_test_split.txt")
    upper = {train[key] for key, path in paths.items() if path.endswith(".JPG")}
    assert upper == {"0", "1"}

    sizes, boxes = table(folder, "sizes.txt"), table(folder, "bounding_boxes.txt")
    beyond = 0
    for key, box in boxes.items():
        x, y, w, h = map(int, box.split())
        width, height = map(int, sizes[key].split())
        assert x < width
        assert y < height
        beyond += x + w > width or y + h > height
    assert beyond >= 1

    names = table(folder, "classes.txt")
    used = [names[key] for key in set(table(folder, "image_class_labels.txt").values())]
    assert any("  (" in name for name in used)
    for character in "'(),/-":
        assert any(character in name for name in used), character

    photographers = set(table(folder, "photographers.txt").values())
    for character in ',"&':
        assert any(character in name for name in photographers), character


def test_two_classes_are_forms_of_one_species(folder: Path) -> None:
    names = set(table(folder, "classes.txt").values())
    assert {"Ruddy Testbird (Male)", "Ruddy Testbird  (Female)"} <= names


def test_part_names_are_the_real_ones(folder: Path) -> None:
    assert lines(folder, "parts/parts.txt") == [f"{i} {name}" for i, name in enumerate(PART_NAMES)]


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


# The tree


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 17, 100, MAX_CLASSES])
def test_the_leaves_of_the_tree_are_the_classes(classes: int) -> None:
    tree = build_taxonomy(classes)
    assert len(tree.class_ids) == len(tree.species) == classes
    leaves = set(range(len(tree.names))) - set(tree.parents)
    assert set(tree.class_ids) == leaves
    assert min(leaves) > 1
    assert len({tree.names[i] for i in leaves}) == classes
    assert tree.parents.index(-1) == 0
    assert all(0 <= parent < child for child, parent in enumerate(tree.parents) if child)

    def depth(node: int) -> int:
        return 0 if node == 0 else 1 + depth(tree.parents[node])

    depths = {depth(leaf) for leaf in leaves}
    assert depths == ({3} if classes == 1 else {3, 4})


def test_every_name_has_one_species_without_its_form() -> None:
    tree = build_taxonomy(MAX_CLASSES)
    species: dict[str, int] = {}
    for node, number in zip(tree.class_ids, tree.species, strict=True):
        name = " ".join(tree.names[node].split("(")[0].split())
        assert species.setdefault(name, number) == number
    assert sorted(species.values()) == list(range(len(species)))
    assert 380 <= len(species) <= 430


# The figures


def test_sizes_follow_the_real_ones(plan: Plan) -> None:
    width, height = plan.sizes.T
    assert width.min() >= 90
    assert height.min() >= 90
    assert plan.sizes.max() == 1024
    assert 885 <= width.mean() <= 912
    assert 698 <= height.mean() <= 727
    assert 0.63 <= (width * height).mean() / 1e6 <= 0.665
    assert 0.64 <= (plan.sizes.max(axis=1) == 1024).mean() <= 0.69
    assert 0.79 <= (width > height).mean() <= 0.84


def test_boxes_follow_the_real_ones(plan: Plan) -> None:
    share = plan.boxes[:, 2:].prod(axis=1) / plan.sizes.prod(axis=1)
    low, middle, high = np.percentile(share, [5, 50, 95])
    assert 0.055 <= low <= 0.073
    assert 0.26 <= middle <= 0.30
    assert 0.59 <= high <= 0.66
    overruns = (plan.boxes[:, :2] + plan.boxes[:, 2:] > plan.sizes).any(axis=1)
    assert 0.003 <= overruns.mean() <= 0.006


def test_subjects_lie_in_picture_and_box(plan: Plan) -> None:
    for inner, outer in (
        (plan.subjects, np.concatenate([np.zeros_like(plan.sizes), plan.sizes], axis=1)),
        (plan.subjects, plan.boxes),
    ):
        assert (inner[:, :2] >= outer[:, :2]).all()
        assert (inner[:, :2] + inner[:, 2:] <= outer[:, :2] + outer[:, 2:]).all()
    assert plan.subjects[:, 2:].min() >= 20


def test_classes_are_unequal_and_about_half_is_to_train_with(plan: Plan) -> None:
    classes = len(plan.taxonomy.class_ids)
    assert classes == 5000 // 16
    counts = np.bincount(plan.labels, minlength=classes)
    train = np.bincount(plan.labels[plan.is_training], minlength=classes)
    assert counts.min() * 3 < counts.max()
    assert train.min() >= 1
    assert (counts - train).min() >= 1
    assert 0.48 <= plan.is_training.mean() <= 0.52


@pytest.mark.parametrize(("images", "classes"), [(2, 1), (4, 2), (64, 32), (1110, 555), (200, 7)])
def test_each_class_can_be_trained_and_tested(images: int, classes: int) -> None:
    plan = plan_nabirds(images, classes=classes)
    every = set(range(classes))
    assert set(plan.labels[plan.is_training].tolist()) == every
    assert set(plan.labels[~plan.is_training].tolist()) == every


def test_a_plan_has_all_oddities_at_any_size_from_32_on() -> None:
    for images in range(32, 40):
        plan = plan_nabirds(images)
        assert plan.is_png.sum() == 1
        assert plan.is_training[plan.is_png].all()
        assert sum(path.endswith(".JPG") for path in plan.paths) == 2
        assert (plan.boxes[:, :2] + plan.boxes[:, 2:] > plan.sizes).any(axis=1).sum() == 2


# Same seed, same bytes


def test_same_seed_same_bytes_whatever_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_PIXELS_WORTH_A_PROCESS", 1)
    args: dict[str, Any] = {"images": 40, "classes": 5, "seed": 11, "max_side": 160}
    one = digests(write_nabirds(tmp_path / "one", workers=1, **args))
    np.random.default_rng().random()
    two = digests(write_nabirds(tmp_path / "two", workers=2, **args))
    assert one == two


def test_a_new_process_writes_the_same_bytes(tmp_path: Path) -> None:
    code = (
        "import sys; from gpufeed.tools.synth import write_nabirds; "
        "write_nabirds(sys.argv[1], images=6, seed=5, max_side=96)"
    )
    root = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True, cwd=root)
    assert digests(tmp_path / "a") == digests(
        write_nabirds(tmp_path / "b", images=6, seed=5, max_side=96)
    )


def test_another_seed_gives_other_ids_and_pictures(tmp_path: Path) -> None:
    a = write_nabirds(tmp_path / "a", images=8, seed=1, max_side=96)
    b = write_nabirds(tmp_path / "b", images=8, seed=2, max_side=96)
    assert not set(table(a, "images.txt")) & set(table(b, "images.txt"))
    look = draw_look(1, 0, 0)
    box = (10, 10, 60, 50)
    first, second = (draw_picture(seed, 0, (96, 80), box, look)[0] for seed in (1, 2))
    assert np.asarray(first).tobytes() != np.asarray(second).tobytes()


def test_ids_do_not_depend_on_how_many_images_there_are() -> None:
    small, large = plan_nabirds(10, seed=4), plan_nabirds(300, seed=4)
    by_number = dict(zip(large.numbers.tolist(), large.uuids, strict=True))
    assert {by_number[i] for i in range(10)} == set(small.uuids)


def test_planned_bytes_stay_what_they_were() -> None:
    """A change here changes every set: raise `write.FORMAT` with it."""
    plan = plan_nabirds(50, seed=0)
    assert plan.uuids[0] == "0246fbe3-b070-4760-9c31-b7948a2ad2a3"
    digest = hashlib.sha256(plan.sizes.tobytes() + plan.boxes.tobytes() + plan.labels.tobytes())
    assert digest.hexdigest()[:16] == "c63e2b39858181d5"


def test_draws_are_uniform_and_addressed() -> None:
    u = Draws(0, Stream.SIZES).uniforms(20000)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert abs(u.mean() - 0.5) < 0.01
    bells = Draws(0, Stream.SIZES).bells(20000)
    assert abs(bells.mean()) < 0.03
    assert abs(bells.std() - 1.0) < 0.03
    heads = {
        int(Draws(seed, stream, number).words(1)[0])
        for seed in (0, 1)
        for stream in Stream
        for number in (0, 1)
    }
    assert len(heads) == 4 * len(Stream)


# The pictures


def test_the_subject_is_painted_inside_its_box_and_fills_it() -> None:
    for number in range(12):
        look = draw_look(0, number, number)
        box = (40 + number, 31, 130 + 9 * number, 190 - 7 * number)
        _, bird = draw_picture(0, number, (320, 260), box, look)
        drawn = [
            points
            for name, points in bird.outlines.items()
            if name in ("body", "tail", "bill", "crest", "wing", "toes_near", "toes_far")
        ]
        points = np.concatenate(drawn)
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
        look = draw_look(0, species, species)
        box = (0, 0, round(600 * aspect), 600)
        eye = fit(look, box, Draws(0, Stream.PICTURE, species)).outlines["eye"]
        across, down = eye.max(axis=0) - eye.min(axis=0)
        stretches.append(max(across / down, down / across))
    assert np.median(stretches) < 1.25


def test_the_look_changes_pixels_inside_the_box_only() -> None:
    box = (60, 50, 120, 100)
    one, other = (
        np.asarray(draw_picture(0, 3, (300, 240), box, draw_look(0, label, 0))[0]).astype(int)
        for label in (1, 2)
    )
    changed = (np.abs(one - other) > 2).any(axis=2)
    x, y, w, h = box
    # The picture is enlarged from half its size, so an edge reaches a little further.
    around = np.zeros_like(changed)
    around[y - 4 : y + h + 4, x - 4 : x + w + 4] = True
    assert changed[y : y + h, x : x + w].mean() > 0.2
    assert not (changed & ~around).any()


def test_classes_can_be_told_by_their_colours(tmp_path: Path) -> None:
    folder = write_nabirds(tmp_path / "set", images=160, classes=10, max_side=128)
    train = table(folder, "train_test_split.txt")
    classes = table(folder, "image_class_labels.txt")
    boxes = table(folder, "bounding_boxes.txt")
    features: dict[str, list[np.ndarray]] = {"0": [], "1": []}
    labels: dict[str, list[str]] = {"0": [], "1": []}
    for key, path in table(folder, "images.txt").items():
        x, y, w, h = map(int, boxes[key].split())
        with Image.open(folder / "images" / path) as picture:
            # The box's middle: its corners show what is behind the bird.
            middle = (x + w // 4, y + h // 4, x + 3 * w // 4, y + 3 * h // 4)
            colors = picture.convert("RGB").crop(middle).resize((3, 3), Image.Resampling.BOX)
        cells = np.asarray(colors).astype(float)
        mirrored = (cells + cells[:, ::-1]) / 2
        features[train[key]].append(mirrored[:, :2].ravel())
        labels[train[key]].append(classes[key])
    names = sorted(set(labels["1"]))
    known, asked = np.array(features["1"]), np.array(features["0"])
    means = np.stack([known[np.array(labels["1"]) == name].mean(axis=0) for name in names])
    nearest = ((asked[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1)
    right = np.mean([names[i] == label for i, label in zip(nearest, labels["0"], strict=True)])
    assert right > 0.5  # by chance: 0.1


# Writing


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"images": 1}, ["images = 1", "at least 2"]),
        ({"images": 2.5}, ["images = 2.5", "integer"]),
        ({"images": True}, ["images = True", "integer"]),
        ({"images": 5000, "classes": 556}, ["classes = 556", "1 to 555"]),
        ({"classes": 0}, ["classes = 0", "1 to 555"]),
        ({"images": 19, "classes": 10}, ["images = 19", "classes = 10", "images = 20"]),
        ({"seed": -1}, ["seed = -1", "0 to"]),
        ({"seed": 2**64}, ["seed = ", "0 to"]),
        ({"max_side": 63}, ["max_side = 63", "64 to 1024"]),
        ({"max_side": 1025}, ["max_side = 1025", "64 to 1024"]),
        ({"workers": 0}, ["workers = 0", "at least 1"]),
    ],
)
def test_a_bad_argument_is_named_with_its_value(
    tmp_path: Path, arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        write_nabirds(tmp_path / "set", **arguments)
    assert all(word in str(caught.value) for word in words)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError) as caught:
        write_nabirds(tmp_path, images=4, max_side=64)
    assert str(caught.value) == (
        f"{tmp_path} exists and is not a finished synthetic set of these arguments; give a "
        "folder that is new or empty, or remove this one first"
    )
    assert (tmp_path / "mine.txt").read_text() == "keep"
    with pytest.raises(ConfigError):
        write_nabirds(tmp_path / "mine.txt", images=4, max_side=64)


def test_an_empty_folder_and_missing_parents_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "a/b/c"):
        folder = write_nabirds(tmp_path / name, images=4, max_side=64)
        assert folder == tmp_path / name
        assert len(table(folder, "images.txt")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "empty"]


def test_a_finished_set_is_reused_only_for_the_same_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_nabirds(tmp_path / "set", images=6, seed=1, max_side=64)
    record = json.loads((folder / "synth.json").read_text())
    assert {k: record[k] for k in ("format", "images", "classes", "seed", "max_side")} == {
        "format": write.FORMAT,
        "images": 6,
        "classes": 2,
        "seed": 1,
        "max_side": 64,
    }
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert write_nabirds(folder, images=6, seed=1, max_side=64, workers=1) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    others: list[dict[str, Any]] = [{"images": 7}, {"seed": 2}, {"max_side": 65}, {"classes": 3}]
    for other in others:
        with pytest.raises(ConfigError, match="exists and is not"):
            write_nabirds(folder, **{"images": 6, "seed": 1, "max_side": 64} | other)
    with monkeypatch.context() as patch:
        patch.setattr(write, "FORMAT", write.FORMAT + 1)
        with pytest.raises(ConfigError, match="exists and is not"):
            write_nabirds(folder, images=6, seed=1, max_side=64)
    next((folder / "images").rglob("*.jpg")).unlink()
    with pytest.raises(ConfigError, match="exists and is not"):
        write_nabirds(folder, images=6, seed=1, max_side=64)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_call_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    calls = []

    def draw(*args: object) -> object:
        calls.append(args)
        if len(calls) == 5:
            raise error
        return draw_picture(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(pictures, "draw_picture", draw)
    with pytest.raises(error):
        write_nabirds(tmp_path / "set", images=40, max_side=64)
    assert len(calls) == 5
    assert list(tmp_path.iterdir()) == []


def test_a_key_pressed_while_waiting_stops_the_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threading.active_count()
    started = []
    real = subprocess.Popen

    def popen(*args: Any, **options: Any) -> subprocess.Popen[str]:
        started.append(real(*args, **options))
        return started[-1]

    @contextlib.contextmanager
    def bar(*args: object, **options: object) -> Iterator[Callable[[int], None]]:
        def advance(done: int) -> None:
            # Once: what comes from the other process is not looked at any more.
            if not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt

        yield advance

    interrupted: list[bool] = []
    monkeypatch.setattr(write, "_PIXELS_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(write, "progress_bar", bar)
    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        write_nabirds(tmp_path / "set", images=3000, max_side=64, workers=2)
    assert list(tmp_path.iterdir()) == []
    assert [worker.returncode for worker in started] == [-signal.SIGKILL, -signal.SIGKILL]
    assert threading.active_count() == threads


def test_what_goes_wrong_in_a_process_comes_out_here(tmp_path: Path) -> None:
    arguments = {"images": 4, "classes": 2, "seed": 0, "max_side": 64}
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pictures.draw_with_processes(tmp_path / "nowhere", arguments, 2, print)
    with pytest.raises(GpufeedError, match=r"status 1: (.|\n)*images = 1 is out of range"):
        pictures.draw_with_processes(tmp_path, arguments | {"images": 1}, 2, print)


def test_a_script_without_a_main_guard_may_write_a_set(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from gpufeed.tools.synth import write, write_nabirds\n"
        "write._PIXELS_WORTH_A_PROCESS = 1\n"
        f"write_nabirds({str(tmp_path / 'set')!r}, images=4, max_side=64, workers=2)\n"
        "print('once')\n"
    )
    ran = subprocess.run(
        [sys.executable, script],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert (ran.stdout, ran.stderr) == ("once\n", "")
    assert len(table(tmp_path / "set", "images.txt")) == 4


def test_someone_else_finishing_the_same_set_first_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"images": 4, "max_side": 64}
    real = write._write_set

    def slower(*args: object) -> None:
        monkeypatch.setattr(write, "_write_set", real)
        write_nabirds(tmp_path / "set", **arguments)
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(write, "_write_set", slower)
    assert write_nabirds(tmp_path / "set", **arguments) == tmp_path / "set"
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_the_bar_counts_every_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_nabirds(tmp_path / "a", images=20, max_side=64, progress=True)
    assert "20/20" in capsys.readouterr().err
    write_nabirds(tmp_path / "b", images=20, max_side=64, progress=False)
    assert capsys.readouterr().err == ""
