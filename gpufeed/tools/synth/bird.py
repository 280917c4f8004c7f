"""The bird, whose shape and colours depend on the class, and whose pose depends on the image.

Coordinates are relative to the bird, facing right: x forward, y down, half the body's length is 1.
`fit` tilts the bird to suit a box and stretches it to fill the box.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import numpy.typing as npt

from gpufeed.tools.synth.layer import CIRCLE, Box, Color, Layer, blend, colors

__all__ = ["PART_NAMES", "Bird", "Look", "Parts", "draw_look", "fit", "paint"]

Points = npt.NDArray[np.float64]
Parts = tuple[tuple[int, int] | None, ...]
"""(x, y) of each of `PART_NAMES`, or None on the side that faces away."""

# The location of each part: the mean of some points of a shape.
_PARTS = {
    "bill": ("bill", slice(None)),
    "crown": ("face", slice(2, 3)),
    "nape": ("face", slice(4, 5)),
    "left eye": ("eye", slice(None)),
    "right eye": ("eye", slice(None)),
    "belly": ("trunk", slice(6, 7)),
    "breast": ("trunk", slice(7, 9)),
    "back": ("trunk", slice(0, 3)),
    "tail": ("tail", slice(None)),
    "left wing": ("wing", slice(None)),
    "right wing": ("wing", slice(None)),
}
PART_NAMES = tuple(_PARTS)

_DARK = colors(
    "2e3036 c44a2e 3a68a8 967654 d4a428 487642 8e949c 783e2c "
    "264a70 b02634 ded6c8 68567c 408a8c ce7e3a 5c544c 808e48"
)
_LIGHT = colors("ece8de e2be84 d6784a eed65c bcc2c8 96b0ca c4b098 acba82 dea8a0")
_BILLS = colors("2c2a2c e29e2c ba4e30 787c82")
_LEGS = colors("3a3634 ce8c3c a8544a 707460")
_INK, _PAPER = colors("141212 f6f6f2")
_PATTERNS = ("plain", "plain", "streaks", "spots", "bars")

# Each shape's points, and the frame that scales, turns and moves them.
_SHAPES = {
    "tail": ("tail", ".15,-.6 -.2,-.6 -1,-1 -1,.02 -.96,.9 -.2,.6 .15,.6"),
    "bill": ("bill", "0,-.6 .3,-.55 .65,-.36 1,.1 .6,.4 .3,.55 0,.6"),
    "gape": ("bill", "0,.05 .4,.06 .8,.1"),
    "crest": ("crest", ".45,-.7 -.1,-1.1 -1.05,-1.55 -.9,-.9 -.75,-.45"),
    "face": ("head", "1,-.05 .62,-.78 -.1,-1.02 -.8,-.62 -.98,.1"),
    "trunk": (
        "body",
        ".3,-.9 -.25,-.9 -.8,-.52 -1.12,-.18 -1.04,.22 -.55,.72 .05,.98 .62,.72 1,.04",
    ),
    "chin": ("head", ".55,.86 .95,.32"),
    "mantle": ("body", "1.3,-.6 .75,-.12 .1,.22 -.6,.2 -1.4,0 -1.6,-1.6 1.6,-2"),
    "hood": ("head", "1.4,.1 .6,.28 -.2,.5 -1,.75 -1.7,.2 -1.2,-1.4 .6,-1.6"),
    "throat": ("head", "1.3,.22 .5,.34 0,.66 .1,1.3 .9,1.25"),
    "stripe": ("head", ".9,-.12 .35,-.22 -.3,-.16 -.75,.06"),
    "wing": ("wing", ".46,-.34 .09,-.66 -.4,-.58 -1.05,-.1 -.78,.14 -.13,.42 .33,.28"),
    "tip": ("wing", "-.36,-.24 -1.05,-.1 -.78,.14 -.2,.26"),
    "fold": ("wing", ".2,.22 -.14,.3 -.72,.06"),
    "bar 0": ("wing", ".3,-.36 .24,-.02 .16,.27"),
    "bar 1": ("wing", ".12,-.42 .06,-.04 -.03,.3"),
    "neck": ("body", ".62,-.1"),
    "hips": ("body", "-.02,.62 .22,.62"),
}
_POINTS = {
    name: (frame, np.array([point.split(",") for point in points.split()], dtype=np.float64))
    for name, (frame, points) in _SHAPES.items()
}
_POINTS |= {
    "skull": ("head", 0.9 * CIRCLE),
    "ring": ("head", 0.25 * CIRCLE + (0.36, -0.22)),
    "eye": ("head", 0.17 * CIRCLE + (0.36, -0.22)),
    "glint": ("head", 0.06 * CIRCLE + (0.42, -0.28)),
}
_ON_BODY = ("mantle", "hood", "throat")
"""Shapes that are clipped to the body's outline; the rest of the body is the belly."""


@dataclasses.dataclass(frozen=True)
class Look:
    """The appearance of a class.

    Attributes:
        shape: proportions, in half body lengths, the same for all classes of a species.
        colors: the colours of the bird's parts.
        pattern: what the breast shows: "plain", "streaks", "spots" or "bars".
        bars: how many light bars cross the wing.
        face: what the eye lies in: "stripe", "ring" or "plain".
    """

    shape: dict[str, float]
    colors: dict[str, Color]
    pattern: str
    bars: int
    face: str

    @functools.cached_property
    def tilts(self) -> tuple[Points, Points]:
        """Tilts of the body in radians, and the bird's width over height at each."""
        tilts = np.radians(np.linspace(-6, 72, 14))
        extents = [np.ptp(_outer(_pose(self.shape, tilt, 0, 0)), axis=0) for tilt in tilts]
        return tilts, np.array([width / height for width, height in extents])


@dataclasses.dataclass(frozen=True)
class Bird:
    """One bird in its pose, in pixels of its image.

    Attributes:
        box: the box it fills.
        shapes: the polygons and lines to paint, by name.
        parts: where each of `PART_NAMES` is.
        stroke: the width of the thinnest lines.
    """

    box: Box
    shapes: dict[str, Points]
    parts: Parts
    stroke: float


def draw_look(seed: int, label: int, species: int) -> Look:
    """Draw the appearance of a class: its species decides the shape, the class the colours."""
    rng = np.random.default_rng([seed, 2, species])
    shape = {
        "depth": rng.uniform(0.46, 0.66),
        "head": rng.uniform(0.30, 0.40),
        "neck": rng.choice([0, 0, 0.05, 0.15, 0.3, 0.75]),
        "bill": rng.choice([0.28, 0.38, 0.5, 0.75, 1.1]) * rng.uniform(0.85, 1.15),
        "bill depth": rng.uniform(0.1, 0.2),
        "bend": rng.uniform(0, 1),
        "tail": rng.uniform(0.65, 1.45),
        "tail width": rng.uniform(0.14, 0.32),
        "leg": rng.uniform(0.35, 0.95),
        "crest": rng.choice([0, 0, 0, 0.3, 0.4]),
        "wing": rng.uniform(1, 1.3),
    }
    a, b, c = np.random.default_rng([seed, 3]).integers(0, 144, size=3).tolist()
    rng = np.random.default_rng([seed, 4, label])

    def pick(palette: list[Color]) -> Color:
        return palette[rng.integers(len(palette))]

    # Steps coprime to a list's length keep neighbouring classes far apart; the head's colours shift
    # by one in each round, so that colours combine differently.
    n, m = len(_DARK), len(_LIGHT)
    back = _DARK[(a + 5 * label) % n]
    head = _DARK[(b + 7 * label + label // n) % n]
    belly = _LIGHT[(c + 4 * label + label // m) % m]
    wing = blend(back, pick(_DARK), 0.55)
    return Look(
        shape=shape,
        colors={
            "mantle": back,
            "belly": belly,
            "hood": head,
            "crest": head,
            "throat": blend(belly, pick(_LIGHT), 0.6),
            "wing": wing,
            "tip": blend(wing, _INK, 0.6),
            "bar": blend(pick(_LIGHT), _PAPER, 0.5),
            "tail": blend(back, pick(_DARK), 0.4),
            "bill": pick(_BILLS),
            "leg": pick(_LEGS),
            "mark": blend(back, _INK, 0.5),
            "face": pick([_INK, _PAPER]),
        },
        pattern=str(rng.choice(_PATTERNS)),
        bars=int(rng.integers(3)),
        face=str(rng.choice(["plain", "stripe", "ring"])),
    )


def fit(look: Look, box: Box, rng: np.random.Generator) -> Bird:
    """Pose a bird so that it fills `box`, and stretch it as little as possible."""
    x, y, width, height = box
    flip = rng.random() < 0.5
    # The more upright a bird, the narrower it is.
    tilts, aspects = look.tilts
    tilt = tilts[np.abs(np.log(aspects * height / width)).argmin()]
    pose = _pose(look.shape, tilt, rng.uniform(-0.15, 0.2), rng.uniform(-0.2, 0.3))
    outer = _outer(pose)
    # A little inside the box: a line's width and the image's last pixel stay within.
    stroke = max(1.0, 0.012 * math.sqrt(width * height))
    inset = min(stroke, 0.08 * min(width, height))
    scale = (np.array([width, height]) - 2 * inset) / np.ptp(outer, axis=0)
    shift = np.array([x + inset, y + inset]) - outer.min(axis=0) * scale
    shapes = {name: points * scale + shift for name, points in pose.items()}
    if flip:
        shapes = {name: points * (-1, 1) + (2 * x + width, 0) for name, points in shapes.items()}
    # A bird that faces right turns its right side to the camera.
    hidden = "right" if flip else "left"
    parts: list[tuple[int, int] | None] = []
    for name, (shape, which) in _PARTS.items():
        across, down = shapes[shape][which].mean(axis=0)
        inside = int(min(across, x + width - 1)), int(min(down, y + height - 1))
        parts.append(None if name.startswith(hidden) else inside)
    return Bird(box, shapes, tuple(parts), stroke)


def _pose(shape: dict[str, float], tilt: float, nod: float, lift: float) -> dict[str, Points]:
    """Return all shapes of a bird with a tilted body; the head stays nearly level."""
    depth, neck, head = shape["depth"], shape["neck"], shape["head"]
    level = 0.25 * tilt + nod
    skull = _turn((0.88 + 0.3 * neck, -0.72 * depth - 0.16 - 0.95 * neck), tilt)
    beak = skull + _turn((0.86 * head, 0.02), level)
    frames: dict[str, tuple[tuple[float, float], float, Points]] = {
        "body": ((1, depth), tilt, np.zeros(2)),
        "wing": ((shape["wing"], depth), tilt, np.zeros(2)),
        "tail": ((shape["tail"], shape["tail width"]), tilt - lift, _turn((-0.9, 0), tilt)),
        "head": ((head, head), level, skull),
        "crest": ((shape["crest"], shape["crest"]), level, skull),
        "bill": ((shape["bill"], shape["bill depth"]), level, beak),
    }
    posed: dict[str, Points] = {}
    for name, (frame, points) in _POINTS.items():
        scale, angle, at = frames[frame]
        bend = np.array([0, shape["bend"]]) * points[:, :1] ** 2 * (frame == "bill")
        posed[name] = _turn((points + bend) * scale, angle) + at
    # The outline runs over the head, along the back, around the tail's root and up the breast.
    posed["body"] = _smooth(np.concatenate([posed["face"], posed["trunk"], posed["chin"]]))
    for name in (*_ON_BODY, "wing", "crest"):
        posed[name] = _smooth(posed[name])
    posed["neck"] = (posed["neck"] + skull) / 2 + 0.8 * head * CIRCLE
    ground = posed["body"][:, 1].max() + 0.75 * shape["leg"]
    for name, (x, y), step in zip(("near", "far"), posed.pop("hips"), (0.1, 0.16), strict=True):
        foot = x + step
        knee = ((x + foot) / 2 - 0.1, (y + ground) / 2 + 0.05)
        posed[f"{name} leg"] = np.array([(x, y), knee, (foot, ground)])
        toes = [(foot - 0.16, ground), (foot, ground - 0.04), (foot + 0.24, ground)]
        posed[f"{name} toes"] = np.array(toes)
    return posed


def _turn(points: npt.ArrayLike, radians: float) -> Points:
    """Rotate points about the origin; a positive angle lifts the front."""
    c, s = math.cos(radians), math.sin(radians)
    turned: Points = np.asarray(points) @ np.array([[c, -s], [s, c]])
    return turned


def _smooth(points: Points) -> Points:
    """Return a closed curve through the points (Catmull-Rom)."""
    p0, p1, p2, p3 = (np.roll(points, shift, axis=0)[:, None] for shift in (1, 0, -1, -2))
    t = np.arange(0, 1, 0.125)[:, None]
    cubic = 2 * p0 - 5 * p1 + 4 * p2 - p3 + t * (3 * (p1 - p2) + p3 - p0)
    return (p1 + t / 2 * (p2 - p0 + t * cubic)).reshape(-1, 2)


def _outer(pose: dict[str, Points]) -> Points:
    """Return the points that determine the bird's extent."""
    return np.concatenate([points for name, points in pose.items() if name not in _ON_BODY])


def paint(bird: Bird, look: Look) -> Layer:
    """Return a layer with the painted bird."""
    shapes, stroke, hues = bird.shapes, bird.stroke, look.colors
    layer = Layer(bird.box, hues["mantle"])
    for side in ("far", "near"):
        leg = blend(hues["leg"], _INK, 0.3 * (side == "far"))
        layer.line(shapes[f"{side} leg"], leg, 2.2 * stroke)
        layer.line(shapes[f"{side} toes"], leg, 2 * stroke)
    for name in ("tail", "bill", "crest"):
        layer.polygon(shapes[name], hues[name])

    plumage = _pattern(look, bird.box, 4.2 * stroke)
    for name in _ON_BODY:
        plumage.polygon(shapes[name], hues[name])
    body = Layer(bird.box, hues["mantle"])
    # Where an upright bird bends its neck the outline crosses itself and leaves a hole.
    for name in ("skull", "neck", "body"):
        body.polygon(shapes[name], hues["mantle"])
        layer.polygon(shapes[name], hues["mantle"])
    layer.color.paste(plumage.color, mask=body.mask)

    if look.face == "stripe":
        layer.line(shapes["stripe"], hues["face"], 2.6 * stroke)
    elif look.face == "ring":
        layer.polygon(shapes["ring"], hues["face"])
    layer.polygon(shapes["wing"] + (0, 2 * stroke), blend(hues["belly"], hues["mark"], 0.5))
    layer.polygon(shapes["wing"], hues["wing"])
    layer.polygon(shapes["tip"], hues["tip"])
    for bar in range(look.bars):
        layer.line(shapes[f"bar {bar}"], hues["bar"], 2.2 * stroke)
    layer.line(shapes["fold"], hues["tip"], 1.2 * stroke)
    layer.line(shapes["gape"], _INK, 0.5)
    layer.polygon(shapes["eye"], _INK)
    layer.polygon(shapes["glint"], _PAPER)
    return layer


def _pattern(look: Look, box: Box, step: float) -> Layer:
    """Return the belly's colour with the marks of its pattern, all over the box."""
    x, y, width, height = box
    layer = Layer(box, look.colors["belly"])
    if look.pattern == "plain":
        return layer
    mark = look.colors["mark"]
    for row, down in enumerate(np.arange(y, y + height, step)):
        if look.pattern == "bars":
            layer.line([(x, down), (x + width, down + step)], mark, step / 3)
            continue
        high = 0.16 if look.pattern == "spots" else 0.4
        for across in np.arange(x + row % 2 * step / 2, x + width, step):
            layer.polygon(step * CIRCLE[::4] * (0.16, high) + (across, down), mark)
    return layer
