"""What can go wrong, as one tree: every error gpufeed raises on purpose is a `GpufeedError`.

GpufeedError
|- ManifestError       the list of images, or a file it came from, is not what it should be
|- ConfigError         an argument is out of range, or two of them contradict each other
|- StateError          a saved state cannot be loaded
|  `- StateMismatchError   it was saved with another manifest, sampler or transforms
|- LedgerError         a ledger cannot be read, or ledgers are not of one run
|- EpochsExhausted     the sampler has no epoch left
|- DecodeError         one image could not be read or decoded; names the record and its file
|  `- SizeMismatchError    it decodes, but is not of the size the manifest gives
|- TooManyFailuresError  more images are bad than the loader was told to put up with
|- SourceError         a source raised an error, or returned what is no image
|- TransformError      a transform raised an error; names it
|- PipelineError       DALI failed in a way that is no single image's fault
|- DeviceError         the device asked for is not there
`- MissingExtraError   an optional package is not installed
"""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed._util.sanitize import printable

__all__ = [
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


GO_ON = (
    'to go on, take on_error="substitute" or skip() the batch; `gpufeed check DATA --parquet FILE` '
    "lists all that are bad, for Manifest.without"
)
"""What to do where an image is bad: a note of `DecodeError`, for those who have a loader."""


class GpufeedError(Exception):
    """Root of all errors that gpufeed raises on purpose.

    As text it is one line that can be printed, whatever names of files stand in it.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class ManifestError(GpufeedError, ValueError):
    """A manifest, or a file it is read from, is wrong; the message names file and line or row."""


class ConfigError(GpufeedError, ValueError):
    """An argument is out of range or contradicts another; the message names it and its value."""


class StateError(GpufeedError, ValueError):
    """A saved state cannot be loaded here; the message names what differs."""


class StateMismatchError(StateError):
    """A state was saved with something else than this loader has.

    Attributes:
        changed: from what differs ("manifest", "sampler", "transforms", "version") to what it was
            and what it is.
    """

    def __init__(self, message: str, changed: dict[str, tuple[str, str]] | None = None) -> None:
        super().__init__(message)
        self.changed = changed or {}


class LedgerError(GpufeedError, ValueError):
    """A ledger cannot be read, or does not belong to the others."""


class EpochsExhausted(GpufeedError):  # noqa: N818 - reads as the condition it names
    """The loader was asked to go on after the sampler's last epoch."""


class DecodeError(GpufeedError):
    """One record's image could not be read or decoded.

    Attributes:
        record_key: the record's number in its manifest.
        path: the image's name as its source gives it: the file, where it is one.
        reason: what was found wrong, in words.
    """

    def __init__(self, record_key: int, path: str, reason: str) -> None:
        super().__init__(record_key, path, reason)
        self.record_key = record_key
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return printable(f"record {self.record_key} ({self.path}): {self.reason}")


class SizeMismatchError(DecodeError):
    """An image's own size is not the one its manifest gives."""


class TooManyFailuresError(GpufeedError):
    """More images could not be read or decoded than `max_failures` allows.

    Attributes:
        failures: the error of each, in the order in which they were found.
    """

    def __init__(self, message: str, failures: Sequence[DecodeError] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


class SourceError(GpufeedError):
    """A source, one of a user's own say, does not do what `Source` asks of it; names it."""


class TransformError(GpufeedError):
    """A transform, one of a user's own say, raised an error, which is this one's cause.

    Attributes:
        transform: its class, and for a `Lambda` the function's name.
        said: the error, as text.
        step: the batch that it was at work on; None where it was at work for all.
        record_key: the record; None where it was at work on a whole batch.
        path: that record's file.
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
    """DALI failed, and no single image was found to be the cause."""


class DeviceError(GpufeedError, RuntimeError):
    """The device asked for is not usable on this machine."""


class MissingExtraError(GpufeedError, ImportError):
    """An optional package is missing; the message has the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)  # what the error is made of again when it is unpickled
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f'{self.package} is not installed; run: pip install "gpufeed[{self.extra}]"'
