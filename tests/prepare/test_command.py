"""`gpufeed prepare` and `gpufeed verify`, as a user meets them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

import gpufeed
from gpufeed import transforms as tf
from gpufeed.cli import main
from gpufeed.presets import course_cleaned


def test_the_course(birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["prepare", str(birds), str(out), "--preset", "course", "--split", "train"]
    assert main([*command, "--to", "files", "--workers", "1"]) == 0
    photos = gpufeed.read_nabirds(birds, labels="species").split("train")
    prepared = gpufeed.read_manifest(out / "prepared.manifest")
    said = capsys.readouterr().out
    assert re.fullmatch(rf"{len(photos)} images in \d+ s: {out}/prepared\.manifest\n", said)
    assert prepared.prepared == tuple(each.identity for each in course_cleaned())
    assert prepared.frame["original"].to_list() == photos.frame["path"].to_list()
    with Image.open(out / prepared.frame["path"][0]) as image:
        assert image.size == (269, 269)
        # The first entry of the luminance table of quality 75, by the standard's formula.
        assert image.quantization[0][0] == (16 * 50 + 50) // 100
    assert main(["verify", str(out)]) == 0
    assert capsys.readouterr().out == "All images are as they were written.\n"
    file = out / prepared.frame["path"][1]
    file.write_bytes(file.read_bytes() + b"more")
    assert main(["verify", str(out)]) == 1
    shown = capsys.readouterr().out
    name = prepared.frame["path"][1]
    assert (
        shown == f"{name}: other bytes\n1 image not as written; delete {out} and prepare again.\n"
    )
    assert main(["check", str(out)]) == 0
    assert f"{out}: {len(photos)} images" in capsys.readouterr().out


def test_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a folder with an image that is none."""
    for number, size in enumerate([(60, 40), (50, 80)]):
        (tmp_path / f"in/{number}").mkdir(parents=True)
        Image.new("RGB", size).save(tmp_path / f"in/{number}/image.png")
    (tmp_path / "in/1/bad.png").write_bytes(b"no image")
    command = ["prepare", str(tmp_path / "in")]
    shared = ["--to", "raw", "--workers", "1"]
    assert main([*command, str(tmp_path / "size"), "--size", "20", *shared]) == 0
    assert "1 image could not be listed; `gpufeed check` says why." in capsys.readouterr().out
    prepared = gpufeed.read_manifest(tmp_path / "size/prepared.manifest")
    assert prepared.sizes().tolist() == [[20, 30], [32, 20]]
    assert prepared.prepared == (tf.Resize(20).identity,)
    (tmp_path / "size/prepared.manifest").unlink()
    assert main(["check", str(tmp_path / "size")]) == 2
    said = capsys.readouterr().err
    assert "no prepared.manifest: it was not prepared to the end; call `gpufeed prepare`" in said
    assert main([*command, str(tmp_path / "square"), "--square", "20", *shared]) == 0
    square = gpufeed.read_manifest(tmp_path / "square/prepared.manifest")
    assert square.sizes().tolist() == [[20, 20], [20, 20]]
    for options, text in (
        (["--size", "5", "--square", "5"], "--size and --square exclude each other"),
        (["--preset", "course", "--size", "5"], "the preset course has a size and a box margin"),
        (["--box-margin", "0.1"], "BoxCrop needs the columns box_x"),
        (["--on-error", "raise"], "bad.png"),
    ):
        assert main([*command, str(tmp_path / "other"), *options]) == 2
        assert text in capsys.readouterr().err
