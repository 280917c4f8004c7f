"""Draws against torchvision itself, where it is installed: Kolmogorov and Smirnov's statistics.

What the rules of tests/support/torchvision_rules.py say is so found out, which the tests rest on:

    python -m tests.support.against_torchvision

With a torch without CUDA, torchvision may lack two operators; they are put there.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image

import gpufeed
from benchmarks.compare.peers.torch_loader import import_transforms
from gpufeed import transforms as tf
from gpufeed.rng import BatchRng
from gpufeed.transforms.policy_layers import NAMES
from tests.support.draw_cases import CASES, LIMIT, ours, statistic
from tests.support.torchvision_rules import BOXES, FACTORS, HEIGHT, WIDTH

v2 = import_transforms()

IMAGE = torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8)
Stats = dict[str, float]


def params(transform: Any) -> Callable[[], dict[str, Any]]:
    return lambda: transform.make_params([IMAGE])


def named(transform: Any, *names: str) -> Callable[[], Stats]:
    draw = params(transform)
    return lambda: {name: draw()[name] for name in names}


def sometimes(transform: Any, name: str = "chosen") -> Callable[[], Stats]:
    """Whether it is done: what it would do is counted."""
    done: list[None] = []
    kind = type("Counting", (type(transform),), {"make_params": lambda *_: done.append(None) or {}})
    transform.__class__ = kind
    transform.transform = lambda image, _: image

    def draw() -> Stats:
        done.clear()
        transform(IMAGE)
        return {name: bool(done)}

    return draw


def resized_crop() -> Stats:
    p = RESIZED.make_params([IMAGE])
    return {name: p[name] for name in ("top", "left", "height", "width")} | {
        "area": p["height"] * p["width"]
    }


RESIZED = v2.RandomResizedCrop(10)
CROP = v2.RandomCrop((100, 300), 3, pad_if_needed=True)
ROTATION = v2.RandomRotation(25)
AFFINE = v2.RandomAffine((10, 40), (0.1, 0.25), (0.5, 2), (-5, 15, 0, 3))
PERSPECTIVE = v2.RandomPerspective(0.5, 0.7)
ZOOM = v2.RandomZoomOut()
JITTER = v2.ColorJitter(0.4, 0.3, (0.5, 2.0), 0.1)
BLUR = v2.GaussianBlur(5)
ERASING = v2.RandomErasing(0.6)
MIXUP, CUTMIX = v2.MixUp(alpha=0.4, num_classes=3), v2.CutMix(num_classes=3)
IOU = v2.RandomIoUCrop()


def affine() -> Stats:
    p = AFFINE.make_params([IMAGE])
    (x, y), (shear_x, shear_y) = p["translate"], p["shear"]
    out = {"angle": p["angle"], "scale": p["scale"], "x": x, "y": y}
    return out | {"shear x": shear_x, "shear y": shear_y}


def perspective() -> Stats:
    """What its coefficients are made of, caught on the way."""
    functional = sys.modules["torchvision.transforms.v2._geometry"]
    found: list[Any] = []
    real = functional._get_perspective_coeffs
    functional._get_perspective_coeffs = lambda start, end: found.append(end) or real(start, end)
    PERSPECTIVE.make_params([IMAGE])
    functional._get_perspective_coeffs = real
    out: Stats = {"chosen": bool(torch.rand(1) < PERSPECTIVE.p)}
    for corner, (x, y) in enumerate(found[0]):
        out |= {f"x{corner}": x, f"y{corner}": y}
    return out


def zoom_out() -> Stats:
    names = ("left", "top", "right", "bottom")
    if torch.rand(1) >= ZOOM.p:
        return dict.fromkeys(names, 0)
    return dict(zip(names, ZOOM.make_params([IMAGE])["padding"], strict=True))


def resized(transform: Any) -> Callable[[], Stats]:
    draw = params(transform)
    return lambda: dict(zip(("height", "width"), draw()["size"], strict=True))


def random_resize() -> Stats:
    (size,) = v2.RandomResize(50, 90).make_params([IMAGE])["size"]
    short = min(HEIGHT, WIDTH)
    return {"height": size * HEIGHT // short, "width": size * WIDTH // short}


def iou_crop() -> Stats:
    from torchvision import tv_tensors

    boxes = tv_tensors.BoundingBoxes(
        torch.tensor(BOXES), format="XYXY", canvas_size=(HEIGHT, WIDTH)
    )
    p = IOU.make_params([IMAGE, boxes])
    whole = {"top": 0, "left": 0, "height": HEIGHT, "width": WIDTH}
    return {name: p[name] for name in whole} if p else whole


def jitter() -> Stats:
    p = JITTER.make_params([IMAGE])
    order = p["fn_idx"].tolist()
    out = {name: p[f"{name}_factor"] for name in FACTORS}
    return out | {f"{name} comes": order.index(place) for place, name in enumerate(FACTORS)}


def blot() -> Stats:
    none = dict.fromkeys(("height", "width", "top", "left", "area"), 0)
    if torch.rand(1) >= ERASING.p:
        return none
    p = ERASING.make_params([IMAGE])
    if p["v"] is None:
        return none
    out = {"height": p["h"], "width": p["w"], "top": p["i"], "left": p["j"]}
    return out | {"area": p["h"] * p["w"]}


def cutmix() -> Stats:
    p = CUTMIX.make_params([IMAGE])
    x1, y1, x2, y2 = p["box"]
    some = x2 > x1 and y2 > y1
    parts = {"width": some * (x2 - x1), "height": some * (y2 - y1), "left": some * x1}
    return {"lam": p["lam_adjusted"], **parts}


def chosen_of_three() -> Stats:
    made: list[int] = []
    parts = [
        v2.Lambda(lambda image, place=place: made.append(place) or image) for place in range(3)
    ]
    v2.RandomChoice(parts, p=[0.2, 0.5, 0.3])(IMAGE)
    return {"index": made[0]}


def applied() -> Stats:
    made: list[None] = []
    v2.RandomApply([v2.Lambda(lambda image: made.append(None) or image)], 0.3)(IMAGE)
    return {"mask": bool(made)}


REAL: dict[str, Callable[[], Stats]] = {
    "RandomResizedCrop": resized_crop,
    "RandomCrop": named(CROP, "top", "left"),
    "RandomHorizontalFlip": sometimes(v2.RandomHorizontalFlip(0.3), "flip"),
    "RandomVerticalFlip": sometimes(v2.RandomVerticalFlip(0.8), "flip"),
    "RandomRotation": named(ROTATION, "angle"),
    "RandomAffine": affine,
    "RandomPerspective": perspective,
    "RandomZoomOut": zoom_out,
    "ScaleJitter": resized(v2.ScaleJitter((500, 300))),
    "RandomResize": random_resize,
    "RandomShortestSize": resized(v2.RandomShortestSize([50, 60, 90], 110)),
    "RandomIoUCrop": iou_crop,
    "ColorJitter": jitter,
    "RandomGrayscale": sometimes(v2.RandomGrayscale()),
    "RandomInvert": sometimes(v2.RandomInvert()),
    "RandomPosterize": sometimes(v2.RandomPosterize(3, 0.7)),
    "RandomSolarize": sometimes(v2.RandomSolarize(9, 0.2)),
    "RandomAdjustSharpness": sometimes(v2.RandomAdjustSharpness(2)),
    "RandomAutocontrast": sometimes(v2.RandomAutocontrast(0.9)),
    "RandomEqualize": sometimes(v2.RandomEqualize(0.4)),
    "GaussianBlur": lambda: {"sigma": BLUR.make_params([IMAGE])["sigma"][0]},
    "JPEG": named(v2.JPEG((20, 90)), "quality"),
    "RandomApply": applied,
    "RandomChoice": chosen_of_three,
    "RandomErasing": blot,
    "MixUp": lambda: {"lam": MIXUP.make_params([IMAGE])["lam"]},
    "CutMix": cutmix,
}
SLOW = {"RandomIoUCrop", "RandomPerspective", "RandomAffine"}


# ----------------------------------------------------------------------------- policies


def operations(policy: Any, count: int) -> Iterator[tuple[tuple[str, float], ...]]:
    """What a policy does to each of some images, without doing it."""
    done: list[tuple[str, float]] = []

    def noted(image: Any, name: str, magnitude: float, **_: Any) -> Any:
        done.append((name, float(magnitude)))
        return image

    policy._apply_image_or_video_transform = noted
    for _ in range(count):
        done.clear()
        policy(IMAGE)
        yield tuple(done)


FACTORED = ("Brightness", "Color", "Contrast", "Sharpness")


def effect(name: str, magnitude: float) -> tuple[str, float]:
    """In gpufeed's terms: the value that the operation takes."""
    if name in FACTORED:
        magnitude = 1.0 + magnitude
    elif name.startswith("Translate"):
        magnitude = float(int(magnitude + (1e-4 if magnitude > 0 else -1e-4)))
    elif name == "Solarize":
        # Of a whole of 1 there; levels are whole, so a threshold does what its ceiling does.
        magnitude = float(np.ceil(round(255 * magnitude, 4)))
    elif name in ("Identity", "AutoContrast", "Equalize", "Invert"):
        magnitude = 0.0
    neutral = {**dict.fromkeys(FACTORED, 1.0), "Posterize": 8.0, "Solarize": 256.0}
    still = abs(magnitude - neutral.get(name, 0.0)) < 1e-5
    if name in ("AutoContrast", "Equalize", "Invert") or not still:
        return name, round(magnitude, 3)
    return "Identity", 0.0


POLICIES: dict[str, tuple[tf.PixelTransform, Any]] = {
    "RandAugment": (tf.RandAugment(), v2.RandAugment()),
    "TrivialAugmentWide": (tf.TrivialAugmentWide(), v2.TrivialAugmentWide()),
    **{
        f"AutoAugment, {name}": (
            tf.AutoAugment(name),  # type: ignore[arg-type]
            v2.AutoAugment(v2.AutoAugmentPolicy(name)),
        )
        for name in ("imagenet", "cifar10", "svhn")
    },
    "AugMix": (tf.AugMix(3, 1, 1), v2.AugMix(3, 1, 1)),
}


def compare_policy(name: str, count: int) -> tuple[float, int, list[Any]]:
    """Pearson's statistic of two samples, its freedom, and what only one of them did."""
    transform, real = POLICIES[name]
    keys, sides = np.arange(count), (np.full(count, HEIGHT), np.full(count, WIDTH))
    rng = BatchRng(5, np.zeros(count, np.int64), keys, 2)
    drawn: Any = transform.draw(rng, tf.Records(keys, *sides, None))
    layers = drawn.get("layers", drawn).values()
    mine: Counter[Any] = Counter()
    for row in range(count):
        done = [
            effect_of_ours(NAMES[layer["kind"][row]], float(layer["value"][row]))
            for layer in layers
        ]
        mine[tuple(each for each in done if each[0] != "Identity")] += 1
    theirs: Counter[Any] = Counter()
    for done in operations(real, count):
        kept = (effect(*each) for each in done)
        theirs[tuple(each for each in kept if each[0] != "Identity")] += 1
    common = [key for key in mine | theirs if mine[key] + theirs[key] >= 10]
    value = sum((mine[key] - theirs[key]) ** 2 / (mine[key] + theirs[key]) for key in common)
    alone = [key for key in common if not mine[key] or not theirs[key]]
    return float(value), len(common) - 1, alone


def effect_of_ours(name: str, value: float) -> tuple[str, float]:
    valued = name not in ("Identity", "AutoContrast", "Equalize", "Invert")
    return name, round(value, 3) if valued else 0.0


# --------------------------------------------------------------------- points and mixed labels

KEYPOINTS: dict[str, tuple[tf.Transform, Callable[[Any], Any]]] = {
    "Resize": (tf.Resize((90, 300)), lambda p: v2.functional.resize(p, [90, 300])),
    "CenterCrop": (tf.CenterCrop((50, 60)), lambda p: v2.functional.center_crop(p, [50, 60])),
    "Pad": (tf.Pad((1, 2, 3, 4)), lambda p: v2.functional.pad(p, [1, 2, 3, 4])),
    # torchvision flips x to width - 1 - x, as numbers of pixels; here it is width - x.
    "RandomHorizontalFlip": (
        tf.RandomHorizontalFlip(1.0),
        lambda p: v2.functional.horizontal_flip(p).as_subclass(torch.Tensor) + torch.tensor([1, 0]),
    ),
    "RandomRotation": (tf.RandomRotation((30, 30)), lambda p: v2.functional.rotate(p, 30)),
    "RandomAffine": (
        tf.RandomAffine((20, 20), scale=(1.2, 1.2), shear=(5, 5, 7, 7)),
        lambda p: v2.functional.affine(p, 20, [0, 0], 1.2, [5, 7]),
    ),
}
"""By name: a transform, and what torchvision makes of KeyPoints with the same numbers."""


def points_apart(transform: tf.Transform, real: Callable[[Any], Any]) -> float:
    """The largest distance between where both move some points, in pixels."""
    from torchvision import tv_tensors

    places = np.random.default_rng(0).uniform(0, 1, (1, 50, 2)) * (WIDTH, HEIGHT)
    image = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT)).save(image, "PNG")
    source = gpufeed.MemorySource([image.getvalue()])
    table = {"points": places.tolist()}
    manifest = gpufeed.read_table(table, label=None, points="points", source=source)
    with gpufeed.Loader(
        manifest, transforms=[transform], batch_size=1, targets=["points"], device="cpu"
    ) as loader:
        mine = loader.batch(0)["points"]
    moved = real(tv_tensors.KeyPoints(torch.from_numpy(places), canvas_size=(HEIGHT, WIDTH)))
    return float(np.abs(mine - moved.numpy()).max())


def labels_apart() -> float:
    """The largest difference of mixed labels of several classes from torchvision's."""
    hot = np.random.default_rng(1).integers(0, 2, (2, 9)).astype(np.float32)
    ours_ = tf.SoftLabels(9).of(hot, hot[::-1], np.full(2, 0.3, np.float32))
    real = MIXUP._mixup_label(torch.from_numpy(hot), lam=0.3)
    return float(np.abs(ours_ - real.numpy()).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", help="names, or parts of them")
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return not options.only or any(part in name for part in options.only)

    torch.manual_seed(3)
    print(f"{'transform':24} {'draws':>8}  statistic x root(n), of {LIMIT}")
    for name, draw in REAL.items():
        if not wanted(name):
            continue
        count = options.count // 5 if name in SLOW else options.count
        drawn = [draw() for _ in range(count)]
        mine = ours(name)
        assert mine.keys() == drawn[0].keys(), (name, mine.keys(), drawn[0].keys())
        found = {
            each: statistic(values, np.array([float(one[each]) for one in drawn]))
            for each, values in mine.items()
        }
        told = ", ".join(f"{each} {value:.2f}" for each, value in found.items())
        print(f"{name:24} {count:8,}  {told}{'' if max(found.values()) < LIMIT else '  <-- !'}")
    for name in filter(wanted, KEYPOINTS):
        print(f"{name:24} points {points_apart(*KEYPOINTS[name]):.1g} pixels apart")
    print(f"{'MixUp':24} labels of several classes {labels_apart():.1g} apart")
    missing = set(CASES) - set(REAL)
    print(f"not in torchvision: {', '.join(sorted(missing))}")
    for name in filter(wanted, POLICIES):
        count = options.count // 5
        value, freedom, alone = compare_policy(name, count)
        away = (value - freedom) / np.sqrt(2 * max(freedom, 1))
        print(
            f"{name:24} {count:8,}  chi-square {value:.0f} of {freedom} ({away:+.1f}) {alone or ''}"
        )


if __name__ == "__main__":
    main()
