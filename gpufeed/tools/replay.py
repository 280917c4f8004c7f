"""A loader made again from a saved state, as far as its fingerprints tell how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from gpufeed.errors import ConfigError, ManifestError, StateError
from gpufeed.feed.loader import Loader
from gpufeed.feed.state import decode_state, read_state
from gpufeed.records import Manifest
from gpufeed.tools.named import Labels, Split, open_manifest, take_split
from gpufeed.tools.rebuild import rebuild_sampler, rebuild_transforms
from gpufeed.tools.show import Shown, draw_batch
from gpufeed.transforms import OutputFormat, RandomErasing, ToDtype, Transform, Views

if TYPE_CHECKING:
    from gpufeed.order.schedule import LastBatch

__all__ = ["Replayed", "replay_batch"]


@dataclass(frozen=True)
class Replayed:
    """A batch of a run, made again.

    Attributes:
        shown: its contact sheet.
        step: its number.
        state_step: the batch that a loader which loads the state hands out next.
        split: which part of the data the run was fed with.
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
    batch_size: int = 64,
    last_batch: LastBatch = "drop",
    on_error: Literal["raise", "substitute", "blank"] = "raise",
    device: str = "auto",
) -> Replayed:
    """Draw the contact sheet of a batch of the run that saved a state.

    Sampler and transforms are made anew from the state's fingerprints, and the split and labels of
    the data are found by the manifest's. So it is that batch of that run, given the run's global
    batch, which no state holds. The images are shown as plain levels, before they are normalised.

    Args:
        state: JSON, as `Loader.get_state` gives it.
        data: as `open_manifest` takes it; or the run's manifest, where it was filtered or put
            together.
        step: number of the batch; the one that was to come next where none is given.
        batch_size: the run's global batch, of all its processes together.
        last_batch: the run's.
        on_error: the run's.
        device: as for `Loader`.

    Raises:
        StateError: it is no state, or its sampler or transforms cannot be made from it.
        ManifestError: the data are not those of the state.
        ConfigError: an argument is out of range, or there is no such batch.
        DecodeError: an image cannot be read or decoded.
    """
    saved = decode_state(state)
    _, marks = read_state(saved)
    manifest, split = _find(data, marks["manifest"])
    loader = Loader(
        manifest,
        sampler=rebuild_sampler(marks["sampler"]),
        transforms=_shown_plain(rebuild_transforms(marks["transforms"])),
        batch_size=batch_size,
        last_batch=last_batch,
        on_error=on_error,
        max_failures=1.0,
        device=device,
    )
    with loader:
        # The output's format alone was changed, which changes no draw.
        try:
            loader.load_state_dict(saved, ignore=("transforms",))
        except StateError as error:
            raise StateError(
                f"{error}; batch_size must be the run's global batch, and last_batch the run's"
            ) from None
        at = loader.step
        chosen = at if step is None else step
        shown = draw_batch(loader, chosen, [f"seed {loader.sampler.seed}", f"split {split}"])
        return Replayed(shown, chosen, at, split)


def _find(data: str | Path | Manifest, fingerprint: str) -> tuple[Manifest, str]:
    """The labels and split of the data that have this fingerprint."""
    if isinstance(data, Manifest):
        if data.fingerprint() != fingerprint:
            raise ManifestError(
                f"the manifest's fingerprint is {data.fingerprint()[:8]}..., and the state was "
                f"saved with {fingerprint[:8]}..."
            )
        return data, "as given"
    labels: tuple[Labels | None, ...] = ("species", "class", None)
    tried = []
    for kind in labels:
        try:
            whole = open_manifest(data, kind)
        except ConfigError:
            continue  # of class folders there are no species
        for split in get_args(Split):
            try:
                part, name = take_split(whole, split, "train")
            except (ConfigError, ManifestError):
                continue  # not split, or nothing in this one
            if part.fingerprint() == fingerprint:
                return part, name
            tried.append(part.fingerprint()[:8])
    raise ManifestError(
        f"{data} is not what the state was saved with, whose manifest has the fingerprint "
        f"{fingerprint[:8]}...; its splits have {', '.join(dict.fromkeys(tried))}. A manifest that "
        "was filtered or put together is replayed by replay_batch(state, manifest)"
    )


def _shown_plain(made: list[Transform] | Views) -> list[Transform] | Views:
    """With levels as they are, to be looked at; nothing is left out, which would change draws."""
    if isinstance(made, Views):
        return Views([[_plain(each) for each in view] for view in made.views])
    plain = [_plain(each) for each in made]
    return plain if any(isinstance(each, OutputFormat) for each in plain) else [*plain, _LEVELS]


def _plain(transform: Transform) -> Transform:
    if isinstance(transform, RandomErasing):
        return RandomErasing(transform.p, transform.scale, transform.ratio)
    return _LEVELS if isinstance(transform, OutputFormat) else transform


_LEVELS = ToDtype("uint8", layout="NHWC")
