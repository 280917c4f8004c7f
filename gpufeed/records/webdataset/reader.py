"""The public reader of tar shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from gpufeed._util.sanitize import sanitize, short
from gpufeed.decode.headers import DepthError, ImageHeader, check_depth
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image
from gpufeed.records.folder import EXTENSIONS
from gpufeed.records.labels import RENUMBER, read_labels
from gpufeed.records.manifest import Manifest, class_names
from gpufeed.records.table_files import FAILURES, first_line
from gpufeed.records.webdataset.index import index_shards
from gpufeed.records.webdataset.values import value_columns
from gpufeed.records.webdataset.wanted import Wanted, parse_image, parse_value
from gpufeed.source.paths import PATH_CHARS
from gpufeed.source.patterns import Patterns, locate
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import Stamp, Storage

__all__ = ["list_webdataset", "read_webdataset"]

_IMAGES = ";".join(each[1:] for each in EXTENSIONS)
_COLUMNS = ("path", "label", "width", "height", "key")
_LABEL = "label"
_MAX_SHOWN = 3


def read_webdataset(
    shards: Patterns,
    *,
    image: str | Sequence[str] = _IMAGES,
    label: str | None = "cls",
    fields: Mapping[str, str] | None = None,
    classes: Sequence[str] | Manifest | Literal["renumber"] | None = None,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Read images in tar shards, as WebDataset writes them, with random access.

    A sample is consecutive files of a shard with the same path up to the first dot of the file
    name. The rest of the name is the extension, in upper or lower case. Images keep the order of
    the shards and of the samples in them. Any image can be read at any time, so a sampler shuffles
    all of them, and there is no shuffle buffer.

    The index of a shard is made once and kept in the folder `.gpufeed` beside the shard if there is
    one, otherwise in the user's cache folder. Further fields are read alone and added to it. A
    shard whose length or modification time changes is read again.

    The columns are `path` (such as "train-000.tar/000017.jpg"), `label`, `width`, `height`, `key`
    (WebDataset's `__key__`), and the names in `fields`.

    Args:
        shards: a path, or a list of them. `{000..099}` and `{a,b}` stand for several, and `*`, `?`,
            `[ab]` and `**` are wildcards. `path` is relative to the folder that all have in common.
        image: extensions of images, "jpg" or "jpg;png"; or a list of them. A sample's image is the
            first of them that it has.
        label: what a sample's label is, as for `fields`: the text of a member, such as "cls", or
            "json:label"; None for images without labels. The kinds of labels and their numbers are
            those of `read_table`; texts are integers if that loses nothing, as in CSV.
        fields: maps columns to what they hold: "txt" is the text of the member with that extension,
            "json:age" or "json:bird.age" a value in its JSON, and "json:" all of it. "txt;caption"
            is the first of several extensions that a sample has. A sample without the value has
            null. In a column with numbers and text, numbers become text.
        classes: as for `read_table`.
        on_bad_image: "raise", or "drop" to leave out samples without an image or label, with two
            members of one extension or a member that cannot be read, and images whose header
            cannot be read or that are too deep; and of a shard that ends too soon or is damaged,
            the rest and the sample before it. `repairs` counts the samples as `images_dropped` and
            such shards as `shards_cut`.
        reduce_depth: whether to reduce images of 16 bits per channel to 8: see `Manifest`. By
            default they are bad images.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: a shard cannot be read, is compressed, is cut short or has a bad sample; no
            sample has the label or a field; or `read_table` would refuse the labels.
        ConfigError: an argument is not as described.
    """
    check_on_bad_image(on_bad_image)
    renumber = isinstance(classes, str) and classes == RENUMBER
    given_names = RENUMBER if renumber else class_names(classes)
    wanted = _parse_fields(fields)
    if label is not None:
        wanted[_LABEL] = parse_value("label", label)
    samples = _list_samples(shards, image, list(wanted.values()), progress)
    samples, cut = _drop_cut(samples, on_bad_image)
    _check_found(samples, wanted)
    samples, dropped = _drop_bad(samples, wanted, on_bad_image, reduce_depth)
    columns = {
        name: _decode(samples.frame[value_columns(each)[0]], name, each)
        for name, each in wanted.items()
    }
    listed = [samples.paths()]
    class_list: Sequence[str] = ()
    renumbered: dict[str, int] = {}
    if label is not None:
        given, from_text = columns.pop(_LABEL).alias("label"), wanted[_LABEL].path is None
        labels, class_list, renumbered = read_labels(
            given.str.strip_chars() if from_text else given,
            given_names,
            "the shards",
            samples.row_name,
            from_text=from_text,
        )
        listed.append(labels)
    frame = samples.frame.select(*listed, "width", "height", "key")
    return Manifest(
        frame.with_columns(values.alias(name) for name, values in columns.items()),
        samples.source(),
        class_list,
        repairs=cut | dropped | renumbered,
        reduce_depth=reduce_depth,
    )


def list_webdataset(shards: Patterns) -> tuple[pl.DataFrame, RangeSource]:
    """List the images in tar shards, also those whose header or label is bad.

    Returns:
        A frame with the column `path`, and the images, one for each row.

    Raises:
        ManifestError: a shard cannot be read, is compressed or ends too soon, or there are no
            images.
    """
    samples, _ = _drop_cut(_list_samples(shards, _IMAGES, [], None), "raise")
    samples = replace(samples, frame=samples.frame.filter(pl.col("start").is_not_null()))
    if samples.frame.is_empty():
        raise ManifestError(f"there is no image in {samples.shard_name(0)}, nor in any other shard")
    return samples.frame.select(samples.paths()), samples.source()


@dataclass(frozen=True)
class _Samples:
    """Samples of shards.

    Attributes:
        storage: has the shards.
        files: the shards.
        stamps: of each shard.
        frame: a row for each sample, and before them one for each shard, as `samples_of` returns
            returns them; `shard` is the number of the shard.
    """

    storage: Storage
    files: Sequence[str]
    stamps: Sequence[Stamp]
    frame: pl.DataFrame

    def shard_name(self, number: int) -> str:
        return sanitize(self.storage.name(self.files[number]), PATH_CHARS)

    def row_name(self, row: int) -> str:
        key = sanitize(repr(self.frame["key"][row]))
        return f"{self.shard_name(self.frame['shard'][row])}, sample {key}"

    def paths(self) -> pl.Series:
        shard = pl.Series("path", self.files, dtype=pl.String).gather(self.frame["shard"])
        return shard + "/" + self.frame["name"]

    def source(self) -> RangeSource:
        which, starts, lengths = (
            self.frame[name].to_numpy() for name in ("shard", "start", "length")
        )
        names = self.frame["name"]
        return RangeSource(self.storage, self.files, self.stamps, which, starts, lengths, names)


def _list_samples(
    shards: Patterns,
    image: str | Sequence[str],
    values: Sequence[Wanted],
    show: bool | None,
) -> _Samples:
    images = parse_image(image)
    storage, files = locate(shards)
    stamps, indexes = index_shards(storage, files, images, values, show=show)
    numbered = [
        index.with_columns(shard=pl.lit(number, pl.Int32)) for number, index in enumerate(indexes)
    ]
    return _Samples(storage, files, stamps, pl.concat(numbered))


def _drop_cut(samples: _Samples, on_bad_image: OnBadImage) -> tuple[_Samples, dict[str, int]]:
    """Return the samples alone, and how many shards end too soon.

    Raises:
        ManifestError: one does, and `on_bad_image` is "raise"; or there are no samples.
    """
    of_shards = pl.col("key").is_null()
    cut = samples.frame.filter(of_shards, pl.col("problem").is_not_null())
    if cut.height and on_bad_image != "drop":
        more = f"; so are {cut.height - 1:,} more shards" if cut.height > 1 else ""
        raise ManifestError(
            f"the shard {samples.shard_name(cut['shard'][0])} ends too soon or is damaged: "
            f"{sanitize(cut['problem'][0])}{more}; copy or write it again, or take the whole "
            'samples before with on_bad_image="drop"'
        )
    left = replace(samples, frame=samples.frame.filter(~of_shards))
    if left.frame.is_empty():
        raise ManifestError(f"there is no sample in {left.shard_name(0)}, nor in any other shard")
    return left, {"shards_cut": cut.height} if cut.height else {}


def _check_found(samples: _Samples, wanted: Mapping[str, Wanted]) -> None:
    """Raise `ManifestError` if no sample has one of the values: its name is probably wrong."""
    good = samples.frame.filter(pl.col("problem").is_null())
    for name, each in wanted.items():
        if good.height and good[value_columns(each)[0]].null_count() == good.height:
            what, advice = f"fields[{name!r}]", ""
            if name == _LABEL:
                what, advice = "the label", "; pass label= what they have, or None"
            raise ManifestError(
                f"no sample has {what}, {str(each)!r}, neither in {samples.shard_name(0)} nor in "
                f"any other shard{advice}"
            )


def _drop_bad(
    samples: _Samples,
    wanted: Mapping[str, Wanted],
    on_bad_image: OnBadImage,
    reduce_depth: bool,
) -> tuple[_Samples, dict[str, int]]:
    """Return the samples that are not bad, and how many are.

    Raises:
        ManifestError: there are bad ones and `on_bad_image` is "raise", or all are.
    """
    problem = pl.col("problem")
    if _LABEL in wanted:
        missing = problem.is_null() & pl.col(value_columns(wanted[_LABEL])[0]).is_null()
        said = f"it has no label ({wanted[_LABEL]})"
        problem = pl.when(missing).then(pl.lit(said)).otherwise(problem)
    try:
        check_depth(ImageHeader(1, 1, bits=16), reduce_depth=reduce_depth)
    except DepthError as error:
        deep = problem.is_null() & (pl.col("bits") > 8)
        problem = pl.when(deep).then(pl.lit(str(error))).otherwise(problem)
    problems = samples.frame.select(problem.alias("problem")).to_series()
    bad = problems.is_not_null()
    count = int(bad.sum())
    if not count:
        return samples, {}
    if on_bad_image != "drop" or bad.all():
        rows = bad.arg_true()[:_MAX_SHOWN].to_list()
        shown = "; ".join(f"{samples.row_name(row)}: {sanitize(problems[row])}" for row in rows)
        more = f"; and {count - _MAX_SHOWN:,} more" if count > _MAX_SHOWN else ""
        raise ManifestError(
            f"{count:,} of {len(bad):,} samples are bad: {shown}{more}; leave them out with "
            'on_bad_image="drop"'
        )
    return replace(samples, frame=samples.frame.filter(~bad)), {"images_dropped": count}


def _parse_fields(fields: Mapping[str, str] | None) -> dict[str, Wanted]:
    if fields is not None and not isinstance(fields, Mapping):
        raise ConfigError(
            f'fields is {short(fields)}; it must map columns to members, as {{"caption": "txt"}}'
        )
    wanted = {}
    for name, text in (fields or {}).items():
        if name in _COLUMNS:
            raise ConfigError(f"fields has {name!r}, which is a column of every manifest of shards")
        wanted[name] = parse_value(f"fields[{name!r}]", text)
    return wanted


def _decode(texts: pl.Series, name: str, wanted: Wanted) -> pl.Series:
    """Return a column; values of JSON have the types that fit all of them.

    Raises:
        ManifestError: there are none.
    """
    if wanted.path is None:
        return texts
    try:
        return texts.str.json_decode(infer_schema_length=None)
    except FAILURES as error:
        raise ManifestError(
            f"the values of {name!r} ({wanted}) do not fit one column: {first_line(error)}"
        ) from None
