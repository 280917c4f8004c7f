"""DALI's errors: what its messages say, and the error that each becomes."""

from __future__ import annotations

import re

from gpufeed.errors import PipelineError
from gpufeed.open.base import out_of_memory

__all__ = ["brief", "is_out_of_memory", "sample_of", "translated"]

# The words of DALI's own errors, of CUDA's, and the codes of nvImageCodec for a failed allocator.
_NO_MEMORY = re.compile(
    r"std::bad_alloc|CUDA allocation failed|Can't allocate \d+ bytes on (?:host|device)"
    r"|out of memory|nvImageCodec failure: '#(?:5|15)'"
)
_SAMPLE = re.compile(r"Failed to decode sample #(\d+)")


def brief(error: Exception) -> str:
    """Return DALI's message on one line, without its stack trace."""
    return " ".join(str(error).partition("Stacktrace")[0].split())


def is_out_of_memory(error: Exception) -> bool:
    """Return whether DALI failed because memory of the host or of the GPU was short."""
    # Before this word stand lines of the program, which may hold anything.
    cause = str(error).rpartition("encountered:")[2]
    return isinstance(error, MemoryError) or _NO_MEMORY.search(cause) is not None


def sample_of(message: str) -> int | None:
    """Return the number, in its operator's batch, of the image that DALI could not decode.

    None if the message names no image.
    """
    found = _SAMPLE.search(message)
    return None if found is None else int(found.group(1))


def translated(error: Exception, otherwise: str) -> PipelineError:
    """Return what to raise for an error of DALI.

    Args:
        error: the error.
        otherwise: what failed, if memory was not short.
    """
    if is_out_of_memory(error):
        return out_of_memory(brief(error))
    return PipelineError(f"{otherwise}: {brief(error)}")
