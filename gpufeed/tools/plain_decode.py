"""Decoding pictures and nothing else: what a loader that decodes them can come near to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Self

from gpufeed._util.limits import available_threads
from gpufeed._util.open_regular import read_file
from gpufeed.engine.device import Device

__all__ = ["PlainDecode"]

_READERS = 8
"""Threads that read files for the GPU's decoder: they wait for storage, not for a core."""


class PlainDecode:
    """Decodes whole pictures with nvImageCodec, the library within DALI; to be closed after use.

    On the CPU each of some threads reads and decodes picture by picture. On a GPU whole batches are
    decoded by whatever nvImageCodec finds there, while others are read; **that has not been run on
    one yet**.

    Args:
        device: where pixels are made.
        threads: CPU threads; one for each core this process may use where none is given.
    """

    def __init__(self, device: Device, threads: int | None = None) -> None:
        self._threads = threads or available_threads()
        self._device = device
        self._decoders = threading.local()
        readers = _READERS if device.is_cuda else self._threads
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="plain-decode")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, batches: Sequence[Sequence[Path]]) -> None:
        """Decode all pictures of all batches.

        Raises:
            OSError: a file can not be read, or is no regular one, or empty.
        """
        if self._device.is_cuda:
            self._run_on_gpu(batches)
        else:
            files = [path for batch in batches for path in batch]
            for _ in self._pool.map(self._decode_one, files):
                pass

    def _decode_one(self, path: Path) -> None:
        decode: Callable[[bytes], Any] | None = getattr(self._decoders, "decode", None)
        if decode is None:
            from gpufeed.open.decoders import cpu_decoder

            # One for each thread: its own pool takes a thread less than it is told to.
            decode = self._decoders.decode = cpu_decoder().decode
        decode(read_file(path))

    def _run_on_gpu(self, batches: Sequence[Sequence[Path]]) -> None:
        from nvidia import nvimgcodec

        decoder = getattr(self._decoders, "decoder", None)
        if decoder is None:
            decoder = self._decoders.decoder = nvimgcodec.Decoder(
                device_id=self._device.index, max_num_cpu_threads=self._threads
            )
        images: list[Any] = []
        for contents in self._read(batches):
            images = decoder.decode(contents)
        # What was decoded last is finished last, and only then can it be copied.
        for image in images[-1:]:
            if image is not None:
                image.cpu()

    def _read(self, batches: Sequence[Sequence[Path]]) -> Iterator[list[bytes]]:
        """Read the batches, one ahead of the one handed out."""
        waiting = iter(batches)
        ahead = [self._begin(batch) for batch in islice(waiting, 2)]
        while ahead:
            yield [future.result() for future in ahead.pop(0)]
            ahead += [self._begin(batch) for batch in islice(waiting, 1)]

    def _begin(self, batch: Sequence[Path]) -> list[Any]:
        return [self._pool.submit(read_file, path) for path in batch]
