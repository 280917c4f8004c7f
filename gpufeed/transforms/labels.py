"""Labels as distributions over the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.transforms import checks
from gpufeed.transforms.base import LateTransform, Made

__all__ = ["SoftLabels"]


class SoftLabels(LateTransform):
    """Add `soft_label` to each batch, float32 (n, num_classes), smoothed, and mixed as images.

    Smoothing is that of Szegedy et al., "Rethinking the inception architecture for computer vision"
    (CVPR 2016), as torch's `CrossEntropyLoss(label_smoothing=...)` does it: the label keeps
    1 - smoothing, and all classes share the rest. It changes no pixel, and stands after the output
    format, before or after a mix.

    Args:
        num_classes: how many classes there are, 1 or more.
        smoothing: 0 to 1.
    """

    def __init__(self, num_classes: int, smoothing: float = 0.0) -> None:
        self.num_classes = checks.check_count("num_classes", num_classes, 1)
        self.smoothing = checks.check_probability("smoothing", smoothing)

    def build(self, image: Any, params: dict[str, Any], made: Made) -> Any:  # noqa: ARG002
        """Leave images as they are."""
        return image

    def of(
        self,
        label: npt.NDArray[np.int32],
        label_b: npt.NDArray[np.int32] | None = None,
        share: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return soft labels, float32 (n, num_classes), each of which sums to 1.

        Args:
            label: int32 (n,).
            label_b: int32 (n,), the partners'; None where nothing is mixed.
            share: float32 (n,), how much of the label is the record's own.

        Raises:
            ConfigError: a label is no number of a class.
        """
        if len(label) and not 0 <= label.min() <= label.max() < self.num_classes:
            raise ConfigError(
                f"a label is {label.max() if label.min() >= 0 else label.min()}, but "
                f"SoftLabels has num_classes={self.num_classes}"
            )
        soft = np.zeros((len(label), self.num_classes), dtype=np.float32)
        rows = np.arange(len(label))
        if label_b is None or share is None:
            soft[rows, label] = 1.0
        else:
            soft[rows, label] = share
            soft[rows, label_b] += 1.0 - share
        return soft * np.float32(1.0 - self.smoothing) + np.float32(
            self.smoothing / self.num_classes
        )
