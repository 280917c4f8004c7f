"""Contact sheets: the images are those of the batch, and the captions fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from PIL import Image, ImageFont

import gpufeed
from gpufeed.sheets import sheet as sheets
from gpufeed.sheets.draw_targets import draw_targets
from gpufeed.sheets.sheet import Caption, captions_of, check_target, draw_sheet, save_sheet, wrap
from gpufeed.tools.resolve import Preset, is_training, make_transforms
from gpufeed.tools.show import show_batch

MARGIN, GAP = 24, 16


@pytest.fixture(scope="session")
def train(birds: Path) -> gpufeed.Manifest:
    return gpufeed.read_nabirds(birds, labels="species").split("train")


def noise(count: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def cell(sheet: Image.Image, row: int, column: int, height: int, width: int) -> npt.NDArray[object]:
    left = MARGIN + column * (max(width, 192) + GAP) + (max(width, 192) - width) // 2
    top = MARGIN + row * (height + 44 + GAP)
    return np.asarray(sheet)[top : top + height, left : left + width]


@pytest.mark.parametrize(("height", "width"), [(200, 224), (32, 24)])
def test_pictures_are_on_the_sheet_pixel_by_pixel(height: int, width: int) -> None:
    pictures = noise(5, height, width)
    sheet = draw_sheet(pictures, [Caption("a", "b")] * 5, ["facts"], columns=2)
    for place, picture in enumerate(pictures):
        np.testing.assert_array_equal(cell(sheet, *divmod(place, 2), height, width), picture)


def test_sheet_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        sheet = draw_sheet(noise(3, 50, 60), [Caption("Ruddy Gridgull", "Photo: X")] * 3, ["f"])
        save_sheet(sheet, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as saved:
        assert saved.format == "PNG"


def test_a_saved_sheet_says_its_facts(tmp_path: Path) -> None:
    facts = ["gpufeed 1.2.3", "seed 7", "split \u9ce5"]
    save_sheet(draw_sheet(noise(1, 9, 9), [Caption("", "")], facts), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as saved:
        assert saved.info["Description"].split(" \u00b7 ") == facts


def test_captions_stay_within_their_column() -> None:
    long = Caption("W" * 500, "m" * 500)
    blank, written = (
        np.asarray(draw_sheet(noise(4, 40, 224), [caption] * 4, columns=2)).astype(int)
        for caption in (Caption("", ""), long)
    )
    changed = np.flatnonzero((blank != written).any((0, 2)))
    columns = [MARGIN + i * (224 + GAP) for i in range(2)]
    assert all(any(left <= x < left + 224 for left in columns) for x in changed)
    assert changed.min() < MARGIN + 10


def test_wrap_loses_no_word_that_fits() -> None:
    font = ImageFont.load_default(size=13)
    text = "Photo: Somebody With A Long Name"
    assert wrap(text, font, font.getlength(text)) == [text]
    for width in (100.0, 150.0, font.getlength(text) - 1):
        lines = wrap(text, font, width)
        assert " ".join(lines) == text
        assert 1 < len(lines) <= 3
        assert all(font.getlength(line) <= width for line in lines)
    assert wrap("one\ntwo\x00\tthree", font, 1000) == ["one two three"]
    assert wrap("", font, 10) == [""]


def test_wrap_marks_what_it_cuts() -> None:
    font = ImageFont.load_default(size=13)
    for text, number in (("m" * 500, 1), ("word " * 500, 3)):
        lines = wrap(text, font, 100)
        assert len(lines) == number
        ahead, _, behind = lines[-1].partition("\u2026")
        assert (behind == "") == (number == 3)
        assert text.startswith(ahead)
        assert text.endswith(behind)
        assert all(font.getlength(line) <= 100 for line in lines)
        # As much as fits is kept.
        assert font.getlength(text[: len(lines[-1])] + "\u2026") > 100


def test_long_paths_are_told_apart() -> None:
    font = ImageFont.load_default(size=13)
    paths = [f"photographs/of-2026/{'long-' * 9}name-{number}.jpg" for number in range(9)]
    lines = {line for path in paths for line in wrap(path, font, 120)}
    assert len(lines) == 9
    assert all(line.startswith("photo") and font.getlength(line) <= 120 for line in lines)


def test_names_are_written_in_letters_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With matplotlib's font; and without any but Pillow's own, as near as can be."""
    from gpufeed.sheets import fonts

    (font,) = fonts.load_fonts("Étoile Müller ñ Привет", [13])
    assert fonts.legible("Étoile Müller ñ Привет", font) == "Étoile Müller ñ Привет"
    assert fonts.load_fonts("Someone", [13])[0].getname() == ("Aileron", "Regular")
    monkeypatch.setattr(fonts, "_candidates", lambda: iter([""]))
    (font,) = fonts.load_fonts("Müller", [13])
    assert fonts.legible("Étoile Müller ñ 日本", font) == "Etoile Muller n ??"


def test_names_stay_whole_at_any_width() -> None:
    names = ["Synthetic Photographer 12", "Somebody Else"]
    captions = [Caption("Golden-crowned Fixture-Hawk", f"Photo: {name}") for name in names]
    tall = draw_sheet(noise(2, 64, 64), captions, columns=2)
    short = draw_sheet(noise(2, 64, 64), [Caption("a", "b")] * 2, columns=2)
    assert tall.size == (short.size[0], short.size[1] + 20 + 18)


def test_footer_takes_a_second_line_where_the_sheet_is_narrow() -> None:
    facts = ["gpufeed 0.1.0", "step 1000 (epoch 10)", "preset course_evaluate", "device cuda:0"]
    one, none = (draw_sheet(noise(1, 64, 64), [Caption("a", "b")], f) for f in (facts, []))
    assert one.size[0] == none.size[0] == 192 + 2 * MARGIN
    assert one.size[1] > none.size[1] + 2 * 13


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (2, 2), (18, 6), (24, 6), (64, 8), (7, 4)])
def test_sheet_has_a_handy_shape(count: int, columns: int) -> None:
    sheet = draw_sheet(noise(count, 224, 224), [Caption("a", "b")] * count)
    assert sheet.size[0] == 2 * MARGIN + columns * (224 + GAP) - GAP


@pytest.mark.parametrize(
    ("pictures", "captions", "columns", "message"),
    [
        (np.zeros((2, 3, 8, 8), np.float32), 2, None, r"float32 \(2, 3, 8, 8\); a sheet needs"),
        (np.zeros((0, 8, 8, 3), np.uint8), 0, None, r"uint8 \(0, 8, 8, 3\)"),
        (np.zeros((2, 8, 8, 3), np.uint8), 3, None, "3 captions for 2 images"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, 0, "columns is 0"),
    ],
)
def test_sheet_says_what_is_wrong(
    pictures: npt.NDArray[np.uint8], captions: int, columns: int | None, message: str
) -> None:
    with pytest.raises(gpufeed.ConfigError, match=message):
        draw_sheet(pictures, [Caption("a", "b")] * captions, columns=columns)


def test_captions_name_species_and_photographer_or_what_there_is() -> None:
    frame = pl.DataFrame(
        {"path": ["a/1.jpg", "b/2.jpg"], "label": [0, 1], "width": [5, 5], "height": [5, 5]}
    )
    names = {"class_name": ["A (Male)", "B"], "species_name": ["A", "B"]}
    full = frame.with_columns(
        **{name: pl.Series(values) for name, values in names.items()},
        photographer=pl.Series(["Ann & Co, Ltd", None]),
    )
    for given, expected in (
        (full, [("A", "Photo: Ann & Co, Ltd"), ("B", "b/2.jpg")]),
        (full.drop("species_name", "photographer"), [("A (Male)", "a/1.jpg"), ("B", "b/2.jpg")]),
        (frame, [("first", "a/1.jpg"), ("second", "b/2.jpg")]),
    ):
        manifest = gpufeed.Manifest(given, "/", ["first", "second"])
        found = captions_of(manifest, manifest.rows([0, 1]))
        assert [(caption.title, caption.note) for caption in found] == expected


def test_target_is_checked_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_target("x.PNG") == tmp_path / "x.PNG"
    assert check_target(tmp_path, "name.png") == tmp_path / "name.png"
    assert check_target("plots", "name.png") == tmp_path / "plots" / "name.png"
    assert check_target("a/b/x.png") == tmp_path / "a/b/x.png"
    with pytest.raises(gpufeed.ConfigError, match=r"cannot write /proc/none/x\.png: No such file"):
        check_target("/proc/none/x.png")
    with pytest.raises(gpufeed.ConfigError, match=r"x\.jpg is neither a folder nor"):
        check_target("x.jpg")
    assert not list(tmp_path.iterdir())


def test_a_picture_makes_its_folder(tmp_path: Path) -> None:
    save_sheet(Image.new("RGB", (2, 2)), tmp_path / "a/b/x.png")
    assert (tmp_path / "a/b/x.png").stat().st_size


def test_a_file_that_can_not_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "x.png").mkdir()
    with pytest.raises(gpufeed.ConfigError, match=r"cannot write .*x\.png"):
        save_sheet(Image.new("RGB", (2, 2)), tmp_path / "x.png")


@pytest.mark.parametrize("preset", ["train", "evaluate", "course_train", "course_evaluate"])
def test_sheet_shows_the_pictures_that_training_gets(
    preset: Preset, train: gpufeed.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[npt.NDArray[np.uint8]] = []
    draw = sheets.draw_sheet

    def keep(pictures: npt.NDArray[np.uint8], *arguments: object) -> Image.Image:
        drawn.append(pictures.copy())
        return draw(pictures, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("gpufeed.sheets.batch.draw_sheet", keep)
    step = len(train) // 6 + 1
    shown = show_batch(train, step, preset=preset, batch_size=6, seed=3, device="cpu")
    transforms = make_transforms(preset, layout="NHWC")
    with gpufeed.Loader(
        train,
        sampler=gpufeed.IndexSampler(len(train), shuffle=is_training(preset), seed=3),
        transforms=transforms,
        batch_size=6,
        last_batch="drop" if is_training(preset) else "partial",
        device="cpu",
    ) as loader:
        image = loader.batch(step)["image"]
        assert shown.epoch == step // len(loader)
        assert shown.steps_per_epoch == len(loader)
    output = transforms[-1]
    assert isinstance(output, gpufeed.Normalize)
    levels = image * np.array(output.std) + np.array(output.mean)
    assert np.abs(levels - drawn[0]).max() < 0.51
    assert shown.images == len(image) == 6 or preset.endswith("evaluate")


def test_show_is_no_process_of_a_training_run(
    train: gpufeed.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell that a launcher started, say."""
    alone = show_batch(train, 0, batch_size=4, size=32, device="cpu").sheet
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert show_batch(train, 0, batch_size=4, size=32, device="cpu").sheet == alone


def test_show_takes_sets_smaller_than_a_batch(train: gpufeed.Manifest) -> None:
    few = train.filter(np.arange(len(train)) < 3)
    assert show_batch(few, 1, batch_size=32, size=32, device="cpu").images == 3


@pytest.mark.parametrize("step", [-1, 2**32, 2**80])
def test_show_names_a_step_that_is_out_of_range(step: int, train: gpufeed.Manifest) -> None:
    with pytest.raises(gpufeed.ConfigError, match=f"step is {step}: there is no batch {step}"):
        show_batch(train, step)


def test_show_reaches_the_last_epoch(train: gpufeed.Manifest) -> None:
    shown = show_batch(train, 4 * 2**32 - 1, batch_size=len(train) // 4, size=32, device="cpu")
    assert (shown.epoch, shown.steps_per_epoch) == (2**32 - 1, 4)


def test_targets_are_drawn_around_what_they_are_of() -> None:
    pictures = np.full((2, 60, 80, 3), 128, dtype=np.uint8)
    targets = {
        "boxes": [np.array([[10, 20, 31, 40.0]], np.float32), np.zeros((0, 4), np.float32)],
        "box_labels": [np.array([0]), np.zeros(0, int)],
        "points": np.array([[[60, 10], [70, 50]]] * 2, np.float32),
        "point_visible": np.array([[True, False], [False, False]]),
    }
    marked = draw_targets(pictures, targets)
    changed = (marked != pictures).any(axis=-1)
    assert not changed[1].any()
    assert np.all(pictures == 128)
    # The edge of the box is drawn on its outermost pixels, and what is in it is left alone.
    assert changed[0, 20, 10:31].all()
    assert changed[0, 39, 10:31].all()
    assert changed[0, 20:40, 10].all()
    assert changed[0, 20:40, 30].all()
    assert not changed[0, 21:39, 11:30].any()
    assert changed[0, 10, 60]
    assert not changed[0, 45:, 65:].any()


def test_a_sheet_with_targets_differs_by_them_alone(train: gpufeed.Manifest) -> None:
    common = {"size": 64, "batch_size": 4, "device": "cpu"}
    plain, marked = (
        np.asarray(show_batch(train, targets=wanted, **common).sheet) for wanted in (False, True)
    )
    assert plain.shape == marked.shape
    differs = (plain != marked).any(axis=-1).mean()
    assert 0.005 < differs < 0.2


def test_targets_that_are_not_there_can_not_be_drawn(train: gpufeed.Manifest) -> None:
    frame = train.frame.select("path", "label", "width", "height")
    bare = gpufeed.Manifest(frame, train.root, train.classes)
    with pytest.raises(gpufeed.ConfigError, match="neither boxes nor points"):
        show_batch(bare, size=64, batch_size=4, device="cpu", targets=True)
