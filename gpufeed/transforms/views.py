"""Several views of each record, from one decode."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gpufeed._util.sanitize import short
from gpufeed._util.written import written
from gpufeed.errors import ConfigError
from gpufeed.transforms import arguments
from gpufeed.transforms.base import GeometricTransform, Layout, OutputFormat, Params, Transform
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.geometric import RandomHorizontalFlip, RandomVerticalFlip
from gpufeed.transforms.transform_list import check_transforms, flatten

__all__ = ["Checked", "FiveCrop", "TenCrop", "Views", "check_views"]


class Views:
    """Several lists of transforms, each of which gives one view of every record.

    Each image is decoded once, and each view draws its own random numbers. Two equal lists give the
    two views of SimCLR and BYOL; two lists of one size and several of a smaller size give DINO's
    multi-crop. A batch's `image` is then a list of arrays, one per view, in this order.

    Args:
        views: two or more lists of transforms.

    Raises:
        ConfigError: there are fewer than two lists, or one is not a list of transforms.
    """

    makes_views = True

    def __init__(self, views: Sequence[Sequence[Transform]]) -> None:
        argument: object = views
        if not isinstance(argument, list | tuple) or len(argument) < 2:
            raise ConfigError(
                f"Views has {short(views)}; it must be two or more lists of transforms, one for "
                "each view; pass a single list without Views"
            )
        for index, view in enumerate(views):
            if isinstance(view, str | Transform) or not isinstance(view, Iterable):
                raise ConfigError(
                    f"Views[{index}] is {type(view).__name__}; it must be a list of transforms"
                )
        self.views = tuple(check_transforms(view) for view in views)
        self._views = [list(view) for view in self.views]

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings as JSON values, as of a transform."""
        return {"kind": "Views", "views": [[each.identity for each in view] for view in self.views]}

    def __len__(self) -> int:
        return len(self.views)

    def __repr__(self) -> str:
        return written(self)


class FiveCrop(Transform):
    """Crop the four corners and the centre, as five views.

    Use it in a list of transforms in the position of a crop. The list then gives five views, in
    torchvision's order: top left, top right, bottom left, bottom right, centre.

    Args:
        size: size of each crop in pixels, one number for a square or (height, width); at most the
            image's.
    """

    makes_views = True

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = arguments.check_sizes("size", size)

    def parts(self) -> list[list[Transform]]:
        """Return the transforms that replace this one in each view."""
        return [[_FixedCrop(self.size, *position)] for position in _POSITIONS]


class TenCrop(FiveCrop):
    """Crop the four corners and the centre of the image and of its mirror image, as ten views.

    Args:
        size: size of each crop in pixels, one number for a square or (height, width); at most the
            image's.
        vertical_flip: whether the mirror image is flipped top to bottom instead of left to right.
    """

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = bool(vertical_flip)

    def parts(self) -> list[list[Transform]]:
        """Return the transforms that replace this one in each view."""
        five = super().parts()
        flip = RandomVerticalFlip if self.vertical_flip else RandomHorizontalFlip
        return [*five, *([flip(1.0), *part] for part in five)]


class _FixedCrop(GeometricTransform):
    """Crop at a fixed position, `down` and `across` being fractions of the spare pixels."""

    def __init__(self, size: tuple[int, int], down: float, across: float) -> None:
        self.size, self.down, self.across = size, down, across

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Crop."""
        spare = frame.size - np.array(self.size)
        if (spare < 0).any():
            row = int((spare < 0).any(axis=1).argmax())
            raise ConfigError(
                f"a crop of {self.size[0]} x {self.size[1]} is larger than an image of "
                f"{frame.height[row]} x {frame.width[row]} (height x width); resize it first"
            )
        start = np.rint(spare * np.array([self.down, self.across])).astype(np.int64)
        return frame.crop(start[:, 0], start[:, 1], *self.size)


_POSITIONS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5))


@dataclass(frozen=True)
class Checked:
    """A loader's transforms, checked.

    Attributes:
        views: one list per view, each with an output format that has a layout.
        shared: how many transforms at the start of the lists are common to all views and draw the
            same numbers.
        identities: kind and settings of the transforms as given, with that layout.
    """

    views: tuple[tuple[Transform, ...], ...]
    shared: int
    identities: list[dict[str, object]]


def check_views(transforms: Sequence[Transform] | Views, layout: Layout) -> Checked:
    """Check transforms. A list is one view, or several if it has FiveCrop or TenCrop.

    Args:
        transforms: as for `Loader`.
        layout: the layout of images whose output format leaves it open.

    Raises:
        ConfigError: `transforms` is not a list of transforms, or their order is wrong.
    """
    if isinstance(transforms, Views):
        settled = Views(_settle(transforms.views, layout))
        return Checked(settled.views, 0, [settled.identity])
    if isinstance(transforms, str | Transform) or not isinstance(transforms, Iterable):
        raise ConfigError(
            f"transforms is {short(transforms)}; it must be a list of transforms, as "
            "gpufeed.presets.train() returns"
        )
    flat = flatten(transforms)
    for index, transform in enumerate(flat):
        if isinstance(transform, FiveCrop):
            before, after = flat[:index], flat[index + 1 :]
            parts = transform.parts()
            views = _settle([check_transforms([*before, *p, *after]) for p in parts], layout)
            identities = [each.identity for each in views[0]]
            identities[index] = transform.identity
            return Checked(views, index, identities)
    views = _settle([check_transforms(flat)], layout)
    return Checked(views, 0, [each.identity for each in views[0]])


def _settle(
    views: Sequence[Sequence[Transform]], layout: Layout
) -> tuple[tuple[Transform, ...], ...]:
    """Replace each output format without a layout by a copy that has this one.

    There is one copy for all views that share a format, since equal views are planned together.
    """
    copies = {
        id(each): copy.copy(each)
        for each in itertools.chain(*views)
        if isinstance(each, OutputFormat) and each.layout is None
    }
    for each in copies.values():
        each.layout = layout
    return tuple(tuple(copies.get(id(each), each) for each in view) for view in views)
