"""What is done to damaged files in a process of its own, which may crash, or hang, and be ended.

    python -m tests.hostile.child ROLE SETTINGS.json

Each line of its output, in JSON, is something that was done; so that it is known how far it came.
Roles: "make" writes files, "compare" decodes them with gpufeed's decoder and with Pillow, "feed"
feeds them, "large" feeds an epoch and says what memory it took.
"""

from __future__ import annotations

import gc
import hashlib
import io
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image, ImageOps

from gpufeed import DecodeError, GpufeedError, Ledger, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.decode.diagnose import MAX_PIXELS
from tests.support.damage import Damaged, Damager
from tests.support.heap import used_bytes

CLASSES = 7
ODD = "nothing: odd files"
SIDE = 32
SAVE_EVERY = 100
"""Batches after which a ledger is kept, from which a later process goes on."""
TENTHS = 10
EXACT = ("raise", "substitute", "blank", "function")
"""Policies, all of which show a record whole, so that it is the same under each."""
POLICIES = (*EXACT, "substitute, cropped")


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def manifest_of(table: str, root: str) -> Manifest:
    return Manifest(pl.read_parquet(table), root, [f"class {label}" for label in range(CLASSES)])


# ------------------------------------------------------------------------------ make


def size_by_pillow(content: bytes) -> tuple[int, int] | None:
    """Width and height, the EXIF orientation applied; None where Pillow refuses the header."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            width, height = image.size
            try:
                # Of a TIFF Pillow gives the size as it is turned.
                turned = image.getexif().get(0x0112) if image.format != "TIFF" else None
            except Exception:
                turned = None
    except Exception:
        return None
    return (height, width) if turned in (5, 6, 7, 8) else (width, height)


def make(settings: dict[str, Any]) -> None:
    """Write files, and say of each what it is: damaged ones, and after them copies of odd ones."""
    Image.MAX_IMAGE_PIXELS = None  # to be told any size; nothing is decoded here
    damager = Damager([Path(photo) for photo in settings["photos"]], settings["seed"])
    odd, files = settings["odd"], settings["files"]
    for number in range(settings["first"], files + len(odd), settings["step"]):
        if number < files:
            made = damager.make(number)
        else:
            content = Path(odd[number - files]).read_bytes()
            made = Damaged(content, ODD, "odd JPEG", (16, 16))
        name = f"{number // 1000:03}/{number:06}.bin"
        path = Path(settings["root"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.content)
        size = size_by_pillow(made.content)
        width, height = size if size and 0 < min(size) <= max(size) < 1 << 31 else made.size
        say(key=number, path=name, kind=made.kind, form=made.form, width=width, height=height)


# ------------------------------------------------------------------------------ compare


def by_pillow(content: bytes) -> np.ndarray | None:
    """The pixels that Pillow makes of a file, upright, or None where it refuses."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception:
        return None


def by_gpufeed(content: bytes, size: tuple[int, int], decoder: Any) -> np.ndarray | None:
    """The pixels that a run makes of a file of this (height, width), or None where it refuses."""
    from gpufeed.decode.diagnose import check_header

    try:
        check_header(content, size, 0, str)
    except DecodeError:
        return None
    pixels: np.ndarray | None = decoder.decode(content, (0, 0), size)
    return pixels


def apart(one: np.ndarray, other: np.ndarray) -> tuple[float, int]:
    """How far two images are apart, in grey levels: on average, and at most."""
    total, largest, rows = 0.0, 0, max((1 << 22) // max(one.shape[1] * 3, 1), 1)
    for at in range(0, len(one), rows):
        found = np.abs(one[at : at + rows].astype(np.int16) - other[at : at + rows])
        total, largest = total + float(found.sum()), max(largest, int(found.max()))
    return total / one.size, largest


def compare(settings: dict[str, Any]) -> None:
    """Say of each file whether Pillow decodes it, and how far the pixels are from gpufeed's."""
    from gpufeed.decode.decoders import NvImageCodec

    decoder = NvImageCodec()
    manifest = manifest_of(settings["table"], settings["root"])
    names, sizes = manifest.frame["path"].to_list(), manifest.sizes().tolist()
    for key in range(settings["start"], len(manifest)):
        content = (manifest.root / names[key]).read_bytes()
        height, width = sizes[key]
        theirs = by_pillow(content)
        ours = None
        same = theirs is not None and theirs.shape[:2] == (height, width)
        if same and height * width <= MAX_PIXELS:  # as a run looks at no larger one
            ours = by_gpufeed(content, (height, width), decoder)
        difference = None if ours is None else apart(ours, theirs)
        say(done=key, pillow=theirs is not None, apart=difference)


# ------------------------------------------------------------------------------ feed


def measured() -> dict[str, int]:
    """What this process has of memory (in KiB), threads and open files.

    `held` is what malloc has handed out and not got back.
    """
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "held": used_bytes() // 1024,
        "peak": int(status["VmHWM"].split()[0]),
        "threads": int(status["Threads"]),
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def _chosen(error: DecodeError) -> int | None:
    """A function for `on_error`: the record after one of an even number, else a blank image."""
    return error.record_key + 1 if error.record_key % 2 == 0 else None


def make_loader(manifest: Manifest, policy: str, **options: Any) -> Loader:
    cropped = policy.endswith("cropped")
    given: dict[str, Any] = {
        "sampler": SequentialSampler(len(manifest), num_epochs=1),
        "transforms": [
            tf.RandomResizedCrop(SIDE) if cropped else tf.Resize((SIDE, SIDE)),
            tf.ToDtype("uint8", layout="NHWC"),
        ],
        # With "raise" a batch is lost with its bad image, so it is one record.
        "batch_size": 1 if policy == "raise" else 8,
        "last_batch": "partial",
        "device": "cpu",
        "num_threads": 2,
        "on_error": _chosen if policy == "function" else policy.partition(",")[0],
        "max_failures": 1.0,
        "ledger": True,
        **options,
    }
    return Loader(manifest, **given)


def batches(loader: Loader) -> Iterator[tuple[int, Any]]:
    """Each step with its batch, or with the error in its place."""
    while loader.step < len(loader):
        step = loader.step
        try:
            batch: Any = next(iter(loader))  # anew, since it may have been closed
        except Exception as error:
            loader.skip()
            batch = error
        yield step, batch


def feed(settings: dict[str, Any]) -> None:
    """Feed all files under one policy after the other."""
    manifest = manifest_of(settings["table"], settings["root"])
    filters = list(warnings.filters)
    for policy in settings["policies"]:
        _feed(manifest, policy, settings)
    say(filters=filters == list(warnings.filters))


def _feed(manifest: Manifest, policy: str, settings: dict[str, Any]) -> None:
    with make_loader(manifest, policy) as loader:
        assert loader.ledger is not None
        saved = Path(settings["saved"])
        if settings["start"]:
            loader.seek(settings["start"])
            loader.ledger.include(Ledger.load(saved))
        tenths = {len(loader) * tenth // TENTHS for tenth in range(1, TENTHS + 1)}
        size = loader._schedule.batch_size
        for step, batch in batches(loader):
            said: dict[str, Any] = {"policy": policy, "step": step}
            if isinstance(batch, Exception):
                said |= {
                    "error": f"{type(batch).__name__}: {batch}",
                    "own": isinstance(batch, GpufeedError),
                    "record": getattr(batch, "record_key", None),
                    "first": step * size,
                }
            else:
                valid = batch.get("valid", np.ones(len(batch["image"]), dtype=bool))
                said["came"] = [
                    (key, hashlib.blake2b(image.tobytes(), digest_size=8).hexdigest())
                    for key, image, good in zip(
                        batch["record_key"].tolist(), batch["image"], valid, strict=True
                    )
                    if good
                ]
            say(**said)
            if loader.step in tenths:
                loader.close()  # what is held then, nobody will give back
                say(policy=policy, step=step, measured=measured())
            if loader.step % SAVE_EVERY == 0:
                loader.ledger.save(saved)
                say(policy=policy, saved=loader.step)
        report = loader.ledger.report(0)
        places = loader.ledger._epochs[0].places()
        say(
            policy=policy,
            end=True,
            missing=np.flatnonzero(places == 0).tolist(),
            double=report.double,
            refused={failure.record_key: failure.reason for failure in loader.quarantine},
        )


def large(settings: dict[str, Any]) -> None:
    """Feed an epoch, and say how much memory the process had at most."""
    manifest = manifest_of(settings["table"], settings["root"])
    options = {"max_pixels": settings["max_pixels"], "on_error": "substitute"}
    with make_loader(manifest, "substitute", **options) as loader:
        fed = [key for batch in loader for key in batch["record_key"].tolist()]
        refused = [failure.reason for failure in loader.quarantine]
    say(fed=fed, refused=refused, measured=measured())


def main() -> None:
    role, settings = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    if role in ("make", "compare"):
        warnings.simplefilter("ignore")
    {"make": make, "compare": compare, "feed": feed, "large": large}[role](settings)


if __name__ == "__main__":
    main()
