"""The public function `prepare`: plan, make what is missing, and write the manifest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from gpufeed._util.extras import import_extra
from gpufeed._util.limits import available_threads
from gpufeed._util.numbers import is_integer
from gpufeed._util.progress import progress as show_progress
from gpufeed._util.sanitize import sanitize, short
from gpufeed.decode.diagnose import MAX_PIXELS
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.plan.prefix import count_prepared, place
from gpufeed.records import Manifest, read_manifest
from gpufeed.records.bounding_box import corners
from gpufeed.records.manifest import DROPPED
from gpufeed.records.saved import save_manifest
from gpufeed.records.subset import Subset, as_manifest
from gpufeed.source.saved import open_source
from gpufeed.tools.prepare.describe import describe
from gpufeed.tools.prepare.folders import class_folders
from gpufeed.tools.prepare.on_ray import make_on_ray
from gpufeed.tools.prepare.rows import SHA256, check_columns, moved_rows
from gpufeed.tools.prepare.settings import (
    ImageFormat,
    OnBadFile,
    Packing,
    Settings,
    Subsampling,
    claim_folder,
    sweep,
)
from gpufeed.tools.prepare.shard import DONE, REASON, Job
from gpufeed.tools.prepare.workers import make_in_processes
from gpufeed.transforms import Transform
from gpufeed.transforms.transform_list import flatten

__all__ = ["MANIFEST", "prepare"]

MANIFEST = "prepared.manifest"
_DROPPED = "dropped.csv"
_NO_TIME = 0
"""The time of the manifest's file, so that equal manifests are equal files."""


def prepare(
    manifest: Manifest | Subset,
    destination: str | os.PathLike[str],
    transforms: Sequence[Transform] = (),
    *,
    to: Packing = "tar",
    image_format: ImageFormat | None = None,
    quality: int | None = None,
    subsampling: Subsampling | None = None,
    shard_size: int = 1000,
    workers: int | None = None,
    ray: str | None = None,
    on_error: OnBadFile = "drop",
    max_pixels: int = MAX_PIXELS,
    progress: bool | None = None,
) -> Manifest:
    """Write a data set once as leading transforms leave it, and return its manifest.

        cleaned = gpufeed.presets.course_cleaned()
        prepared = gpufeed.prepare(manifest, "prepared/", cleaned)
        loader = gpufeed.Loader(prepared, transforms=gpufeed.presets.course_train())

    The manifest remembers the transforms. A loader whose `transforms` begin with the same ones
    leaves them out, and all others draw the random numbers that they draw for the originals. So one
    script feeds the originals and what was prepared, in the same order and from the same states
    (`load_state_dict(state, ignore=["manifest"])`), as long as no image was dropped. Pixels are
    equal if they are encoded without loss, except where a random crop follows a resize: there a
    loader of the originals resizes only what the crop shows, and some pixels differ by one level.

    All columns go along. `boxes` and `points` follow the images, and a box that is cropped away
    takes its values in `Manifest.box_columns` with it; `path` becomes that of the new image, and
    `original` is the old one. Masks and depth maps are not written.

    What is written depends on the manifest, its images and these arguments alone, not on `workers`,
    `ray` or time. If `prepare` is ended at any moment, the same call goes on with what is missing;
    it is refused if files of images were changed or moved meanwhile, by their paths, lengths and
    times. Images in memory, and those of a source without `fingerprint`, cannot be compared so.
    Only one call at a time may write to a folder. In the end it has

    - the images: `images/CLASS/00000000.jpg` and so on, or shards such as `shard-000000.tar`;
    - `prepared.manifest`, which `read_manifest` reads, with the SHA-256 of each image as written;
    - `prepared.json`, the settings;
    - `dropped.csv`, the images that were dropped and why, if there are any.

    Args:
        manifest: the images.
        destination: the folder to write to: new, empty, or of an unfinished call with the same
            arguments.
        transforms: crops, resizes and padding without random numbers, exactly as they come first
            in a loader's list. Those that the images have been through already are left out.
        to: "files" in a folder for each class; "tar" shards for WebDataset, with the class and all
            columns of each image beside it; "parquet" files with all columns; "arrayrecord" files
            of images, for Grain; or "raw" for files of uint8 pixels, which are not decoded again.
        image_format: "jpeg", "png" or "webp"; None for "jpeg", or if `to` is "raw".
        quality: of JPEG or WebP, 1 to 100; None for 95.
        subsampling: of JPEG: "4:4:4", "4:2:2" or "4:2:0"; None for "4:2:0".
        shard_size: records in each shard. Work is divided and resumed by shards, also if `to` is
            "files".
        workers: processes of this machine; None for one per core. Scripts that use more than one
            need `if __name__ == "__main__":`, as for every spawned process.
        ray: the address of a Ray cluster that makes the shards instead, such as "auto". All its
            machines have gpufeed, and see the images and `destination` by the same paths. "local"
            starts Ray on this machine.
        on_error: "drop" leaves out images that cannot be read or decoded; "raise" stops at them.
        max_pixels: the most pixels an image may have, before and after `transforms`; larger ones
            count as bad. So do those with a side of more than 65,500 pixels for JPEG, or 16,383 for
            WebP.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ConfigError: an argument is not as described, or `destination` holds something else.
        DecodeError: an image is bad, and on_error is "raise".
        ManifestError: all images are bad, or one of the columns `original` and `sha256` is in the
            manifest, which are those of prepared images.
        MissingExtraError: pyarrow, or another package for what was asked for, is not installed.
        OSError: nothing more can be written; what is finished is kept.
        PipelineError: a worker process ended.
    """
    import_extra("pyarrow", extra="arrow")  # now, and not when all images are written
    manifest = as_manifest(manifest)
    check_columns(manifest)
    settings = Settings.of(to, image_format, quality, subsampling, shard_size, on_error, max_pixels)
    if workers is None:
        workers = available_threads()
    elif not is_integer(workers) or workers < 1:
        raise ConfigError(f"workers is {short(workers)}; it must be an integer of 1 or more")
    listed = tuple(flatten(transforms))
    done_before = count_prepared([listed], manifest.prepared)
    left = listed[done_before:]
    frame = place(left, manifest.sizes().astype(np.int64), corners(manifest.boxes()))
    # Images that are only encoded anew have still been through what they were.
    identities = [each.identity for each in listed] or [*manifest.prepared]
    folder = Path(destination).expanduser().absolute()
    claim_folder(folder, settings.described(manifest, identities))
    file = folder / MANIFEST
    if not file.is_file():
        rows = moved_rows(manifest, frame)
        folders = class_folders(manifest.classes if manifest.labels.has_classes else ())
        job = Job(manifest, rows, left, settings, folder, folders)
        (folder / DONE).mkdir(exist_ok=True)
        sweep(folder / DONE)
        try:
            _make_missing(job, workers, ray, progress)
        finally:
            sweep(folder)
        _write_manifest(job, identities)
    shutil.rmtree(folder / DONE, ignore_errors=True)
    return read_manifest(file)


def _make_missing(job: Job, workers: int, ray: str | None, show: bool | None) -> None:
    missing = [number for number in range(job.count) if not job.done(number).is_file()]
    with show_progress("Preparing", len(job.manifest), show=show, unit="images") as advance:

        def done(number: int) -> None:
            advance(len(job.keys(number)))

        for number in {*range(job.count)}.difference(missing):
            done(number)
        if ray is None:
            make_in_processes(job, missing, workers, done)
        else:
            make_on_ray(job, missing, ray, done)


def _write_manifest(job: Job, identities: Sequence[Mapping[str, object]]) -> None:
    """Write the manifest of all shards, and the list of images that were dropped."""
    files = map(job.done, range(job.count))
    facts = pl.concat([pl.read_parquet(file, glob=False) for file in files])
    bad = facts[REASON].is_not_null()
    if bad.any():
        dropped = pl.DataFrame(
            {
                "record_key": bad.arg_true(),
                "path": job.manifest.frame["path"].filter(bad),
                REASON: facts[REASON].filter(bad),
            }
        )
        dropped.write_csv(job.folder / _DROPPED)
    if bad.all():
        raise ManifestError(
            f"all {len(bad)} images are bad; the first: {sanitize(facts[REASON][0])}; delete "
            f"{job.folder} before you try again"
        )
    kept, rows = facts.filter(~bad), job.rows.filter(~bad)
    saved = describe(job.settings.to, kept.hstack(rows[["height", "width"]]))
    frame = kept.select("path", SHA256).hstack(rows.drop(SHA256, strict=False))
    given, name = job.manifest, DROPPED[0]
    repairs = dict(given.repairs)
    if bad.any():
        repairs[name] = repairs.get(name, 0) + int(bad.sum())
    made = Manifest(
        frame,
        open_source(saved.about, saved.columns, job.folder),
        given.classes,
        repairs=repairs,
        reduce_depth=given.reduce_depth,
        point_names=given.point_names,
        box_columns=given.box_columns,
    )
    made._prepared = tuple(identities)
    save_manifest(made, job.folder / MANIFEST, source=saved, seconds=_NO_TIME)
