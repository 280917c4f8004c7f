"""The openers that are compared: the one list that names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Choice", "choices", "with_engines"]

_CUDA = "nvjpeg(?!.*hw)"


@dataclass(frozen=True)
class Choice:
    """A value of the `Loader`'s argument `opener`.

    Attributes:
        name: as it is reported.
        opener: the value.
        decoder: a regular expression of the name that nvImageCodec's log gives to the decoder that
            all JPEGs of photos should reach; "" where several share them.
        devices: where it is to work.
    """

    name: str
    opener: Any
    decoder: str = ""
    devices: tuple[str, ...] = ("cuda",)

    @property
    def is_pure(self) -> bool:
        """Whether one kind of decoder takes all records."""
        return isinstance(self.opener, str)


def with_engines(share: float) -> Choice:
    """Return the choice in which the GPU's JPEG engines take this share of the records."""
    if not share:
        return Choice("cuda", "cuda", _CUDA)
    if share == 1:
        return Choice("hardware", "hardware", "engines|hw")
    shares = {"cuda": 1 - share, "hardware": share}
    return Choice(f"cuda {1 - share:g}, hardware {share:g}", shares)


SHARES = (0.1, 0.25, 0.5)

_ALL = (
    Choice("threads", "threads", "libjpeg", ("cpu", "cuda")),
    Choice("graph", "graph", "libjpeg", ("cpu",)),
    Choice("threads 0.5, graph 0.5", {"threads": 0.5, "graph": 0.5}, "libjpeg", ("cpu",)),
    with_engines(0),
    with_engines(1),
    *(with_engines(share) for share in SHARES),
    *(
        Choice(
            f"threads {1 - share:g}, hardware {share:g}", {"threads": 1 - share, "hardware": share}
        )
        for share in SHARES
    ),
    Choice("cuda_windows", "cuda_windows", _CUDA),  # last, since nvImageCodec 0.9.0 may crash
)


def choices(device: str) -> list[Choice]:
    """Return those for a device, "cpu" or "cuda"."""
    return [choice for choice in _ALL if device in choice.devices]
