"""One image of the synthetic set: a blurred background, a perch, the bird, and fine texture.

The scene is drawn at half size and enlarged; only the texture of the luminance has full resolution.
To a JPEG encoder this resembles a photograph, and it is fast.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from gpufeed.tools.synth.bird import Bird, Look, Parts, fit, paint
from gpufeed.tools.synth.layer import CIRCLE, Box, Color, Layer, blend, colors

__all__ = ["draw_image"]

_TILE = 1152  # the side of the largest image, plus room to move
_DEVIATION = 32  # standard deviation of a tile, in grey levels
_DARK, _PALE = colors("20261f e8eef0")
_BARK = colors("5c4838 786858 443a32 8e7050")

# The noise of each texture, as (grain width, grain height, weight).
_OCTAVES = {
    "leaves": ((1, 1, 3), (2, 2, 4), (5, 5, 5), (14, 14, 5), (40, 40, 4)),
    "grass": ((1, 1, 3), (1, 3, 4), (2, 9, 6), (5, 30, 4)),
    "water": ((1, 1, 3), (3, 1, 4), (10, 2, 6), (34, 5, 4)),
    "grain": ((1, 1, 4), (2, 2, 4)),
    "feathers": ((1, 1, 4), (4, 1, 6), (7, 3, 4)),
}


class _Place(NamedTuple):
    """A kind of background."""

    colors: list[Color]  # from top to bottom
    spots: list[Color]
    texture: str
    strength: float  # the texture's standard deviation in grey levels
    perch: str


class Drawn(NamedTuple):
    """A drawn image.

    Attributes:
        image: in mode YCbCr.
        parts: where the bird's parts are.
        mask: where the bird is, in mode 1.
    """

    image: Image.Image
    parts: Parts
    mask: Image.Image


_PLACES = [
    _Place(colors(place[0]), colors(place[1]), place[2], float(place[3]), place[4])
    for place in (
        ("6294ce 96bce0 cedee8", "e8eef2 b4cee6", "grain", 5, "branch"),
        ("60803e 466832 2c4826", "96b254 c4cc80 263e22 6c9246", "leaves", 11, "branch"),
        ("b2be94 98a258 707c3a", "c6be74 7e924c d6ce96", "grass", 11, "ground"),
        ("96aab6 68889c 4a6a80", "b0c2ca 5c7a8c", "water", 10, "water"),
        ("c4a26c 9e7042 62422c", "d69640 bc582e e2be74 5a3e2c", "leaves", 11, "branch"),
        ("bcc2cc ced0d4 dedee0", "eceef2 969ca4", "grain", 6, "branch"),
        ("cec4ac beae8e a08c6c", "d8ceb6 8e7c62", "leaves", 9, "ground"),
    )
]


def draw_image(seed: int, number: int, size: tuple[int, int], box: Box, look: Look) -> Drawn:
    """Draw one image.

    Args:
        seed: the set's seed.
        number: the image's number; with the seed and the look it determines every pixel.
        size: width and height in pixels, up to 1024.
        box: of the subject, within the image.
        look: what the subject's class looks like.

    Returns:
        The image with its annotations.
    """
    rng = np.random.default_rng([seed, 1, number])
    place = _PLACES[rng.integers(len(_PLACES))]
    bird = fit(look, box, rng)
    scene = _background(place, ((size[0] + 1) // 2, (size[1] + 1) // 2), rng)
    _perch(place, bird, size, rng).paste(scene)
    layer = paint(bird, look)
    layer.paste(scene)
    # The day's light: brightness, contrast and a tint.
    contrast, offset = rng.uniform(0.88, 1.12), 128 + rng.uniform(-16, 14)
    warmth = rng.uniform(-0.05, 0.07)
    levels = (np.arange(256) - 128) * contrast + offset
    gains = np.array([[1 + warmth], [1], [1 - warmth]])
    scene = scene.point(np.clip(levels * gains, 0, 255).astype(np.uint8).ravel().tolist())

    half = (0, 0, size[0] / 2, size[1] / 2)
    luminance, *hues = scene.convert("YCbCr").split()
    luminance = luminance.resize(size, Image.Resampling.BILINEAR, half)
    # The encoder halves the colour planes again, so the enlargement is not visible.
    hues = [plane.resize(size, Image.Resampling.NEAREST, half) for plane in hues]
    texture = _texture(place.texture, place.strength, size, rng)
    # Light falls from above.
    shade = Image.linear_gradient("L").point(lambda level: 160 - 0.35 * level).resize(box[2:])
    feathers = ImageChops.add(_texture("feathers", 9, box[2:], rng), shade, 1, -128)
    x, y = box[0] - layer.corner[0], box[1] - layer.corner[1]
    texture.paste(feathers, box[:2], layer.mask.crop((x, y, x + box[2], y + box[3])))
    luminance = ImageChops.add(luminance, texture, 1, -128)
    mask = Image.new("L", size)
    mask.paste(layer.mask, layer.corner)
    mask = mask.point(lambda opacity: 255 * (opacity > 127), "1")
    return Drawn(Image.merge("YCbCr", [luminance, *hues]), bird.parts, mask)


def _background(place: _Place, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Return a gradient with uneven light, and spots of colour far out of focus."""
    grid = np.repeat(np.linspace(0, 2, 5).round().astype(int), 6).reshape(5, 6)
    cells = np.array(place.colors)[grid] + rng.normal(0, 16, (5, 6, 1))
    cells = np.clip(cells + rng.normal(0, 4, (5, 6, 3)), 0, 255).astype(np.uint8)
    small = (size[0] // 4 + 1, size[1] // 4 + 1)
    image = Image.fromarray(cells).resize(small, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image, "RGBA")
    for _ in range(rng.integers(6, 28)):
        x, y = rng.uniform(0, 1, 2) * small
        radius = max(small) * rng.uniform(0.02, 0.11)
        color = (*place.spots[rng.integers(len(place.spots))], int(rng.integers(60, 190)))
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
    image = image.filter(ImageFilter.GaussianBlur(max(0.6, max(small) * rng.uniform(0.01, 0.032))))
    return image.resize(size, Image.Resampling.BILINEAR)


def _perch(place: _Place, bird: Bird, size: tuple[int, int], rng: np.random.Generator) -> Layer:
    """Return the layer that the bird stands on, at its feet, a little out of focus."""
    width, height = size
    feet = np.concatenate([bird.shapes["near toes"], bird.shapes["far toes"]])
    x, y = feet[:, 0].mean(), feet[:, 1].max()
    unit = bird.stroke
    top = max(0, int(y - 0.2 * width - 30 * unit))
    layer = Layer((0, top, width, height - top), place.colors[-1])

    def spot() -> Color:
        return place.spots[rng.integers(len(place.spots))]

    if place.perch == "branch":
        bark = _BARK[rng.integers(len(_BARK))]
        thick, slope = unit * rng.uniform(3, 6.5), rng.uniform(-0.16, 0.16)
        xs = np.array([-9, width / 4, x, width * 3 / 4, width + 9])
        xs.sort()
        ys = y + slope * (xs - x) + unit * rng.uniform(-2.5, 2.5, 5) * (xs != x)
        for _ in range(rng.integers(6)):
            at = rng.uniform(0, width)
            stem = np.array([at, np.interp(at, xs, ys) + thick / 2])
            tip = stem + unit * np.array([rng.uniform(-22, 22), rng.uniform(-26, -8)])
            layer.line([stem, tip], bark, thick / 3)
            for _ in range(3):  # buds
                bud = tip + unit * rng.uniform(-3, 3, 2)
                layer.polygon(bud + unit * CIRCLE * rng.uniform(0.8, 2.2, 2), spot())
        # Lit from above: a brighter line along the top, a darker one along the bottom.
        bright, dark = blend(bark, _PALE, 0.3), blend(bark, _DARK, 0.5)
        for down, color, share in ((0.5, bark, 1), (0.15, bright, 0.25), (0.88, dark, 0.25)):
            layer.line(np.stack([xs, ys + down * thick], axis=1), color, share * thick)
    elif place.perch == "ground":
        for step in (1, 0.7, 0.4):
            shade = CIRCLE * (14, 2.2) * unit * step + (x, y)
            layer.polygon(shade, _DARK, round(160 - 100 * step))
        for _ in range(60):
            root = np.array([rng.uniform(0, width), y + rng.uniform(0, 1.2) * max(4, height - y)])
            rise = unit * rng.uniform(4, 13)
            color = blend(spot(), _DARK, rng.uniform(0, 0.5))
            tip = root + rise * np.array([rng.uniform(-0.35, 0.35), -1])
            layer.line([root, tip], color, unit, 200)
    else:
        for _ in range(7):
            step, down = rng.uniform(0.5, 1.9), unit * rng.uniform(-0.5, 5)
            ring = CIRCLE * (14, 1.7) * unit * step + (x, y + down)
            layer.line(ring, _PALE, unit, int(rng.integers(60, 150)))
    return layer


def _texture(
    name: str, strength: float, size: tuple[int, int], rng: np.random.Generator
) -> Image.Image:
    """Return a random piece of a texture's tile, with 128 for no change."""
    x, y = rng.integers(0, _TILE + 1 - np.array(size)).tolist()
    piece = _tile(name).crop((x, y, x + size[0], y + size[1]))
    gain = strength * rng.uniform(0.8, 1.2) / _DEVIATION
    return piece.point(lambda level: (level - 128) * gain + 128)


@functools.cache
def _tile(name: str) -> Image.Image:
    """Return a square of texture, of grey levels around 128."""
    rng = np.random.default_rng(list(_OCTAVES).index(name))
    total = np.zeros((_TILE, _TILE))
    for across, down, weight in _OCTAVES[name]:
        noise = rng.integers(0, 256, (-(-_TILE // down), -(-_TILE // across)), dtype=np.uint8)
        layer = Image.fromarray(noise).resize((_TILE, _TILE), Image.Resampling.BILINEAR)
        total += weight * np.asarray(layer, dtype=np.float64)
    total = 128 + (total - total.mean()) * _DEVIATION / total.std()
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))
