"""Output formats: dtype, layout and normalisation of finished images."""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.transforms import arguments
from gpufeed.transforms.base import DType, Layout, OutputFormat

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "Normalize", "ToDtype"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_MAX_VALUE = 255.0


def _to_255(values: tuple[float, float, float]) -> tuple[float, float, float]:
    red, green, blue = values
    return red * _MAX_VALUE, green * _MAX_VALUE, blue * _MAX_VALUE


class Normalize(OutputFormat):
    """Scale values to 0..1, subtract `mean` and divide by `std`, channel by channel.

    Args:
        mean: one number or three (RGB), on the scale 0..1, at most 1; ImageNet's by default.
        std: one number or three (RGB), on the scale 0..1, above 0; ImageNet's by default.
        dtype: "float32", "float16", or "bfloat16" for torch and JAX.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """

    def __init__(
        self,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
        *,
        dtype: DType = "float32",
        layout: Layout | None = None,
    ) -> None:
        self._mean = arguments.check_triple("mean", mean)
        self._std = arguments.check_triple("std", std)
        if min(self._std) <= 0:
            raise ConfigError(f"std is {short(std)}; it must be above 0")
        for name, given, numbers in (("mean", mean, self._mean), ("std", std, self._std)):
            if max(numbers) > 1:
                raise ConfigError(
                    f"{name} is {short(given)}, but pixel values are scaled to 0..1 first; divide "
                    "mean and std by 255"
                )
        self.dtype = arguments.check_dtype(dtype)
        if self.dtype == "uint8":
            raise ConfigError(
                'dtype is "uint8", which Normalize cannot return; for pixel values as they are use '
                'ToDtype("uint8")'
            )
        self.layout = arguments.check_layout(layout)

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings as JSON values."""
        return {**super().identity, "mean": list(self._mean), "std": list(self._std)}

    @property
    def mean(self) -> tuple[float, float, float]:
        """Subtracted from each channel, on the scale 0..255."""
        return _to_255(self._mean)

    @property
    def std(self) -> tuple[float, float, float]:
        """Divides each channel after that, on the scale 0..255."""
        return _to_255(self._std)


class ToDtype(OutputFormat):
    """Return pixel values as they are, or scaled to 0..1.

    Args:
        dtype: "float32", "float16", "uint8", or "bfloat16" for torch and JAX.
        scale: divide by 255; not for "uint8".
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """

    def __init__(
        self, dtype: DType = "float32", scale: bool = False, *, layout: Layout | None = None
    ) -> None:
        self.dtype = arguments.check_dtype(dtype)
        self.scale = bool(scale)
        if self.scale and self.dtype == "uint8":
            raise ConfigError(
                'scale is True and dtype is "uint8", which cannot hold values from 0 to 1; use '
                '"float32" or "float16"'
            )
        self.layout = arguments.check_layout(layout)

    @property
    def mean(self) -> tuple[float, float, float]:
        """Zero: nothing is subtracted."""
        return (0.0, 0.0, 0.0)

    @property
    def std(self) -> tuple[float, float, float]:
        """255 if values are scaled, else 1."""
        return (_MAX_VALUE,) * 3 if self.scale else (1.0,) * 3
