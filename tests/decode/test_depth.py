"""Images of more than 8 bits per channel: bad by default, reduced on request, refused for good."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import DecodeError, Manifest, ManifestError, MemorySource, read_table
from gpufeed import transforms as tf
from gpufeed.decode.headers import DepthError, image_header
from gpufeed.open import graph
from gpufeed.tools.check.dataset import check
from gpufeed.tools.check.kinds import Problem
from tests.support.deep import Values, png, pnm, ramp, tiff
from tests.support.media import jpeg, picture
from tests.support.waiting import PATIENCE

RAMP = ramp()
GRAY = RAMP[..., :1]
ALPHA = np.full_like(GRAY, 65535)
TURN = Image.Exif()
TURN[0x0112] = 6


def pillow_tiff(values: Values, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values[..., 0]).save(buffer, "TIFF", **options)
    return buffer.getvalue()


# Each with the values that it holds, upright.
DEEP: dict[str, tuple[bytes, Values]] = {
    "PNG RGB": (png(RAMP), RAMP),
    "PNG gray": (png(GRAY), GRAY),
    "PNG RGBA": (png(np.dstack([RAMP, ALPHA])), RAMP),
    "PNG gray and alpha": (png(np.dstack([GRAY, ALPHA])), GRAY),
    "PNG turned": (png(RAMP, TURN.tobytes().removeprefix(b"Exif\0\0")), np.rot90(RAMP, -1)),
    "TIFF RGB": (tiff(RAMP), RAMP),
    "TIFF big-endian": (tiff(RAMP, order=">"), RAMP),
    "TIFF without a format": (tiff(RAMP, None), RAMP),
    "TIFF gray": (tiff(GRAY), GRAY),
    "TIFF turned": (tiff(RAMP, orientation=6), np.rot90(RAMP, -1)),
    "TIFF compressed": (pillow_tiff(GRAY, compression="tiff_lzw"), GRAY),
    "PPM": (pnm(RAMP), RAMP),
    "PGM": (pnm(GRAY), GRAY),
}
REFUSED: dict[str, tuple[bytes, str]] = {
    "float32": (tiff((RAMP / 65535).astype(np.float32), 3), "a TIFF of floating-point numbers"),
    "float64": (tiff(RAMP.astype(np.float64), 3), "a TIFF of floating-point numbers"),
    "signed": (tiff(RAMP.view(np.int16), 2), "a TIFF of signed integers"),
    "signed 8": (tiff((RAMP >> 8).astype(np.int8), 2), "a TIFF of signed integers"),
    "complex": (tiff(RAMP.astype(np.uint32), 5), "a TIFF of sample format 5"),
    "32 bits": (tiff(RAMP.astype(np.uint32)), "a TIFF of 32 bits per channel"),
    "12 bits": (tiff(RAMP >> 4, bits=12), "a TIFF of 12 bits per channel"),
    "white is 0": (tiff(GRAY, colours=0), "a TIFF of 16 bits per channel that is neither gray"),
    "CMYK": (tiff(np.dstack([RAMP, GRAY]), colours=5), "a TIFF of 16 bits per channel that is ne"),
    "PPM 1,023": (pnm(RAMP >> 6, 1023), "a PNM with the largest value 1,023"),
    "PGM 100": (pnm(GRAY % 101, 100), "a PNM with the largest value 100"),
}


def pillow_float() -> bytes:
    return pillow_tiff((GRAY / 65535).astype(np.float32))


def listed(images: list[bytes], sizes: list[tuple[int, int]], **options: Any) -> Manifest:
    """A manifest made by hand, which nobody has probed."""
    frame = pl.DataFrame(
        {
            "path": [str(number) for number in range(len(images))],
            "label": [0] * len(images),
            "width": [width for _, width in sizes],
            "height": [height for height, _ in sizes],
        }
    )
    return Manifest(frame, MemorySource(images), ["image"], **options)


def loader(manifest: Manifest, chain: list[tf.Transform], **options: Any) -> gpufeed.Loader:
    return gpufeed.Loader(
        manifest,
        sampler=gpufeed.SequentialSampler(len(manifest)),
        transforms=[*chain, tf.ToDtype("uint8", layout="NHWC")],
        batch_size=len(manifest),
        device="cpu",
        num_threads=2,
        **options,
    )


@pytest.mark.parametrize("opener", ["threads", "graph"])
@pytest.mark.parametrize("name", DEEP)
def test_16_bits_are_rounded_to_8_on_request(name: str, opener: str) -> None:
    content, values = DEEP[name]
    wanted = np.rint(values / 257).astype(np.uint8)
    if wanted.shape[2] == 1:
        wanted = wanted.repeat(3, axis=2)
    source = MemorySource([content])
    with pytest.raises(ManifestError, match="0: 16 bits per channel; to reduce them to 8, pass re"):
        read_table(pl.DataFrame({"label": [0]}), source=source)
    manifest = read_table(pl.DataFrame({"label": [0]}), source=source, reduce_depth=True)
    assert manifest.sizes().tolist() == [list(values.shape[:2])]
    with loader(manifest, [], opener=opener) as whole:
        assert np.array_equal(whole.batch(0)["image"][0], wanted)
    with loader(manifest, [tf.CenterCrop(20)], opener=opener) as window:
        top, left = ((side - 20) // 2 for side in wanted.shape[:2])
        inner = wanted[top : top + 20, left : left + 20]
        assert np.array_equal(window.batch(0)["image"][0], inner)


def test_pillow_reads_the_same_values() -> None:
    """Those that it can read: gray images."""
    for name in ("PNG gray", "TIFF gray", "TIFF compressed", "PGM"):
        content, values = DEEP[name]
        with Image.open(io.BytesIO(content)) as image:
            assert np.array_equal(np.asarray(image), values[..., 0]), name


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_a_deep_image_is_a_bad_image_by_default(opener: str) -> None:
    """Between images of 8 bits, whose pixels do not change."""
    whole = jpeg(picture(48, 64, seed=1))
    images, sizes = [whole, png(RAMP), tiff(RAMP), whole], [(48, 64)] * 4
    with (
        loader(listed(images, sizes), [], opener=opener) as strict,
        pytest.raises(DecodeError) as caught,
    ):
        strict.batch(0)
    assert str(caught.value).startswith(
        "record 1 (1): 16 bits per channel; to reduce them to 8, pass reduce_depth=True to what "
        "makes the manifest"
    )
    options = {"on_error": "blank", "max_failures": 2, "opener": opener}
    with loader(listed(images, sizes), [], **options) as blank:
        batch = blank.batch(0)
        assert batch["valid"].tolist() == [True, False, False, True]
        assert blank.quarantine.record_keys.tolist() == [1, 2]
        plain = batch["image"][[0, 3]].copy()
    with loader(listed(images, sizes, reduce_depth=True), [], opener=opener) as reduced:
        assert np.array_equal(reduced.batch(0)["image"][[0, 3]], plain)


@pytest.mark.parametrize("name", REFUSED)
def test_other_depths_are_refused_whatever_is_asked(name: str) -> None:
    content, message = REFUSED[name]
    with pytest.raises(DepthError, match=f"^{message}.*; convert it to 8 bits per channel$"):
        image_header(content)
    for opener in ("threads", "graph"):
        manifest = listed([content], [(48, 64)], reduce_depth=True)
        with (
            loader(manifest, [], opener=opener) as feed,
            pytest.raises(DecodeError, match=message),
        ):
            feed.batch(0)


def test_jpegs_and_bmps_of_more_bits_are_refused(testdata: Path) -> None:
    folder = testdata / "odd_jpegs" / "jpegsuite"
    deep = sorted(folder.glob("*_huffman/*x12_*.jpg"))
    assert len(deep) > 10
    for file in deep:
        with pytest.raises(DepthError, match="a JPEG of 12 bits per channel; convert it to 8 bits"):
            image_header(file)
    buffer = io.BytesIO()
    picture(48, 64, seed=1).save(buffer, "BMP")
    plain = buffer.getvalue()
    assert image_header(plain).bits == 8
    with pytest.raises(DepthError, match="a BMP of 64 bits per pixel, with more than 8 per chann"):
        image_header(plain[:28] + b"\x40\0" + plain[30:])
    masks = b"".join(mask.to_bytes(4, "little") for mask in (0x3FF00000, 0xFFC00, 0x3FF))
    with pytest.raises(DepthError, match="a BMP of 32 bits per pixel, with more than 8 per chann"):
        image_header(plain[:28] + b"\x20\0\x03\0\0\0" + plain[34:54] + masks + plain[54:])


@pytest.mark.parametrize("reduce_depth", [False, True])
def test_what_is_left_out_when_headers_are_read(tmp_path: Path, reduce_depth: bool) -> None:
    """The second time sizes and depths come from the cache."""
    (tmp_path / "wren").mkdir()
    (tmp_path / "wren" / "a.jpg").write_bytes(jpeg(picture(48, 64, seed=1)))
    (tmp_path / "wren" / "b.png").write_bytes(png(RAMP))
    (tmp_path / "wren" / "c.tif").write_bytes(pillow_float())
    kept = ["wren/a.jpg", "wren/b.png"] if reduce_depth else ["wren/a.jpg"]
    for _ in range(2):
        found = gpufeed.read_folder(tmp_path, on_bad_image="drop", reduce_depth=reduce_depth)
        assert found.frame["path"].to_list() == kept
        assert found.repairs == {"images_dropped": 3 - len(kept)}
        assert found.reduce_depth == found.take([0]).reduce_depth == reduce_depth
        with pytest.raises(ManifestError, match=f"{3 - len(kept)} of 3 images are bad: .*wren/"):
            gpufeed.read_folder(tmp_path, reduce_depth=reduce_depth)


def test_check_names_them(tmp_path: Path) -> None:
    files = {"a.jpg": jpeg(picture(48, 64, seed=1)), "b.png": png(RAMP), "c.tif": pillow_float()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    frame = pl.DataFrame({"path": [*files]})
    for reduce_depth, keys in ((False, [1, 2]), (True, [2])):
        report = check(frame, tmp_path, reduce_depth=reduce_depth, progress=False)
        deep = report.findings.filter(pl.col("kind") == Problem.too_deep.value)
        assert deep["record_key"].to_list() == keys
        assert report.failing == len(keys)
        assert deep["detail"][-1].startswith("a TIFF of floating-point numbers; convert it to 8")


def test_manifests_are_joined_with_one_answer() -> None:
    images, sizes = [png(RAMP)], [(48, 64)]
    reduced, plain = listed(images, sizes, reduce_depth=True), listed(images, sizes)
    assert gpufeed.concat([reduced, reduced]).reduce_depth
    with pytest.raises(ManifestError, match="some of the manifests have reduce_depth=True and oth"):
        gpufeed.concat([reduced, plain])


def test_a_truncated_deep_image_is_a_bad_image() -> None:
    content = png(RAMP)[:-300]
    for opener in ("threads", "graph"):
        manifest = listed([content], [(48, 64)], reduce_depth=True)
        with (
            loader(manifest, [], opener=opener) as feed,
            pytest.raises(DecodeError, match="the image is damaged: image file is truncated"),
        ):
            feed.batch(0)


def test_nvimagecodec_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that imports no decoder before the opener of the graph."""
    program = (
        "import os, sys, gpufeed.open.graph; from gpufeed.decode.decoders import AllBits;"
        "print(AllBits().decode(sys.stdin.buffer.read()), os.environ['DALI_NVIMGCODEC_LOG_LEVEL'])"
    )
    for name in ("PYNVIMGCODEC_VERBOSITY", "DALI_NVIMGCODEC_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)  # set in this process already
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, input=png(RAMP)[:-300], capture_output=True, timeout=PATIENCE)
    assert (ran.stdout, ran.stderr) == (b"None 1\n", b"")


def test_no_decoder_of_the_graph_meets_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU it would round as gpufeed does; others may not."""
    fed: list[Any] = []
    share = graph.share
    monkeypatch.setattr(graph, "share", lambda images: fed.extend(images) or share(images))
    contents = [png(RAMP), tiff(RAMP), jpeg(picture(48, 64, seed=1))]
    manifest = listed(contents, [(48, 64)] * 3, reduce_depth=True)
    with loader(manifest, [], opener="graph") as feed:
        feed.batch(0)
    assert [image_header(bytes(content)).bits for content in fed] == [8, 8, 8]
    assert fed[2] is contents[2]
