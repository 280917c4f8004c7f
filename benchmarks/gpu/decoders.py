"""Which decoder takes which images: by nvImageCodec's log, NVML, and CPU time."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gpufeed
from benchmarks.compare.gpu import GpuWatch
from benchmarks.gpu.choices import Choice, choices
from benchmarks.gpu.data import encoded_as, in_memory, shrunk
from benchmarks.gpu.job import Facts, Job

__all__ = ["cases", "count_decoders"]

_KINDS = ("JPEG 4:2:0", "JPEG 4:4:4", "JPEG 4:2:2", "JPEG grey", "JPEG CMYK", "JPEG progressive")
_PHOTOS = "JPEG 4:2:0"
_TELLING = re.compile(r"WARN|ERROR|HW|fancy|fail|engine", re.IGNORECASE)


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return a case for each opener and kind of JPEG."""
    # Read when nvImageCodec is loaded, for DALI and for its Python package.
    os.environ["DALI_NVIMGCODEC_LOG_LEVEL"] = os.environ["PYNVIMGCODEC_VERBOSITY"] = "4"
    return {
        f"{choice.name}: {kind}": partial(_case, job, choice, kind)
        for choice in choices(job.device)
        for kind in (_KINDS if choice.is_pure else (_PHOTOS,))
    }


def _case(job: Job, choice: Choice, kind: str) -> Facts:
    # The engines take batches of many images only.
    count = job.pick(64, 8, 4)
    files, sizes = encoded_as(shrunk(job, count), kind)
    watch, images = GpuWatch(job.device), 0

    def opened() -> gpufeed.Loader:
        return gpufeed.Loader(
            in_memory(files, sizes),
            sampler=gpufeed.SequentialSampler(count, num_epochs=None),
            batch_size=count,
            device=job.device,
            opener=choice.opener,
            shard=gpufeed.ShardOptions(),
        )

    # The log is whole once the loader is closed: DALI decodes ahead.
    with _stderr() as said, opened() as loader:
        loader.batch(0)
    took = count_decoders(said[0])
    with _stderr(), opened() as loader:
        loader.batch(0)
        with watch.looking():
            cpu, began = time.process_time(), time.monotonic()
            while time.monotonic() - began < job.seconds or not images:
                images += sum(len(batch["record_key"]) for batch in loader)
            cpu = time.process_time() - cpu
    facts: Facts = {
        "took": ", ".join(f"{name} {number}" for name, number in took.most_common()),
        "CPU ms an image": 1000 * cpu / images,
        "engines busy": watch.figures["jpeg_share"],
        "GPU busy": watch.figures["gpu_share"],
    }
    if kind == _PHOTOS and choice.decoder:
        right = sum(number for name, number in took.items() if re.search(choice.decoder, name))
        facts |= {"goal": f"all decoded by {choice.decoder}", "found": facts["took"]}
        facts["ok"] = bool(took) and right == took.total()
    lines = Counter(re.sub(r"#\d+", "#", line) for line in said[0].splitlines())
    telling = [f"{n} x {line}" for line, n in lines.items() if _TELLING.search(line)]
    return {**facts, "log": " / ".join(telling)[:1000]}


def count_decoders(log: str) -> Counter[str]:
    """Count images by decoder from nvImageCodec's log.

    The log names the decoder of each image that is decoded by itself. The others went to a decoder
    of whole batches, which only the hardware engines have.
    """
    named = Counter(re.findall(r"(\w+)_decoder process #\d+", log))
    total = sum(map(int, re.findall(r"\] decode num_samples=(\d+)", log)))
    return named + Counter(engines=total - named.total())


@contextmanager
def _stderr() -> Iterator[list[str]]:
    """Collect what this process writes to standard error, from C++ too, as one text."""
    said: list[str] = []
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "stderr")
        with file.open("wb") as opened:
            os.dup2(opened.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            text: Any = file.read_text(errors="replace")
            said.append(re.sub(r"\x1b\[[0-9;]*m", "", text))
