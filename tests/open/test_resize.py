"""The resize of the CPU path, against exact arithmetic."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpufeed.open import resize
from gpufeed.open.resize import Region, Resizer, pillow_resize
from gpufeed.transforms.frame import Interpolation

WAYS = {"fast": Resizer().resize, "pillow": pillow_resize}


def kernel(x: npt.NDArray[np.float64], interpolation: Interpolation) -> npt.NDArray[np.float64]:
    """The triangle, and Keys' cubic convolution (1981) with a = -0.5."""
    x = np.abs(x)
    if interpolation == "bilinear":
        return np.maximum(1 - x, 0)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def weights(
    old: int, new: int, start: float, end: float, interpolation: Interpolation
) -> npt.NDArray[np.float64]:
    """The (new, old) matrix of one axis: a kernel as wide as the reduction, cut at the edges."""
    scale = (end - start) / new
    centre = start + (np.arange(new) + 0.5) * scale
    apart = (np.arange(old) + 0.5 - centre[:, None]) / max(scale, 1)
    weight = kernel(apart, interpolation)
    return weight / weight.sum(axis=1, keepdims=True)


def exact(
    pixels: npt.NDArray[np.uint8],
    size: tuple[int, int],
    interpolation: Interpolation,
    region: Region | None,
) -> npt.NDArray[np.float64]:
    y0, x0, y1, x1 = region or (0, 0, *pixels.shape[:2])
    down = weights(pixels.shape[0], size[0], y0, y1, interpolation)
    across = weights(pixels.shape[1], size[1], x0, x1, interpolation)
    return np.einsum("ij,jkc,lk->ilc", down, pixels.astype(np.float64), across)


sides = st.integers(1, 40)
parts = st.tuples(st.floats(0, 0.45), st.floats(0.55, 1))


@pytest.mark.parametrize("way", WAYS)
@given(
    st.tuples(sides, sides),
    st.tuples(sides, sides),
    st.none() | st.tuples(parts, parts),
    st.sampled_from(["bilinear", "bicubic"]),
    st.integers(0, 2**32 - 1),
)
@example((40, 3), (1, 40), None, "bilinear", 0)
@example((1, 1), (30, 30), ((0.25, 0.75), (0.0, 1.0)), "bicubic", 1)
@example((1, 36), (2, 33), ((0.0, 1.0), (0.0, 0.55)), "bicubic", 0)
@example((3, 25), (5, 18), ((0.0, 1.0), (0.45, 0.81)), "bicubic", 0)
def test_it_is_within_a_level_of_exact(way, old, new, cut, interpolation, seed) -> None:
    """Of images whose levels keep away from 0 and 255, where a cubic's overshoot is cut off."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(90, 165, (*old, 3), dtype=np.uint8)
    region = None
    if cut is not None:
        (top, bottom), (left, right) = cut
        region = (top * old[0], left * old[1], bottom * old[0], right * old[1])
    out = np.zeros((*new, 3), np.uint8)
    WAYS[way](pixels, interpolation, region, out)
    # Half a level for each of two roundings, of which a cubic may raise the first by a quarter.
    bound = 1.001 if interpolation == "bilinear" else 1.2
    assert np.abs(out - exact(pixels, new, interpolation, region)).max() <= bound


def test_it_writes_into_a_part_of_a_canvas() -> None:
    pixels = np.full((9, 7, 3), 50, np.uint8)
    canvas = np.full((20, 20, 3), 7, np.uint8)
    Resizer().resize(pixels, "bilinear", None, canvas[5:10, 6:16])
    assert (canvas[5:10, 6:16] == 50).all()
    assert (canvas == 7).sum() == (400 - 50) * 3


def test_without_a_fast_library_it_is_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (50, 60, 3), dtype=np.uint8)
    wanted, out = np.zeros((20, 20, 3), np.uint8), np.zeros((20, 20, 3), np.uint8)
    pillow_resize(pixels, "bicubic", (1.5, 2, 40, 50.25), wanted)
    monkeypatch.setattr(resize, "fir", None)
    Resizer().resize(pixels, "bicubic", (1.5, 2, 40, 50.25), out)
    np.testing.assert_array_equal(out, wanted)
