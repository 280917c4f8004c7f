"""Several views of each record, from one decode."""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed.errors import ConfigError
from gpufeed.transforms.base import Transform
from gpufeed.transforms.compose import check_transforms

__all__ = ["Views", "check_views"]


class Views:
    """Several lists of transforms, each of which makes its own picture of every record.

    A picture is decoded once, and each view draws numbers of its own: two equal lists give two
    views as SimCLR and BYOL take them, two of one size and several of a smaller one give DINO's
    multi-crop. With it a batch's `image` is a list of arrays, one for each view, in this order.

    Args:
        views: the lists, two or more.

    Raises:
        ConfigError: fewer than two, or one that is no list of transforms.
    """

    def __init__(self, views: Sequence[Sequence[Transform]]) -> None:
        if isinstance(views, str | Transform) or len(views) < 2:
            raise ConfigError(
                f"Views has {views!r}; it must be two or more lists of transforms, one for each "
                "view; pass a single list as it is"
            )
        for place, view in enumerate(views):
            if isinstance(view, Transform):
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


def check_views(transforms: Sequence[Transform] | Views) -> tuple[tuple[Transform, ...], ...]:
    """Return the checked list of each view; one list is one view.

    Raises:
        ConfigError: something is no list of transforms.
    """
    return transforms.views if isinstance(transforms, Views) else (check_transforms(transforms),)
