"""Stateless random numbers: each is a function of (seed, epoch, draw key, transform, draw).

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011), which maps a 128-bit counter and a 64-bit key to four 32-bit words. The five numbers are
concatenated into counter and key, never added or hashed, so no two of these tuples share a stream:

    key     = seed (64 bits)
    counter = draw key (64) | epoch (32) | transform (16) | block (16)
"""

from __future__ import annotations

import copy
import math

import numpy as np
import numpy.typing as npt

from gpufeed._util.numbers import as_integer
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

__all__ = [
    "CHOICE_STREAM",
    "MAX_TRANSFORMS",
    "ORDER_STREAM",
    "SPLIT_STREAM",
    "SUBSTITUTE_STREAM",
    "BatchRng",
    "check_seed",
    "exp",
    "generator",
    "minus_log",
    "philox4x32",
    "words",
]

ORDER_STREAM = 0xFFFF
"""Transform number of the samplers' permutations; reserved."""
CHOICE_STREAM = 0xFFFE
"""Transform number of the samplers' other draws; reserved."""
SUBSTITUTE_STREAM = 0xFFFD
"""Transform number of the choice of substitutes for bad records; reserved."""
SPLIT_STREAM = 0xFFFC
"""Transform number of the random division of a manifest; reserved."""
MAX_TRANSFORMS = 0xFF00
"""Limit of the number of transforms, so that none has a reserved number."""

_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], dtype=np.uint64)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], dtype=np.uint64)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10
_LN_2 = 0.6931471805599453
# The first 33 bits of ln 2, whose multiples are exact, and the rest.
_LN_2_HIGH, _LN_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_BLOCKS = 1 << 16
"""Limit of Philox outputs, of four words each, for one transform and record."""

UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


def check_seed(seed: int) -> int:
    """Return `seed` if it is an integer from 0 to 2**64 - 1; raise `ConfigError` otherwise."""
    try:
        number = as_integer(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise ConfigError(f"seed is {short(seed)}; it must be an integer from 0 to 2**64 - 1")
    return number


def philox4x32(counter: UInt64, key: tuple[int, int]) -> UInt32:
    """Apply Philox4x32-10 to many counters with one key.

    Args:
        counter: uint64 (4, ...), each number a 32-bit word.
        key: two 32-bit words.

    Returns:
        uint32 (..., 4).
    """
    # Words 0 and 2 are multiplied, words 1 and 3 are mixed in. With the words in two arrays, a
    # round is six NumPy calls; at the size of a batch, the number of calls determines the time.
    columns = (2,) + (1,) * (counter.ndim - 1)
    multipliers = _MULTIPLIERS.reshape(columns)
    multiplied, mixed = counter[0::2], counter[1::2]
    round_key = np.array(key, dtype=np.uint64).reshape(columns)
    weyl = _WEYL.reshape(columns)
    for _ in range(_ROUNDS):
        product = multiplied * multipliers
        multiplied = (product >> _HALF)[::-1] ^ mixed
        multiplied ^= round_key
        mixed = (product & _LOW)[::-1]
        round_key = (round_key + weyl) & _LOW
    out = np.stack([multiplied[0], mixed[0], multiplied[1], mixed[1]], axis=-1)
    return out.astype(np.uint32)


def words(
    seed: int, epoch: Int64, draw_key: Int64, transform: int | Int64, block: int, blocks: int
) -> UInt32:
    """Return `blocks` consecutive Philox outputs for each record.

    Args:
        seed: 0 to 2**64 - 1.
        epoch: int64 (n,), each 0 to 2**32 - 1.
        draw_key: int64 (n,), each 0 or more.
        transform: number of the stream, 0 to 65,535; one for all records, or int64 (n,).
        block: number of the first output, 0 to 65,535.
        blocks: number of outputs.

    Returns:
        uint32 (n, 4 * blocks).

    Raises:
        ConfigError: a block or an epoch is out of range.
    """
    if block + blocks > 1 << 16:
        raise ConfigError(f"a transform drew more than {1 << 18} random words for one record")
    if len(epoch) and epoch.max() >= 1 << 32:
        raise ConfigError(f"epoch is {epoch.max()}; random numbers end at epoch 2**32 - 1")
    counter = np.empty((4, len(draw_key), blocks), dtype=np.uint64)
    keys = draw_key.astype(np.uint64)[:, None]
    counter[0] = keys & _LOW
    counter[1] = keys >> _HALF
    counter[2] = epoch[:, None]
    stream = np.asarray(transform, dtype=np.uint64)[..., None] << np.uint64(16)
    counter[3] = stream | np.arange(block, block + blocks, dtype=np.uint64)
    drawn = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
    return drawn.reshape(len(draw_key), 4 * blocks)


class BatchRng:
    """The random numbers of one transform for one batch; row i belongs to record i.

    A record's numbers depend only on the seed, the epoch, its draw key, the number of the transform
    and the number of draws before. So they are the same in any batch, shard, order or thread.
    Successive calls give independent numbers.
    """

    __slots__ = ("_block", "_draw_key", "_end", "_epoch", "_seed", "_transform")

    def __init__(self, seed: int, epoch: Int64, draw_key: Int64, transform: int | Int64) -> None:
        self._seed = seed
        self._epoch = epoch
        self._draw_key = draw_key
        self._transform = transform
        self._block = 0
        self._end = _BLOCKS

    def __len__(self) -> int:
        return len(self._draw_key)

    def tiled(self, copies: int) -> BatchRng:
        """Return the numbers of the same records `copies` times, one copy after the other."""
        return BatchRng(
            self._seed,
            np.tile(self._epoch, copies),
            np.tile(self._draw_key, copies),
            self._transform,
        )

    def spawn(self, transform: int | Int64) -> BatchRng:
        """Return the same records' numbers of another transform, or of one per record."""
        other = copy.copy(self)
        other._transform = transform
        other._block, other._end = 0, _BLOCKS
        return other

    def parts(self, count: int) -> list[BatchRng]:
        """Return independent numbers for each of `count` transforms inside this one.

        They divide the numbers that are left, so this one cannot draw afterwards.
        """
        blocks = (self._end - self._block) // count
        parts = []
        for number in range(count):
            part = copy.copy(self)
            part._block = self._block + number * blocks
            part._end = part._block + blocks
            parts.append(part)
        self._block = self._end
        return parts

    def rows(self, chosen: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> BatchRng:
        """Return the numbers that follow, for some of the records.

        The result and this one give the same numbers from here on. Use only one of them, so that a
        record's numbers do not depend on the other records of its batch.
        """
        other = copy.copy(self)
        other._epoch = self._epoch[chosen]
        other._draw_key = self._draw_key[chosen]
        if isinstance(self._transform, np.ndarray):
            other._transform = self._transform[chosen]
        return other

    def _words(self, count: int) -> UInt32:
        blocks = -(-count // 4)
        if self._block + blocks > self._end:
            raise ConfigError(
                f"a transform drew more than {4 * self._end} random words for one record"
                if self._end == _BLOCKS
                else "a transform inside another drew more random words than its share of them"
            )
        drawn = words(self._seed, self._epoch, self._draw_key, self._transform, self._block, blocks)
        self._block += blocks
        return drawn[:, :count]

    def uniform(
        self, low: npt.ArrayLike = 0.0, high: npt.ArrayLike = 1.0, size: int | None = None
    ) -> Float64:
        """Draw from [low, high): float64 (n,), or (n, size); bounds are numbers or (n,)."""
        count = 1 if size is None else size
        halves = self._words(2 * count).astype(np.uint64)
        # 53 random bits: the doubles k / 2**53.
        mantissa = (halves[:, ::2] >> np.uint64(5)) << np.uint64(26) | halves[:, 1::2] >> np.uint64(
            6
        )
        unit = mantissa.astype(np.float64) * 2.0**-53
        lower = np.asarray(low, dtype=np.float64)
        upper = np.asarray(high, dtype=np.float64)
        if size is None:
            return np.asarray(lower + unit[:, 0] * (upper - lower))
        return np.asarray(lower[..., None] + unit * (upper - lower)[..., None])

    def integers(self, low: npt.ArrayLike, high: npt.ArrayLike, size: int | None = None) -> Int64:
        """Draw integers from [low, high): int64 (n,), or (n, size); bounds are numbers or (n,).

        The range must be shorter than 2**32; the bias is then below 2**-20.

        Raises:
            ConfigError: a range is empty or too long.
        """
        lower = np.asarray(low, dtype=np.int64)
        span = np.asarray(high, dtype=np.int64) - lower
        if np.any(span <= 0) or np.any(span >= 1 << 32):
            raise ConfigError(
                f"integers(low, high) has high - low from {span.min()} to {span.max()}; it must be "
                "from 1 to 2**32 - 1"
            )
        unit = self.uniform(size=size)
        if size is not None:
            lower, span = lower[..., None], span[..., None]
        return np.asarray(lower + np.floor(unit * span).astype(np.int64))

    def keys(self) -> UInt64:
        """Draw keys for `generator`, uint64 (n, 2), of which no two are equal.

        They differ from all keys of other records, epochs and transforms of this seed.
        """
        # One block of four words each. With one key, Philox maps different counters to different
        # blocks.
        drawn = self._words(4).astype(np.uint64)
        return drawn[:, ::2] | drawn[:, 1::2] << _HALF

    def bernoulli(self, p: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Draw True with probability `p`: bool (n,)."""
        return np.asarray(self.uniform() < np.asarray(p, dtype=np.float64))


def generator(key: UInt64) -> np.random.Generator:
    """Return the NumPy generator of a key, uint64 (2,), that `BatchRng.keys` drew."""
    return np.random.Generator(np.random.Philox(key=key))


def minus_log(values: Float64) -> Float64:
    """Return -ln of numbers above 0, with the same bits on every machine.

    The logarithms of math libraries differ in the last bit, which can swap two records of an order.
    This one uses only exactly rounded IEEE operations, and is within 1e-15 of them, relatively:
    ln(m * 2**e) = e ln 2 + 2 artanh((m - 1) / (m + 1)).
    """
    mantissa, exponent = np.frexp(values)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, mantissa * 2, mantissa)
    exponent = exponent - low
    ratio = (mantissa - 1) / (mantissa + 1)
    square, series = ratio * ratio, np.zeros_like(ratio)
    for odd in range(21, 0, -2):
        series = series * square + 1 / odd
    return np.asarray(-(exponent * _LN_2 + 2 * ratio * series))


_EXP_SERIES = [1 / math.factorial(number) for number in range(14, -1, -1)]


def exp(values: Float64) -> Float64:
    """Return e to the power of numbers below 709, with the same bits on every machine.

    Like `minus_log`, it uses only exactly rounded IEEE operations, and is within 1e-15 of math
    libraries, relatively: e**x = 2**k * e**(x - k ln 2), the second factor by its Taylor series.
    """
    values = np.maximum(values, -750.0)  # the result underflows to 0 below this
    power = np.rint(values / _LN_2)
    rest = (values - power * _LN_2_HIGH) - power * _LN_2_LOW
    series = np.full_like(rest, _EXP_SERIES[0])
    for coefficient in _EXP_SERIES[1:]:
        series *= rest
        series += coefficient
    return np.asarray(np.ldexp(series, power.astype(np.int32)))
