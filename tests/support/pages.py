"""The pages' code blocks, and small data under the names that the pages use.

A page's Python blocks run in order, in one namespace, in a folder with the data. A comment right
before a block says otherwise: `<!-- not run: REASON -->`, or `<!-- tests/FILE -->` where that test
runs it. `<!-- setup ... -->` is code that readers do not see: what an example takes as given, and
checks of what it did.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from PIL import Image

from tests.support.media import jpeg, picture

TOP = Path(__file__).parents[2]
PAGES = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?:not run: (?P<reason>[^\n]+)|(?P<test>tests/\S+)) -->\n\n)?"
    r"(?:^```python\n(?P<code>.*?)^```|^<!-- setup\n(?P<setup>.*?)^-->)",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of code, or a comment with a setup.

    Attributes:
        line: its first line in the page.
        code: the code.
        reason: why it is not run, or "".
        test: the test that runs it, or "".
    """

    line: int
    code: str
    reason: str
    test: str

    @property
    def is_run(self) -> bool:
        """Whether the page's own test runs it."""
        return not self.reason and not self.test


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(
            text.count("\n", 0, found.start("code" if found["code"] else "setup")),
            found["code"] or found["setup"],
            found["reason"] or "",
            found["test"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def run(page: Path) -> dict[str, Any]:
    """Run a page's blocks; return the names that they leave."""
    listed = [each for each in blocks(page) if each.is_run]
    code = "".join(each.code for each in listed)
    for name in re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE):
        pytest.importorskip(name, reason=f"{name} is not installed")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in listed:
        lines = "\n" * block.line + block.code  # a traceback has the page's own lines
        exec(compile(lines, str(page), "exec"), names)  # noqa: S102 - the page's own code
    return names


def rows_of_code(page: Path) -> list[str]:
    """The right sides of a page's tables of two columns, where they are code of ours."""
    if page.parent.name != "from":
        return []
    return re.findall(r"^\| .* \| `([^|]+)` \|$", page.read_text(), re.MULTILINE)


CLASSES = ("jay", "owl", "wren")


def write_data(folder: Path, birds: Path) -> None:
    """Write what the pages read: 72 images of three classes in every format, and `nabirds`."""
    (folder / "nabirds").symlink_to(birds)
    images = [jpeg(picture(24 + seed % 5, 32, seed)) for seed in range(72)]
    kinds = [CLASSES[number % 3] for number in range(72)]
    for part in ("photos/train", "photos/val", "images"):
        for number, (kind, image) in enumerate(zip(kinds, images, strict=True)):
            file = folder / part / kind / f"{number:02}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(image)
    _write_tables(folder, images, kinds)
    _write_archives(folder, images, kinds)


def _write_tables(folder: Path, images: list[bytes], kinds: list[str]) -> None:
    paths = [f"photos/train/{kind}/{number:02}.jpg" for number, kind in enumerate(kinds)]
    listed = pl.DataFrame({"file": paths, "kind": kinds})
    listed.write_csv(folder / "list.csv")
    inside = [path.removeprefix("photos/") for path in paths]
    pl.DataFrame({"path": inside, "label": kinds}).write_csv(folder / "test.csv")
    table = pl.DataFrame({"image": images, "label": kinds})
    for shard in range(2):
        table[shard::2].write_parquet(folder / f"train-{shard}.parquet", compression="uncompressed")
    sides = pl.DataFrame({"before": paths, "after": paths, "changed": [0, 1] * 36, "site": paths})
    shutil.copytree(folder / "photos", folder / "data" / "photos")
    sides.write_csv(folder / "pairs.csv")
    for name, dtype in (("mask", np.uint8), ("depth", np.uint16)):
        (folder / "data" / name).mkdir()
        for number, image in enumerate(images):
            width, height = Image.open(io.BytesIO(image)).size
            values = np.indices((height, width)).sum(0).astype(dtype) % 2
            Image.fromarray(values).save(folder / "data" / name / f"{number:02}.png")
    masks = {name: [f"{name}/{n:02}.png" for n in range(72)] for name in ("mask", "depth")}
    pl.DataFrame({"path": paths, "label": kinds, **masks}).write_csv(folder / "data" / "masks.csv")


def _write_archives(folder: Path, images: list[bytes], kinds: list[str]) -> None:
    (folder / "shards").mkdir()
    for shard in range(4):
        with tarfile.open(folder / "shards" / f"train-{shard:03}.tar", "w") as archive:
            for number in range(shard, 72, 4):
                for ending, content in (
                    ("jpg", images[number]),
                    ("cls", str(number % 3).encode()),
                    ("txt", kinds[number].encode()),
                    ("json", json.dumps({"age": number}).encode()),
                ):
                    member = tarfile.TarInfo(f"{number:06}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for file in sorted((folder / "photos").rglob("*.jpg")):
            archive.write(file, file.relative_to(folder / "photos"))
    beton = TOP / "tests" / "source" / "ffcv-1.0.2.beton.xz"
    (folder / "train.beton").write_bytes(lzma.decompress(beton.read_bytes()))
