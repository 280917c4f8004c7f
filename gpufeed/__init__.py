"""gpufeed: an image feed for GPU training in which every batch has a number.

Names are imported when first used, so that `import gpufeed` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpufeed import presets as presets
    from gpufeed import transforms as transforms
    from gpufeed.adapters.jax import shard as shard_from_jax
    from gpufeed.adapters.torch import shard as shard_from_torch
    from gpufeed.errors import (
        ConfigError,
        DecodeError,
        DeviceError,
        EpochsExhausted,
        GpufeedError,
        LedgerError,
        ManifestError,
        MissingExtraError,
        PipelineError,
        SizeMismatchError,
        SourceError,
        StateError,
        StateMismatchError,
        TooManyFailuresError,
        TransformError,
    )
    from gpufeed.faults.quarantine import Failure, Quarantine
    from gpufeed.feed.loader import Batch, Loader
    from gpufeed.feed.stats import Stats
    from gpufeed.ledger import Ledger
    from gpufeed.order.balanced import ClassBalancedBatchSampler
    from gpufeed.order.foreign import GrainSampler, RecordedSampler
    from gpufeed.order.launchers import shard_from_env
    from gpufeed.order.mixture import MixtureSampler
    from gpufeed.order.sampler import RecordMetadata, Sampler, Visits
    from gpufeed.order.shard import ShardOptions
    from gpufeed.order.uniform import (
        IndexSampler,
        RepeatedAugmentationSampler,
        SequentialSampler,
        SubsetSampler,
    )
    from gpufeed.order.weighted import WeightedSampler, balanced_weights
    from gpufeed.records import Manifest, concat, read_folder, read_nabirds, read_table
    from gpufeed.source import FileSource, MemorySource, Source
    from gpufeed.transforms import (
        JPEG,
        AugMix,
        AutoAugment,
        BoxCrop,
        CenterCrop,
        ColorJitter,
        Compose,
        Contrast,
        CutMix,
        FiveCrop,
        Gamma,
        GaussianBlur,
        Lambda,
        MixUp,
        Normalize,
        Pad,
        PadToSquare,
        RandAugment,
        RandomAdjustSharpness,
        RandomAffine,
        RandomApply,
        RandomAutocontrast,
        RandomChoice,
        RandomCrop,
        RandomEqualize,
        RandomErasing,
        RandomGrayscale,
        RandomHorizontalFlip,
        RandomInvert,
        RandomIoUCrop,
        RandomPerspective,
        RandomPosterize,
        RandomResizedCrop,
        RandomRotation,
        RandomShortestSize,
        RandomSolarize,
        RandomVerticalFlip,
        RandomZoomOut,
        Resize,
        ResizeLongest,
        ScaleJitter,
        SoftLabels,
        TenCrop,
        TimmRandAugment,
        ToDtype,
        TrivialAugmentWide,
        Views,
    )

__version__ = "0.1.0"

_MODULES = ("presets", "transforms")
_HOMES = {
    "gpufeed.errors": (
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
    ),
    "gpufeed.ledger": ("Ledger",),
    "gpufeed.feed.loader": ("Batch", "Loader"),
    "gpufeed.order.balanced": ("ClassBalancedBatchSampler",),
    "gpufeed.order.foreign": ("GrainSampler", "RecordedSampler"),
    "gpufeed.order.launchers": ("shard_from_env",),
    "gpufeed.order.mixture": ("MixtureSampler",),
    "gpufeed.order.sampler": ("RecordMetadata", "Sampler", "Visits"),
    "gpufeed.order.shard": ("ShardOptions",),
    "gpufeed.order.uniform": (
        "IndexSampler",
        "RepeatedAugmentationSampler",
        "SequentialSampler",
        "SubsetSampler",
    ),
    "gpufeed.order.weighted": ("WeightedSampler", "balanced_weights"),
    "gpufeed.faults.quarantine": ("Failure", "Quarantine"),
    "gpufeed.records": ("Manifest", "concat", "read_folder", "read_nabirds", "read_table"),
    "gpufeed.feed.stats": ("Stats",),
    "gpufeed.source": ("FileSource", "MemorySource", "Source"),
    "gpufeed.transforms": (
        "AugMix",
        "AutoAugment",
        "BoxCrop",
        "CenterCrop",
        "ColorJitter",
        "Compose",
        "Contrast",
        "CutMix",
        "FiveCrop",
        "Gamma",
        "GaussianBlur",
        "JPEG",
        "Lambda",
        "MixUp",
        "Normalize",
        "Pad",
        "PadToSquare",
        "RandAugment",
        "RandomAdjustSharpness",
        "RandomAffine",
        "RandomApply",
        "RandomAutocontrast",
        "RandomChoice",
        "RandomCrop",
        "RandomEqualize",
        "RandomErasing",
        "RandomGrayscale",
        "RandomHorizontalFlip",
        "RandomInvert",
        "RandomIoUCrop",
        "RandomPerspective",
        "RandomPosterize",
        "RandomResizedCrop",
        "RandomRotation",
        "RandomShortestSize",
        "RandomSolarize",
        "RandomVerticalFlip",
        "RandomZoomOut",
        "Resize",
        "ResizeLongest",
        "ScaleJitter",
        "SoftLabels",
        "TenCrop",
        "TimmRandAugment",
        "ToDtype",
        "TrivialAugmentWide",
        "Views",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SHARDS = {"shard_from_torch": "torch", "shard_from_jax": "jax"}

__all__ = [
    "JPEG",
    "AugMix",
    "AutoAugment",
    "Batch",
    "BoxCrop",
    "CenterCrop",
    "ClassBalancedBatchSampler",
    "ColorJitter",
    "Compose",
    "ConfigError",
    "Contrast",
    "CutMix",
    "DecodeError",
    "DeviceError",
    "EpochsExhausted",
    "Failure",
    "FileSource",
    "FiveCrop",
    "Gamma",
    "GaussianBlur",
    "GpufeedError",
    "GrainSampler",
    "IndexSampler",
    "Lambda",
    "Ledger",
    "LedgerError",
    "Loader",
    "Manifest",
    "ManifestError",
    "MemorySource",
    "MissingExtraError",
    "MixUp",
    "MixtureSampler",
    "Normalize",
    "Pad",
    "PadToSquare",
    "PipelineError",
    "Quarantine",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "RecordMetadata",
    "RecordedSampler",
    "RepeatedAugmentationSampler",
    "Resize",
    "ResizeLongest",
    "Sampler",
    "ScaleJitter",
    "SequentialSampler",
    "ShardOptions",
    "SizeMismatchError",
    "SoftLabels",
    "Source",
    "SourceError",
    "StateError",
    "StateMismatchError",
    "Stats",
    "SubsetSampler",
    "TenCrop",
    "TimmRandAugment",
    "ToDtype",
    "TooManyFailuresError",
    "TransformError",
    "TrivialAugmentWide",
    "Views",
    "Visits",
    "WeightedSampler",
    "balanced_weights",
    "concat",
    "presets",
    "read_folder",
    "read_nabirds",
    "read_table",
    "shard_from_env",
    "shard_from_jax",
    "shard_from_torch",
    "transforms",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gpufeed.{name}")
    if name in _SHARDS:
        from gpufeed.adapters import load_adapter

        return load_adapter(_SHARDS[name]).shard
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gpufeed' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
