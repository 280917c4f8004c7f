"""Replaying a batch of a run from a saved state, with what its fingerprints record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpufeed.errors import ConfigError, ManifestError, StateError
from gpufeed.feed.loader import Loader
from gpufeed.feed.state import decode_state, read_state
from gpufeed.order.shard import ShardOptions
from gpufeed.records import Manifest
from gpufeed.tools.find_data import ListOptions
from gpufeed.tools.rebuild import rebuild_sampler, rebuild_transforms
from gpufeed.tools.resolve import Labels, open_manifest, split_names, take_split
from gpufeed.tools.show import Shown, draw_batch
from gpufeed.transforms import OutputFormat, RandomErasing, ToDtype, Transform, Views

if TYPE_CHECKING:
    from gpufeed.order.schedule import LastBatch

__all__ = ["Replayed", "replay_batch"]


@dataclass(frozen=True)
class Replayed:
    """A replayed batch of a run.

    Attributes:
        shown: its contact sheet.
        step: its number.
        state_step: the step of a loader that loads the state.
        split: the split of the data that the run used.
    """

    shown: Shown
    step: int
    state_step: int
    split: str


def replay_batch(
    state: bytes,
    data: str | Path | Manifest,
    step: int | None = None,
    *,
    options: ListOptions | None = None,
    without: Path | None = None,
    batch_size: int = 64,
    last_batch: LastBatch = "drop",
    on_error: Literal["raise", "substitute", "blank"] = "raise",
    device: str = "auto",
) -> Replayed:
    """Draw the contact sheet of a batch of the run that saved a state.

    The sampler and the transforms are rebuilt from the state's fingerprints, and the manifest's
    fingerprint identifies the split and the labels. With the run's global batch size, which states
    do not contain, the result is that batch of that run. The images are shown before
    normalisation.

    Args:
        state: JSON, the result of `Loader.get_state`.
        data: a path, as for `open_manifest`, such as that of the run's saved manifest; or the
            manifest.
        step: the number of the batch; None for the next one after the state.
        options: how to read the list of images, and where they are, as for `open_manifest`.
        without: a list of bad images to leave out, as for `open_manifest`.
        batch_size: the run's global batch size, over all its processes.
        last_batch: the run's last_batch.
        on_error: the run's on_error.
        device: as for `Loader`.

    Raises:
        StateError: the state is malformed, or its sampler or transforms cannot be rebuilt.
        ManifestError: the data are not those of the state.
        ConfigError: an argument is out of range, or there is no such batch.
        DecodeError: an image cannot be read or decoded.
    """
    saved = decode_state(state)
    _, fingerprints = read_state(saved)
    manifest, split = _find(data, fingerprints["manifest"], options, without)
    loader = Loader(
        manifest,
        sampler=rebuild_sampler(fingerprints["sampler"]),
        transforms=_as_uint8(rebuild_transforms(fingerprints["transforms"])),
        batch_size=batch_size,
        last_batch=last_batch,
        on_error=on_error,
        max_failures=1.0,
        device=device,
        shard=ShardOptions(),
    )
    with loader:
        # The output format differs, which does not change any random numbers; and perhaps the
        # opener, which may need another device.
        try:
            loader.load_state_dict(saved, ignore=("transforms", "opener"))
        except StateError as error:
            raise StateError(
                f"{error}; batch_size must be the run's global batch size, and last_batch the run's"
            ) from None
        at = loader.step
        chosen = at if step is None else step
        shown = draw_batch(loader, chosen, [f"seed {loader.sampler.seed}", f"split {split}"])
        return Replayed(shown, chosen, at, split)


def _find(
    data: str | Path | Manifest,
    fingerprint: str,
    options: ListOptions | None,
    without: Path | None,
) -> tuple[Manifest, str]:
    """Return the manifest with this fingerprint, and the name of its split."""
    if isinstance(data, Manifest):
        if data.fingerprint() != fingerprint:
            raise ManifestError(
                f"the manifest's fingerprint is {data.fingerprint()[:8]}..., and the state was "
                f"saved with {fingerprint[:8]}..."
            )
        return data, "as given"
    labels: tuple[Labels, ...] = ("species", "class")
    tried = []
    for kind in labels:
        try:
            whole = open_manifest(data, kind, without, options)
        except ConfigError:
            if kind == "species":  # which only NABirds has
                continue
            raise
        for split in split_names(whole):
            try:
                part, name = take_split(whole, split, "train")
            except ManifestError:
                continue  # an empty split
            if part.fingerprint() == fingerprint:
                return part, name
            tried.append(part.fingerprint()[:8])
    raise ManifestError(
        f"the state was saved with a manifest whose fingerprint is {fingerprint[:8]}..., but the "
        f"splits of {data} have {', '.join(dict.fromkeys(tried))}; pass the run's data, or if its "
        "manifest was made of them in Python, the file of manifest.save()"
    )


def _as_uint8(transforms: list[Transform] | Views) -> list[Transform] | Views:
    """Replace the output format by uint8; dropping transforms would change random numbers."""
    if isinstance(transforms, Views):
        return Views([[_with_uint8(each) for each in view] for view in transforms.views])
    shown = [_with_uint8(each) for each in transforms]
    return shown if any(isinstance(each, OutputFormat) for each in shown) else [*shown, _UINT8]


def _with_uint8(transform: Transform) -> Transform:
    if isinstance(transform, RandomErasing):
        return RandomErasing(transform.p, transform.scale, transform.ratio)
    return _UINT8 if isinstance(transform, OutputFormat) else transform


_UINT8 = ToDtype("uint8", layout="NHWC")
