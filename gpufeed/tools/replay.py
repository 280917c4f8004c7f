"""A loader made again from a saved state, as far as its fingerprints tell how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gpufeed import transforms
from gpufeed.errors import ConfigError, ManifestError, StateError
from gpufeed.feed.loader import Loader
from gpufeed.feed.state import check_state, decode_state
from gpufeed.identity import describe, describe_all, parse_all
from gpufeed.order.balanced import ClassBalancedBatchSampler
from gpufeed.order.uniform import IndexSampler, RepeatedAugmentationSampler, SequentialSampler
from gpufeed.order.weighted import WeightedSampler, balanced_weights
from gpufeed.tools.named import Labels, Split, open_manifest, take_split
from gpufeed.tools.show import Shown, draw_batch
from gpufeed.transforms import OutputFormat, RandomErasing, ToDtype, Transform, Views

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler
    from gpufeed.order.schedule import LastBatch
    from gpufeed.records import Manifest

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
    data: str | Path,
    step: int | None = None,
    *,
    batch_size: int = 64,
    last_batch: LastBatch = "drop",
    on_error: Literal["raise", "substitute", "blank"] = "raise",
    device: str = "auto",
) -> Replayed:
    """Draw the contact sheet of a batch of the run that saved a state.

    Sampler and transforms are made anew from the state's fingerprints, and the split and labels of
    the data found by theirs, so that it is that batch of that run, given the run's global batch,
    which no state holds. The pictures are shown as plain levels, before they are normalised.

    Args:
        state: JSON, as `Loader.get_state` gives it.
        data: as `open_manifest` takes it.
        step: number of the batch; the one that was to come next where none is given.
        batch_size: the run's global batch, of all its processes together.
        last_batch: the run's.
        on_error: the run's.
        device: as for `Loader`.

    Raises:
        StateError: it is no state, or its sampler or transforms can not be made from it.
        ManifestError: the data are not those of the state.
        ConfigError: an argument is out of range, or there is no such batch.
        DecodeError: a picture can not be read or decoded.
    """
    saved = decode_state(state)
    marks = saved.get("fingerprints")
    if not isinstance(marks, Mapping) or not all(
        isinstance(marks.get(name), str) for name in ("manifest", "sampler", "transforms")
    ):
        raise StateError("this is no state of a gpufeed loader: it lacks fingerprints")
    check_state(saved, dict(marks), ())
    manifest, split = _find(data, marks["manifest"])
    loader = Loader(
        manifest,
        sampler=_sampler(marks["sampler"], manifest),
        transforms=_shown_plain(_transforms(marks["transforms"])),
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


def _find(data: str | Path, fingerprint: str) -> tuple[Manifest, str]:
    """The labels and split of the data that have this fingerprint."""
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
        "was filtered or put together can only be replayed by the program that made it, with "
        "loader.batch(step)"
    )


def _sampler(text: str, manifest: Manifest) -> Sampler:
    (kind, settings), *_ = parse_all(text)
    count, labels = len(manifest), manifest.frame["label"].to_numpy()
    settings.pop("num_records", None)
    for name in ("labels", "weights"):  # of which only digests are there
        settings.pop(name, None)
    made: dict[str, list[Callable[[], Sampler]]] = {
        "IndexSampler": [lambda: IndexSampler(count, **settings)],
        "SequentialSampler": [lambda: SequentialSampler(count, **settings)],
        "RepeatedAugmentationSampler": [lambda: RepeatedAugmentationSampler(count, **settings)],
        "ClassBalancedBatchSampler": [lambda: ClassBalancedBatchSampler(labels, **settings)],
        "WeightedSampler": [
            lambda: WeightedSampler(balanced_weights(labels, 1), **settings),
            lambda: WeightedSampler(balanced_weights(labels, 0.5), **settings),
        ],
    }
    for make in made.get(kind, []):
        try:
            sampler = make()
        except (TypeError, ConfigError):
            continue  # the text was edited, or is another version's
        if describe(sampler.identity) == text:
            return sampler
    raise StateError(
        f"the sampler {text} can not be made from its fingerprint, which does not hold all that it "
        "was made of; in the program that made it, loader.batch(step) is that batch"
    )


def _transforms(text: str) -> list[Transform] | Views:
    made = [_make(kind, settings) for kind, settings in parse_all(text)]
    if describe_all([each.identity for each in made]) != text:
        raise StateError(f"the transforms {text} can not be made from their fingerprint")
    if len(made) == 1 and isinstance(made[0], Views):
        return made[0]
    return [each for each in made if isinstance(each, Transform)]


def _make(kind: str, settings: dict[str, Any]) -> Transform | Views:
    found: Any = getattr(transforms, kind, None)
    if not (isinstance(found, type) and issubclass(found, Transform | Views)):
        raise StateError(
            f"the transform {kind} is none of gpufeed's own; in the program that has it, "
            "loader.batch(step) is that batch"
        )
    try:
        made: Transform | Views = found(**{name: _value(each) for name, each in settings.items()})
    except (TypeError, ConfigError) as error:
        raise StateError(f"{kind} can not be made from its fingerprint: {error}") from error
    return made


def _value(told: Any) -> Any:
    """A setting as it was given: transforms inside others are told as mappings."""
    if isinstance(told, dict) and "kind" in told:
        return _make(told["kind"], {name: each for name, each in told.items() if name != "kind"})
    return [_value(each) for each in told] if isinstance(told, list) else told


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
