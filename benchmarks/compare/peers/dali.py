"""DALI by itself: as its documentation has it, and tuned by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.compare.peer import Peer
from benchmarks.compare.work import MEAN, STD, Work

__all__ = ["PEERS"]


def _pipeline(work: Work, *, tuned: bool) -> Any:
    from nvidia.dali import fn, pipeline_def, types

    on_gpu = work.device == "cuda"

    @pipeline_def  # type: ignore[untyped-decorator]
    def training() -> Any:
        encoded, label = fn.readers.file(
            files=work.files,
            random_shuffle=True,
            initial_fill=min(1024, len(work.paths)),
            name="reader",
            **({"read_ahead": True, "prefetch_queue_depth": 3} if tuned else {}),
        )
        image = fn.decoders.image_random_crop(
            encoded,
            device="mixed" if on_gpu else "cpu",
            output_type=types.RGB,
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
            **({"hw_decoder_load": 0.2} if on_gpu and tuned else {}),
        )
        mirror = fn.random.coin_flip()
        side = work.size
        if tuned:
            # Resize and flip as one operator; its output is then normalised in one pass.
            image = fn.resize_crop_mirror(
                image,
                size=[side, side],
                crop=[side, side],
                mirror=mirror,
                interp_type=types.INTERP_LINEAR,
                antialias=True,
            )
        else:
            image = fn.resize(
                image, size=[side, side], interp_type=types.INTERP_LINEAR, antialias=True
            )
        image = fn.crop_mirror_normalize(
            image,
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
            dtype=types.FLOAT,
            output_layout="CHW",
            **({} if tuned else {"mirror": mirror}),
        )
        return image, label

    return training(
        batch_size=work.batch_size,
        num_threads=work.cores,
        device_id=0 if on_gpu else None,
        prefetch_queue_depth=3 if tuned else 2,
        exec_dynamic=tuned,
    )


def _documented(work: Work) -> Iterator[tuple[Any, Any]]:
    # On a GPU its iterator for PyTorch, which copies; on the CPU that one works as well.
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    batches = DALIGenericIterator(
        [_pipeline(work, tuned=False)],
        ["image", "label"],
        reader_name="reader",
        last_batch_policy=LastBatchPolicy.DROP,
        auto_reset=True,
    )
    while True:
        for (batch,) in batches:
            yield batch["image"], batch["label"][:, 0]


def _tuned(work: Work) -> Iterator[tuple[Any, Any]]:
    import numpy as np

    pipeline = _pipeline(work, tuned=True)
    pipeline.build()
    for _ in range(1):
        pipeline.schedule_run()
    while True:
        image, label = pipeline.share_outputs()
        pixels, labels = image.as_tensor(), np.asarray(label.as_cpu().as_tensor())[:, 0].copy()
        pipeline.release_outputs()
        pipeline.schedule_run()
        yield (pixels if work.device == "cuda" else np.from_dlpack(pixels)), labels


PEERS = [
    Peer("DALI as documented, PyTorch iterator", _documented, needs=("torch",)),
    Peer("DALI tuned by hand", _tuned),
]
