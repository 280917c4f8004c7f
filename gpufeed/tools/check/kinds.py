"""The kinds of findings about an image's file, and what each means for a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["HEADERLESS", "KINDS", "Finding", "Kind", "Weight"]

Weight = Literal["fails", "doubtful", "note"]
"""A run fails on the image, feeds one that may be wrong without an error, or feeds it correctly."""


class Kind(StrEnum):
    """A kind of finding, by its name in tables and files."""

    missing = "missing"
    unreadable = "unreadable"
    empty = "empty"
    leads_out = "leads out"
    not_an_image = "not an image"
    too_large = "too large"
    too_deep = "too deep"
    damaged = "damaged"
    unsupported = "unsupported"
    other_size = "other size"
    bad_target = "bad mask or map"
    box_outside = "box outside"
    corrupt = "corrupt data"
    twice = "in two splits"
    two_labels = "two labels"
    duplicate = "duplicate"
    disguised = "other format"
    turned = "turned by EXIF"
    colours = "not plain RGB"


KINDS: dict[Kind, tuple[Weight, str]] = {
    Kind.missing: ("fails", "there is no such file"),
    Kind.unreadable: ("fails", "the file cannot be read"),
    Kind.empty: ("fails", "the file has no bytes"),
    Kind.leads_out: ("fails", "a symbolic link leads out of the data's folder"),
    Kind.not_an_image: ("fails", "the header is damaged or of an unsupported format"),
    Kind.too_large: ("fails", "more pixels than max_pixels, or a file far too long for its size"),
    Kind.too_deep: ("fails", "more than 8 bits per channel, or not unsigned integers"),
    Kind.damaged: ("fails", "truncated or corrupt, and cannot be decoded"),
    Kind.unsupported: ("fails", "Pillow can decode it, but a run cannot"),
    Kind.other_size: ("fails", "not the size that the list of images gives"),
    Kind.bad_target: ("fails", "a mask or depth map is missing, damaged or does not fit its image"),
    Kind.box_outside: ("doubtful", "a box extends beyond the image"),
    Kind.corrupt: ("doubtful", "a run decodes it without an error, but Pillow finds it corrupt"),
    Kind.twice: ("doubtful", "an identical file is in another split"),
    Kind.two_labels: ("doubtful", "an identical file has a different label"),
    Kind.duplicate: ("note", "an identical file is in the list already"),
    Kind.disguised: ("note", "not the format that its name suggests; decoded correctly"),
    Kind.turned: ("note", "stored rotated or mirrored; decoded upright"),
    Kind.colours: ("note", "grayscale, CMYK, with alpha or over 8 bits; decoded as RGB"),
}
"""The weight and the meaning of each kind, the worst first."""

HEADERLESS = (Kind.missing, Kind.unreadable, Kind.empty, Kind.not_an_image, Kind.too_deep)
"""Kinds of images that a reader refuses where it reads all headers."""


@dataclass(frozen=True)
class Finding:
    """One finding about one record's file.

    Attributes:
        kind: the kind.
        detail: a description with the values found.
    """

    kind: Kind
    detail: str
