"""Upper limits for any loader on a GPU: nvJPEG's decoders alone, and the copy to the GPU.

**Not run on a GPU yet.**
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.compare.encoded import places, read_batches
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["PEERS"]


def _ready(work: Work) -> Any:
    import torch

    return torch.zeros((work.batch_size, 3, work.size, work.size), device="cuda")


def _nvjpeg(work: Work, *, backends: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Decode whole images to GPU memory, by some of nvImageCodec's backends."""
    import torch
    from nvidia import nvimgcodec

    kinds = nvimgcodec.BackendKind
    policy = nvimgcodec.LoadHintPolicy
    chosen = [
        # Alone it takes everything; beside another it learns what share keeps neither waiting.
        nvimgcodec.Backend(getattr(kinds, name))
        if len(backends) == 1
        else nvimgcodec.Backend(getattr(kinds, name), 0.5, policy.ADAPTIVE_MINIMIZE_IDLE_TIME)
        for name in backends
    ]
    decoder = nvimgcodec.Decoder(device_id=0, max_num_cpu_threads=work.cores, backends=chosen)
    ready = _ready(work)
    for contents, batch in read_batches(work):
        stream = torch.cuda.current_stream().cuda_stream
        images = decoder.decode(contents, cuda_stream=stream)
        refused = sum(image is None for image in images)
        if refused:
            raise RuntimeError(f"{refused} of {len(images)} images are not decoded that way")
        yield ready, batch


def _copy(work: Work) -> Iterator[tuple[Any, Any]]:
    """Copy a finished float32 batch from pinned memory."""
    import torch

    shape = (work.batch_size, 3, work.size, work.size)
    pinned = torch.zeros(shape, pin_memory=True)
    for batch in places(work):
        yield pinned.cuda(non_blocking=True), batch


def _peers() -> list[Peer]:
    decoders = [
        Peer(
            f"limit: nvJPEG decode, {name}",
            functools.partial(_nvjpeg, backends=backends),
            ("torch", "nvidia.nvimgcodec"),
            False,
            "decode only",
            ("cuda",),
        )
        for name, backends in (
            ("hardware engines", ("HW_GPU_ONLY",)),
            ("CPU and GPU", ("HYBRID_CPU_GPU",)),
            ("GPU", ("GPU_ONLY",)),
            ("engines, CPU and GPU", ("HW_GPU_ONLY", "HYBRID_CPU_GPU")),
        )
    ]
    copy = Peer(
        "limit: copy to the GPU from pinned memory", _copy, ("torch",), False, "copy", ("cuda",)
    )
    return [*decoders, copy]


PEERS = _peers()
