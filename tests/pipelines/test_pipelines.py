"""Every recipe runs, with every framework, on a small synthetic set."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gpufeed
from gpufeed.tools.synth import write_nabirds

ROOT = Path(__file__).parents[2]
SHARED = ("__init__", "command")
RECIPES = sorted(p.stem for p in (ROOT / "pipelines").glob("*.py") if p.stem not in SHARED)
FRAMEWORKS = ["torch", "jax", "numpy"]
BATCH = 8


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp() / "synthetic-44"
    return write_nabirds(folder, images=44, max_side=160)


@pytest.fixture
def recipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module(f"pipelines.{request.param}")


def count(birds: Path, split: str) -> int:
    return len(gpufeed.read_nabirds(birds).split(split))


def check_course(fed: dict[str, int], birds: Path, framework: str) -> None:
    whole = count(birds, "train") // BATCH * BATCH
    assert fed == {"train": whole, "test": count(birds, "test")}


def check_detection(fed: tuple[int, int], birds: Path, framework: str) -> None:
    pictures, boxes = fed
    assert pictures == count(birds, "train") // BATCH * BATCH
    assert 0.9 * pictures < boxes <= pictures  # jitter may push a bird out of the image


def check_views(losses: list[float], birds: Path, framework: str) -> None:
    assert len(losses) == count(birds, "train") // BATCH
    # Images of one bird are more alike than those of any two, which would give log(2 n - 1).
    assert all(0 < loss < 6 for loss in losses)


def check_attributes(result: tuple[list[float], float], birds: Path, framework: str) -> None:
    losses, score = result
    assert len(losses) == count(birds, "train") // BATCH
    assert losses[-1] < losses[0]
    assert 0.5 < score <= 1


def check_segmentation(result: float, birds: Path, framework: str) -> None:
    # The mean IoU; of the others the share of the pixels that are birds.
    assert 0.05 < result < 1


def check_pairs(share: float, birds: Path, framework: str) -> None:
    assert 0.8 < share <= 1


CHECKS: dict[str, Callable[[Any, Path, str], None]] = {
    "attributes": check_attributes,
    "course": check_course,
    "detection": check_detection,
    "multi_crop": check_views,
    "pairs": check_pairs,
    "segmentation": check_segmentation,
    "two_crop": check_views,
}


FEWER = {
    "multi_crop": ["--local-crops", "2", "--local-size", "32"],
    "segmentation": ["--epochs", "1"],
}
"""Options that make a recipe quick."""


def test_each_recipe_has_a_check_of_its_result() -> None:
    assert sorted(CHECKS) == RECIPES


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("recipe", RECIPES, indirect=True)
def test_recipe(
    recipe: ModuleType, framework: str, birds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = recipe.__name__.removeprefix("pipelines.")
    options = ["--data", str(birds), "--framework", framework, "--batch-size", str(BATCH)]
    options += ["--size", "64"] if hasattr(recipe.Config, "size") else []
    CHECKS[name](recipe.main(options + FEWER.get(name, [])), birds, framework)
    assert capsys.readouterr().out


@pytest.mark.parametrize("recipe", RECIPES, indirect=True)
def test_recipe_has_the_parts_that_all_have(recipe: ModuleType, birds: Path) -> None:
    assert recipe.__doc__
    config = recipe.Config(data=str(birds), framework="numpy", batch_size=BATCH)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.data = ""
    with recipe.build(config) as loader:
        assert isinstance(loader, gpufeed.Loader)


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_imports_only_what_is_public(name: str) -> None:
    tree = ast.parse((ROOT / "pipelines" / f"{name}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(
                each.name == "gpufeed" or not each.name.startswith(("gpufeed", "pipelines"))
                for each in node.names
            )
        elif isinstance(node, ast.ImportFrom) and node.module != "pipelines.command":
            assert not (node.module or "").startswith(("gpufeed", "pipelines"))


@pytest.mark.parametrize("recipe", RECIPES, indirect=True)
def test_recipe_explains_itself(recipe: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        recipe.main(["--help"])
    said = capsys.readouterr().out
    assert (recipe.__doc__ or "").splitlines()[0] in said
    for text in ("(default: nabirds)", "kind of arrays", "numpy"):
        assert text in " ".join(said.split())


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_answers_a_users_error_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--data", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(ROOT / "pipelines" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().err == f"error: there is no file or folder {tmp_path / 'none'}\n"


@pytest.mark.parametrize("recipe", RECIPES, indirect=True)
def test_recipe_names_wrong_options(recipe: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for options, text in (
        (["--framework", "tensorflow"], "invalid choice: 'tensorflow'"),
        (["--batch-size", "-3"], "argument --batch-size: -3 is less than 0"),
        (["--batch-size", "many"], "argument --batch-size: invalid integer value: 'many'"),
    ):
        with pytest.raises(SystemExit, match="2"):
            recipe.main(options)
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("recipe", ["attributes"], indirect=True)
def test_attributes_are_numbers_too(recipe: ModuleType, birds: Path) -> None:
    """The mean error is below that of answering 0."""
    losses, error = recipe.main(["--data", str(birds), "--task", "size", "--batch-size", "8"])
    with recipe.build(recipe.Config(data=str(birds), task="size"), "test") as loader:
        share = loader.manifest.frame["label"]
    assert losses[-1] < losses[0]
    assert 0 < error < share.mean()


@pytest.mark.parametrize("recipe", ["course"], indirect=True)
def test_course_batches_have_the_names_of_their_pictures(recipe: ModuleType, birds: Path) -> None:
    config = recipe.Config(data=str(birds), framework="jax", batch_size=BATCH)
    with recipe.build(config, "test") as loader:
        batch = next(recipe.course_batches(loader))
        frame = loader.manifest.frame[:BATCH]
        assert batch["img"].shape == (BATCH, 224, 224, 3)
        assert -1 <= batch["img"].min() < 0 < batch["img"].max() <= 1
        assert [loader.manifest.classes[i] for i in batch["species_id"]] == list(
            batch["species_name"]
        )
        assert list(batch["species_name"]) == frame["species_name"].to_list()
        assert list(batch["photographer"]) == frame["photographer"].to_list()


@pytest.mark.parametrize("recipe", ["detection"], indirect=True)
def test_detection_batches_are_what_detectors_take(recipe: ModuleType, birds: Path) -> None:
    config = recipe.Config(data=str(birds), batch_size=BATCH, size=64)
    with recipe.build(config) as loader:
        images, targets = next(iter(loader))
    assert [tuple(image.shape) for image in images] == [(3, 64, 64)] * BATCH
    assert images[0].untyped_storage().data_ptr() == images[1].untyped_storage().data_ptr()
    for target in targets:
        assert set(target) == {"boxes", "labels"}
        assert target["boxes"].shape == (len(target["labels"]), 4)
        assert (target["labels"] > 0).all()
        assert (target["boxes"][:, 2:] > target["boxes"][:, :2]).all()
    padded = dataclasses.replace(config, framework="jax", max_boxes=3)
    with recipe.build(padded) as loader:
        batch = next(iter(loader))
    assert (batch["boxes"].shape, batch["box_valid"].shape) == ((BATCH, 3, 4), (BATCH, 3))
    for place, target in enumerate(targets):
        valid = batch["box_valid"][place]
        assert batch["boxes"][place][valid].tolist() == target["boxes"].tolist()
