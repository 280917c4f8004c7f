"""Several views of each record, from one decode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gpufeed.errors import ConfigError
from gpufeed.transforms import checks
from gpufeed.transforms.base import GeometricTransform, Params, Transform
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.geometric import RandomHorizontalFlip, RandomVerticalFlip
from gpufeed.transforms.listed import check_transforms
from gpufeed.transforms.nested import flat

__all__ = ["Checked", "FiveCrop", "TenCrop", "Views", "check_views"]


class Views:
    """Several lists of transforms, each of which makes its own image of every record.

    An image is decoded once, and each view draws numbers of its own: two equal lists give two
    views as SimCLR and BYOL take them, two of one size and several of a smaller one give DINO's
    multi-crop. With it a batch's `image` is a list of arrays, one for each view, in this order.

    Args:
        views: the lists, two or more.

    Raises:
        ConfigError: fewer than two, or one that is no list of transforms.
    """

    makes_views = True

    def __init__(self, views: Sequence[Sequence[Transform]]) -> None:
        given: object = views
        if not isinstance(given, list | tuple) or len(given) < 2:
            raise ConfigError(
                f"Views has {views!r}; it must be two or more lists of transforms, one for each "
                "view; pass a single list as it is"
            )
        for place, view in enumerate(views):
            if isinstance(view, str | Transform) or not isinstance(view, Iterable):
                raise ConfigError(
                    f"Views[{place}] is {type(view).__name__}; it must be a list of transforms"
                )
        self.views = tuple(check_transforms(view) for view in views)

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings as JSON values, as a transform's."""
        return {"kind": "Views", "views": [[each.identity for each in view] for view in self.views]}

    def __len__(self) -> int:
        return len(self.views)


class FiveCrop(Transform):
    """Cut out the four corners and the centre, as five views.

    It stands in a list of transforms among those that move pixels, and makes `Views` of it, in
    torchvision's order: top left, top right, bottom left, bottom right, centre.

    Args:
        size: pixels of each, one number for a square or (height, width); no more than the image.
    """

    makes_views = True

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = checks.check_sizes("size", size)

    def parts(self) -> list[list[Transform]]:
        """Return what stands for it in each view."""
        return [[_CropAt(self.size, *place)] for place in _PLACES]


class TenCrop(FiveCrop):
    """Cut out the four corners and the centre of the image and of its mirror image, as ten views.

    Args:
        size: pixels of each, one number for a square or (height, width); no more than the image.
        vertical_flip: whether it is mirrored top to bottom and not left to right.
    """

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = bool(vertical_flip)

    def parts(self) -> list[list[Transform]]:
        """Return what stands for it in each view."""
        five = super().parts()
        flip = RandomVerticalFlip if self.vertical_flip else RandomHorizontalFlip
        return [*five, *([flip(1.0), *part] for part in five)]


class _CropAt(GeometricTransform):
    """Cut out a part at a place that does not vary."""

    def __init__(self, size: tuple[int, int], down: float, across: float) -> None:
        self.size, self.down, self.across = size, down, across

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Crop."""
        spare = frame.size - np.array(self.size)
        if (spare < 0).any():
            short = int((spare < 0).any(axis=1).argmax())
            raise ConfigError(
                f"crops of {self.size[0]} x {self.size[1]} are cut out of an image of "
                f"{frame.height[short]} x {frame.width[short]} (height x width); resize it first"
            )
        place = np.rint(spare * np.array([self.down, self.across])).astype(np.int64)
        return frame.crop(place[:, 0], place[:, 1], *self.size)


_PLACES = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5))


@dataclass(frozen=True)
class Checked:
    """A loader's transforms, checked.

    Attributes:
        views: a list for each view, with an output format in it.
        shared: how many of their first transforms are the same ones, which draw the same numbers.
        identities: kind and settings of what was given.
    """

    views: tuple[tuple[Transform, ...], ...]
    shared: int
    identities: list[dict[str, object]]


def check_views(transforms: Sequence[Transform] | Views) -> Checked:
    """Check transforms; one list is one view, but with FiveCrop or TenCrop.

    Raises:
        ConfigError: something is no list of transforms.
    """
    if isinstance(transforms, Views):
        return Checked(transforms.views, 0, [transforms.identity])
    if isinstance(transforms, str | Transform) or not isinstance(transforms, Iterable):
        raise ConfigError(
            f"transforms is {transforms!r}; it must be a list of transforms, as "
            "gpufeed.presets.train() returns"
        )
    listed = flat(transforms)
    for place, transform in enumerate(listed):
        if isinstance(transform, FiveCrop):
            before, after = listed[:place], listed[place + 1 :]
            views = tuple(check_transforms([*before, *p, *after]) for p in transform.parts())
            told = [each.identity for each in views[0]]
            told[place] = transform.identity
            return Checked(views, place, told)
    view = check_transforms(listed)
    return Checked((view,), 0, [each.identity for each in view])
