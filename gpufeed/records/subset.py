"""Takes torch's `Subset` of a manifest for a manifest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.records.manifest import Manifest

__all__ = ["Subset", "as_manifest"]


class Subset(Protocol):
    """What `torch.utils.data.Subset` has: part of a dataset."""

    @property
    def dataset(self) -> Any: ...  # noqa: D102
    @property
    def indices(self) -> Sequence[int]: ...  # noqa: D102


def as_manifest(data: Manifest | Subset) -> Manifest:
    """Return a manifest, or the images of a subset of one, or of a subset of a subset.

    Raises:
        ConfigError: it is neither, or an index is out of range.
    """
    if isinstance(data, Manifest):
        return data
    if not (hasattr(data, "dataset") and hasattr(data, "indices")):
        hint = 'for images in memory, read_table({"label": labels}, source=MemorySource(images))'
        if isinstance(data, list) and data and isinstance(data[0], str | os.PathLike):
            hint = 'for paths, read_table({"path": paths, "label": labels})'
        elif hasattr(data, "datasets"):
            hint = "concat([first, second]) joins several"
        elif hasattr(data, "features"):
            hint = "read_huggingface(dataset) makes one of a datasets.Dataset"
        raise ConfigError(
            f"manifest is {short(data)}; it must be a Manifest, as read_folder and read_table "
            f"return, or a Subset of one; {hint}"
        )
    return as_manifest(data.dataset).take(data.indices)
