"""Policies: each operation against Pillow's, draws against torchvision's and timm's rules."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nvidia.dali import Pipeline, fn
from nvidia.dali.auto_aug import auto_augment
from PIL import Image

from gpufeed import ConfigError, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed._util.identity import encode
from gpufeed.open.inputs import declare, feeds
from gpufeed.plan.view import narrowed
from gpufeed.rng import BatchRng
from gpufeed.tools.rebuild import rebuild_transforms
from gpufeed.transforms import policies
from gpufeed.transforms.operators import policy_layers
from gpufeed.transforms.policy_layers import NAMES
from tests.support.media import picture
from tests.support.policy_reference import MOVES, from_inside, operated

FILL = (10, 200, 30)
SYNTHETIC = [np.asarray(picture(h, w, seed=h)) for h, w in ((64, 80), (97, 41), (90, 90))] * 20

POLICIES: dict[str, tf.PixelTransform] = {
    "RandAugment": tf.RandAugment(3, 17, fill=FILL),
    "RandAugment, bilinear": tf.RandAugment(2, 9, interpolation="bilinear", fill=FILL),
    "TrivialAugmentWide": tf.TrivialAugmentWide(fill=FILL),
    "AutoAugment, imagenet": tf.AutoAugment(fill=FILL),
    "AutoAugment, cifar10": tf.AutoAugment("cifar10", fill=FILL),
    "AutoAugment, svhn": tf.AutoAugment("svhn", interpolation="bilinear", fill=FILL),
    "AugMix": tf.AugMix(fill=FILL),
    "AugMix, severe": tf.AugMix(10, 2, 2, 0.3, all_ops=False, fill=FILL),
    "timm": tf.TimmRandAugment(fill=FILL),
    "timm, plain": tf.TimmRandAugment("rand-m7-n3-p0.9-mstd101", "nearest", fill=FILL),
}


@pytest.fixture(scope="module")
def photos(small_photos: Path) -> list[np.ndarray]:
    """Some of the real photos, as training sees them."""
    names = sorted(small_photos.iterdir())
    return [np.asarray(Image.open(name).resize((128, 112))) for name in names]


def numbers(n: int, seed: int = 0) -> BatchRng:
    return BatchRng(seed, np.zeros(n, np.int64), np.arange(n), 3)


def layers_of(params: Any) -> list[Any]:
    """What was drawn for each layer, in order."""
    layers = params.get("layers", params)
    return [layers[str(number)] for number in range(len(layers))]


def sized(n: int, height: Any = 224, width: Any = 224) -> tf.Records:
    height, width = (np.broadcast_to(np.asarray(side), n) for side in (height, width))
    return tf.Records(np.arange(n), height, width, None)


# ------------------------------------------------------------ pixels, against Pillow

LARGEST = {"Color": 1, "Contrast": 1, "Brightness": 1, "Sharpness": 1, "AutoContrast": 1}
"""The most levels that an operation's result may be off by; 0 for all others that move nothing."""
MISSED = 0.01
"""The share of pixels that may come from a neighbour, where places are rounded."""


def equalize_slack(given: np.ndarray, found: np.ndarray) -> np.ndarray:
    """By what Equalize may be off: Pillow counts in whole pixels a level, cutting off a share."""
    slack = np.empty(found.shape)
    for channel in range(3):
        counts = np.bincount(given[..., channel].ravel(), minlength=256)
        spread = counts.sum() - counts[counts.nonzero()[0][-1]]
        step = spread // 255
        slack[..., channel] = 1.5 + found[..., channel] * (spread / (255 * step) - 1 if step else 1)
    return slack


def watched(
    policy: tf.PixelTransform, images: list[np.ndarray], patch: pytest.MonkeyPatch
) -> tuple[tf.Tree, list[tuple[list[np.ndarray], list[np.ndarray]]], list[np.ndarray]]:
    """What was drawn, what each layer got and gave, and what came of it all."""
    n = len(images)
    records = sized(n, [len(image) for image in images], [image.shape[1] for image in images])
    params = narrowed(policy.draw(numbers(n), records))
    seen: list[Any] = []
    real = policy_layers.build_layer

    def watching(image: Any, *rest: Any, **named: Any) -> Any:
        out = real(image, *rest, **named)
        seen.extend([fn.copy(image), out])
        return out

    patch.setattr(policy_layers, "build_layer", watching)
    pipeline = Pipeline(
        batch_size=n, num_threads=2, device_id=None, prefetch_queue_depth=1, exec_dynamic=True
    )
    with pipeline:
        image = fn.external_source(name="image", layout="HWC")
        fed = declare(params)
        result = policy.build(image, fed)
        pipeline.set_outputs(*seen, fn.copy(result))
    pipeline.build()
    pipeline.feed_input("image", images)
    for name, drawn in feeds(params).items():
        pipeline.feed_input(name, drawn)
    *layers, result = [[np.array(out.at(place)) for place in range(n)] for out in pipeline.run()]
    return params, list(zip(layers[::2], layers[1::2], strict=True)), result


def check_operation(
    given: np.ndarray, found: np.ndarray, name: str, value: float, how: str
) -> None:
    wanted = operated(given, name, value, FILL, how)
    away = np.abs(found.astype(int) - wanted)
    if name == "Equalize":
        assert (away <= equalize_slack(given, found)).all()
    elif name not in MOVES:
        assert away.max() <= LARGEST.get(name, 0), f"{name} {value}"
    elif how == "nearest":
        assert (away > 0).any(axis=-1).mean() <= MISSED, f"{name} {value}"
    else:
        inside = from_inside(given.shape, name, value)
        assert away[inside].max(initial=0) <= 1, f"{name} {value}"
        assert inside.any()


def check_policy(
    policy: tf.PixelTransform, images: list[np.ndarray], patch: pytest.MonkeyPatch
) -> set[str]:
    """Check every layer for itself, from what it was given; says which operations were met."""
    params, layers, result = watched(policy, images, patch)
    met = set()
    for layer, (given, found) in enumerate(layers):
        for place in range(len(images)):
            own = layers_of(params)[layer]
            name, value = NAMES[own["kind"][place]], float(own["value"][place])
            check_operation(given[place], found[place], name, value, policy.interpolation)
            met.add(name)
    if not isinstance(policy, tf.AugMix):
        for layer, (given, _) in enumerate(layers):
            for was, image in zip(given, layers[layer - 1][1] if layer else images, strict=True):
                np.testing.assert_array_equal(was, image)
        for image, last in zip(result, layers[-1][1], strict=True):
            np.testing.assert_array_equal(image, last)
        return met
    depth = len(layers) // policy.mixture_width
    ends = [layers[depth * chain + depth - 1][1] for chain in range(policy.mixture_width)]
    for layer, (given, _) in enumerate(layers):
        for was, image in zip(
            given, layers[layer - 1][1] if layer % depth else images, strict=True
        ):
            np.testing.assert_array_equal(was, image)
    for place, image in enumerate(result):
        shares = [params["shares"][str(k)][place] / 2**23 for k in range(len(ends) + 1)]
        mixed = sum(
            share * part[place].astype(float)
            for share, part in zip(shares, [images, *ends], strict=True)
        )
        assert np.abs(image - np.floor(mixed + 1e-9)).max() == 0
    return met


@pytest.mark.parametrize("name", POLICIES)
def test_every_operation_is_pillows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(check_policy(POLICIES[name], SYNTHETIC, monkeypatch)) > 5


@pytest.mark.parametrize("name", POLICIES)
def test_every_operation_is_pillows_on_photos(
    photos: list[np.ndarray], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(check_policy(POLICIES[name], photos, monkeypatch)) > 5


# ------------------------------------------------------------ draws, against the rules

HEIGHT, WIDTH = 224, 317

Drawn = tuple[str, float]
"""An operation and the value it takes, "Identity" where it would change nothing."""


def ladder(last: float, bins: int) -> list[float]:
    """torchvision's magnitudes, with what single precision takes from whole numbers given back."""
    steps = torch.linspace(0.0, last, bins).double().numpy()
    near = np.rint(steps)
    return np.where(np.abs(steps - near) < 1e-5, near, steps).tolist()


WIDE = {
    **dict.fromkeys(("ShearX", "ShearY"), 0.99),
    **dict.fromkeys(("TranslateX", "TranslateY"), 32.0),
    "Rotate": 135.0,
    **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), 0.99),
}
USUAL = {
    **dict.fromkeys(("ShearX", "ShearY"), 0.3),
    "TranslateX": 150.0 / 331.0 * WIDTH,
    "TranslateY": 150.0 / 331.0 * HEIGHT,
    "Rotate": 30.0,
    **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), 0.9),
}
MIXED = USUAL | {"TranslateX": WIDTH / 3.0, "TranslateY": HEIGHT / 3.0}


def outcomes(
    name: str, place: int, bins: int, limits: dict[str, float], bits: tuple[int, int]
) -> list[Drawn]:
    """What an operation in one of torchvision's bins comes to, each as likely as the other."""
    if name in limits:
        size = ladder(limits[name], bins)[place]
        both = [size, -size]
        if name.startswith("Translate"):
            return [still(name, float(int(value)), 0.0) for value in both]
        if name in ("Brightness", "Color", "Contrast", "Sharpness"):
            return [still(name, 1.0 + value, 1.0) for value in both]
        return [still(name, value, 0.0) for value in both]
    if name == "Posterize":
        first, fewer = bits
        kept = (first - torch.arange(bins) / ((bins - 1) / fewer)).round().int()[place]
        return [still(name, float(kept), 8.0)]
    if name == "Solarize":
        # Levels are whole, so all thresholds above one and up to the next do the same.
        return [(name, float(np.ceil(round(255 - ladder(255.0, bins)[place], 6))))]
    return [(name, 0.0)]


def still(name: str, value: float, neutral: float) -> Drawn:
    return ("Identity", 0.0) if abs(value - neutral) < 1e-6 else (name, round(value, 4))


def seen(params: Any, layer: int) -> list[Drawn]:
    own = layers_of(params)[layer]
    drawn = list(zip(own["kind"].tolist(), own["value"].tolist(), strict=True))
    told = {
        (kind, value): (NAMES[kind], round(value, 4) if NAMES[kind] in VALUED else 0.0)
        for kind, value in set(drawn)
    }
    return [told[one] for one in drawn]


VALUED = {*USUAL, "Posterize", "Solarize", "SolarizeAdd"}


def spread(weighed: Iterable[tuple[float, list[Drawn]]]) -> Counter[Any]:
    """Probabilities, from lists of equally likely outcomes."""
    out: Counter[Any] = Counter()
    for weight, drawn in weighed:
        for one in drawn:
            out[one] += weight / len(drawn)
    return out


def assert_distributed(observed: list[Any], probabilities: Counter[Any]) -> None:
    """Nothing else than these, and as often, by Pearson's statistic, 5 standard deviations off."""
    counts = Counter(observed)
    assert set(counts) <= set(probabilities), set(counts) - set(probabilities)
    assert sum(probabilities.values()) == pytest.approx(1)
    expected = {one: p * len(observed) for one, p in probabilities.items() if p > 0}
    assert min(expected.values()) > 5
    statistic = sum((counts[one] - e) ** 2 / e for one, e in expected.items())
    freedom = len(expected) - 1
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)


def draw(policy: tf.PixelTransform, n: int = 40_000, seed: int = 1) -> Any:
    return policy.draw(numbers(n, seed), sized(n, HEIGHT, WIDTH))


RAND = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness"),
    *("Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"),
)


@pytest.mark.parametrize(("magnitude", "bins"), [(9, 31), (0, 31), (30, 31), (4, 10)])
def test_rand_augment_draws_as_torchvision(magnitude: int, bins: int) -> None:
    params = draw(tf.RandAugment(2, magnitude, bins))
    wanted = spread((1 / 14, outcomes(name, magnitude, bins, USUAL, (8, 4))) for name in RAND)
    layers = [seen(params, layer) for layer in (0, 1)]
    for layer in layers:
        assert_distributed(layer, wanted)
    pairs = Counter({(a, b): wanted[a] * wanted[b] for a in wanted for b in wanted})
    assert_distributed(list(zip(*layers, strict=True)), pairs)


def test_trivial_augment_draws_as_torchvision() -> None:
    wanted = spread(
        (1 / 14 / 31, outcomes(name, place, 31, WIDE, (8, 6)))
        for name in RAND
        for place in range(31)
    )
    assert_distributed(seen(draw(tf.TrivialAugmentWide()), 0), wanted)


# DALI has the same policies; what never comes it leaves out.
DALIS = {
    "imagenet": auto_augment.get_reduced_image_net_policy,
    "cifar10": auto_augment.get_reduced_cifar10_policy,
    "svhn": auto_augment.get_svhn_policy,
}


@pytest.mark.parametrize("policy", DALIS)
def test_auto_augment_draws_as_torchvision(policy: policies.Policy) -> None:
    transform = tf.AutoAugment(policy)
    table = transform._pairs
    pairs = [
        [
            (
                NAMES[table.kind[layer, k]],
                table.probability[layer, k],
                int(table.bin_index[layer, k]),
            )
            for layer in (0, 1)
        ]
        for k in range(25)
    ]
    for pair, listed in zip(pairs, DALIS[policy]().sub_policies, strict=True):
        named = [(one.name.replace("_", ""), chance, place or 0) for one, chance, place in listed]
        assert [(name.lower(), chance, place) for name, chance, place in pair if chance] == [
            one for one in named if one[1]
        ]

    def layer(name: str, probability: float, place: int) -> Counter[Any]:
        done = outcomes(name, place, 10, USUAL, (8, 4))
        return spread([(probability, done), (1 - probability, [("Identity", 0.0)])])

    wanted: Counter[Any] = Counter()
    for first, second in pairs:
        for (a, p), (b, q) in itertools.product(layer(*first).items(), layer(*second).items()):
            wanted[a, b] += p * q / 25
    params = draw(transform)
    assert_distributed(
        list(zip(seen(params, 0), seen(params, 1), strict=True)),
        Counter({one: p for one, p in wanted.items() if p > 0}),
    )


@pytest.mark.parametrize("all_ops", [True, False])
@pytest.mark.parametrize(("severity", "depth"), [(3, -1), (10, 2)])
def test_augmix_draws_as_torchvision(all_ops: bool, severity: int, depth: int) -> None:
    policy = tf.AugMix(severity, 2, depth, all_ops=all_ops)
    names = set(RAND) - {"Identity"}
    if not all_ops:
        names -= {"Brightness", "Color", "Contrast", "Sharpness"}
    wanted = spread(
        (1 / len(names) / severity, outcomes(name, place, 10, MIXED, (4, 4)))
        for name in names
        for place in range(severity)
    )
    params = draw(policy)
    deepest = 3 if depth < 1 else depth
    for layer in range(2 * deepest):
        reached = 1.0 if depth > 0 else 1 - (layer % deepest) / 3
        expected = Counter({one: p * reached for one, p in wanted.items()})
        expected["Identity", 0.0] += 1 - reached
        expected = Counter({one: p for one, p in expected.items() if p > 0})
        assert_distributed(seen(params, layer), expected)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 4.0])
def test_augmix_shares_are_dirichlets(alpha: float) -> None:
    params = draw(tf.AugMix(alpha=alpha, mixture_width=3), 100_000)
    shares = np.stack([params["shares"][str(k)] for k in range(4)]) / 2**23
    assert (shares.sum(axis=0) == 1).all()
    assert abs(shares[0].mean() - 0.5) < 0.005
    assert shares[0].var() == pytest.approx(0.25 / (2 * alpha + 1), rel=0.02)
    shares = shares[:, shares[0] < 0.99]  # of the others hardly anything is left to tell
    each = shares[1:] / (1 - shares[0])
    assert np.abs(each.mean(axis=1) - 1 / 3).max() < 0.005
    assert each.var(axis=1) == pytest.approx(2 / 9 / (3 * alpha + 1), rel=0.02)
    assert abs(np.corrcoef(each[0], shares[0])[0, 1]) < 0.01


TIMMS = (
    *("AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd"),
    *("Color", "Contrast", "Brightness", "Sharpness"),
    *("ShearX", "ShearY", "TranslateX", "TranslateY"),
)


def timms(name: str, level: float, increasing: bool) -> list[Drawn]:
    """What timm's operation of a magnitude comes to."""
    share = level / 10
    if name in ("Color", "Contrast", "Brightness", "Sharpness"):
        both = [1 + share * 0.9, max(1 - share * 0.9, 0.1)] if increasing else [share * 1.8 + 0.1]
        return [still(name, value, 1.0) for value in both]
    if name in ("AutoContrast", "Equalize", "Invert"):
        return [(name, 0.0)]
    if name == "Posterize":
        bits = int(share * 4)
        return [(name, float(4 - bits if increasing else bits))]
    if name == "Solarize":
        threshold = min(int(share * 256), 256)
        return [still(name, float(256 - threshold if increasing else threshold), 256.0)]
    if name == "SolarizeAdd":
        return [still(name, float(min(int(share * 110), 128)), 0.0)]
    limit = {"Rotate": 30.0, "TranslateX": 0.45 * WIDTH, "TranslateY": 0.45 * HEIGHT}
    size = share * limit.get(name, 0.3)
    return [still(name, size, 0.0), still(name, -size, 0.0)]


@pytest.mark.parametrize(
    ("config", "level", "chance", "increasing"),
    [
        ("rand-m9-inc1", 9.0, 0.5, True),
        ("rand-m9", 9.0, 0.5, False),
        ("rand-p0.8-m3-n1-inc0", 3.0, 0.8, False),
        ("rand-m14-mmax12-inc1-p1", 12.0, 1.0, True),
        ("rand-m14-p1", 10.0, 1.0, False),
    ],
)
def test_timm_draws_as_timm(config: str, level: float, chance: float, increasing: bool) -> None:
    wanted = spread((chance / 15, timms(name, level, increasing)) for name in TIMMS)
    wanted["Identity", 0.0] += 1 - chance
    if level == 12.0:  # which timm cannot do
        wanted["Posterize", 0.0] = wanted.pop(("Posterize", 0.0), 0.0)
    wanted = Counter({one: p for one, p in wanted.items() if p > 0})
    params = draw(tf.TimmRandAugment(config))
    assert len(params) == (1 if "-n1" in config else 2)
    for layer in range(len(params)):
        assert_distributed(seen(params, layer), wanted)


def test_timm_varies_magnitudes_normally() -> None:
    params = draw(tf.TimmRandAugment("rand-m9-mstd0.5-inc1"))
    for layer in (0, 1):
        own = layers_of(params)[layer]
        angles = own["value"][own["kind"] == NAMES.index("Rotate")]
        assert abs((angles > 0).mean() - 0.5) < 0.03
        levels = np.abs(angles) / 3
        assert levels.max() == 10  # two standard deviations up, where it is cut
        assert abs((levels > 9.9999).mean() - 0.02275) < 0.01
        assert abs(np.median(levels) - 9) < 0.03
        assert abs((levels < 8.5).mean() - 0.15866) < 0.02


def test_timm_varies_magnitudes_uniformly() -> None:
    first = draw(tf.TimmRandAugment("rand-m8-mstd101"))["0"]
    angles = np.abs(first["value"][first["kind"] == NAMES.index("Rotate")])
    assert 23.9 < angles.max() < 24
    assert np.quantile(angles, [0.25, 0.5, 0.75]) == pytest.approx([6, 12, 18], abs=0.5)


@pytest.mark.parametrize("name", POLICIES)
def test_every_operation_goes_both_ways(name: str) -> None:
    """DALI's own, given a seed, take one number for the operation and for the way it goes."""
    policy = POLICIES[name]
    params = draw(policy, 20_000)
    for layer in range(len(layers_of(params))):
        ways: dict[str, list[bool]] = {}
        for one, value in seen(params, layer):
            if one in USUAL and not (one not in MOVES and name == "timm, plain"):
                ways.setdefault(one, []).append(value > (0 if one in MOVES else 1))
        assert ways
        for one, up in ways.items():
            assert abs(np.mean(up) - 0.5) < 2.5 / np.sqrt(len(up)), f"{one} in layer {layer}"


def test_ways_do_not_depend_on_the_operation() -> None:
    """Given what the first layer did, the second's way is open."""
    layers = layers_of(draw(tf.RandAugment(2, 9)))
    signed = [np.isin(each["kind"], [NAMES.index(name) for name in MOVES]) for each in layers]
    both = signed[0] & signed[1]
    first, second = (each["value"][both] > 0 for each in layers)
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(both.sum())


def test_translations_follow_each_records_size() -> None:
    n = 4000
    records = sized(n, np.where(np.arange(n) % 2, 100, 300), np.arange(n) + 331)
    layer = tf.RandAugment(1, 30).draw(numbers(n), records)["0"]
    kind, value = layer["kind"], np.abs(layer["value"])
    along_x, along_y = (kind == NAMES.index(f"Translate{axis}") for axis in "XY")
    np.testing.assert_array_equal(
        value[along_x], [int(150 / 331 * width) for width in records.width[along_x]]
    )
    np.testing.assert_array_equal(
        value[along_y], [int(150 / 331 * height) for height in records.height[along_y]]
    )


# ------------------------------------------------------------ through a loader


def feed(manifest: Manifest, chain: list[tf.Transform], **options: Any) -> dict[int, np.ndarray]:
    chain = [*chain, tf.ToDtype("uint8", layout="NHWC")]
    options = {"batch_size": 16, "last_batch": "partial", "device": "cpu", **options}
    sampler = options.pop("sampler", SequentialSampler(len(manifest), seed=4, num_epochs=1))
    with Loader(manifest, sampler=sampler, transforms=chain, **options) as loader:
        return {
            int(key): image
            for batch in loader
            for key, image in zip(batch["record_key"], batch["image"], strict=True)
        }


def test_pictures_of_any_sizes(pictures: Manifest) -> None:
    """Where a policy comes before the resize, each is worked on in its own size."""
    chain = [tf.RandAugment(fill=FILL), tf.Resize((40, 48))]
    images, plain = feed(pictures, chain), feed(pictures, chain[1:])
    assert len(images) == len(pictures)
    assert sum((images[key] != plain[key]).any() for key in images) > 30


def test_what_changes_nothing_changes_nothing(pictures: Manifest) -> None:
    resized = [tf.Resize((40, 48))]
    plain = feed(pictures, resized)
    for policy in (tf.RandAugment(0), tf.TimmRandAugment("rand-n0"), tf.TimmRandAugment("rand-p0")):
        for key, image in feed(pictures, [*resized, policy]).items():
            np.testing.assert_array_equal(image, plain[key])


def test_magnitude_0_changes_nothing(pictures: Manifest) -> None:
    """But where an operation has no magnitude, and that Solarize inverts the highest level."""
    resized = [tf.Resize((40, 48))]
    policy = tf.RandAugment(2, 0)
    plain, images = feed(pictures, resized), feed(pictures, [*resized, policy])
    n = len(pictures)
    rng = BatchRng(4, np.zeros(n, np.int64), np.arange(n), 1)
    params = policy.draw(rng, sized(n, 40, 48))
    others = {NAMES.index(name) for name in ("AutoContrast", "Equalize", "Solarize")}
    kinds = np.stack([layer["kind"] for layer in layers_of(params)])
    assert set(np.unique(kinds)) == {0, *others}
    for key in np.flatnonzero((kinds == 0).all(axis=0)):
        np.testing.assert_array_equal(images[int(key)], plain[int(key)])


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_can_be_made_again_from_its_fingerprint(name: str) -> None:
    identity = POLICIES[name].identity
    (again,) = rebuild_transforms(encode([identity]))
    assert again.identity == identity
    drawn = feeds(draw(again, 50))
    for key, values in feeds(draw(POLICIES[name], 50)).items():
        np.testing.assert_array_equal(drawn[key], values)


# ------------------------------------------------------------ arguments

WRONG: list[tuple[Any, str]] = [
    (lambda: tf.RandAugment(-1), "num_ops is -1; it must be an integer of 0 or more"),
    (lambda: tf.RandAugment(1.5), "num_ops is 1.5"),
    (lambda: tf.RandAugment(magnitude=31), "magnitude is 31; it must be an integer from 0 to 30"),
    (lambda: tf.RandAugment(2, 10, 10), "magnitude is 10; it must be an integer from 0 to 9"),
    (lambda: tf.RandAugment(num_magnitude_bins=1), "num_magnitude_bins is 1"),
    (lambda: tf.RandAugment(interpolation="bicubic"), "interpolation is 'bicubic'; .* \"nearest\""),
    (lambda: tf.RandAugment(fill=256), "fill is 256; it must be from 0 to 255"),
    (lambda: tf.RandAugment(fill=(1, 2)), r"fill is \(1, 2\)"),
    (lambda: tf.TrivialAugmentWide(True), "num_magnitude_bins is True"),
    (lambda: tf.AutoAugment("coco"), "policy is 'coco'; it must be one of \"imagenet\", "),
    (lambda: tf.AugMix(0), "severity is 0; it must be an integer from 1 to 10"),
    (lambda: tf.AugMix(11), "severity is 11"),
    (lambda: tf.AugMix(mixture_width=0), "mixture_width is 0"),
    (lambda: tf.AugMix(chain_depth=1.0), "chain_depth is 1.0; it must be an integer$"),
    (lambda: tf.AugMix(alpha=0), "alpha is 0; it must be a number above 0"),
    (lambda: tf.AugMix(alpha=float("nan")), "alpha is nan"),
    (lambda: tf.TimmRandAugment("original-m9"), "config is 'original-m9'; it must be a string"),
    (lambda: tf.TimmRandAugment(9), "config is 9"),
    (lambda: tf.TimmRandAugment("rand-m9-tweights"), "whose 'tweights' is none of m, n, p"),
    (lambda: tf.TimmRandAugment("rand-m9.5"), "whose 'm9.5' must be an integer"),
    (lambda: tf.TimmRandAugment("rand-p2"), "whose 'p2' must be from 0 to 1"),
    (lambda: tf.TimmRandAugment("rand-m"), "whose 'm' is none of"),
]


@pytest.mark.parametrize(("make", "said"), WRONG)
def test_wrong_arguments_are_named(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()
