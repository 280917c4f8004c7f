"""The exception hierarchy: every error that gpufeed raises deliberately is a `GpufeedError`.

GpufeedError
|- ManifestError       the manifest, or a file it is read from, is invalid
|- ConfigError         an argument is out of range or contradicts another
|- StateError          a saved state cannot be loaded
|  `- StateMismatchError   the state belongs to another manifest, sampler, transforms or opener
|- LedgerError         a ledger cannot be read, or belongs to another run
|- EpochsExhausted     the sampler has no epochs left
|- DecodeError         an image could not be read or decoded; names the record and its file
|  `- SizeMismatchError    the image's size differs from the manifest's
|- CanaryError         an image has other pixels than when it is made again on the CPU
|- TooManyFailuresError  more images failed than `max_failures` allows
|- SourceError         a source raised an error or returned something that is not an image
|- TransformError      a transform raised an error; names the transform
|- PipelineError       DALI failed, and no single image is the cause
|- DeviceError         the requested device is not available
`- MissingExtraError   an optional package is not installed
"""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed._util.sanitize import printable

__all__ = [
    "CanaryError",
    "ConfigError",
    "DecodeError",
    "DeviceError",
    "EpochsExhausted",
    "GpufeedError",
    "LedgerError",
    "ManifestError",
    "MissingExtraError",
    "PipelineError",
    "SizeMismatchError",
    "SourceError",
    "StateError",
    "StateMismatchError",
    "TooManyFailuresError",
    "TransformError",
]


CONTINUE_HINT = (
    'to continue, pass on_error="substitute" or skip() the batch; `gpufeed check DATA --parquet '
    "FILE` lists every bad image, for Manifest.without"
)
"""Note that a loader adds to a `DecodeError`: what to do about a bad image."""


class GpufeedError(Exception):
    """Base class of all errors that gpufeed raises deliberately.

    Its text is a single printable line, whatever file names it contains.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class ManifestError(GpufeedError, ValueError):
    """A manifest, or a file it is read from, is invalid; the message names file and line or row."""


class ConfigError(GpufeedError, ValueError):
    """An argument is out of range or contradicts another; the message names it and its value."""


class StateError(GpufeedError, ValueError):
    """A saved state cannot be loaded into this loader; the message names what differs."""


class StateMismatchError(StateError):
    """A saved state does not match this loader.

    Attributes:
        changed: maps each part that differs ("manifest", "sampler", "transforms", "opener",
            "version") to its saved and its current value.
    """

    def __init__(self, message: str, changed: dict[str, tuple[str, str]] | None = None) -> None:
        super().__init__(message)
        self.changed = changed or {}


class LedgerError(GpufeedError, ValueError):
    """A ledger cannot be read, or belongs to another run."""


class EpochsExhausted(GpufeedError):  # noqa: N818 - reads as the condition it names
    """The loader was iterated past the sampler's last epoch."""


class DecodeError(GpufeedError):
    """One record's image could not be read or decoded.

    Attributes:
        record_key: row number of the record in its manifest.
        path: name of the image as its source gives it, such as a file path.
        reason: why it failed, in words.
    """

    def __init__(self, record_key: int, path: str, reason: str) -> None:
        super().__init__(record_key, path, reason)
        self.record_key = record_key
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return printable(f"record {self.record_key} ({self.path}): {self.reason}")


class SizeMismatchError(DecodeError):
    """The size of an image differs from the size in its manifest."""


class CanaryError(GpufeedError):
    """An image that was handed out has other pixels than when it is made again on the CPU.

    Attributes:
        step: number of its batch.
        record_key: row number of the record in its manifest.
        path: name of the image as its source gives it, such as a file path.
        distance: how far apart the two are, in grey levels: see docs/how-to/canary.md.
        sheet: path of a PNG file of both; None if it could not be written.
    """

    def __init__(
        self, step: int, record_key: int, path: str, distance: float, sheet: str | None
    ) -> None:
        super().__init__(step, record_key, path, distance, sheet)
        self.step = step
        self.record_key = record_key
        self.path = path
        self.distance = distance
        self.sheet = sheet

    def __str__(self) -> str:
        shown = f"{self.sheet} shows both" if self.sheet else "no file of both could be written"
        return printable(
            f"record {self.record_key} ({self.path}) in batch {self.step} has other pixels than "
            f"when it is made again on the CPU: {self.distance:.0f} grey levels apart, where they "
            f"differ most; {shown}. Images of other batches may be wrong too. Find out with "
            'opener="threads", which decodes on the CPU, whether the decoder of a GPU is at fault; '
            "to go on with the run, catch this error and iterate on"
        )


class TooManyFailuresError(GpufeedError):
    """More images could not be read or decoded than `max_failures` allows.

    Attributes:
        failures: the error of each record, in the order they were found.
    """

    def __init__(self, message: str, failures: Sequence[DecodeError] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


class SourceError(GpufeedError):
    """A source violates the `Source` protocol; the message names the source."""


class TransformError(GpufeedError):
    """A transform raised an error, which is the `__cause__` of this one.

    Attributes:
        transform: class of the transform; for a `Lambda` also the name of its function.
        said: text of the original error.
        step: batch being processed; None if the error concerns every batch.
        record_key: record being processed; None if the transform was processing a whole batch.
        path: name of that record's image.
    """

    def __init__(self, transform: str, said: str) -> None:
        super().__init__(transform, said)
        self.transform = transform
        self.said = said
        self.step: int | None = None
        self.record_key: int | None = None
        self.path: str | None = None

    def __str__(self) -> str:
        place = "" if self.step is None else f" in batch {self.step}"
        if self.record_key is not None:
            place = f" for record {self.record_key} ({self.path}){place}"
        return printable(f"the transform {self.transform} failed{place}: {self.said}")


class PipelineError(GpufeedError, RuntimeError):
    """DALI failed, and no single image is the cause."""


class DeviceError(GpufeedError, RuntimeError):
    """The requested device is not usable on this machine."""


class MissingExtraError(GpufeedError, ImportError):
    """An optional package is missing; the message gives the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)  # unpickling passes these arguments again
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f'{self.package} is not installed; run: pip install "gpufeed[{self.extra}]"'
