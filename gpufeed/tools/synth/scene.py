"""One picture of the synthetic set: a blurred background, a perch, the bird, and fine texture.

Most of a picture is drawn at half its size and enlarged, the background at a sixteenth; only the
luminance's texture has the full resolution. That is what photographs look like to a JPEG encoder,
and it is fast.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from gpufeed.tools.synth.bird import Bird, Look, fit, paint
from gpufeed.tools.synth.draws import Draws, Stream

__all__ = ["draw_picture"]

Box = tuple[int, int, int, int]
Color = tuple[int, int, int]
TextureName = Literal["leaves", "grass", "water", "grain", "feathers"]

_TILE = 1152  # the largest picture's side, and room to move
_UNIT_BITS = 6  # a tile's standard deviation is two to this power
_BRIGHTEST = 128  # how much light falls on the bird where it is brightest, in percent
_FEATHERS = 9.0  # standard deviation of the plumage's texture, in grey levels

# For each texture: how much noise of which grain, as (grain across, grain down, weight).
_OCTAVES: dict[TextureName, tuple[tuple[int, int, int], ...]] = {
    "leaves": ((1, 1, 3), (2, 2, 4), (5, 5, 5), (14, 14, 5), (40, 40, 4)),
    "grass": ((1, 1, 3), (1, 3, 4), (2, 9, 6), (5, 30, 4)),
    "water": ((1, 1, 3), (3, 1, 4), (10, 2, 6), (34, 5, 4)),
    "grain": ((1, 1, 4), (2, 2, 4)),
    "feathers": ((1, 1, 4), (4, 1, 6), (7, 3, 4)),
}


@dataclasses.dataclass(frozen=True)
class _Place:
    """A kind of background: its colours from top to bottom, and what it is made of."""

    colors: tuple[Color, ...]
    spots: tuple[Color, ...]
    texture: TextureName
    top: float  # the texture's standard deviation in grey levels, at the top and the bottom
    bottom: float
    perch: Literal["branch", "ground", "water"]


_PLACES: tuple[_Place, ...] = (
    _Place(
        ((98, 148, 206), (150, 188, 224), (206, 222, 232)),
        ((232, 238, 242), (180, 206, 230)),
        "grain",
        5.0,
        5.5,
        "branch",
    ),
    _Place(
        ((96, 128, 62), (70, 104, 50), (44, 72, 38)),
        ((150, 178, 84), (196, 204, 128), (38, 62, 34), (108, 146, 70)),
        "leaves",
        10.0,
        13.0,
        "branch",
    ),
    _Place(
        ((178, 190, 148), (152, 162, 88), (112, 124, 58)),
        ((198, 190, 116), (126, 146, 76), (214, 206, 150)),
        "grass",
        7.0,
        15.0,
        "ground",
    ),
    _Place(
        ((150, 170, 182), (104, 136, 156), (74, 106, 128)),
        ((176, 194, 202), (92, 122, 140)),
        "water",
        7.0,
        13.0,
        "water",
    ),
    _Place(
        ((196, 162, 108), (158, 112, 66), (98, 66, 44)),
        ((214, 150, 64), (188, 88, 46), (226, 190, 116), (90, 62, 44)),
        "leaves",
        9.0,
        13.0,
        "branch",
    ),
    _Place(
        ((188, 194, 204), (206, 208, 212), (222, 222, 224)),
        ((236, 238, 242), (150, 156, 164)),
        "grain",
        5.5,
        7.5,
        "branch",
    ),
    _Place(
        ((206, 196, 172), (190, 174, 142), (160, 140, 108)),
        ((216, 206, 182), (142, 124, 98)),
        "leaves",
        5.0,
        13.0,
        "ground",
    ),
)
_BARK: tuple[Color, ...] = ((92, 72, 56), (120, 104, 88), (68, 58, 50), (142, 112, 80))


def draw_picture(
    seed: int, number: int, size: tuple[int, int], box: Box, look: Look
) -> tuple[Image.Image, Bird]:
    """Draw one picture.

    Args:
        seed: the set's seed.
        number: the image's number; with the seed and the look it determines every pixel.
        size: width and height in pixels, up to 1024.
        box: x, y, width, height of the subject, within the picture.
        look: what the subject's class looks like.

    Returns:
        The picture, in mode YCbCr, and the bird that is in it.
    """
    draws = Draws(seed, Stream.PICTURE, number)
    place = draws.pick(_PLACES)
    bird = fit(look, box, draws)
    half = (max(1, (size[0] + 1) // 2), max(1, (size[1] + 1) // 2))
    light = _draw_light(draws)
    # Called RGB, since Pillow blends nothing else, but luminance and two colour planes from the
    # start: nothing of size is converted, and shade falls on the luminance alone.
    scene = _background(place, half, light, draws)
    _add_perch(scene, place, bird, light, draws)
    covered = _add_bird(scene, bird, look, box, size, light, draws)
    y, cb, cr = scene.split()
    fine = _texture(seed, place, size, covered, draws)
    fine += _double(np.asarray(y))[: size[1], : size[0]]
    np.clip(fine, 0, 255, out=fine)
    # The encoder halves the colour planes again, so how they are enlarged is not seen.
    planes = [plane.resize(size, Image.Resampling.NEAREST) for plane in (cb, cr)]
    picture = Image.merge("YCbCr", [Image.fromarray(fine.astype(np.uint8)), *planes])
    return picture, bird


def _background(
    place: _Place, size: tuple[int, int], light: list[int], draws: Draws
) -> Image.Image:
    """A gradient with uneven light, and spots of colour far out of focus."""
    rows, columns = 5, 6
    turns = np.array(place.colors, dtype=np.float64)
    at = np.linspace(0.0, len(turns) - 1.0, rows)
    grid = np.stack([np.interp(at, range(len(turns)), turns[:, c]) for c in range(3)], axis=-1)
    brightness = 16.0 * draws.bells(rows * columns).reshape(rows, columns, 1)
    hue = 4.0 * draws.bells(rows * columns * 3).reshape(rows, columns, 3)
    cells = np.clip(np.rint(grid[:, None, :] + brightness + hue), 0, 255).astype(np.uint8)
    small = (-(-size[0] // 8), -(-size[1] // 8))
    scene = Image.fromarray(cells).resize(small, Image.Resampling.BICUBIC)

    pen = ImageDraw.Draw(scene, "RGBA")
    unit = max(small)
    for _ in range(6 + draws.below(22)):
        x, y = draws.between(0.0, small[0]), draws.between(0.0, small[1])
        radius = unit * draws.between(0.02, 0.11)
        opacity = 60 + draws.below(130)
        color = (*draws.pick(place.spots), opacity)
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
    scene = scene.filter(ImageFilter.GaussianBlur(max(0.6, unit * draws.between(0.010, 0.032))))
    planes = scene.point(light).convert("YCbCr").split()
    large = _double(_double(np.stack([np.asarray(plane) for plane in planes])))
    scene = Image.merge("RGB", [Image.fromarray(plane) for plane in large])
    # So blurred a picture shows no steps of a pixel or two.
    part = (0.0, 0.0, size[0] / 2, size[1] / 2)
    return scene.resize(size, Image.Resampling.NEAREST, box=part)


def _add_perch(
    scene: Image.Image, place: _Place, bird: Bird, light: list[int], draws: Draws
) -> None:
    """What the bird stands on, through its feet; drawn at half the picture's size."""
    width, height = scene.size
    feet = np.concatenate([bird.outlines["toes_near"], bird.outlines["toes_far"]]) / 2
    foot_x, foot_y = float(feet[:, 0].mean()), float(feet[:, 1].max())
    unit = bird.stroke / 2
    pen = ImageDraw.Draw(scene, "RGBA")
    if place.perch == "branch":
        slope = draws.between(-0.16, 0.16)
        thick = unit * draws.between(3.0, 6.5)
        bark = draws.pick(_BARK)
        fill = _planes_of(bark, light)
        xs = [-4.0, width * 0.25, foot_x, width * 0.75, width + 4.0]
        xs.sort()
        upper, lower = [], []
        for x in xs:
            bow = 0.0 if x == foot_x else unit * draws.between(-2.5, 2.5)
            y = foot_y + slope * (x - foot_x) + bow
            upper.append((x, y))
            lower.append((x, y + thick * draws.between(0.8, 1.25)))
        pen.polygon(upper + lower[::-1], fill=fill)
        # Lit from above: a brighter line along the top, a darker one along the bottom.
        edge = max(1, int(thick / 4))
        bright, dark = (min(255, fill[0] + 38), *fill[1:]), (fill[0] * 5 // 9, *fill[1:])
        pen.line([(x, y + 0.12 * thick) for x, y in upper], fill=bright, width=edge)
        pen.line([(x, y - 0.1 * thick) for x, y in lower], fill=dark, width=edge)
        for _ in range(draws.below(5)):
            x = draws.between(0.0, width)
            y = foot_y + slope * (x - foot_x) + thick / 2
            tip = x + draws.between(-22, 22) * unit, y - draws.between(8, 26) * unit
            pen.line((x, y, *tip), fill=fill, width=max(1, int(thick / 3)))
        return
    # The shadow, or the reflection, lies flat on what is below the bird.
    span = 14 * unit
    if place.perch == "ground":
        base = _planes_of(place.colors[-1], light)
        pen.rectangle((0, foot_y - 0.5 * unit, width, height), fill=(*base, 120))
        for step, opacity in ((1.0, 60), (0.7, 70), (0.4, 80)):
            pen.ellipse(
                (
                    foot_x - span * step,
                    foot_y - 2.2 * unit * step,
                    foot_x + span * step,
                    foot_y + 2.2 * unit * step,
                ),
                fill=(34, 126, 130, opacity),
            )
        for _ in range(24):
            x, rise = draws.between(0.0, width), draws.between(4.0, 13.0) * unit
            y = foot_y + draws.between(0.0, 1.0) * max(4.0, height - foot_y)
            shade, *hue = _planes_of(draws.pick(place.spots), light)
            blade = (min(255, max(0, shade + draws.below(70) - 35)), *hue)
            lean = draws.between(-0.35, 0.35) * rise
            pen.line((x, y, x + lean, y - rise), fill=blade, width=max(1, int(unit)))
        return
    for _ in range(9):
        step, offset = draws.between(0.5, 1.9), draws.between(-0.5, 5.0) * unit
        ring = (
            foot_x - span * step,
            foot_y + offset - 1.6 * unit * step,
            foot_x + span * step,
            foot_y + offset + 1.6 * unit * step,
        )
        pen.ellipse(ring, outline=(234, 131, 124, 60 + draws.below(90)), width=max(1, int(unit)))


def _add_bird(
    scene: Image.Image,
    bird: Bird,
    look: Look,
    box: Box,
    size: tuple[int, int],
    light: list[int],
    draws: Draws,
) -> tuple[int, int, npt.NDArray[np.bool_]]:
    """Set the bird into the half-size scene; returns its mask in the picture, with its corner."""
    # The scene's pixels are two by two of the picture's, so the frame has even edges.
    left, top = box[0] // 2, box[1] // 2
    right, bottom = (box[0] + box[2] + 1) // 2, (box[1] + box[3] + 1) // 2
    frame = (2 * left, 2 * top, 2 * (right - left), 2 * (bottom - top))
    regions = paint(bird, look, frame)
    covered = np.asarray(regions) != 0
    mask = Image.fromarray(covered.view(np.uint8) * np.uint8(255)).reduce(2)
    # The colour planes need no soft edges: the encoder keeps them at half the size anyway.
    palette = [_planes_of(color, light) for color in look.palette]
    unused = [0] * (256 - len(palette))
    half = regions.resize((right - left, bottom - top), Image.Resampling.NEAREST)
    cb = half.point([color[1] for color in palette] + unused)
    cr = half.point([color[2] for color in palette] + unused)
    # Brighter than life, since the shade below only takes light away.
    bright = [min(255, color[0] * _BRIGHTEST // 100) for color in palette]
    y = regions.point(bright + unused).reduce(2)

    # Light falls from above and a little from one side.
    side = draws.between(-0.12, 0.12)
    rows = np.linspace(-1.0, 1.0, 12)[:, None]
    columns = np.linspace(-1.0, 1.0, 12)[None, :]
    share = (1.04 - 0.25 * rows + side * columns - 0.12 * rows * rows) * 100 / _BRIGHTEST
    cells = np.clip(np.rint(255.0 * share), 0, 255).astype(np.uint8)
    shade = Image.fromarray(cells).resize(y.size, Image.Resampling.BILINEAR)
    lit = ImageChops.multiply(y, shade)
    scene.paste(Image.merge("RGB", (lit, cb, cr)), (left, top), mask)
    return frame[0], frame[1], covered[: size[1] - frame[1], : size[0] - frame[0]]


def _draw_light(draws: Draws) -> list[int]:
    """The day's light, as a look-up table of three channels: brightness, contrast and a tint."""
    contrast = draws.between(0.88, 1.12)
    offset = 128.0 + draws.between(-16.0, 14.0)
    warmth = draws.between(-0.05, 0.07)
    levels = np.arange(256) - 128.0
    table: list[int] = []
    for gain in (1.0 + warmth, 1.0, 1.0 - warmth):
        channel = np.clip(np.rint((levels * contrast + offset) * gain), 0, 255)
        table += channel.astype(np.int64).tolist()
    return table


def _planes_of(color: Color, light: list[int]) -> Color:
    """A colour under the day's light, as luminance and the two colour planes of JPEG."""
    r, g, b = (light[256 * channel + value] for channel, value in enumerate(color))
    y = (77 * r + 150 * g + 29 * b + 128) >> 8
    cb = 128 + ((-43 * r - 85 * g + 128 * b + 128) >> 8)
    cr = 128 + ((128 * r - 107 * g - 21 * b + 128) >> 8)
    return min(y, 255), min(cb, 255), min(cr, 255)


def _texture(
    seed: int,
    place: _Place,
    size: tuple[int, int],
    covered: tuple[int, int, npt.NDArray[np.bool_]],
    draws: Draws,
) -> npt.NDArray[np.int16]:
    """What to add to each pixel's luminance: the place's texture, and plumage on the bird."""
    height = size[1]
    strength = draws.between(0.8, 1.2)
    rows = np.rint(np.linspace(place.top, place.bottom, height) * strength).astype(np.int16)
    fine: npt.NDArray[np.int16] = _cut(seed, place.texture, size, draws) * rows[:, None]
    fine >>= np.int16(_UNIT_BITS)
    x, y, mask = covered
    h, w = mask.shape
    plumage = _cut(seed, "feathers", (w, h), draws) * np.int16(_FEATHERS * strength)
    plumage >>= np.int16(_UNIT_BITS)
    np.copyto(fine[y : y + h, x : x + w], plumage, where=mask)
    return fine


def _double(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Twice as many rows and columns, each new pixel 3 parts the nearest and 1 part the next."""
    # Several times as fast as Pillow's resize, which knows no such special case.
    wide = image.astype(np.uint16)
    for axis in (-2, -1):
        source = np.moveaxis(wide, axis, 0)
        shape = list(wide.shape)
        shape[axis] *= 2
        wide = np.empty(shape, dtype=np.uint16)
        result = np.moveaxis(wide, axis, 0)
        tripled = source * np.uint16(3)
        np.add(tripled[1:], source[:-1], out=result[2::2])
        np.add(tripled[:-1], source[1:], out=result[1:-1:2])
        result[0], result[-1] = 4 * source[0], 4 * source[-1]
    wide += np.uint16(8)
    wide >>= np.uint16(4)
    return wide.astype(np.uint8)


def _cut(
    seed: int, name: TextureName, size: tuple[int, int], draws: Draws
) -> npt.NDArray[np.int16]:
    """A piece of a texture from anywhere in its tile, mirrored or not."""
    tile = _tile(seed, name)
    x, y = draws.below(_TILE - size[0] + 1), draws.below(_TILE - size[1] + 1)
    piece = tile[y : y + size[1], x : x + size[0]]
    return piece[:, ::-1] if draws.below(2) else piece


@functools.lru_cache(maxsize=10)
def _tile(seed: int, name: TextureName) -> npt.NDArray[np.int16]:
    """A square of texture with mean 0 and standard deviation `2**_UNIT_BITS`."""
    total = np.zeros((_TILE, _TILE), dtype=np.int16)
    draws = Draws(seed, Stream.TEXTURE, list(_OCTAVES).index(name))
    for across, down, weight in _OCTAVES[name]:
        shape = (-(-_TILE // down), -(-_TILE // across))
        count = shape[0] * shape[1]
        noise = draws.words(-(-count // 8)).astype("<u8").view(np.uint8)[:count].reshape(shape)
        layer = Image.fromarray(noise).resize((_TILE, _TILE), Image.Resampling.BILINEAR)
        total += np.asarray(layer) * np.int16(weight)
    # A part of the tile says well enough how strong all of it is.
    part = total[::4, ::4].astype(np.float64)
    scale = round(2.0 ** (_UNIT_BITS + 12) / float(part.std()))
    wide = (total.astype(np.int32) - round(float(part.mean()))) * np.int32(scale)
    wide >>= np.int32(12)
    tile = wide.astype(np.int16)
    tile.setflags(write=False)
    return tile
