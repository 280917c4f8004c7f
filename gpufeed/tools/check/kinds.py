"""The kinds of findings about an image's file, and what each means for a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["HEADERLESS", "KINDS", "Finding", "Problem", "Weight"]

Weight = Literal["fails", "doubtful", "note"]
"""A run fails on the image, feeds one that may be wrong without an error, or feeds it correctly."""


class Problem(StrEnum):
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


KINDS: dict[Problem, tuple[Weight, str]] = {
    Problem.missing: ("fails", "there is no such file"),
    Problem.unreadable: ("fails", "the file cannot be read"),
    Problem.empty: ("fails", "the file has no bytes"),
    Problem.leads_out: ("fails", "a symbolic link leads out of the data's folder"),
    Problem.not_an_image: ("fails", "the header is damaged or of an unsupported format"),
    Problem.too_large: (
        "fails",
        "more pixels than max_pixels, or a file far too long for its size",
    ),
    Problem.too_deep: ("fails", "more than 8 bits per channel, or not unsigned integers"),
    Problem.damaged: ("fails", "truncated or corrupt, and cannot be decoded"),
    Problem.unsupported: ("fails", "Pillow can decode it, but a run cannot"),
    Problem.other_size: ("fails", "not the size that the list of images gives"),
    Problem.bad_target: (
        "fails",
        "a mask or depth map is missing, damaged or does not fit its image",
    ),
    Problem.box_outside: ("doubtful", "a box extends beyond the image"),
    Problem.corrupt: ("doubtful", "a run decodes it without an error, but Pillow finds it corrupt"),
    Problem.twice: ("doubtful", "an identical file is in another split"),
    Problem.two_labels: ("doubtful", "an identical file has a different label"),
    Problem.duplicate: ("note", "an identical file is in the list already"),
    Problem.disguised: ("note", "not the format that its name suggests; decoded correctly"),
    Problem.turned: ("note", "stored rotated or mirrored; decoded upright"),
    Problem.colours: ("note", "grayscale, CMYK, with alpha or over 8 bits; decoded as RGB"),
}
"""The weight and the meaning of each kind, the worst first."""

HEADERLESS = (
    Problem.missing,
    Problem.unreadable,
    Problem.empty,
    Problem.not_an_image,
    Problem.too_deep,
)
"""Kinds of images that a reader refuses where it reads all headers."""


@dataclass(frozen=True)
class Finding:
    """One finding about one record's file.

    Attributes:
        kind: the kind.
        detail: a description with the values found.
    """

    kind: Problem
    detail: str
