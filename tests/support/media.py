"""Images and manifests that tests make for themselves."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

from gpufeed import Manifest

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""How Pillow turns an image upright, by its EXIF orientation."""


def picture(height: int, width: int, seed: int) -> Image.Image:
    """A smooth image with edges, so that both blurring and shifting it shows."""
    drawn = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        127 + 90 * np.sin(x * a + y * b + c) for a, b, c in drawn.uniform(0.02, 0.25, size=(3, 3))
    ]
    levels = np.stack(waves, axis=-1)
    top, left = drawn.integers(0, height // 2 + 1), drawn.integers(0, width // 2 + 1)
    levels[top : top + height // 3, left : left + width // 3] = drawn.integers(0, 256, 3)
    return Image.fromarray(levels.clip(0, 255).astype(np.uint8))


def jpeg(image: Image.Image, **options: object) -> bytes:
    """Encode an image."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **{"quality": 90, **options})
    return buffer.getvalue()


def make_manifest(
    folder: Path, sizes: Sequence[tuple[int, int]], *, classes: int = 3, boxes: bool = False
) -> Manifest:
    """Write JPEGs of these (height, width) below `folder`, and list them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (height, width) in enumerate(sizes):
        name = f"{number:05}.jpg"
        (folder / name).write_bytes(jpeg(picture(height, width, seed=number)))
        row = {"path": name, "label": number % classes, "width": width, "height": height}
        if boxes:
            row |= {
                "box_x": width // 5,
                "box_y": height // 7,
                "box_width": max(width // 2, 1),
                "box_height": max(height // 2, 1),
            }
        rows.append(row)
    kinds = dict.fromkeys(rows[0], pl.Int32) | {"path": pl.String}
    return Manifest(
        pl.DataFrame(rows, schema=kinds), folder, [f"class {c}" for c in range(classes)]
    )


def write_table(manifest: Manifest) -> Path:
    """Write what another process needs to `read_table` the same manifest; says where."""
    path = Path(manifest.root) / "table.parquet"
    manifest.frame.write_parquet(path)
    return path


def read_table(path: Path) -> Manifest:
    """Return the manifest that `write_table` wrote."""
    frame = pl.read_parquet(path)
    return Manifest(frame, path.parent, [f"class {c}" for c in range(frame["label"].max() + 1)])


def odd_manifest(testdata: Path, folder: Path) -> Manifest:
    """List copies of the odd JPEGs, each with the size that Pillow gives it, or any."""
    rows = []
    odd = sorted(path for path in (testdata / "odd_jpegs").rglob("*") if path.is_file())
    assert len(odd) > 400
    for number, path in enumerate(odd):
        name = f"{number:05}{path.suffix}"
        shutil.copyfile(path, folder / name)
        try:
            with Image.open(path) as image:
                width, height = image.size
        except Exception:
            width, height = 16, 16
        rows.append((name, 0, width, height))
    kinds = {"path": pl.String, "label": pl.Int32, "width": pl.Int32, "height": pl.Int32}
    return Manifest(pl.DataFrame(rows, schema=kinds, orient="row"), folder, ["odd"])
