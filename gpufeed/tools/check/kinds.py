"""What can be found in an image's file, and what it means for a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["HEADERLESS", "KINDS", "Finding", "Kind", "Weight"]

Weight = Literal["fails", "doubtful", "note"]
"""A run fails over it, or feeds what may be wrong without a word, or feeds it as it is meant."""


class Kind(StrEnum):
    """What is found."""

    missing = "missing"
    unreadable = "unreadable"
    empty = "empty"
    leads_out = "leads out"
    not_an_image = "not an image"
    too_large = "too large"
    damaged = "damaged"
    unsupported = "unsupported"
    other_size = "other size"
    box_outside = "box outside"
    corrupt = "corrupt data"
    twice = "in train and test"
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
    Kind.not_an_image: ("fails", "its header is of no image that is supported, or is damaged"),
    Kind.too_large: ("fails", "more pixels than max_pixels, or a file of absurd length"),
    Kind.damaged: ("fails", "cut off or broken, and cannot be decoded"),
    Kind.unsupported: ("fails", "a kind of image that Pillow decodes and a run cannot"),
    Kind.other_size: ("fails", "not of the size that the list of images gives"),
    Kind.box_outside: ("doubtful", "a box reaches out of the image as it is"),
    Kind.corrupt: ("doubtful", "decoded without a word in a run, while Pillow finds it broken"),
    Kind.twice: ("doubtful", "the very same file is in the training and the test set"),
    Kind.two_labels: ("doubtful", "the very same file comes under two labels"),
    Kind.duplicate: ("note", "the very same file comes again"),
    Kind.disguised: ("note", "another format than its name says; fed as what it is"),
    Kind.turned: ("note", "stored turned or mirrored; fed upright"),
    Kind.colours: ("note", "gray, CMYK, with alpha or deeper than 8 bits; fed as RGB"),
}
"""How much each kind weighs, and what it is; the worst first."""

HEADERLESS = (Kind.missing, Kind.unreadable, Kind.empty, Kind.not_an_image)
"""Kinds of which no size can be read, so that a list without sizes cannot be completed."""


@dataclass(frozen=True)
class Finding:
    """Something found in one record's file.

    Attributes:
        kind: what.
        detail: in words, with the values met.
    """

    kind: Kind
    detail: str
