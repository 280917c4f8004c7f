"""The pixels of prepared images, which are those that a loader makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.memory import Memory
from gpufeed.decode.accept import Acceptor, as_ppm
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.diagnose import too_large, undecodable, unreadable
from gpufeed.errors import DecodeError
from gpufeed.open.kinds import THREADS
from gpufeed.open.opened_view import OpenedView
from gpufeed.open.resize import Resizer
from gpufeed.plan.prefix import place
from gpufeed.plan.resample import resample
from gpufeed.plan.stages import Resample, View
from gpufeed.records import Manifest
from gpufeed.records.bounding_box import corners
from gpufeed.source.base import Content, Pixels
from gpufeed.source.reader import open_reader
from gpufeed.transforms import ToDtype, Transform
from gpufeed.transforms.frame import Frame

__all__ = ["make_images"]

Int64 = npt.NDArray[np.int64]

_TOGETHER = 16
"""Images that are planned and read together, at most."""
_LARGE = 1 << 24
"""Pixels that images together have at most, unless one has more; such a large one takes turns."""


def make_images(
    manifest: Manifest,
    transforms: Sequence[Transform],
    keys: Int64,
    turn: AbstractContextManager[Any],
    *,
    max_pixels: int,
) -> Iterator[Pixels | DecodeError]:
    """Yield the image of each record, or what is wrong with it, on this thread.

    The next images are read meanwhile.

    Args:
        manifest: the images.
        transforms: as for `place`.
        keys: int64 (n,), the records.
        turn: held while an image above 2^24 pixels is made, of which each may take a gigabyte.
        max_pixels: the most pixels of an image, before and after the transforms; for a larger one
            no memory is allocated.

    Yields:
        uint8 (height, width, 3).
    """
    sizes = manifest.sizes(keys).astype(np.int64)
    frame = place(transforms, sizes, corners(manifest.boxes(keys)))
    pixels = np.maximum.reduce([sizes.prod(axis=1), *(each.size.prod(1) for each in frame.chain())])
    starts = _starts(pixels.tolist(), min(max_pixels, _LARGE))
    parts = [slice(*ends) for ends in itertools.pairwise([0, *starts, len(keys)])]
    opener = _Opener(manifest, max_pixels)
    with open_reader(manifest.source) as reader, ThreadPoolExecutor(1, "gpufeed-ahead") as ahead:
        coming = ahead.submit(reader.read, keys[parts[0]])
        for number, part in enumerate(parts):
            contents = coming.result()
            if number + 1 < len(parts):
                coming = ahead.submit(reader.read, keys[parts[number + 1]])
            with turn if pixels[part].sum() > _LARGE else nullcontext():
                yield from opener.open(keys[part], sizes[part], frame.take(part), contents)


def _starts(pixels: Sequence[int], most: int) -> list[int]:
    """Return where parts begin, after the first, of images with so many pixels.

    A part with more than one image has at most `most` pixels.
    """
    starts, first, total = [], 0, 0
    for at, each in enumerate(pixels):
        total += each
        if at > first and (at - first == _TOGETHER or total > most):
            starts.append(at)
            first, total = at, each
    return starts


class _Opener:
    """Decodes and resizes images as the threads of a loader do."""

    def __init__(self, manifest: Manifest, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        self._name = manifest.source.name
        self._acceptor = Acceptor(self._name, reduce_depth=manifest.reduce_depth)
        self._decoder = NvImageCodec()
        self._resizer = Resizer()
        self._memory = Memory()

    def open(
        self, keys: Int64, sizes: Int64, last: Frame, contents: Sequence[Content | OSError]
    ) -> Iterator[Pixels | DecodeError]:
        if len(keys) == 1 and sizes.prod() > self._max_pixels:
            yield too_large(tuple(sizes[0].tolist()), self._max_pixels, int(keys[0]), self._name)
            return
        frames = [*last.chain()]
        for frame in frames:
            if len(keys) == 1 and frame.size.prod() > self._max_pixels:
                made = tuple(frame.size[0].tolist())
                error = too_large(made, self._max_pixels, int(keys[0]), self._name)
                reason = f"after the transforms, {error.reason}"
                yield DecodeError(error.record_key, error.path, reason)
                return
        window, first = resample(frames[0], cut=False)
        view = View((first, *_later(frames)), ToDtype("uint8"), (), (0, 0))
        shapes = window.shape.tolist()
        opened = OpenedView(view, shapes, [THREADS] * len(keys), self._memory)
        for number, (key, content) in enumerate(zip(keys.tolist(), contents, strict=True)):
            start, size = window.start[number].tolist(), tuple(sizes[number].tolist())
            try:
                decoded = self._decode(content, key, size, tuple(start), tuple(shapes[number]))
            except DecodeError as error:
                yield error
                continue
            opened.write(number, decoded, self._resizer)
            yield opened.images[number]

    def _decode(
        self,
        content: Content | OSError,
        key: int,
        size: tuple[int, int],
        start: tuple[int, int],
        shape: tuple[int, int],
    ) -> Pixels:
        """Decode a window of an image of this size.

        Raises:
            DecodeError: it is bad.
        """
        if isinstance(content, OSError):
            raise unreadable(content, key, self._name)
        accepted = self._acceptor.accept(content, size, key)
        if isinstance(accepted, np.ndarray):
            (top, left), (height, width) = start, shape
            return accepted[top : top + height, left : left + width]
        window = self._decoder.decode(accepted, start, shape)
        if window is None:
            raise undecodable(as_ppm(accepted), key, self._name)
        return window


def _later(frames: Sequence[Frame]) -> list[Resample]:
    return [resample(each, cut=each.cuts)[1] for each in frames[1:] if each.resamples]
