"""The demonstration: feeding one epoch of a synthetic set, with its figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufeed._util.cache_folder import cache_folder
from gpufeed._util.progress import progress as progress_bar
from gpufeed.adapters import make_adapter
from gpufeed.engine.device import resolve_device
from gpufeed.errors import ConfigError
from gpufeed.feed.loader import Loader
from gpufeed.feed.stats import Stats
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.tools.resolve import Preset, make_transforms

if TYPE_CHECKING:
    from gpufeed.adapters import Framework
    from gpufeed.records import Manifest

__all__ = ["Fed", "check_usable", "demo_set", "feed_epoch"]


@dataclass(frozen=True)
class Fed:
    """The result of feeding an epoch.

    Attributes:
        device: the device it ran on.
        first: the figures up to the first batch, including startup.
        whole: the figures of the whole epoch.
        arrays: the arrays of the first batch, as (name, shape, dtype).
        state: the loader's state after the first batch.
    """

    device: str
    first: Stats
    whole: Stats
    arrays: tuple[tuple[str, tuple[int, ...], str], ...]
    state: dict[str, Any]

    @property
    def images_per_second(self) -> float:
        """The rate after the first batch, or of the whole epoch if it has no other batch."""
        seconds = self.whole.seconds - self.first.seconds
        if seconds <= 0:
            return self.whole.images_per_second
        return (self.whole.images - self.first.images) / seconds


def check_usable(framework: Framework, device: str) -> None:
    """Check that a loader could be made, before minutes are spent on its data.

    Raises:
        GpufeedError: as `Loader` would.
    """
    make_adapter(framework, resolve_device(device, framework))


def demo_set(images: int, seed: int) -> Path:
    """Return the folder of the demonstration's data in the cache, drawing them if needed.

    Args:
        images: the number of images.
        seed: the seed of the set.

    Raises:
        ConfigError: an argument is out of range, or the cache cannot be written.
    """
    from gpufeed.tools.synth.write import FORMAT, write_nabirds

    folder = cache_folder() / f"demo-{images}-images-seed-{seed}-format-{FORMAT}"
    try:
        return write_nabirds(folder, images=images, seed=seed)
    except OSError as error:
        raise ConfigError(
            f"cannot write the demonstration's data to {folder}: {error.strerror or error}; set "
            "XDG_CACHE_HOME to a writable folder"
        ) from error


def feed_epoch(
    manifest: Manifest,
    *,
    preset: Preset = "train",
    batch_size: int = 64,
    seed: int = 0,
    device: str = "auto",
    framework: Framework = "numpy",
    progress: bool | None = None,
) -> Fed:
    """Feed one shuffled epoch, to the last record, and do nothing with the batches.

    Args:
        manifest: the records.
        preset: the name of the transforms.
        batch_size: records in a batch.
        seed: the seed of the order and of the random transforms.
        device: as for `Loader`.
        framework: as for `Loader`.
        progress: True or False to force or silence the progress bar; None shows it on a terminal.

    Raises:
        GpufeedError: as `Loader` does.
    """
    first: Stats | None = None
    state: dict[str, Any] = {}
    arrays: tuple[tuple[str, tuple[int, ...], str], ...] = ()
    with (
        Loader(
            manifest,
            sampler=IndexSampler(len(manifest), shuffle=True, seed=seed, num_epochs=1),
            transforms=make_transforms(preset),
            batch_size=batch_size,
            last_batch="partial",
            device=device,
            framework=framework,
            shard=ShardOptions(),
        ) as loader,
        progress_bar("feeding", len(manifest), show=progress, unit="images") as advance,
    ):
        for batch in loader:
            advance(len(batch["record_key"]))
            if first is None:
                first, state = loader.stats, loader.state_dict()
                arrays = tuple((name, tuple(a.shape), str(a.dtype)) for name, a in batch.items())
        whole = loader.stats
        return Fed(loader.device, first or whole, whole, arrays, state)
