"""torchvision's sampling rules once more, many records at a time: what draws must be spread like.

Written from the sources of torchvision 0.29's `transforms.v2`, with NumPy's generators. Nothing of
gpufeed is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Drawn = dict[str, npt.NDArray[np.float64]]
Rng = np.random.Generator

HEIGHT, WIDTH = 180, 241
BOXES = np.array([[10, 20, 60, 90], [100, 30, 190, 140], [150, 5, 160, 25]])


def uniform(name: str, low: float, high: float) -> Callable[[Rng, int], Drawn]:
    return lambda rng, n: {name: rng.uniform(low, high, n)}


def chance(p: float, name: str = "chosen") -> Callable[[Rng, int], Drawn]:
    return lambda rng, n: {name: rng.random(n) < p}


def below(rng: Rng, bound: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Integers from 0 to less than each bound."""
    return rng.integers(0, bound)


def resized_crop(rng: Rng, n: int) -> Drawn:
    out = {name: np.zeros(n, int) for name in ("top", "left", "height", "width")}
    left = np.arange(n)
    for _ in range(10):
        area = HEIGHT * WIDTH * rng.uniform(0.08, 1.0, len(left))
        ratio = np.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3), len(left)))
        w, h = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
        fits = (w > 0) & (w <= WIDTH) & (h > 0) & (h <= HEIGHT)
        rows, w, h = left[fits], w[fits].astype(int), h[fits].astype(int)
        out["height"][rows], out["width"][rows] = h, w
        out["top"][rows] = below(rng, HEIGHT - h + 1)
        out["left"][rows] = below(rng, WIDTH - w + 1)
        left = left[~fits]
    # The image's own ratio is less than 0.01 beyond the bound.
    width = round(HEIGHT * 4 / 3)
    out["height"][left], out["width"][left] = HEIGHT, width
    out["left"][left] = (WIDTH - width) // 2
    return {**out, "area": out["height"] * out["width"]}


def crop(rng: Rng, n: int) -> Drawn:
    """100 x 300 with padding 3 and pad_if_needed."""
    missing = max(300 - (WIDTH + 6), 0)
    spare_y, spare_x = HEIGHT + 6 - 100, WIDTH + 6 + 2 * missing - 300
    return {"top": below(rng, np.full(n, spare_y + 1)), "left": below(rng, np.full(n, spare_x + 1))}


def affine(rng: Rng, n: int) -> Drawn:
    """(10, 40), (0.1, 0.25), (0.5, 2), (-5, 15, 0, 3)."""
    return {
        "angle": rng.uniform(10, 40, n),
        "x": np.rint(rng.uniform(-0.1 * WIDTH, 0.1 * WIDTH, n)),
        "y": np.rint(rng.uniform(-0.25 * HEIGHT, 0.25 * HEIGHT, n)),
        "scale": rng.uniform(0.5, 2, n),
        "shear x": rng.uniform(-5, 15, n),
        "shear y": rng.uniform(0, 3, n),
    }


def perspective(rng: Rng, n: int) -> Drawn:
    """Distorted by a half, with probability 0.7."""
    x, y = int(0.5 * (WIDTH // 2)), int(0.5 * (HEIGHT // 2))
    out: Drawn = {"chosen": rng.random(n) < 0.7}
    for corner, (right, bottom) in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
        out[f"x{corner}"] = rng.integers(
            WIDTH - x - 1 if right else 0, WIDTH if right else x + 1, n
        )
        top = HEIGHT - y - 1 if bottom else 0
        out[f"y{corner}"] = rng.integers(top, HEIGHT if bottom else y + 1, n)
    return out


def zoom_out(rng: Rng, n: int) -> Drawn:
    chosen, r, (x, y) = rng.random(n) < 0.5, 1 + 3 * rng.random(n), rng.random((2, n))
    more_x = chosen * ((WIDTH * r).astype(int) - WIDTH)
    more_y = chosen * ((HEIGHT * r).astype(int) - HEIGHT)
    left, top = (more_x * x).astype(int), (more_y * y).astype(int)
    return {"left": left, "top": top, "right": more_x - left, "bottom": more_y - top}


def scale_jitter(rng: Rng, n: int) -> Drawn:
    """To (500, 300)."""
    r = min(300 / HEIGHT, 500 / WIDTH) * rng.uniform(0.1, 2.0, n)
    return {"height": (HEIGHT * r).astype(int), "width": (WIDTH * r).astype(int)}


def resize(rng: Rng, n: int) -> Drawn:
    """50 to 89."""
    r, short = 50 + below(rng, np.full(n, 40)), min(HEIGHT, WIDTH)
    return {"height": r * HEIGHT // short, "width": r * WIDTH // short}


def shortest_size(rng: Rng, n: int) -> Drawn:
    """50, 60 or 90, of at most 110."""
    r = np.array([50, 60, 90])[below(rng, np.full(n, 3))] / min(HEIGHT, WIDTH)
    r = np.minimum(r, 110 / max(HEIGHT, WIDTH))
    return {"height": (HEIGHT * r).astype(int), "width": (WIDTH * r).astype(int)}


def iou_crop(rng: Rng, n: int) -> Drawn:
    """Around `BOXES`: trial after trial, for all that have no window yet."""
    window = np.tile([0, 0, HEIGHT, WIDTH], (n, 1))
    left = np.arange(n)
    while len(left):
        least = rng.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0], len(left))
        left, least = left[least < 1], least[least < 1]
        for _ in range(40):
            unit = rng.random((4, len(left)))
            w, h = (
                (side * (0.3 + 0.7 * u)).astype(int)
                for side, u in ((WIDTH, unit[0]), (HEIGHT, unit[1]))
            )
            x, y = ((WIDTH - w) * unit[2]).astype(int), ((HEIGHT - h) * unit[3]).astype(int)
            best = np.full(len(left), -1.0)
            for x0, y0, x1, y1 in BOXES:
                inside = (x < (x0 + x1) / 2) & ((x0 + x1) / 2 < x + w)
                inside &= (y < (y0 + y1) / 2) & ((y0 + y1) / 2 < y + h)
                across = np.clip(np.minimum(x1, x + w) - np.maximum(x0, x), 0, None)
                common = across * np.clip(np.minimum(y1, y + h) - np.maximum(y0, y), 0, None)
                iou = common / ((x1 - x0) * (y1 - y0) + w * h - common)
                best = np.maximum(best, np.where(inside, iou, -1))
            found = (best >= least) & (best >= 0) & (w / h >= 0.5) & (w / h <= 2)
            window[left[found]] = np.stack([y, x, h, w], axis=1)[found]
            left, least = left[~found], least[~found]
    return dict(zip(("top", "left", "height", "width"), window.T, strict=True))


FACTORS = {
    "brightness": (0.6, 1.4),
    "contrast": (0.7, 1.3),
    "saturation": (0.5, 2.0),
    "hue": (-0.1, 0.1),
}


def color_jitter(rng: Rng, n: int) -> Drawn:
    """Factors, and the place of each operation in the order."""
    out: Drawn = {name: rng.uniform(*bounds, n) for name, bounds in FACTORS.items()}
    order = rng.permuted(np.tile(np.arange(4), (n, 1)), axis=1)
    return out | {f"{name} comes": order[:, i] for i, name in enumerate(FACTORS)}


def qualities(rng: Rng, n: int) -> Drawn:
    return {"quality": rng.integers(20, 91, n)}


def erasing(rng: Rng, n: int) -> Drawn:
    """With probability 0.6; nothing where ten attempts do not fit."""
    out = {name: np.zeros(n, int) for name in ("height", "width", "top", "left")}
    left = np.flatnonzero(rng.random(n) < 0.6)
    for _ in range(10):
        area = HEIGHT * WIDTH * rng.uniform(0.02, 0.33, len(left))
        ratio = np.exp(rng.uniform(math.log(0.3), math.log(3.3), len(left)))
        h, w = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
        fits = (h < HEIGHT) & (w < WIDTH)
        rows, h, w = left[fits], h[fits].astype(int), w[fits].astype(int)
        out["height"][rows], out["width"][rows] = h, w
        out["top"][rows] = below(rng, HEIGHT - h + 1)
        out["left"][rows] = below(rng, WIDTH - w + 1)
        left = left[~fits]
    return {**out, "area": out["height"] * out["width"]}


def mixup(rng: Rng, n: int) -> Drawn:
    return {"lam": rng.beta(0.4, 0.4, n)}


def cutmix(rng: Rng, n: int) -> Drawn:
    lam = rng.beta(1.0, 1.0, n)
    x, y = rng.integers(0, WIDTH, n), rng.integers(0, HEIGHT, n)
    half = 0.5 * np.sqrt(1.0 - lam)
    w, h = (half * WIDTH).astype(int), (half * HEIGHT).astype(int)
    x1, x2 = np.maximum(x - w, 0), np.minimum(x + w, WIDTH)
    y1, y2 = np.maximum(y - h, 0), np.minimum(y + h, HEIGHT)
    kept = 1.0 - (x2 - x1) * (y2 - y1) / (WIDTH * HEIGHT)
    # Where the rectangle is empty it does not matter where.
    some = (x2 > x1) & (y2 > y1)
    return {"lam": kept, "width": some * (x2 - x1), "height": some * (y2 - y1), "left": some * x1}


def choice(rng: Rng, n: int) -> Drawn:
    return {"index": rng.choice(3, n, p=[0.2, 0.5, 0.3])}
