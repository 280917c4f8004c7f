"""The demonstration: one epoch of a synthetic set, with its figures."""

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
from gpufeed.order.uniform import IndexSampler
from gpufeed.tools.named import Preset, make_transforms

if TYPE_CHECKING:
    from gpufeed.adapters import Framework
    from gpufeed.records import Manifest

__all__ = ["Fed", "check_usable", "demo_set", "feed_epoch"]


@dataclass(frozen=True)
class Fed:
    """What came of feeding an epoch.

    Attributes:
        device: where it ran.
        first: figures up to the first batch, the start of the pipeline included.
        whole: figures of the whole epoch.
        arrays: what the first batch holds, as (name, shape, dtype).
        state: the loader's state after the first batch.
    """

    device: str
    first: Stats
    whole: Stats
    arrays: tuple[tuple[str, tuple[int, ...], str], ...]
    state: dict[str, Any]

    @property
    def images_per_second(self) -> float:
        """The rate once it is under way: after the first batch, unless there is no other."""
        seconds = self.whole.seconds - self.first.seconds
        if seconds <= 0:
            return self.whole.images_per_second
        return (self.whole.images - self.first.images) / seconds


def check_usable(framework: Framework, device: str) -> None:
    """Find out whether a loader could be made, before minutes go into data for it.

    Raises:
        GpufeedError: as `Loader` would.
    """
    make_adapter(framework, resolve_device(device))


def demo_set(images: int, seed: int) -> Path:
    """Return the folder of the demonstration's data, in the cache, drawn unless it is there whole.

    Args:
        images: how many.
        seed: other ones for each.

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
            "XDG_CACHE_HOME to a folder that can be written"
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
        preset: what is done to the images.
        batch_size: records in a batch.
        seed: of the order and of the random transforms.
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
        ) as loader,
        progress_bar("feeding", len(manifest), show=progress, unit="images") as advance,
    ):
        for batch in loader:
            advance(len(batch["label"]))
            if first is None:
                first, state = loader.stats, loader.state_dict()
                arrays = tuple((name, tuple(a.shape), str(a.dtype)) for name, a in batch.items())
        whole = loader.stats
        return Fed(str(loader.device), first or whole, whole, arrays, state)
