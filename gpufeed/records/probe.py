"""Probes a few images of a list, so that a wrong root fails before a run."""

from __future__ import annotations

import numpy as np

from gpufeed.decode.headers import check_depth, image_header
from gpufeed.records.bad_images import OnBadImage, bad_images_error
from gpufeed.records.manifest import Manifest
from gpufeed.source.base import open_image

__all__ = ["probe"]

_PROBES = 8
_ADVICE = (
    "inspect all images with `gpufeed check`, or leave bad ones to the loader with "
    'on_bad_image="drop"'
)
_READ_SIZES = (
    "to read sizes from the images, leave out the columns width and height, or pass "
    'sizes="headers" to read_nabirds'
)


def probe(manifest: Manifest, *, on_bad_image: OnBadImage) -> None:
    """Read the headers of eight images, from the first to the last at equal distances.

    Args:
        manifest: a manifest whose sizes were listed and not read from the images.
        on_bad_image: "drop" tolerates bad images unless all of the eight are bad.

    Raises:
        ManifestError: an image cannot be read, or has another size or depth than it may have; the
            message names it.
        SourceError: the source violates the protocol.
    """
    keys = np.unique(np.linspace(0, len(manifest) - 1, _PROBES).astype(np.int64)).tolist()
    failures: dict[int, Exception] = {}
    advice = _ADVICE
    for key, (height, width) in zip(keys, manifest.sizes(keys).tolist(), strict=True):
        try:
            with open_image(manifest.source, key) as file:
                header = image_header(file)
            check_depth(header, reduce_depth=manifest.reduce_depth)
            if header[:2] != (width, height):
                advice = f"{_READ_SIZES}; {_ADVICE}"
                raise ValueError(
                    f"{header.width} x {header.height} (width x height), listed as "
                    f"{width} x {height}"
                )
        except (OSError, ValueError) as error:
            failures[key] = error
    if len(failures) > (len(keys) - 1 if on_bad_image == "drop" else 0):
        raise bad_images_error(
            manifest.source, failures, len(keys), "images that were probed", advice
        )
