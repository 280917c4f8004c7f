"""How images leave the graph: type, layout, normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed.errors import ConfigError
from gpufeed.transforms import checks
from gpufeed.transforms.base import DType, Layout, OutputFormat

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "Normalize", "ToDtype"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_TOP = 255.0


def _levels(values: tuple[float, float, float]) -> tuple[float, float, float]:
    red, green, blue = values
    return red * _TOP, green * _TOP, blue * _TOP


class Normalize(OutputFormat):
    """Scale levels to 0..1, subtract `mean` and divide by `std`, channel by channel.

    Args:
        mean: for red, green, blue, on the scale 0..1; ImageNet's by default.
        std: likewise, above 0.
        dtype: "float32" or "float16".
        layout: "NCHW" or "NHWC".
    """

    def __init__(
        self,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
        *,
        dtype: DType = "float32",
        layout: Layout = "NCHW",
    ) -> None:
        self._mean = checks.check_triple("mean", mean)
        self._std = checks.check_triple("std", std)
        if min(self._std) <= 0:
            raise ConfigError(f"std is {std!r}; it must be above 0")
        self.dtype = checks.check_dtype(dtype)
        if self.dtype == "uint8":
            raise ConfigError(
                'Normalize cannot give "uint8"; for untouched levels end with ToDtype("uint8")'
            )
        self.layout = checks.check_layout(layout)

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings."""
        return {**super().identity, "mean": list(self._mean), "std": list(self._std)}

    @property
    def mean(self) -> tuple[float, float, float]:
        """Subtracted from the channels' levels, on the scale 0..255."""
        return _levels(self._mean)

    @property
    def std(self) -> tuple[float, float, float]:
        """What the levels are then divided by, on the scale 0..255."""
        return _levels(self._std)


class ToDtype(OutputFormat):
    """Hand levels out as they are, or scaled to 0..1.

    Args:
        dtype: "float32", "float16" or "uint8".
        scale: divide by 255; not for "uint8".
        layout: "NCHW" or "NHWC".
    """

    def __init__(
        self, dtype: DType = "float32", scale: bool = False, *, layout: Layout = "NCHW"
    ) -> None:
        self.dtype = checks.check_dtype(dtype)
        self.scale = bool(scale)
        if self.scale and self.dtype == "uint8":
            raise ConfigError('scale is True; levels scaled to 0..1 do not fit in "uint8"')
        self.layout = checks.check_layout(layout)

    @property
    def mean(self) -> tuple[float, float, float]:
        """Nothing is subtracted."""
        return (0.0, 0.0, 0.0)

    @property
    def std(self) -> tuple[float, float, float]:
        """255 where levels are scaled, else 1."""
        return (_TOP,) * 3 if self.scale else (1.0,) * 3
