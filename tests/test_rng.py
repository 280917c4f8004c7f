"""Random numbers: the published generator, keyed so that nothing aliases."""

from __future__ import annotations

import ast
import decimal
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, rng
from gpufeed.rng import (
    CHOICE_STREAM,
    MAX_TRANSFORMS,
    ORDER_STREAM,
    BatchRng,
    exp,
    minus_log,
    philox4x32,
    words,
)

# Random123's kat_vectors file, philox4x32 with 10 rounds: counter, key, result.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def hexes(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def batch_rng(keys: list[int], *, seed: int = 7, epoch: int = 2, transform: int = 3) -> BatchRng:
    return BatchRng(seed, np.full(len(keys), epoch), np.array(keys, dtype=np.int64), transform)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    given_counter = np.array(hexes(counter), dtype=np.uint64)
    first, second = hexes(key)
    assert philox4x32(given_counter, (first, second)).tolist() == hexes(answer)


def test_philox_is_vectorised_over_counters() -> None:
    counters = np.array([hexes(counter) for counter, _, _ in KNOWN_ANSWERS], dtype=np.uint64).T
    together = philox4x32(counters, (1, 2))
    for column in range(counters.shape[1]):
        alone = philox4x32(counters[:, column], (1, 2))
        np.testing.assert_array_equal(together[column], alone)


@given(
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**32 - 1),
    key=st.integers(0, 2**63 - 1),
    transform=st.integers(0, 2**16 - 1),
    block=st.integers(0, 2**16 - 1),
)
def test_every_part_of_the_key_has_its_own_bits(
    seed: int, epoch: int, key: int, transform: int, block: int
) -> None:
    """The counter and key are rebuilt here by string, word for word, from the five numbers."""
    drawn = words(seed, np.array([epoch]), np.array([key]), transform, block, 1)[0]
    bits = f"{key:064b}{epoch:032b}{transform:016b}{block:016b}"
    counter = [bits[32:64], bits[:32], bits[64:96], bits[96:]]
    expected = philox4x32(
        np.array([int(word, 2) for word in counter], dtype=np.uint64),
        (seed % 2**32, seed // 2**32),
    )
    np.testing.assert_array_equal(drawn, expected)


def test_seed_and_epoch_do_not_alias() -> None:
    """The sum of seed and epoch, or of seed and key, says nothing: Grain's streams repeat there."""
    keys = list(range(100))
    streams = {
        (seed, epoch): batch_rng(keys, seed=seed, epoch=epoch).uniform().tobytes()
        for seed in range(6)
        for epoch in range(6)
    }
    assert len(set(streams.values())) == len(streams)
    assert batch_rng([0], seed=8).uniform() != batch_rng([1], seed=7).uniform()


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20), st.data())
def test_a_record_draws_the_same_in_any_batch(keys: list[int], data: st.DataObject) -> None:
    """Also when the draws are of mixed kinds and lengths."""

    def draws(of: list[int]) -> np.ndarray:
        rng = batch_rng(of)
        parts = [rng.uniform()[:, None], rng.uniform(size=5), rng.integers(3, 900)[:, None]]
        return np.concatenate([*parts, rng.bernoulli(0.5)[:, None]], axis=1)

    together = draws(keys)
    order = data.draw(st.permutations(range(len(keys))))
    np.testing.assert_array_equal(draws([keys[i] for i in order]), together[list(order)])
    np.testing.assert_array_equal(draws([keys[0]]), together[:1])


def test_successive_draws_differ() -> None:
    rng = batch_rng(list(range(50)))
    first, second = rng.uniform(), rng.uniform()
    assert not np.any(first == second)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_uniform_stays_in_its_bounds(low: float, width: float) -> None:
    drawn = batch_rng(list(range(64))).uniform(low, low + width, size=3)
    assert drawn.shape == (64, 3)
    assert np.all(drawn >= low)
    assert np.all(drawn <= low + width)


def test_uniform_is_uniform() -> None:
    """Chi-square over 100 cells at 10^5 numbers, and no correlation from record to record."""
    drawn = batch_rng(list(range(100_000))).uniform()
    counts = np.histogram(drawn, bins=100, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 149  # the 99.9th percentile at 99 degrees
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.012


def test_integers_reach_both_ends_evenly() -> None:
    drawn = batch_rng(list(range(60_000))).integers(-2, 4)
    counts = np.bincount(drawn + 2)
    assert len(counts) == 6
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 20.5  # 99.9th percentile at 5 degrees


def test_integers_take_one_range_per_record() -> None:
    drawn = batch_rng([1, 2, 3]).integers(0, np.array([1, 10, 100]))
    assert drawn[0] == 0
    assert np.all(drawn < [1, 10, 100])


def test_an_empty_range_is_an_error() -> None:
    with pytest.raises(ConfigError, match="high - low from 0 to 0; it must be from 1"):
        batch_rng([1]).integers(5, 5)


def test_too_many_draws_are_an_error() -> None:
    with pytest.raises(ConfigError, match="more than 262144 random words for one record"):
        batch_rng([1]).uniform(size=200_000)


def test_an_epoch_that_does_not_fit_is_an_error() -> None:
    """Its upper bits would run into those of the draw key."""
    batch_rng([1], epoch=2**32 - 1).uniform()
    with pytest.raises(ConfigError, match="epoch is 4294967296; random numbers end at"):
        batch_rng([1], epoch=2**32).uniform()


def test_logarithms_are_right_to_the_last_bits() -> None:
    values = np.concatenate([np.random.default_rng(0).random(10_000), [1.0, 2.0**-53, 0.5]])
    np.testing.assert_allclose(minus_log(values), -np.log(values), rtol=1e-15, atol=0)
    # Bits that any machine gives, since IEEE rounds +, -, * and / everywhere alike.
    assert minus_log(np.array([0.3, 1e-9])).tolist() == [1.203972804325936, 20.72326583694641]


def test_exponentials_are_right_to_the_last_bits() -> None:
    drawn = np.random.default_rng(0)
    values = np.concatenate([drawn.uniform(-1, 1, 5_000), drawn.uniform(-700, 700, 5_000)])
    with decimal.localcontext(prec=40):
        wanted = [decimal.Decimal(value).exp() for value in values.tolist()]
        found = exp(values).tolist()
        apart = (decimal.Decimal(a) / b - 1 for a, b in zip(found, wanted, strict=True))
        assert max(map(abs, apart)) < 3e-16
    assert exp(np.array([0.0, -1e300, -np.inf])).tolist() == [1.0, 0.0, 0.0]
    assert exp(np.array([0.3, -20.0])).tolist() == [1.3498588075760032, 2.061153622438558e-09]


# Of the matrices of warps, the last bit may differ between machines.
MATRICES = {
    f"transforms/{name}.py" for name in ("frame", "policy_layers", "warp_matrices", "warps")
}
INEXACT = re.compile(r"(np|math)\.(a?(sin|cos|tan)h?|arc\w+|exp|log|power|pow|hypot|cbrt|linalg)")


def test_what_decides_a_batch_is_exactly_rounded() -> None:
    package = Path(rng.__file__).parent
    found = set()
    for part in ("rng.py", "order", "transforms", "plan", "faults"):
        for path in [package / part] if part.endswith(".py") else (package / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                called = isinstance(node, ast.Attribute) and INEXACT.match(ast.unparse(node))
                raised = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
                if called or (raised and not isinstance(node.left, ast.Constant)):
                    found.add(str(path.relative_to(package)))
    assert found == MATRICES | {"transforms/operators/colour.py"}  # whose power is DALI's


def test_no_transform_has_a_samplers_numbers() -> None:
    assert len({ORDER_STREAM, CHOICE_STREAM, *range(MAX_TRANSFORMS)}) == MAX_TRANSFORMS + 2
    assert max(ORDER_STREAM, CHOICE_STREAM) < 1 << 16
