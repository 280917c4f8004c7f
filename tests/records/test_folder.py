"""Class folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records import (
    read_array_record,
    read_beton,
    read_folder,
    read_manifest,
    read_nabirds,
    read_webdataset,
)
from tests.support.nabirds_data import write_picture


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "set"
    for number, name in enumerate(
        ("wren/b.JPG", "wren/a.jpeg", "wren/nest/x.png", "Auk/z.webp", "auk/y.TIFF", "auk/1.bmp")
    ):
        write_picture(root / name, (10 + number, 20))
    for name in ("wren/notes.txt", "wren/.hidden.jpg", ".git/x.jpg", "README.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"no picture")
    return root


def test_classes_and_files_are_in_order(root: Path) -> None:
    read = read_folder(root)
    assert read.classes == ("Auk", "auk", "wren")
    assert read.frame.rows() == [
        ("Auk/z.webp", 0, 13, 20, "Auk"),
        ("auk/1.bmp", 1, 15, 20, "auk"),
        ("auk/y.TIFF", 1, 14, 20, "auk"),
        ("wren/a.jpeg", 2, 11, 20, "wren"),
        ("wren/b.JPG", 2, 10, 20, "wren"),
        ("wren/nest/x.png", 2, 12, 20, "wren"),
    ]
    assert read.frame.columns == ["path", "label", "width", "height", "class_name"]
    assert read.root == root
    assert not read.has_boxes
    assert all((read.root / path).is_file() for path in read.frame["path"])


def test_a_second_reading_is_the_same_and_sees_no_class_in_the_cache(root: Path) -> None:
    first = read_folder(root)
    assert not (root / ".gpufeed").exists()
    assert read_folder(str(root)).fingerprint() == first.fingerprint()


def test_the_order_is_torchvisions(root: Path) -> None:
    """As `sorted(os.walk(...))` gives it, which ImageFolder uses, with folders of odd names."""
    for name in ("wren/nest-2/a.png", "wren/nest/deep/b.png", "wren/nest.d/c.png", "wren/zz.png"):
        write_picture(root / name, (5, 5))
    expected = []
    for label in ("Auk", "auk", "wren"):
        for folder, _, files in sorted(os.walk(root / label)):
            expected += [
                str(Path(folder, name).relative_to(root))
                for name in sorted(files)
                if name not in ("notes.txt", ".hidden.jpg")
            ]
    assert read_folder(root).frame["path"].to_list() == expected


def test_sizes_are_turned(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 8
    (tmp_path / "a").mkdir()
    Image.new("RGB", (40, 20)).save(tmp_path / "a" / "x.jpg", exif=exif)
    assert read_folder(tmp_path).sizes().tolist() == [[40, 20]]


def test_extensions(root: Path) -> None:
    for folder in ("Auk", "auk"):
        write_picture(root / folder / "p.Png", (3, 3))
    assert read_folder(root, extensions=[".PNG"]).frame["path"].to_list() == [
        "Auk/p.Png",
        "auk/p.Png",
        "wren/nest/x.png",
    ]
    for wrong in (".png", ["png"]):
        with pytest.raises(ConfigError, match="extensions must be a sequence such as"):
            read_folder(root, extensions=wrong)


def test_what_it_refuses(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=f"there is no folder {tmp_path}/none"):
        read_folder(tmp_path / "none")
    with pytest.raises(ManifestError, match=f"{root}/README.md is not a folder"):
        read_folder(root / "README.md")
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    write_picture(tmp_path / "empty" / "x.jpg", (4, 4))
    with pytest.raises(ManifestError, match=f"{tmp_path}/empty has no class folder"):
        read_folder(tmp_path / "empty")
    (root / "bare").mkdir()
    with pytest.raises(
        ManifestError, match=rf"the class folder {root}/bare has no image \(no file ends in .jp"
    ):
        read_folder(root)


def of_folders(root: Path, *names: str) -> Path:
    for name in names:
        write_picture(root / name / "wren" / "1.png", (4, 5))
    return root


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (["train"], "train; pass ROOT/train; or"),
        (["Test"], "Test; pass ROOT/Test; or"),
        (
            ["test", "TRAIN", "valid"],
            "TRAIN, test, valid; read ROOT/TRAIN first, as `train`, and ROOT/test with "
            "classes=train, so that their labels are the same; or",
        ),
        (
            ["dev", "validation"],
            "dev, validation; read ROOT/dev first, as `dev`, and ROOT/validation with classes=dev",
        ),
        (["extra", "train", "val"], "train, val; read ROOT/train first"),
    ],
)
def test_splits_are_no_classes(tmp_path: Path, folders: list[str], said: str) -> None:
    of_folders(tmp_path, *folders)
    with pytest.raises(ManifestError) as caught:
        read_folder(tmp_path)
    assert str(caught.value).startswith(
        f"the folders of {tmp_path} are splits rather than classes: "
        + said.replace("ROOT", str(tmp_path))
    )
    assert read_folder(tmp_path, classes=folders).classes == tuple(folders)


@pytest.mark.parametrize("folders", [["bus", "train"], ["val", "valid", "x"], ["images"]])
def test_classes_may_be_named_like_a_split(tmp_path: Path, folders: list[str]) -> None:
    assert read_folder(of_folders(tmp_path, *folders)).classes == tuple(folders)


def test_the_second_split_by_the_classes_of_the_first(root: Path, tmp_path: Path) -> None:
    train = read_folder(root)
    for name in ("wren", "Auk"):
        write_picture(tmp_path / "val" / name / "1.png", (4, 5))
    (tmp_path / "val" / "auk").mkdir()
    val = read_folder(tmp_path / "val", classes=train)
    assert val.classes == train.classes
    assert val.frame.select("class_name", "label").rows() == [("Auk", 0), ("wren", 2)]
    write_picture(tmp_path / "val" / "owl" / "1.png", (4, 5))
    with pytest.raises(ManifestError) as caught:
        read_folder(tmp_path / "val", classes=train)
    assert str(caught.value) == (
        f"{tmp_path}/val: 1 class folder is not among the 3 classes given: 'owl'; pass classes "
        "that include them, or leave out their images"
    )
    (tmp_path / "bare" / "auk").mkdir(parents=True)
    with pytest.raises(ManifestError, match=r"class folder .*/auk has no image"):
        read_folder(tmp_path / "bare", classes=train)


def test_a_picture_that_is_none_is_named(root: Path) -> None:
    (root / "auk" / "bad.jpg").write_bytes(b"<html>")
    with pytest.raises(ManifestError) as caught:
        read_folder(root)
    assert f"1 of 7 images are bad: {root}/auk/bad.jpg: not a JPEG" in str(caught.value)


def test_links(root: Path, tmp_path: Path) -> None:
    (root / "wren" / "same.jpg").symlink_to(root / "wren" / "b.JPG")
    (root / "wren" / "ring").symlink_to(root / "wren")
    assert len(read_folder(root)) == 7
    outside = tmp_path / "outside"
    write_picture(outside / "o.jpg", (4, 4))
    links = [root / "out", root / "wren" / "out.jpg"]
    for link in links:
        link.symlink_to(outside / "o.jpg" if link.suffix else outside)
        with pytest.raises(ManifestError) as caught:
            read_folder(root)
        assert str(caught.value) == (
            f"a symbolic link leaves the folder {root}: {link} to {link.resolve()}; follow it "
            'with follow_links=True if you trust it, or leave it out with on_bad_image="drop"'
        )
        link.unlink()


def test_links_out_are_followed_where_that_is_asked_for(root: Path, tmp_path: Path) -> None:
    """A set that is made of links is the set that they lead to."""
    linked = tmp_path / "linked"
    (linked / "wren").mkdir(parents=True)
    (linked / "Auk").symlink_to(root / "Auk")
    (linked / "auk").symlink_to(root / "auk")
    for name in ("a.jpeg", "b.JPG", "nest"):
        (linked / "wren" / name).symlink_to(root / "wren" / name)
    read = read_folder(linked, follow_links=True)
    assert read.fingerprint() == read_folder(root).fingerprint()
    assert read.root == linked
    (root / "wren" / "nest" / "ring").symlink_to(linked / "wren")
    assert read_folder(linked, follow_links=True).fingerprint() == read.fingerprint()
    (linked / "wren" / "gone.jpg").symlink_to(tmp_path / "gone.jpg")
    with pytest.raises(ManifestError, match=r"gone.jpg: No such file"):
        read_folder(linked, follow_links=True)
    dropped = read_folder(linked, follow_links=True, on_bad_image="drop")
    assert dropped.repairs == {"images_dropped": 1}


def test_links_out_are_dropped_where_that_is_asked_for(root: Path, tmp_path: Path) -> None:
    wanted = read_folder(root)
    outside = tmp_path / "outside"
    write_picture(outside / "o.jpg", (4, 4))
    (root / "wren" / "out.jpg").symlink_to(outside / "o.jpg")
    (root / "wren" / "deeper").mkdir()
    (root / "wren" / "deeper" / "out").symlink_to(outside)
    (root / "auk" / "bad.jpg").write_bytes(b"<html>")
    (root / "auk" / "itself.jpg").symlink_to("itself.jpg")
    # Nobody asks for these.
    (root / "auk" / "notes.txt").symlink_to("/etc/hostname")
    (root / "out.jpg").symlink_to(outside / "o.jpg")
    found = read_folder(root, on_bad_image="drop")
    assert found.frame.equals(wanted.frame)
    assert found.classes == wanted.classes
    assert found.repairs == {"links_dropped": 2, "images_dropped": 2}


def test_classes_stay_whatever_is_dropped(root: Path, tmp_path: Path) -> None:
    """So that a label means the same with the links mended."""
    wanted = read_folder(root)
    write_picture(tmp_path / "outside" / "o.jpg", (4, 4))
    (root / "aaa").symlink_to(tmp_path / "outside")
    (root / "auks").mkdir()  # beside "auk"
    (root / "auks" / "o.jpg").symlink_to(tmp_path / "outside" / "o.jpg")
    (root / "zzz").symlink_to("auks")
    found = read_folder(root, on_bad_image="drop")
    classes = sorted(["aaa", "auks", "zzz", *wanted.classes])
    assert found.classes == tuple(classes)
    names = [found.classes[label] for label in found.frame["label"]]
    assert names == [wanted.classes[label] for label in wanted.frame["label"]]
    assert names == found.frame["class_name"].to_list()
    assert found.repairs == {"links_dropped": 2}
    # Links are told of before a folder without images.
    (root / "empty").mkdir()
    with pytest.raises(ManifestError, match="2 symbolic links leave the folder"):
        read_folder(root)
    with pytest.raises(ManifestError, match=r"class folder .*/empty has no image"):
        read_folder(root, on_bad_image="drop")


def test_where_all_are_links_out(tmp_path: Path) -> None:
    write_picture(tmp_path / "outside" / "o.jpg", (4, 4))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "wren").symlink_to(tmp_path / "outside")
    with pytest.raises(ManifestError) as told:
        read_folder(tmp_path / "set", on_bad_image="drop")
    assert str(told.value) == (
        f"every image listed leaves the root {tmp_path}/set through a symbolic link; follow "
        "the links with follow_links=True if you trust them, or pass the folder they lead to as "
        "the root"
    )


def test_a_link_out_is_told_of_once(root: Path, tmp_path: Path) -> None:
    """However often its folder is listed, and in bounds."""
    deep = tmp_path.joinpath("x" * 200, "y" * 200, "z" * 200, "x" * 200, "y" * 200, "z" * 200)
    deep.mkdir(parents=True)
    (root / "auk" / "out.jpg").symlink_to(deep)
    (root / "owl").symlink_to(root / "auk")
    with pytest.raises(ManifestError, match="a symbolic link leaves the folder") as caught:
        read_folder(root)
    assert str(caught.value).count("out.jpg to ") == 1
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("count", [2, 5, 6, 30])
def test_all_links_out_are_told_of_at_once(root: Path, tmp_path: Path, count: int) -> None:
    for number in range(count):
        folder = (root, root / "wren", root / "auk")[number % 3]
        (folder / f"{number:02}.jpg").symlink_to(tmp_path)
    with pytest.raises(ManifestError, match=f"{count} symbolic links leave the folder") as caught:
        read_folder(root)
    said = str(caught.value)
    assert said.count(f".jpg to {tmp_path};") == min(count, 5)
    assert ("; and" in said) == (count > 5)
    assert f"; and {count - 5} more; follow them with" in said or count <= 5


def test_names_that_can_not_be_kept(root: Path) -> None:
    (root / "auk" / "a\\b.jpg").write_bytes(b"x")
    with pytest.raises(ManifestError, match="contains a backslash"):
        read_folder(root)
    (root / "auk" / "a\\b.jpg").unlink()
    (root / "auk" / os.fsdecode(b"\xff.jpg")).write_bytes(b"x")
    with pytest.raises(ManifestError, match="a file name is not UTF-8"):
        read_folder(root)


def test_what_is_no_path_is_an_error_of_ours(root: Path) -> None:
    manifest = read_folder(root)
    for read in (
        read_folder,
        read_nabirds,
        read_manifest,
        read_beton,
        read_webdataset,
        read_array_record,
    ):
        for given in (None, 3, [manifest]):
            with pytest.raises(ConfigError, match=r"pass a path or a URL|is not a path; pass"):
                read(given)  # type: ignore[operator]
