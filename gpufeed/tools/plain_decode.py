"""Decoding images and nothing else: the speed limit of a loader that decodes whole images."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gpufeed._util.limits import available_threads
from gpufeed.decode.accept import as_ppm
from gpufeed.engine.device import Device
from gpufeed.source.base import Encoded, Source, as_image, read_images, starter

__all__ = ["PlainDecode"]

Keys = npt.NDArray[np.int64]

_READERS = 8
"""Threads that read files for the GPU's decoder; they wait for storage, not for a core."""


class PlainDecode:
    """Decodes whole images with nvImageCodec, the library inside DALI; a context manager.

    Pixels are copied, as a PPM.

    On the CPU, each thread reads and decodes one image at a time. On a GPU, nvImageCodec decodes
    whole batches with whatever hardware it finds, while the next ones are read; **this has not been
    run on a GPU yet**.

    Args:
        source: the images.
        device: the device to decode on.
        threads: CPU threads; None for one for each core that this process may use.
    """

    def __init__(self, source: Source, device: Device, threads: int | None = None) -> None:
        self._source = source
        self._threads = threads or available_threads()
        self._device = device
        self._decoders = threading.local()
        waits = device.is_cuda or starter(source) is not None
        readers = _READERS if waits else self._threads
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="plain-decode")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, batches: Sequence[Keys]) -> None:
        """Decode all images of all batches.

        Args:
            batches: the keys of each, int64 (n,).

        Raises:
            OSError: an image cannot be read.
        """
        if self._device.is_cuda:
            self._run_on_gpu(batches)
        else:
            for _ in self._pool.map(self._decode_one, np.concatenate(batches)):
                pass

    def _decode_one(self, key: np.int64) -> None:
        decode: Callable[[Any], Any] | None = getattr(self._decoders, "decode", None)
        if decode is None:
            from gpufeed.decode.decoders import cpu_decoder

            # A decoder for each thread: nvImageCodec's own pool uses one thread less than asked.
            decode = self._decoders.decode = cpu_decoder().decode
        from nvidia import nvimgcodec

        decode(nvimgcodec.CodeStream(self._read_one(key)))

    def _read_one(self, key: np.int64) -> Encoded:
        (content,) = read_images(self._source, np.array([key]))
        content = as_image(content)
        if isinstance(content, OSError):
            raise content
        return as_ppm(content)

    def _run_on_gpu(self, batches: Sequence[Keys]) -> None:
        from nvidia import nvimgcodec

        decoder = getattr(self._decoders, "decoder", None)
        if decoder is None:
            decoder = self._decoders.decoder = nvimgcodec.Decoder(
                device_id=self._device.gpu, max_num_cpu_threads=self._threads
            )
        images: list[Any] = []
        for contents in self._read(batches):
            images = decoder.decode([nvimgcodec.CodeStream(content) for content in contents])
        # Copying the last image waits until all are decoded.
        for image in images[-1:]:
            if image is not None:
                image.cpu()

    def _read(self, batches: Sequence[Keys]) -> Iterator[list[Encoded]]:
        """Read the batches, one ahead of the one handed out."""
        waiting = iter(batches)
        ahead = [self._begin(batch) for batch in islice(waiting, 2)]
        while ahead:
            yield [future.result() for future in ahead.pop(0)]
            ahead += [self._begin(batch) for batch in islice(waiting, 1)]

    def _begin(self, batch: Keys) -> list[Any]:
        return [self._pool.submit(self._read_one, key) for key in batch]
