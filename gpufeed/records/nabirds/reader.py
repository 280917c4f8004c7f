"""The public reader of NABirds, which recognises what the data are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from gpufeed._util.sanitize import short
from gpufeed._util.urls import is_url, location, public_url
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image
from gpufeed.records.labels import number_labels
from gpufeed.records.manifest import Manifest, class_names
from gpufeed.records.nabirds.course import list_course
from gpufeed.records.nabirds.distribution import DISTRIBUTION_FILES, list_distribution
from gpufeed.records.nabirds.listing import Listing
from gpufeed.records.probe import probe

__all__ = ["list_nabirds", "read_nabirds"]


def read_nabirds(
    path: str | Path,
    labels: Literal["class", "species"] = "class",
    *,
    classes: Sequence[str] | Manifest | None = None,
    images: str | Path | None = None,
    sizes: Literal["manifest", "headers"] = "manifest",
    follow_links: bool = False,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Read NABirds, from its own distribution or from the `metadata.parquet` of the course on it.

    Van Horn et al., "Building a bird recognition app and large scale dataset with citizen
    scientists: the fine print in fine-grained dataset collection", CVPR 2015.

    Besides `path`, `label`, `width`, `height` and the box of a `Manifest`, the columns are:

    - `class_id` (Int32), `class_name`: one of the 1,011 nodes, as numbered by the dataset;
    - `species_name`, `subcategory` (null if there is none): the class name without its last
      parenthesised part, and the text of that part;
    - `species_id` (Int32): from 1, in the order of the species' names;
    - `parents` (List[String]): the names of the 2 or 3 ancestors of the class in the hierarchy,
      from the top level (`parents.list.first()`) down to its parent. Not in `metadata.parquet`;
    - `photographer`, `is_training_img` (Boolean), `uuid`;
    - `points`, if the folder has `parts/part_locs.txt`: the bird's parts, in the order of
      `parts/parts.txt` (bill, crown, nape, left eye, right eye, belly, breast, back, tail, left
      wing, right wing), which are also the `point_names`; invisible parts have visible 0. Left and
      right are the bird's own, and are not swapped when an image is flipped: see `flip_pairs` of
      `Loader`;
    - for the course's cleaned images, which are cropped to their boxes: `photo_width`,
      `photo_height`, `photo_box_x`, `photo_box_y`, `photo_box_width` and `photo_box_height`, of the
      photo that the image was cropped from. The manifest's sizes and boxes are those of the cropped
      images.

    Repeated spaces in names, and spaces next to the inside of parentheses, are removed. Boxes that
    extend beyond their image are clamped to it. `repairs` counts both: `names_mended` (classes),
    `boxes_clamped` and, with `sizes="headers"`, `sizes_replaced` (images).

    If sizes come from the metadata, they are compared with the headers of eight images.

    Args:
        path: folder of the distribution, which has images.txt and so on; or a `metadata.parquet`,
            or a folder that has one.
        labels: "class" labels by the rank of the class id (555 classes), "species" by the rank of
            the species' name (404 species). Labels are those of the whole set, so all splits share
            them.
        classes: the names of the labels, in the order of their numbers; or a manifest, whose
            classes are taken. Classes may be without images.
        images: folder of the images. By default `images` below the distribution's folder;
            `cleaned_images`, or else `images`, next to the parquet file.
        sizes: "manifest" takes the sizes from the metadata, "headers" from the images.
        follow_links: whether symbolic links may lead out of the folder of the images. Pass True
            only if you trust whoever made them: a link may lead to any file.
        on_bad_image: "raise", or "drop" to leave out images outside their folder that a symbolic
            link leads to and, if sizes are read from headers, images whose header cannot be read or
            that are too deep. They are counted in `repairs` as `links_dropped` and
            `images_dropped`. If sizes come from the metadata, "drop" tolerates bad images among
            the eight, but not eight.
        reduce_depth: whether to reduce images of 16 bits per channel to 8: see `Manifest`. By
            default they are bad images.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: a file is missing or invalid, and the message names it with the line or row;
            a symbolic link leaves the folder; an image is bad, or their folder looks wrong; or a
            class or species is not in `classes`.
        ConfigError: `labels`, `sizes` or `on_bad_image` is not one of its values, or `classes` is
            not a list of names.
    """
    if labels not in ("class", "species"):
        raise ConfigError(f'labels must be "class" or "species", not {short(labels)}')
    if sizes not in ("manifest", "headers"):
        raise ConfigError(f'sizes must be "manifest" or "headers", not {short(sizes)}')
    check_on_bad_image(on_bad_image)
    names = class_names(classes)
    listing = list_nabirds(path, labels, images, follow_links=follow_links)
    if names is not None:
        numbers = number_labels(
            pl.Series(listing.classes), names, f"{path}, labels={labels!r}", "label"
        )
        label = numbers.gather(listing.frame["label"]).alias("label")
        listing = replace(listing, frame=listing.frame.with_columns(label), classes=names)
    manifest = listing.manifest(
        headers=sizes == "headers",
        show=progress,
        follow_links=follow_links,
        on_bad_image=on_bad_image,
        reduce_depth=reduce_depth,
    )
    if sizes == "manifest" and not listing.cropped:
        probe(manifest, on_bad_image=on_bad_image)
    return manifest


def list_nabirds(
    path: str | Path,
    labels: Literal["class", "species"],
    images: str | Path | None = None,
    *,
    follow_links: bool = False,
) -> Listing:
    """List the images of NABirds, opening a few at most; raises what `read_nabirds` raises."""
    for given in (path, images):
        if is_url(given):
            raise ManifestError(
                f"read_nabirds reads folders of this machine, not {public_url(str(given))}; pass "
                "its table to read_table, with root= the URL of the images"
            )
    source = Path(location(path))
    folder = None if images is None else Path(images)
    if folder is not None and not folder.is_dir():
        raise ManifestError(f"images: there is no folder {folder}")
    if source.is_file():
        return list_course(source, labels, folder, follow_links=follow_links)
    if not source.is_dir():
        raise ManifestError(f"there is no file or folder {source}")
    parquet = source / "metadata.parquet"
    if not (source / "images.txt").exists():
        if parquet.is_file():
            return list_course(parquet, labels, folder, follow_links=follow_links)
        if not any((source / name).exists() for name in DISTRIBUTION_FILES):
            raise ManifestError(
                f"{source} is not a NABirds folder: it has neither images.txt nor metadata.parquet"
                "; pass the folder that has; read_folder reads a folder of class folders"
            )
    return list_distribution(source, labels, folder)
