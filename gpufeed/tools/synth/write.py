"""Writing the files of a synthetic set."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import PIL

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress as progress_bar
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ConfigError
from gpufeed.tools.synth.bird import PART_NAMES, draw_look
from gpufeed.tools.synth.plan import MAX_SIDE, plan_nabirds
from gpufeed.tools.synth.scene import draw_image

__all__ = ["FORMAT", "write_nabirds"]

FORMAT = 3
"""Increases with every change to the bytes of a set; sets of another format are not reused."""

_RECORD = "synth.json"
_QUALITY = 91  # about 2.5 bits a pixel, as in the real set


def write_nabirds(
    folder: str | os.PathLike[str],
    *,
    images: int = 256,
    seed: int = 0,
    max_side: int = MAX_SIDE,
    progress: bool | None = None,
) -> Path:
    """Write a synthetic data set with the files, formats and oddities of NABirds.

    The same arguments give the same bytes in every file, with the same versions of NumPy and
    Pillow. A complete set of the same arguments is left unchanged, and an incomplete one is drawn
    again. The lists are written last, so that the remains of an interrupted call cannot be read as
    a set.

    NABirds has no masks. Here `segmentations/` has one of each bird, a PNG of 1 bit per pixel, with
    the path that its image has in `images/`, but for the suffix.

    Args:
        folder: the folder to write to; it and its parents are created.
        images: the number of images, at least 2, with about one class for every 16.
        seed: from 0 to 2**64 - 1; it changes ids, images and the appearance of classes.
        max_side: the longest side of an image in pixels, 64 to 1024; all sizes scale with it.
        progress: True or False to force or silence it; None shows it on a terminal.

    Returns:
        The folder, as an absolute path.

    Raises:
        ConfigError: an argument is out of range, or the folder contains something else.
        OSError: a file could not be written.
    """
    plan = plan_nabirds(images, seed=seed, max_side=max_side)
    tree, keys = plan.taxonomy, plan.uuids
    target = Path(folder).expanduser().resolve()
    paths = [target / "images" / path for path in plan.paths]
    masks = [(target / "segmentations" / path).with_suffix(".png") for path in plan.paths]
    lists: dict[str, Iterable[tuple[object, ...]]] = {
        "classes.txt": enumerate(tree.names),
        "hierarchy.txt": list(enumerate(tree.parents))[1:],
        "parts/parts.txt": enumerate(PART_NAMES),
        "parts/part_locs.txt": [],
        "image_class_labels.txt": zip(keys, np.array(tree.class_ids)[plan.labels], strict=True),
        "sizes.txt": zip(keys, *plan.sizes.T, strict=True),
        "bounding_boxes.txt": zip(keys, *plan.boxes.T, strict=True),
        "photographers.txt": zip(keys, plan.photographers, strict=True),
        "train_test_split.txt": zip(keys, plan.is_training.astype(int), strict=True),
        "images.txt": zip(keys, plan.paths, strict=True),
    }
    needed = [*paths, *masks, *map(target.joinpath, lists)]
    record = {"format": FORMAT, "images": images, "seed": seed, "max_side": max_side}
    if _holds(target, record) and all(path.exists() for path in needed):
        return target
    looks = [draw_look(seed, label, species) for label, species in enumerate(tree.species)]

    def draw(row: int) -> list[tuple[object, ...]]:
        """Write an image and its mask; return the rows of the locations of the bird's parts."""
        size, subject = plan.sizes[row].tolist(), plan.subjects[row].tolist()
        image, parts, mask = draw_image(seed, row, size, subject, looks[plan.labels[row]])
        buffer = io.BytesIO()
        mask.save(buffer, "PNG")
        atomic_write(masks[row], buffer.getvalue())
        buffer = io.BytesIO()
        if row == plan.png:
            image.convert("RGB").convert("RGBA").save(buffer, "PNG")
        else:
            image.save(buffer, "JPEG", quality=_QUALITY, subsampling="4:2:0")
        atomic_write(paths[row], buffer.getvalue())
        return [
            (keys[row], i, *(at or (-1, -1)), int(at is not None)) for i, at in enumerate(parts)
        ]

    for path in needed:
        path.parent.mkdir(parents=True, exist_ok=True)
    versions = {"numpy": np.__version__, "pillow": PIL.__version__}
    atomic_write(target / _RECORD, json.dumps(record | versions).encode())
    with progress_bar("drawing", images, show=progress, unit="images") as advance:
        parts = thread_map(
            draw,
            range(images),
            threads=available_threads(),
            done=advance,
            name="gpufeed-synth",
            chunk=4,
        )
    lists["parts/part_locs.txt"] = itertools.chain.from_iterable(parts)
    for name, rows in lists.items():
        lines = (" ".join(map(str, row)) + "\n" for row in rows)
        atomic_write(target / name, "".join(lines).encode("ascii"))
    return target


def _holds(target: Path, record: dict[str, int]) -> bool:
    """Return whether the folder has a set of these arguments, complete or not.

    Raises:
        ConfigError: the folder contains something else.
    """
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return False
    try:
        found = json.loads((target / _RECORD).read_bytes())
    except (OSError, ValueError):
        found = {}
    if record.items() <= found.items():
        return True
    raise ConfigError(
        f"{target} exists and is not a synthetic set of these arguments; use a new or empty "
        "folder, or remove this one first"
    )
