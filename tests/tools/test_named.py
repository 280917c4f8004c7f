"""What the command line names in words: presets, data, splits, the cache, what is installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import gpufeed
from gpufeed._util import dali_build
from gpufeed._util.cache_folder import cache_folder
from gpufeed.tools import info
from gpufeed.tools.demo import Fed, check_usable, feed_epoch
from gpufeed.tools.find_data import ListOptions
from gpufeed.tools.resolve import (
    list_images,
    make_transforms,
    open_manifest,
    split_names,
    take_split,
)
from tests.support.nabirds_data import write_picture


@pytest.fixture
def folder(birds: Path) -> Path:
    return birds


@pytest.fixture
def parquet(folder: Path, tmp_path: Path) -> Path:
    frame = gpufeed.read_nabirds(folder).frame
    boxes = {f"box_{side}": f"bb_{side}" for side in ("x", "y", "width", "height")}
    frame = frame.rename({"uuid": "UUID", **boxes}).with_columns(
        pl.col("is_training_img").cast(int)
    )
    frame.drop("parents", "label").write_parquet(tmp_path / "metadata.parquet")
    (tmp_path / "images").symlink_to(folder / "images")
    return tmp_path / "metadata.parquet"


def test_all_kinds_of_data_are_told_apart(folder: Path, parquet: Path) -> None:
    distribution = open_manifest(folder)
    assert distribution.classes == gpufeed.read_nabirds(folder, labels="species").classes
    assert open_manifest(folder, "class").classes == gpufeed.read_nabirds(folder).classes
    for path in (parquet, parquet.parent):
        assert open_manifest(path).frame["path"].equals(distribution.frame["path"])
    as_table = open_manifest(
        parquet, options=ListOptions(label="photographer", root=folder / "images")
    )
    assert set(as_table.classes) == set(distribution.frame["photographer"])
    classes = open_manifest(folder / "images")
    assert len(classes) == len(distribution)
    assert "species_name" not in classes.frame.columns
    with pytest.raises(gpufeed.ConfigError, match="have no species; use class labels"):
        open_manifest(folder / "images", "species")


@pytest.fixture
def table(tmp_path: Path) -> pl.DataFrame:
    for number in range(4):
        write_picture(tmp_path / "photos" / f"{number}.png", (10 + number, 20))
    return pl.DataFrame(
        {
            "file": [f"photos/{number}.png" for number in range(4)],
            "kind": ["b", "a", "b", "c"],
            "split": ["train", "val", "train", None],
        }
    )


def test_tables_are_data(table: pl.DataFrame, tmp_path: Path) -> None:
    options = ListOptions(path="file", label="kind")
    expected = gpufeed.read_table(table, path="file", label="kind", root=tmp_path)
    table.write_csv(tmp_path / "list.csv")
    table.write_parquet(tmp_path / "metadata.parquet")  # though no course's
    table.write_ndjson(tmp_path / "list.jsonl")
    for name in ("list.csv", "metadata.parquet", "list.jsonl"):
        read = open_manifest(tmp_path / name, options=options)
        assert read.fingerprint() == expected.fingerprint()
        listed = list_images(tmp_path / name, options)
        assert listed.frame["path"].equals(read.frame["path"])
        assert listed.frame["label"].equals(read.frame["label"])
        assert (listed.reader, listed.sized) == ("read_table", False)
    assert open_manifest(tmp_path).classes == ("photos",)  # the tables lie beside class folders
    names = table.select(path=pl.col("file").str.strip_prefix("photos/"))
    names.write_csv(tmp_path / "names.tsv", separator="\t")
    read = open_manifest(tmp_path / "names.tsv", options=ListOptions(root=tmp_path / "photos"))
    assert (len(read), read.classes) == (4, ())


def test_tables_with_sizes_are_checked_as_manifests(table: pl.DataFrame, tmp_path: Path) -> None:
    table = table.rename({"file": "path"}).with_columns(
        width=pl.Series([10, 11, 12, 13]), height=20
    )
    boxes = {"box_x": 1, "box_y": 1, "box_width": 3, "box_height": pl.Series([1, 1, 9, 99])}
    table.write_parquet(tmp_path / "list.pq")
    assert list_images(tmp_path / "list.pq").sized
    table.with_columns(**boxes).write_parquet(tmp_path / "list.pq")
    with pytest.raises(
        gpufeed.ManifestError, match=r"list.pq: row 3 .*the box 1 1 3 99 .* not ins"
    ):
        list_images(tmp_path / "list.pq")
    table.drop("width", "height").with_columns(**boxes).write_parquet(tmp_path / "list.pq")
    assert "box_x" not in list_images(tmp_path / "list.pq").frame.columns


def test_a_folder_of_images_is_data(table: pl.DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    (folder / "notes.txt").touch()
    (folder / ".hidden.png").touch()
    (folder / "link.png").symlink_to("/etc/hostname")
    listed = list_images(folder)
    assert listed.frame["path"].to_list() == ["0.png", "1.png", "2.png", "3.png", "link.png"]
    with pytest.raises(gpufeed.ManifestError, match="through a symbolic link to /etc/hostname"):
        open_manifest(folder)
    (folder / "link.png").unlink()
    write_picture(tmp_path / "e.png", (4, 4))
    (folder / "link.png").symlink_to(tmp_path / "e.png")
    read = open_manifest(folder, options=ListOptions(follow_links=True))
    assert read.sizes().tolist() == [[20, 10], [20, 11], [20, 12], [20, 13], [4, 4]]
    assert (read.classes, read.root) == ((), folder)


def test_options_that_do_not_fit_the_data(table: pl.DataFrame, tmp_path: Path) -> None:
    table.write_csv(tmp_path / "list.csv")
    for options, message in (
        (ListOptions(), "no column 'path'; the columns are .*'kind'.*; pass path= with one of"),
        (ListOptions("file", "x"), "no column 'x'; .*; pass label= with one of"),
    ):
        for read in (list_images, lambda path, options: open_manifest(path, options=options)):
            with pytest.raises(gpufeed.ManifestError, match=message):
                read(tmp_path / "list.csv", options)
    with pytest.raises(gpufeed.ConfigError, match=r"label does not apply: .*photos"):
        list_images(tmp_path / "photos", ListOptions(label="kind"))
    with pytest.raises(gpufeed.ConfigError, match="have no species; use class labels"):
        open_manifest(tmp_path / "list.csv", "species", options=ListOptions("file"))


def test_the_splits_of_a_table(table: pl.DataFrame, tmp_path: Path) -> None:
    table.write_csv(tmp_path / "list.csv")
    read = open_manifest(tmp_path / "list.csv", options=ListOptions("file", "kind"))
    assert split_names(read) == ["train", "val", "all"]
    assert len(take_split(read, None, "train")[0]) == 2
    assert len(take_split(read, "validation", "train")[0]) == 1
    with pytest.raises(gpufeed.ConfigError, match=r"no split 'test'; .*\['train', 'val'\]"):
        take_split(read, None, "evaluate")
    numbered = read.frame.with_columns(split=pl.Series([0, 1, 2, 3]))
    numbered = gpufeed.Manifest(numbered, read.root, read.classes)
    assert take_split(numbered, None, "train") == (numbered, "all")


def test_all_splits_are_listed_to_be_checked(tmp_path: Path) -> None:
    """Though they are no classes."""
    for name in ("train", "val"):
        write_picture(tmp_path / name / "wren" / "1.png", (4, 5))
    listed = list_images(tmp_path)
    assert listed.frame["path"].to_list() == ["train/wren/1.png", "val/wren/1.png"]
    with pytest.raises(gpufeed.ManifestError, match="are splits rather than classes: train, val"):
        open_manifest(tmp_path)


def test_a_list_without_its_images_is_enough(folder: Path, tmp_path: Path) -> None:
    """For orders, as in `gpufeed shuffle-report`."""
    listed = tmp_path / "listed"
    shutil.copytree(folder, listed, ignore=shutil.ignore_patterns("images"))
    assert len(open_manifest(listed)) == len(open_manifest(folder))


def test_what_is_no_data_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(gpufeed.ManifestError, match=r"there is no file or folder .*nowhere"):
        open_manifest(tmp_path / "nowhere")
    with pytest.raises(
        gpufeed.ManifestError, match=r"sizes\.txt is not a data set; pass a NABirds"
    ):
        open_manifest(folder / "sizes.txt")
    incomplete = tmp_path / "incomplete"
    shutil.copytree(folder, incomplete, ignore=shutil.ignore_patterns("images", "images.txt"))
    with pytest.raises(gpufeed.ManifestError, match=r"images\.txt"):
        open_manifest(incomplete)


def test_split_is_the_presets_own_unless_named(folder: Path) -> None:
    birds = open_manifest(folder)
    assert take_split(birds, None, "course_train")[1] == "train"
    test, name = take_split(birds, None, "evaluate")
    assert (name, len(test)) == ("test", len(birds.split("test")))
    assert take_split(birds, "train", "evaluate")[1] == "train"
    assert take_split(birds, "all", "train") == (birds, "all")
    unsplit = open_manifest(folder / "images")
    assert take_split(unsplit, None, "train") == (unsplit, "all")
    with pytest.raises(gpufeed.ConfigError, match="the data have no splits"):
        take_split(unsplit, "test", "train")


def test_presets_go_by_their_names() -> None:
    for name in ("train", "evaluate", "course_train", "course_evaluate"):
        named = make_transforms(name)  # type: ignore[arg-type]
        own: list[Any] = getattr(gpufeed.presets, name)()
        assert [each.identity for each in named] == [each.identity for each in own]
    (*_, output) = make_transforms("course_train", dtype="uint8", layout="NCHW")
    assert isinstance(output, gpufeed.ToDtype)
    assert (output.dtype, output.layout) == ("uint8", "NCHW")
    with pytest.raises(gpufeed.ConfigError, match="preset is 'other'; it must be one of train"):
        make_transforms("other")  # type: ignore[arg-type]
    with pytest.raises(
        gpufeed.ConfigError, match="size is 96; the preset course_evaluate supports 224"
    ):
        make_transforms("course_evaluate", 96)


def test_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/gpufeed")
    for unusable in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert cache_folder() == tmp_path / ".cache" / "gpufeed"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", _no_home)
    with pytest.raises(gpufeed.ConfigError, match="set XDG_CACHE_HOME"):
        cache_folder()


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_an_epoch_is_fed_to_the_last_record(folder: Path) -> None:
    birds = open_manifest(folder)
    fed = feed_epoch(birds, batch_size=32, device="cpu", framework="jax")
    assert (fed.whole.images, fed.whole.batches) == (80, 3)
    assert (fed.first.images, fed.state["records"]) == (32, 32)
    assert fed.device == "cpu"
    assert fed.arrays[0] == ("image", (32, 224, 224, 3), "float32")


def test_the_rate_leaves_the_start_out_where_it_can() -> None:
    first, whole = gpufeed.Stats(1, 10, 5.0, 5.0), gpufeed.Stats(3, 30, 7.0, 7.0)
    assert Fed("cpu", first, whole, (), {}).images_per_second == 10.0
    assert Fed("cpu", first, first, (), {}).images_per_second == 2.0


def test_what_is_not_usable_is_found_out_early() -> None:
    check_usable("numpy", "cpu")
    with pytest.raises(gpufeed.DeviceError):
        check_usable("numpy", "cuda:999")


def test_info_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {fact.name: fact for fact in info.list_versions()}
    assert facts["gpufeed"].value == gpufeed.__version__
    assert all(fact.value and not fact.hint for fact in facts.values())
    monkeypatch.setattr(info, "version_of", lambda _name: None)
    monkeypatch.setattr(dali_build, "version_of", lambda _name: None)
    facts = {fact.name: fact for fact in info.list_versions()}
    assert facts["JAX"] == info.Fact("JAX", "not installed", 'pip install "gpufeed[jax]"')
    assert facts["DALI"] == info.Fact("DALI", "not installed", 'pip install "gpufeed"')
    assert not {"PyTorch sees", "JAX sees"} & {fact.name for fact in info.list_devices()}


def test_info_tells_of_two_builds_of_dali(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"nvidia-dali-cuda130": "2.4.0"}
    monkeypatch.setattr(dali_build, "version_of", versions.get)
    facts = {fact.name: fact for fact in info.list_versions()}
    assert facts["DALI"] == info.Fact("DALI", "2.4.0 (nvidia-dali-cuda130)")
    versions["nvidia-dali-cuda120"] = "2.3.0"
    (dali,) = [fact for fact in info.list_versions() if fact.name == "DALI"]
    assert dali.value == "2.3.0 (nvidia-dali-cuda120), 2.4.0 (nvidia-dali-cuda130)"
    assert dali.hint.startswith("nvidia-dali-cuda120 and nvidia-dali-cuda130 are both installed")


def test_info_survives_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise OSError("libcudart.so.12: cannot open\nshared object file")

    monkeypatch.setattr(info, "gpu_count", broken)
    monkeypatch.setattr(info, "version_of", lambda _name: None)
    facts = {fact.name: fact.value for fact in info.list_devices()}
    assert facts["DALI sees"] == "fails: OSError: libcudart.so.12: cannot open shared object file"


def test_info_says_what_a_missing_driver_means(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(info.ctypes, "CDLL", missing)
    monkeypatch.setattr(info, "version_of", lambda _name: None)
    driver = info.list_devices()[1]
    assert driver.value == "not found"
    assert "nvidia-smi" in driver.hint
