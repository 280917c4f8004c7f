"""Labels as probability distributions over the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.transforms import arguments
from gpufeed.transforms.base import LateTransform, Made

__all__ = ["SoftLabels"]


class SoftLabels(LateTransform):
    """Add `soft_label` to each batch, float32 (n, num_classes): labels smoothed and mixed.

    Smoothing is that of Szegedy et al., "Rethinking the inception architecture for computer vision"
    (CVPR 2016), as in torch's `CrossEntropyLoss(label_smoothing=...)`: the label keeps
    1 - smoothing, and the rest is divided among all classes. If the list has a mix, labels are
    mixed as the images are. Records with several classes have a 1 for each, and vectors are taken
    as they are. SoftLabels changes no pixels; it follows the output format, before or after a mix.

    Args:
        num_classes: number of classes, or of a vector's entries, 1 or more.
        smoothing: 0 to 1.
    """

    def __init__(self, num_classes: int, smoothing: float = 0.0) -> None:
        self.num_classes = arguments.check_integer("num_classes", num_classes, 1)
        self.smoothing = arguments.check_probability("smoothing", smoothing)

    def build(self, image: Any, params: dict[str, Any], made: Made) -> Any:  # noqa: ARG002
        """Return the images unchanged."""
        return image

    def of(
        self,
        label: npt.NDArray[Any],
        label_b: npt.NDArray[Any] | None = None,
        share: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return soft labels: float32 (n, num_classes), of classes with rows of sum 1.

        Args:
            label: int32 (n,), classes, or float32 (n, num_classes).
            label_b: the partners' labels, likewise; None if nothing is mixed.
            share: float32 (n,), the weight of `label`; that of `label_b` is 1 - share.

        Raises:
            ConfigError: a label is not from 0 to num_classes - 1, or not of num_classes numbers.
        """
        soft = self._spread(label)
        if label_b is not None and share is not None:
            own = share[:, None]
            soft = own * soft + (np.float32(1.0) - own) * self._spread(label_b)
        return soft * np.float32(1.0 - self.smoothing) + np.float32(
            self.smoothing / self.num_classes
        )

    def _spread(self, label: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return labels as float32 (n, num_classes), a class as a 1 in its column."""
        if label.dtype == np.float32:
            if label.shape[1:] != (self.num_classes,):
                what = f"vectors of {label.shape[1]}" if label.ndim > 1 else "single numbers"
                raise ConfigError(
                    f"labels are {what}, but SoftLabels has num_classes={self.num_classes}; it "
                    "takes classes, or vectors with a number for each class"
                )
            return label
        if len(label) and not 0 <= label.min() <= label.max() < self.num_classes:
            bad = label.max() if label.min() >= 0 else label.min()
            raise ConfigError(
                f"a label is {bad}, but SoftLabels has num_classes={self.num_classes}; labels must "
                f"be from 0 to {self.num_classes - 1}"
            )
        soft = np.zeros((len(label), self.num_classes), dtype=np.float32)
        soft[np.arange(len(label)), label] = 1.0
        return soft
