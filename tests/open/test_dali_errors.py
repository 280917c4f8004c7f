"""DALI's errors are told apart by its own words, which are looked up in what is installed."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest
from nvidia import dali, nvimgcodec

from gpufeed.open.dali_errors import is_out_of_memory, sample_of, translated

DALI, NVIMGCODEC = Path(dali.__file__).parent, Path(nvimgcodec.__file__).parent
CUDA_ERROR, CODES = "include/dali/core/cuda_error.h", "include/nvimgcodec.h"

NO_MEMORY = {
    # `dali::CUDABadAlloc`, the error of every CUDA call that finds no memory.
    "CUDA allocation failed": (DALI / CUDA_ERROR, b'"CUDA allocation failed"'),
    "Can't allocate 805306368 bytes on device 0.": (
        DALI / CUDA_ERROR,
        b"Can't allocate %zu bytes on device %d.",
    ),
    "Can't allocate 8388608 bytes on host.": (DALI / CUDA_ERROR, b"Can't allocate %zu bytes on"),
    # `dali::CUDAError`: the name and the text of CUDA's own code.
    "CUDA runtime API error cudaErrorMemoryAllocation (2):\nout of memory": (
        DALI / "libdali_core.so",
        b"cudaErrorMemoryAllocation\0out of memory\0",
    ),
    # Codes of nvImageCodec, which DALI gives as numbers.
    "nvImageCodec failure: '#5'": (NVIMGCODEC / CODES, b"_STATUS_ALLOCATOR_FAILURE = 5,"),
    "nvImageCodec failure: '#15'": (NVIMGCODEC / CODES, b"_EXTENSION_ALLOCATOR_FAILURE = 15,"),
    # As seen in runs on the CPU.
    "std::bad_alloc": (DALI / "libdali_core.so", b"bad_alloc"),
}
OTHERS = {
    "nvImageCodec failure: '#3'": (NVIMGCODEC / CODES, b"_STATUS_BAD_CODESTREAM = 3,"),
    "nvImageCodec failure: '#50'": (DALI / "libdali_operators.so", b"nvImageCodec failure: '#"),
    "Failed to decode sample #12 : ": (DALI / "libdali_operators.so", b"Failed to decode sample #"),
    "CUDA runtime API error cudaErrorIllegalAddress (700)": (
        DALI / "libdali_core.so",
        b"CUDA runtime API error ",
    ),
}


def as_raised(text: str, line: str = "fn.decoders.image(encoded, **how)") -> RuntimeError:
    """Return DALI's error as it comes out of a pipeline, recorded on the CPU."""
    return RuntimeError(
        "Critical error in pipeline:\nCritical error in pipeline:\n"
        "Error in MIXED operator `nvidia.dali.fn.decoders.image`,\n"
        "which was used in the pipeline definition with the following traceback:\n\n"
        f'  File "/home/u/graph.py", line 114, in _window\n    {line}\n\n'
        f"encountered:\n\n{text}\nCurrent pipeline object is no longer valid.\n"
        "Current pipeline object is no longer valid."
    )


@pytest.mark.parametrize("text", [*NO_MEMORY, *OTHERS])
def test_the_words_are_dalis(text: str) -> None:
    path, words = {**NO_MEMORY, **OTHERS}[text]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        assert content.find(words) >= 0


@pytest.mark.parametrize("text", NO_MEMORY)
def test_missing_memory_is_told_with_the_ways_out(text: str) -> None:
    for error in (as_raised(text), RuntimeError(text), MemoryError(text)):
        assert is_out_of_memory(error)
        said = str(translated(error, "DALI failed"))
        assert said.startswith("out of memory; use a smaller batch_size, size or prefetch, ")
        assert 'on a GPU opener="threads"' in said
        assert "gpufeed prepare" in said
        assert " ".join(text.split()) in said


@pytest.mark.parametrize("text", OTHERS)
def test_other_errors_are_not_taken_for_missing_memory(text: str) -> None:
    # A line of the traceback is no error.
    error = as_raised(text, "image = shrink(image)  # otherwise: CUDA allocation failed")
    assert not is_out_of_memory(error)
    said = str(translated(error, "DALI failed on batch 3"))
    assert re.match(r"DALI failed on batch 3: Critical error .*Error in MIXED operator", said)
    assert "Stacktrace" not in str(translated(RuntimeError(f"{text}\nStacktrace (3)"), "x"))


def test_the_image_that_dali_names() -> None:
    assert sample_of("encountered: Failed to decode sample #12 : Current") == 12
    assert sample_of("encountered: nvImageCodec failure: '#3'") is None
