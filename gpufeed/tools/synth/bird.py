"""The subject: a bird whose shape and colours tell its class, in a pose that belongs to the image.

All coordinates here are of the bird itself, facing right: x forward, y down, the body's half
length 1. `fit` turns it to suit a box and stretches it to fill it.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from gpufeed.tools.synth.draws import Draws, Stream

__all__ = ["PART_NAMES", "Bird", "Look", "draw_look", "fit", "paint"]

Points = npt.NDArray[np.float64]
Color = tuple[int, int, int]

PART_NAMES = (
    "bill",
    "crown",
    "nape",
    "left eye",
    "right eye",
    "belly",
    "breast",
    "back",
    "tail",
    "left wing",
    "right wing",
)

_DARK_PLUMAGE: tuple[Color, ...] = (
    (46, 48, 54),
    (196, 74, 46),
    (58, 104, 168),
    (150, 118, 84),
    (212, 164, 40),
    (72, 118, 66),
    (142, 148, 156),
    (120, 62, 44),
    (38, 74, 112),
    (176, 38, 52),
    (222, 214, 200),
    (104, 86, 124),
    (64, 138, 140),
    (206, 126, 58),
    (92, 84, 76),
    (128, 142, 72),
)
_LIGHT_PLUMAGE: tuple[Color, ...] = (
    (236, 232, 222),
    (226, 190, 132),
    (214, 120, 74),
    (238, 214, 92),
    (188, 194, 200),
    (150, 176, 202),
    (196, 176, 152),
    (172, 186, 130),
    (222, 168, 160),
)
_BILLS: tuple[Color, ...] = ((44, 42, 44), (226, 158, 44), (186, 78, 48), (120, 124, 130))
_LEGS: tuple[Color, ...] = ((58, 54, 52), (206, 140, 60), (168, 84, 74), (112, 116, 96))
_PATTERNS = ("plain", "streaks", "spots", "bars", "plain")

_TILTS = (-4.0, 20.0, 44.0, 70.0)  # of the body, in degrees

# The colours of a picture's subject, by the number each region is painted with.
(_EDGE, _BACK, _BELLY, _HEAD, _THROAT, _WING, _WING_TIP, _BAR, _TAIL, _BILL, _LEG, _EYE) = range(12)
(_GLINT, _MARK, _STRIPE) = range(12, 15)


@dataclasses.dataclass(frozen=True)
class Anatomy:
    """The shape of a species' birds, before any pose.

    Attributes:
        shape: proportions, in half body lengths.
        trunk: the points that turn with the body.
        face: the points that turn with the head.
        narrowness: minus width over height, at each of `_TILTS`; it never falls.
    """

    shape: dict[str, float]
    trunk: _Shapes
    face: _Shapes
    narrowness: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Look:
    """What all pictures of a class have in common.

    Attributes:
        anatomy: the shape, the same for all classes of a species.
        palette: a colour for each region.
        pattern: what the breast shows: "plain", "streaks", "spots" or "bars".
        wing_bars: how many light bars cross the wing.
        has_eye_stripe: whether a stripe runs through the eye.
    """

    anatomy: Anatomy
    palette: tuple[Color, ...]
    pattern: str
    wing_bars: int
    has_eye_stripe: bool


@dataclasses.dataclass(frozen=True)
class Bird:
    """One bird in its pose, in pixels of its picture.

    Attributes:
        outlines: the polygons and lines to paint, by name.
        parts: x, y of each of `PART_NAMES`, or None for the side that is turned away.
        stroke: the width of the thinnest lines.
    """

    outlines: dict[str, Points]
    parts: tuple[tuple[int, int] | None, ...]
    stroke: float


@functools.lru_cache(maxsize=1024)
def _draw_anatomy(seed: int, species: int) -> Anatomy:
    shape = Draws(seed, Stream.SPECIES_SHAPE, species)
    proportions = {
        "depth": shape.between(0.46, 0.66),
        "head": shape.between(0.30, 0.40),
        "neck": shape.pick((0.0, 0.0, 0.05, 0.15, 0.3, 0.75)),
        "bill": shape.pick((0.28, 0.38, 0.5, 0.75, 1.1)) * shape.between(0.85, 1.15),
        "bill_depth": shape.between(0.10, 0.2),
        "bill_bend": shape.between(-0.02, 0.16),
        "tail": shape.between(0.55, 1.35),
        "tail_width": shape.between(0.14, 0.32),
        "tail_fork": shape.pick((0.0, -0.08, 0.12, 0.3)),
        "leg": shape.between(0.35, 0.95),
        "crest": shape.pick((0.0, 0.0, 0.0, 0.3, 0.5)),
        "wing": shape.between(1.0, 1.3),
    }
    anatomy = Anatomy(proportions, _trunk(proportions), _face(proportions))
    narrowness: list[float] = []
    for tilt in _TILTS:
        low, high = _bounds(_pose(anatomy, tilt))
        width, height = (high - low).tolist()
        narrowness.append(max([-width / height, *narrowness]))
    return dataclasses.replace(anatomy, narrowness=tuple(narrowness))


def draw_look(seed: int, label: int, species: int) -> Look:
    """The look of one class: the species gives the shape, the class its colours."""
    start = Draws(seed, Stream.CLASS_LOOK)
    a, b, c = start.below(len(_DARK_PLUMAGE)), start.below(16), start.below(len(_LIGHT_PLUMAGE))
    draws = Draws(seed, Stream.CLASS_LOOK, label + 1)
    # Steps that share no factor with the list's length keep neighbouring classes far apart; the
    # head's turn of the list comes one later each round, so that colours pair up anew.
    n, m = len(_DARK_PLUMAGE), len(_LIGHT_PLUMAGE)
    back = _vary(_DARK_PLUMAGE[(a + 5 * label) % n], draws)
    head = _vary(_DARK_PLUMAGE[(b + 7 * label + label // n) % n], draws)
    belly = _vary(_LIGHT_PLUMAGE[(c + 4 * label + label // m) % m], draws)
    wing = _blend(back, draws.pick(_DARK_PLUMAGE), 0.55)
    light = draws.pick(_LIGHT_PLUMAGE)
    palette = {
        _EDGE: _blend(back, belly, 0.5),
        _BACK: back,
        _BELLY: belly,
        _HEAD: head,
        _THROAT: _blend(belly, draws.pick(_LIGHT_PLUMAGE), 0.6),
        _WING: wing,
        _WING_TIP: _blend(wing, (30, 30, 34), 0.6),
        _BAR: _blend(light, (245, 243, 236), 0.5),
        _TAIL: _blend(back, draws.pick(_DARK_PLUMAGE), 0.4),
        _BILL: draws.pick(_BILLS),
        _LEG: draws.pick(_LEGS),
        _EYE: (20, 18, 18),
        _GLINT: (246, 246, 246),
        _MARK: _blend(back, (48, 38, 32), 0.5),
        _STRIPE: draws.pick(((28, 28, 30), (240, 236, 226))),
    }
    return Look(
        anatomy=_draw_anatomy(seed, species),
        palette=tuple(palette[region] for region in range(len(palette))),
        pattern=draws.pick(_PATTERNS),
        wing_bars=draws.below(3),
        has_eye_stripe=draws.below(3) == 0,
    )


def fit(look: Look, box: tuple[int, int, int, int], draws: Draws) -> Bird:
    """Pose a bird so that it fills `box` (x, y, width, height), and stretch it as little as can be.

    Args:
        look: the class's look.
        box: where, in pixels of the picture; the tips of the bird touch all four sides.
        draws: the image's random numbers.
    """
    x, y, width, height = box
    flip = draws.below(2) == 1
    nod = draws.between(-0.15, 0.2)
    tail_lift = draws.between(-0.2, 0.3)
    # The more upright a bird, the narrower it is.
    tilt = float(np.interp(-width / height, look.anatomy.narrowness, _TILTS))
    outlines = _pose(look.anatomy, tilt, nod, tail_lift)
    low, high = _bounds(outlines)
    # A little inside the box: a line's width and the picture's last pixel stay within.
    stroke = max(1.0, 0.012 * math.sqrt(width * height))
    inset = min(stroke, 0.08 * min(width, height))
    scale = (np.array([width, height]) - 2 * inset) / (high - low)
    shift = np.array([x + inset, y + inset])

    placed = (np.concatenate(list(outlines.values())) - low) * scale + shift
    if flip:
        placed[:, 0] = 2 * x + width - placed[:, 0]
    # Rounded far finer than can be seen, but coarser than any two machines' cosines differ.
    placed = np.rint(placed * 64.0) / 64.0
    ends = np.cumsum([len(points) for points in outlines.values()])
    outlines = dict(zip(outlines, np.split(placed, ends[:-1]), strict=True))
    marks = np.floor(outlines["parts"]).astype(np.int64)
    marks[:, 0] = np.clip(marks[:, 0], x, x + width - 1)
    marks[:, 1] = np.clip(marks[:, 1], y, y + height - 1)
    # A bird that faces right turns its right side to the camera.
    hidden = {"right eye", "right wing"} if flip else {"left eye", "left wing"}
    parts = tuple(
        None if name in hidden else (px, py)
        for name, (px, py) in zip(PART_NAMES, marks.tolist(), strict=True)
    )
    return Bird(outlines=outlines, parts=parts, stroke=stroke)


def paint(bird: Bird, look: Look, frame: tuple[int, int, int, int]) -> Image.Image:
    """Paint the bird's regions, as places in the look's palette; 0 is outside the bird."""
    x, y, width, height = frame
    corner = np.array([x, y], dtype=np.float64)
    shapes = {name: (points - corner).ravel().tolist() for name, points in bird.outlines.items()}
    regions = Image.new("L", (width, height), 0)
    pen = ImageDraw.Draw(regions)
    thick = max(1, round(2.2 * bird.stroke))
    thin = max(1, round(1.2 * bird.stroke))
    for leg in ("leg_far", "leg_near"):
        pen.line(shapes[leg], fill=_LEG, width=thick, joint="curve")
    for toes in ("toes_far", "toes_near"):
        pen.line(shapes[toes], fill=_LEG, width=thick)
    pen.polygon(shapes["tail"], fill=_TAIL)
    pen.polygon(shapes["bill"], fill=_BILL)
    if "crest" in shapes:
        pen.polygon(shapes["crest"], fill=_HEAD)
    # Where an upright bird bends its neck the outline crosses itself and leaves a hole.
    for name in ("skull", "neck", "body"):
        pen.polygon(shapes[name], fill=_BACK)

    # What lies on the body is cut off at its outline.
    painted = np.array(regions)
    body = painted == _BACK

    def lay(points: Points, region: int) -> tuple[tuple[slice, slice], npt.NDArray[np.bool_]]:
        """Paint where the polygon lies on the body; returns the part looked at, and where."""
        low = np.clip(np.floor(points.min(axis=0)), 0, (width - 1, height - 1)).astype(int)
        high = np.clip(np.ceil(points.max(axis=0)), 0, (width - 1, height - 1)).astype(int) + 1
        part = np.s_[low[1] : high[1], low[0] : high[0]]
        mask = Image.new("L", (int(high[0] - low[0]), int(high[1] - low[1])), 0)
        ImageDraw.Draw(mask).polygon((points - low).ravel().tolist(), fill=1)
        hit = np.asarray(mask).view(np.bool_) & body[part]
        np.copyto(painted[part], np.uint8(region), where=hit)
        return part, hit

    part, under = lay(bird.outlines["under"] - corner, _BELLY)
    lay(bird.outlines["hood"] - corner, _HEAD)
    lay(bird.outlines["throat"] - corner, _THROAT)
    if look.pattern != "plain":
        pattern = _pattern(look.pattern, 3.2 * bird.stroke, under.shape)
        pattern &= under
        pattern &= painted[part] == _BELLY
        np.copyto(painted[part], np.uint8(_MARK), where=pattern)

    regions = Image.fromarray(painted)
    pen = ImageDraw.Draw(regions)
    if look.has_eye_stripe:
        pen.line(shapes["eye_stripe"], fill=_STRIPE, width=max(1, round(2.6 * bird.stroke)))
    pen.polygon(shapes["wing"], fill=_WING)
    pen.polygon(shapes["wing_tip"], fill=_WING_TIP)
    for bar in range(look.wing_bars):
        pen.line(shapes[f"wing_bar_{bar}"], fill=_BAR, width=thick)
    pen.line(shapes["wing_edge"], fill=_WING_TIP, width=thin)
    pen.line(shapes["bill_gap"], fill=_EYE, width=1)
    pen.polygon(shapes["eye"], fill=_EYE)
    pen.polygon(shapes["glint"], fill=_GLINT)
    return regions


def _vary(color: Color, draws: Draws) -> Color:
    r, g, b = (min(250, max(12, round(v + draws.between(-12, 12)))) for v in color)
    return r, g, b


def _blend(color: Color, other: Color, share: float) -> Color:
    r, g, b = (round(p + (q - p) * share) for p, q in zip(color, other, strict=True))
    return r, g, b


def _pattern(name: str, pitch: float, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """A regular pattern over a whole frame; its pitch is in pixels."""
    step = max(3, round(pitch))
    thick = max(1, step // 3)
    # Made for one period, then repeated: a remainder for every pixel would take far longer.
    rows = np.arange(4 * step)[:, None]
    columns = np.arange(6 * step)[None, :]
    if name == "bars":
        period = (rows + columns // 6) % step < thick
    else:
        # Every other pair of rows is moved by half a step.
        moved = (columns + (rows // (2 * step)) * (step // 2)) % step < thick
        broken = rows % (2 * step) < 2 * step - thick if name == "streaks" else rows % step <= thick
        period = moved & broken
    height, width = shape
    repeats = (-(-height // period.shape[0]), -(-width // period.shape[1]))
    return np.tile(period, repeats)[:height, :width]


def _ring(x: float, y: float, radius: float) -> list[tuple[float, float]]:
    return [
        (x + radius * math.cos(math.tau * i / 14), y + radius * math.sin(math.tau * i / 14))
        for i in range(14)
    ]


_NECK = np.array(_ring(0.0, 0.0, 0.8))
_CURVE_STEPS = 8


def _curves(closed: list[Points]) -> list[Points]:
    """A smooth curve through each of these closed rows of points (Catmull-Rom)."""
    around = [part for points in closed for part in (points[-1:], points, points[:2])]
    every = np.concatenate(around)[:, None, :]
    p0, p1, p2, p3 = every[:-3], every[1:-2], every[2:-1], every[3:]
    t = (np.arange(_CURVE_STEPS) / _CURVE_STEPS)[None, :, None]
    curve = 0.5 * (
        2 * p1
        + (p2 - p0) * t
        + (2 * p0 - 5 * p1 + 4 * p2 - p3) * (t * t)
        + (3 * p1 - p0 - 3 * p2 + p3) * (t * t * t)
    )
    # All were computed as one row; what lies between two of them is left out.
    result, start = [], 0
    for points in closed:
        result.append(curve[start : start + len(points)].reshape(-1, 2))
        start += len(points) + 3
    return result


def _turn(points: Points, radians: float, x: float = 0.0, y: float = 0.0) -> Points:
    """Turn the points about (x, y); a positive angle lifts what is in front."""
    c, s = math.cos(radians), math.sin(radians)
    dx, dy = points[:, 0] - x, points[:, 1] - y
    turned = np.empty_like(points)
    turned[:, 0] = c * dx + s * dy + x
    turned[:, 1] = c * dy - s * dx + y
    return turned


@dataclasses.dataclass(frozen=True)
class _Shapes:
    """Named rows of points in one array, so that all are turned at once."""

    points: Points
    places: dict[str, slice]

    @classmethod
    def of(cls, rows: dict[str, list[tuple[float, float]]]) -> _Shapes:
        places, start = {}, 0
        for name, row in rows.items():
            places[name] = slice(start, start + len(row))
            start += len(row)
        return cls(np.array([point for row in rows.values() for point in row]), places)

    def turned(self, radians: float) -> dict[str, Points]:
        points = _turn(self.points, radians)
        return {name: points[place] for name, place in self.places.items()}


def _trunk(shape: dict[str, float]) -> _Shapes:
    """What turns with the body."""
    d, neck, reach = shape["depth"], shape["neck"], shape["wing"]
    end, wide, fork = 1.0 + shape["tail"], shape["tail_width"], shape["tail_fork"]
    rows = {
        "outline": [
            (0.30 + 0.1 * neck, -0.90 * d - 0.12 * neck),
            (-0.25, -0.90 * d),
            (-0.80, -0.52 * d),
            (-1.12, -0.10),
            (-1.04, 0.12),
            (-0.55, 0.72 * d),
            (0.05, 0.98 * d),
            (0.62, 0.72 * d),
            (0.98, 0.02),
            (0.98 + 0.12 * neck, -0.45 * d - 0.3 * neck),
        ],
        "under": [
            (1.25, -0.55 * d),
            (0.72, -0.10 * d),
            (0.1, 0.22 * d),
            (-0.6, 0.20 * d),
            (-1.3, 0.02),
            (-1.2, 1.4 * d),
            (0.2, 1.6 * d),
            (1.5, 0.9 * d),
        ],
        "tail": [
            (-0.72, -0.3 * d),
            (-1.05, -0.13),
            (-end, -wide),
            (-end + fork, 0.02),
            (-end + 0.06, wide * 0.9),
            (-1.0, 0.14),
            (-0.7, 0.3 * d),
        ],
        "tail_root": [(-0.9, 0.0)],
        "wing": [
            (0.52, -0.34 * d),
            (0.10, -0.66 * d),
            (-0.45, -0.58 * d),
            (-0.35 - 0.72 * reach, -0.06),
            (-0.30 - 0.50 * reach, 0.14 * d),
            (-0.15, 0.42 * d),
            (0.38, 0.28 * d),
        ],
        "wing_tip": [
            (-0.42, -0.20 * d),
            (-0.37 - 0.74 * reach, -0.05),
            (-0.30 - 0.50 * reach, 0.16 * d),
            (-0.25, 0.24 * d),
        ],
        "wing_edge": [(0.3, 0.3 * d), (-0.2, 0.40 * d), (-0.30 - 0.50 * reach, 0.12 * d)],
        "wing_bar_0": [(0.34, -0.38 * d), (0.2, 0.30 * d)],
        "wing_bar_1": [(0.14, -0.38 * d), (-0.04, 0.30 * d)],
        "head": [(0.88 + 0.3 * neck, -(0.72 * d + 0.16 + 0.95 * neck))],
        "neck": [(0.62, -0.1 * d)],
        "hips": [(-0.02, 0.62 * d), (0.22, 0.62 * d)],
        "parts": [(-0.1, 0.8 * d), (0.75, 0.25 * d), (0.0, -0.8 * d)],
        "on_wing": [(-0.2, -0.1 * d)] * 2,
    }
    return _Shapes.of(rows)


def _face(shape: dict[str, float]) -> _Shapes:
    """What turns with the head, about the head's centre."""
    r = shape["head"]
    length, bend, thick = shape["bill"] / r, shape["bill_bend"], shape["bill_depth"] / r
    high = 1.0 + shape["crest"] / r
    rows = {
        "outline": [(1.0, -0.05), (0.62, -0.78), (-0.1, -1.02), (-0.8, -0.62), (-0.98, 0.1)],
        "chin": [(0.55, 0.86), (0.95, 0.32)],
        "skull": _ring(0.0, 0.0, 0.9),
        "hood": [
            (1.4, 0.1),
            (0.6, 0.28),
            (-0.2, 0.5),
            (-1.0, 0.75),
            (-1.7, 0.2),
            (-1.2, -1.4),
            (0.6, -1.6),
        ],
        "throat": [(1.3, 0.22), (0.5, 0.34), (0.0, 0.66), (0.1, 1.3), (0.9, 1.25)],
        "bill": [
            (0.86, -0.55 * thick),
            (0.95 + 0.55 * length, -0.42 * thick + 0.1 * bend * length),
            (0.95 + length, (0.12 + bend) * length * 0.8),
            (0.95 + 0.5 * length, 0.42 * thick + 0.2 * bend * length),
            (0.86, 0.6 * thick),
        ],
        "bill_gap": [(0.9, 0.05 * thick), (0.95 + 0.8 * length, 0.6 * bend * length)],
        "eye_stripe": [(0.9, -0.12), (0.35, -0.2), (-0.7, 0.02)],
        "eye": _ring(0.36, -0.22, 0.17),
        "glint": _ring(0.41, -0.28, 0.06),
        "crest": [(0.35, -0.85), (-0.55 * high, -0.9 * high), (-0.8, -0.5)],
        "parts": [(-0.05, -0.9), (-0.85, 0.0), (0.36, -0.22), (0.36, -0.22)],
    }
    if not shape["crest"]:
        del rows["crest"]
    return _Shapes.of({name: [(x * r, y * r) for x, y in row] for name, row in rows.items()})


def _pose(
    anatomy: Anatomy, degrees: float, nod: float = 0.0, tail_lift: float = 0.0
) -> dict[str, Points]:
    """All outlines of a bird whose body is tilted; the head stays nearly level."""
    tilt = math.radians(degrees)
    trunk = anatomy.trunk.turned(tilt)
    at = trunk.pop("head")
    face = {name: row + at for name, row in anatomy.face.turned(0.25 * tilt + nod).items()}
    root_x, root_y = trunk.pop("tail_root")[0].tolist()
    tail = trunk["tail"] = _turn(trunk["tail"], -tail_lift, root_x, root_y)
    # The outline runs over the head, along the back, around the tail's root and up the breast.
    body = np.concatenate([face.pop("outline"), trunk.pop("outline"), face.pop("chin")])
    parts = [
        (face["bill"][2:3] + face["bill"][:1]) / 2,
        face.pop("parts"),
        trunk.pop("parts"),
        (tail[2:3] + tail[4:5]) * 0.4 + tail[:1] * 0.2,
        trunk.pop("on_wing"),
    ]
    hips = trunk.pop("hips")
    trunk["neck"] = _NECK * anatomy.shape["head"] + (at + trunk["neck"]) / 2
    outlines = trunk | face | {"body": body}
    smooth = ("body", "under", "wing", "hood", "throat")
    outlines.update(zip(smooth, _curves([outlines[name] for name in smooth]), strict=True))

    ground = float(outlines["body"][:, 1].max()) + anatomy.shape["leg"] * 0.75
    for name, (x, y), step in zip(("near", "far"), hips.tolist(), (0.10, 0.16), strict=True):
        foot = x + step
        knee = ((x + foot) / 2 - 0.10, (y + ground) / 2 + 0.05)
        outlines[f"leg_{name}"] = np.array([(x, y), knee, (foot, ground)])
        outlines[f"toes_{name}"] = np.array([(foot - 0.16, ground), (foot + 0.24, ground)])
    outlines["parts"] = np.concatenate(parts)
    return outlines


# What the bird's extent is made of; all else lies on the body.
_EXTREMES = ("body", "tail", "bill", "crest", "wing", "wing_tip", "toes_near", "toes_far")


def _bounds(outlines: dict[str, Points]) -> tuple[Points, Points]:
    edges = [outlines[name] for name in _EXTREMES if name in outlines]
    every = np.concatenate(edges)
    return every.min(axis=0), every.max(axis=0)
