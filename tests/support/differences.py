"""Differences of each transform from Pillow, or torchvision's formula, in pixel values.

They are measured on the CPU, on synthetic birds, given the same drawn numbers; the references are
those of the tests. This script writes both tables of docs/reference/transforms.md:

    python -m tests.support.differences
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpufeed
from gpufeed import Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.plan.view import narrowed
from gpufeed.rng import BatchRng
from gpufeed.tools.called import Called, call, purpose, signature
from gpufeed.tools.synth import write_nabirds
from gpufeed.transforms.operators.policy_layers import build_layer
from gpufeed.transforms.policy_layers import KINDS, NAMES, lay_out
from tests.support import colour_cases
from tests.support import colour_reference as on_levels
from tests.support import late_reference as late
from tests.support import turned_reference as turned
from tests.support.pillow_reference import reference
from tests.support.policy_reference import MOVES, operated
from tests.support.written import Document

DOCUMENT = Document(
    Path(__file__).parents[2] / "docs" / "reference" / "transforms.md",
    "python -m tests.support.differences",
)
BIRDS = 16
SEED = colour_cases.SEED
SIDE = 96
SQUARE, LEVELS = colour_cases.SQUARE, colour_cases.LEVELS
FILL = (10, 200, 30)

Levels = on_levels.Levels
Pairs = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Row:
    """A comparison and its differences, in pixel values.

    Attributes:
        call: the transform as a Python expression, or the name of a policy's operation.
        what: what the transform does, or the operation's values.
        mean: mean difference over all values of all images.
        largest: largest difference.
        share: share of values that differ, 0 to 1.
        remark: reason for the difference.
    """

    call: str
    what: str
    mean: float
    largest: float
    share: float
    remark: str = ""

    @staticmethod
    def of(call: str, what: str, pairs: Pairs, remark: str = "") -> Row:
        """Compare pairs of images, ours and theirs."""
        apart = np.concatenate(
            [np.abs(ours.astype(np.float64) - theirs).ravel() for ours, theirs in pairs]
        )
        figures = float(apart.mean()), float(apart.max()), float((apart > 0.25).mean())
        return Row(call, what, *figures, remark=remark)


def synthetic(folder: Path) -> Manifest:
    """Write synthetic birds and return their manifest."""
    written = write_nabirds(folder / "birds", images=BIRDS, max_side=320, progress=False)
    return gpufeed.read_nabirds(written)


# ------------------------------------------------------------------------------- geometry

ROUNDING = "both round twice, in different orders"
OVERSHOOT = "both round twice, in different orders, and clip where the filter overshoots"
EDGES = "rounds where Pillow truncates: 1; blends with the fill at the edges: more, only there"
BORDERS = "rounding of points on the border of two pixels"


def geometry() -> list[tuple[list[Called], str]]:
    """Return lists of transforms and reasons; each compares its first transform."""
    c = call
    fit = c(tf.CenterCrop, SIDE)
    return [
        ([c(tf.RandomResizedCrop, SIDE)], ROUNDING),
        ([c(tf.RandomResizedCrop, SIDE, interpolation="bicubic")], OVERSHOOT),
        ([c(tf.Resize, SIDE), fit], ROUNDING),
        ([c(tf.Resize, SIDE, "bicubic"), fit], OVERSHOOT),
        ([c(tf.ResizeLongest, SIDE), c(tf.PadToSquare, SIDE)], ROUNDING),
        ([c(tf.CenterCrop, 200)], ""),
        ([c(tf.RandomCrop, 100, pad_if_needed=True)], ""),
        ([c(tf.Pad, 9), c(tf.RandomCrop, 100)], ""),
        ([c(tf.PadToSquare, 320)], ""),
        ([c(tf.BoxCrop, 0.2), c(tf.Resize, (SIDE, SIDE))], ROUNDING),
        ([c(tf.RandomHorizontalFlip), fit], ""),
        ([c(tf.RandomVerticalFlip), fit], ""),
        ([c(tf.RandomIoUCrop), c(tf.Resize, (SIDE, SIDE))], ROUNDING),
        ([c(tf.RandomZoomOut, side_range=(1.0, 2.0)), fit], ""),
        ([c(tf.RandomResize, 100, 120), fit], ROUNDING),
        ([c(tf.RandomShortestSize, [100, 120]), fit], ROUNDING),
        ([c(tf.ScaleJitter, (SIDE, SIDE)), c(tf.RandomCrop, SIDE, pad_if_needed=True)], ROUNDING),
    ]


def moved_pairs(birds: Manifest, chain: list[tf.Transform], images: dict[int, Levels]) -> Pairs:
    boxes = birds.boxes()
    assert boxes is not None
    for key, path in enumerate(birds.frame["path"]):
        x, y, width, height = boxes[key].tolist()
        with Image.open(birds.root / path) as image:
            box = (x, y, x + width, y + height)
            yield images[key], reference(image, chain, seed=SEED, epoch=0, key=key, box=box)


def drawn_square(transform: tf.Transform, count: int, side: int = SIDE) -> Any:
    """Return what a transform draws after SQUARE, or a late one after LEVELS."""
    position = len(SQUARE) + isinstance(transform, tf.LateTransform | tf.MixTransform)
    keys, sides = np.arange(count), np.full(count, side)
    rng = BatchRng(SEED, np.zeros(count, np.int64), keys, position)
    return transform.draw(rng, tf.Records(keys, sides, sides, None))


def warp_rows(birds: Manifest, plain: dict[int, Levels]) -> Iterator[Row]:
    for how, why in (("nearest", BORDERS), ("bilinear", EDGES)):
        for each in (
            call(tf.RandomRotation, 30, how),
            call(tf.RandomAffine, 20, (0.1, 0.1), (0.8, 1.2), 10, how),
            call(tf.RandomPerspective, 0.5, 1.0, how),
        ):
            transform = each.made
            images = colour_cases.feed(birds, [*SQUARE, transform])
            p = drawn_square(transform, len(birds))

            def wanted(key: int, p: Any = p, transform: Any = transform, how: str = how) -> Levels:
                black = (0, 0, 0)
                match transform:
                    case tf.RandomRotation():
                        return turned.rotated(plain[key], p["angle"][key].item(), how, black)
                    case tf.RandomAffine():
                        middle = (SIDE / 2, SIDE / 2)
                        numbers = turned.affine_coefficients(p, key, middle)
                    case _:
                        numbers = turned.perspective_coefficients(p["corners"][key], SIDE, SIDE)
                return turned.mapped(plain[key], numbers, how, black)

            pairs = ((images[key], wanted(key)) for key in plain)
            yield Row.of(each.text, purpose(type(transform)), pairs, why)


# ------------------------------------------------------------------------------ pixel values

FLOAT = "float32 rounding across an integer"
REMARKS = {
    "ColorJitter(0": f"{FLOAT}, and its effect on later steps",
    "ColorJitter(b": "",
    "ColorJitter": FLOAT,
    "RandomGrayscale": "Pillow's weights have 16 bits",
    "RandomAutocontrast": "Pillow computes in float64",
    "RandomEqualize": "Pillow rounds down the pixels per value, which makes small images brighter",
    "RandomAdjustSharpness(2": "rounds where Pillow truncates",
    "GaussianBlur": "rounds after the rows, and again after the columns",
    "JPEG": "another version of the same encoder",
    "Gamma": FLOAT,
    "Contrast": FLOAT,
}


def level_rows(birds: Manifest, plain: dict[int, Levels]) -> Iterator[Row]:
    for text, case in colour_cases.CASES.items():
        images = colour_cases.feed(birds, [*SQUARE, case.transform])
        numbers = colour_cases.drawn(case.transform, len(birds))

        def wanted(key: int, case: Any = case, numbers: tf.Params = numbers) -> Levels:
            own = {name: row[key].tolist() for name, row in numbers.items()}
            return case.reference(plain[key], own)

        pairs = ((images[key], wanted(key)) for key in plain)
        why = next((why for start, why in REMARKS.items() if text.startswith(start)), "")
        shown = text if text.endswith(")") else f"{text}()"
        yield Row.of(shown, purpose(type(case.transform)), pairs, why)


# ------------------------------------------------------------------------------ policies

FACTOR = "a factor of {low:g} to {high:g}"
SPANS: dict[str, tuple[float, float, str]] = {
    **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), (0.05, 1.95, FACTOR)),
    "Posterize": (2, 8, "{low:g} to {high:g} bits"),
    "Solarize": (0, 255, "a threshold of {low:g} to {high:g}"),
    "SolarizeAdd": (0, 110, "an addend of {low:g} to {high:g}"),
    **dict.fromkeys(("ShearX", "ShearY"), (-0.3, 0.3, "a slope of {low:g} to {high:g}")),
    **dict.fromkeys(("TranslateX", "TranslateY"), (-43, 43, "{low:g} to {high:g} pixels")),
    "Rotate": (-30, 30, "{low:g} to {high:g} degrees"),
}
WHOLE = {"Posterize", "Solarize", "SolarizeAdd", "TranslateX", "TranslateY"}
OPERATION_REMARKS = {
    "Color": FLOAT,
    "Contrast": FLOAT,
    "Sharpness": REMARKS["RandomAdjustSharpness(2"],
    "AutoContrast": REMARKS["RandomAutocontrast"],
    "Equalize": REMARKS["RandomEqualize"],
}


def run(
    images: list[Levels], build: Callable[[Any, dict[str, Any]], Any], params: tf.Tree
) -> list[Levels]:
    """Run the part of a graph that `build` adds."""
    from nvidia.dali import Pipeline, fn

    from gpufeed.open.inputs import declare, feeds

    pipeline = Pipeline(len(images), 2, None, prefetch_queue_depth=1, exec_dynamic=True)
    with pipeline:
        image = fn.external_source(name="image", layout="HWC")
        pipeline.set_outputs(fn.copy(build(image, declare(params))))
    pipeline.build()
    pipeline.feed_input("image", images)
    for name, values in feeds(params).items():
        pipeline.feed_input(name, np.ascontiguousarray(values))
    out = pipeline.run()[0]
    return [np.array(out.at(row)) for row in range(len(images))]


def operation_rows(plain: dict[int, Levels]) -> Iterator[Row]:
    images = [plain[key] for key in sorted(plain)]
    count, sides = len(images), np.full(len(images), SIDE)
    for name in NAMES[1:]:
        low, high, said = SPANS.get(name, (0.0, 0.0, ""))
        values = np.linspace(low, high, count)
        values = np.rint(values) if name in WHOLE else values
        for how in ("nearest", "bilinear") if name in MOVES else ("nearest",):
            layer = lay_out(np.full((1, count), KINDS[name]), values[None], sides, sides)["0"]

            def build(image: Any, fed: Any, name: str = name, how: Any = how) -> Any:
                return build_layer(image, fed, [name], fill=(0, 0, 0), interpolation=how)

            found = run(images, build, layer)
            wanted = [
                operated(image, name, value, (0, 0, 0), how)
                for image, value in zip(images, layer["value"].tolist(), strict=True)
            ]
            what = said.format(low=low, high=high) + (f", {how}" if name in MOVES else "")
            why = OPERATION_REMARKS.get(name, "")
            if name in MOVES:
                why = EDGES if how == "bilinear" else BORDERS
            if name.startswith("Translate"):
                why = ""
            yield Row.of(name, what, zip(found, wanted, strict=True), why)


def policy_rows(plain: dict[int, Levels]) -> Iterator[Row]:
    images = [plain[key] for key in sorted(plain)]
    count = len(images)
    c = call
    for each in (
        c(tf.RandAugment),
        c(tf.TrivialAugmentWide),
        c(tf.AutoAugment),
        c(tf.AutoAugment, "cifar10"),
        c(tf.AutoAugment, "svhn"),
        c(tf.AugMix),
        c(tf.TimmRandAugment),
    ):
        policy = each.made
        params = narrowed(drawn_square(policy, count))
        found = run(images, policy.build, params)
        wanted = [policy_image(policy, image, params, i) for i, image in enumerate(images)]
        why = "differences of the drawn operations, in sequence"
        if isinstance(policy, tf.AugMix):
            why += ", times their shares"
        yield Row.of(each.text, purpose(type(policy)), zip(found, wanted, strict=True), why)


def policy_image(policy: Any, image: Levels, p: Any, row: int) -> Levels:
    """Return a policy's image by Pillow's operations, given the numbers of its layers."""
    fill = tuple(int(level) for level in policy.fill)
    layers = p.get("layers", p)

    def after(image: Levels, numbers: Sequence[int]) -> Levels:
        for layer in numbers:
            own = layers[str(layer)]
            name, value = NAMES[own["kind"][row]], own["value"][row].item()
            image = operated(image, name, value, fill, policy.interpolation)
        return image

    if not isinstance(policy, tf.AugMix):
        return after(image, range(len(layers)))
    deep = len(layers) // policy.mixture_width
    chains = [range(start, start + deep) for start in range(0, len(layers), deep)]
    parts = [image, *(after(image, chain) for chain in chains)]
    shares = [p["shares"][str(index)][row] / 2**23 for index in range(len(parts))]
    mixed = sum(share * part.astype(float) for share, part in zip(shares, parts, strict=True))
    return np.floor(mixed + 1e-9).astype(np.uint8)


# ------------------------------------------------------- output, late transforms, containers


def top_to_bottom(image: Levels) -> Levels:
    """An example of a user's function."""
    return image[::-1].copy()


def other_rows(birds: Manifest, plain: dict[int, Levels]) -> Iterator[Row]:
    keys = sorted(plain)
    stack = np.stack([plain[key] for key in keys])
    count, partner = len(keys), np.array(keys) ^ 1

    def fed(*chain: tf.Transform, views: Any = None) -> Any:
        listed = views or [*SQUARE, *chain]
        sampler = SequentialSampler(count, seed=SEED)
        options: dict[str, Any] = {"sampler": sampler, "batch_size": count, "device": "cpu"}
        with Loader(birds, transforms=listed, **options) as loader:
            images = loader.batch(0)["image"]
            return [np.array(each) for each in images] if views else np.array(images)

    for each in (call(tf.Normalize), call(tf.ToDtype, "float32", scale=True)):
        output = each.made
        made = fed(output).transpose(0, 2, 3, 1) * np.array(output.std) + output.mean
        yield Row.of(each.text, purpose(type(output)), iter([(made, stack)]))

    each = call(tf.RandomErasing, 1.0, value=(9, 99, 200))
    p = drawn_square(each.made, count)
    theirs = np.stack([late.erased(stack[i], i, p, each.made.value, LEVELS) for i in range(count)])
    yield Row.of(each.text, purpose(tf.RandomErasing), iter([(fed(LEVELS, each.made), theirs)]))
    for each in (call(tf.MixUp), call(tf.CutMix)):
        p, _ = drawn_square(each.made, count)
        theirs = late.mixed(each.made, stack, partner, p, LEVELS)
        pair = fed(LEVELS, each.made), theirs
        yield Row.of(each.text, purpose(type(each.made)), iter([pair]))

    blur, grey = call(tf.GaussianBlur, 5), call(tf.RandomGrayscale, 1.0)
    each = call(tf.RandomApply, [blur], 0.5)
    p = drawn_square(each.made, count)
    theirs = np.stack(
        [
            colour_cases.blurred(stack[i], {"across": p["parts"]["0"]["across"][i]}, (5, 5))
            if p["mask"][i]
            else stack[i]
            for i in range(count)
        ]
    )
    pair = fed(each.made, LEVELS), theirs
    yield Row.of(each.text, purpose(tf.RandomApply), iter([pair]), "as the transforms inside")
    each = call(tf.RandomChoice, [blur, grey])
    p = drawn_square(each.made, count)
    theirs = np.stack(
        [
            on_levels.grayscale(stack[i])
            if p["index"][i]
            else colour_cases.blurred(
                stack[i], {"across": p["choices"]["0"]["0"]["across"][i]}, (5, 5)
            )
            for i in range(count)
        ]
    )
    pair = fed(each.made, LEVELS), theirs
    yield Row.of(each.text, purpose(tf.RandomChoice), iter([pair]), "as the transforms inside")
    each = call(tf.Lambda, top_to_bottom)
    yield Row.of(each.text, purpose(tf.Lambda), iter([(fed(each.made, LEVELS), stack[:, ::-1])]))

    large, small = call(tf.RandomResizedCrop, SIDE), call(tf.RandomResizedCrop, 40)
    each = call(tf.Views, [[large], [small]])
    first, second = fed(views=tf.Views([[large.made, LEVELS], [small.made, LEVELS]]))
    pairs = [
        *moved_pairs(birds, [large.made], dict(enumerate(first))),
        # A transform's random numbers depend on how many come before it, in all views.
        *moved_pairs(birds, [LEVELS, LEVELS, small.made], dict(enumerate(second))),
    ]
    yield Row.of(each.text, purpose(tf.Views), iter(pairs), ROUNDING)
    for each in (call(tf.FiveCrop, 64), call(tf.TenCrop, 64)):
        crops = fed(views=[*SQUARE, each.made, LEVELS])
        end = SIDE - 64
        corners = [(0, 0), (0, end), (end, 0), (end, end), (end // 2, end // 2)]
        five = [
            [image[:, y : y + 64, x : x + 64] for y, x in corners]
            for image in (stack, stack[:, :, ::-1])
        ]
        theirs = [*five[0], *five[1]][: len(crops)]
        pairs = zip(crops, theirs, strict=True)
        why = "float32 positions in the resized image"
        yield Row.of(each.text, purpose(type(each.made)), pairs, why)


def measured(birds: Manifest) -> list[Row]:
    """Return all rows."""
    rows = []
    for chain, why in geometry():
        made = [each.made for each in chain]
        images = colour_cases.feed(birds, made)
        text = ", ".join(each.text for each in chain)
        rows.append(Row.of(text, purpose(type(made[0])), moved_pairs(birds, made, images), why))
    plain = colour_cases.feed(birds, SQUARE)
    rows += [
        *warp_rows(birds, plain),
        *level_rows(birds, plain),
        *policy_rows(plain),
        *operation_rows(plain),
        *other_rows(birds, plain),
    ]
    return rows


# ------------------------------------------------------------------------------ the document


def differences_table(rows: Sequence[Row]) -> str:
    lines = [
        "| | what it does | mean | largest | differing | why |",
        "|---|---|--:|--:|--:|---|",
    ]
    for row in rows:
        # Only digits that are the same on every machine.
        mean = f"{row.mean:.3f}" if row.mean >= 0.0005 else "0"
        largest = f"{row.largest:.0f}"
        share = f"{row.share:.1%}".replace("%", " %") if row.share >= 0.0005 else "0"
        if row.share and share == "0":
            share = "a few"
        why = row.remark if row.largest >= 0.5 else ""
        lines.append(f"| `{row.call}` | {row.what} | {mean} | {largest} | {share} | {why} |")
    return "\n".join(lines)


GROUPS = {
    "geometry, composed on the host": tf.GeometricTransform,
    "pixel values, in the graph": tf.PixelTransform,
    "output, in the graph": tf.OutputFormat,
    "after the output, in the graph": (tf.LateTransform, tf.MixTransform),
}
ABSTRACT = (
    tf.Transform,
    tf.GeometricTransform,
    tf.PixelTransform,
    tf.OutputFormat,
    tf.LateTransform,
    tf.MixTransform,
)


def kinds() -> list[type]:
    """Return all classes that a list of transforms may contain, `Views` and `Compose`."""
    found = [getattr(tf, name) for name in sorted(tf.__all__, key=str.casefold)]
    return [
        kind
        for kind in found
        if isinstance(kind, type)
        and kind not in ABSTRACT
        and (issubclass(kind, tf.Transform) or kind in (tf.Views, tf.Compose))
    ]


def listing() -> str:
    rest, lines = kinds(), []
    for title, base in GROUPS.items():
        own = [kind for kind in rest if issubclass(kind, base)]
        lines += [f"| **{title}** | |", *_listed(own)]
        rest = [kind for kind in rest if kind not in own]
    lines += ["| **lists and views** | |", *_listed(rest)]
    return "\n".join(["| | what it does |", "|---|---|", *lines])


def _listed(kinds: Sequence[type]) -> list[str]:
    def written(kind: type) -> str:
        return "Compose(transforms)" if kind is tf.Compose else signature(kind)

    return [f"| `{written(kind)}` | {purpose(kind)} |" for kind in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write reference/transforms.md.")
    parser.add_argument("--data", type=Path, help="print the differences on these images instead")
    options = parser.parse_args()
    if options.data is not None:
        from gpufeed.tools.resolve import open_manifest

        print(differences_table(measured(open_manifest(options.data))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        rows = measured(synthetic(Path(scratch)))
    DOCUMENT.write({"the list": listing(), "the differences": differences_table(rows)})
    for row in sorted(rows, key=lambda row: row.mean, reverse=True)[:10]:
        print(f"{row.mean:8.3f} {row.largest:5.0f} {row.share:7.1%}  {row.call}")


if __name__ == "__main__":
    main()
