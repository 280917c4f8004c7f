"""`columns` of the manifest come with the images of a batch."""

from __future__ import annotations

import datetime
import io

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, SequentialSampler

COUNT = 6
BORN = [datetime.date(2020, 1, 1 + row) for row in range(COUNT)]
FRAME = pl.DataFrame(
    {
        "label": ["x", "y"] * 3,
        "age": [1.5 * row for row in range(COUNT)],
        "ringed": [row % 2 == 0 for row in range(COUNT)],
        "eggs": pl.Series(range(COUNT), dtype=pl.UInt8),
        "place": pl.Series([[row, -row] for row in range(COUNT)], dtype=pl.Array(pl.Float64, 2)),
        "photographer": ["Ana", None, "Bo", "Ana", "Ceylan", "Bo"],
        "species": pl.Series(["a", "b", "c"] * 2, dtype=pl.Enum(["c", "b", "a"])),
        "born": BORN,
        "songs": [[row] * row for row in range(COUNT)],
        "price": pl.Series(["1.50"] * COUNT).cast(pl.Decimal(6, 2)),
        "weight": [None, *range(1, COUNT)],
        "pairs": pl.Series([[row, None] for row in range(COUNT)], dtype=pl.Array(pl.Int64, 2)),
        "number": [2**40] * COUNT,
        "lam": [0.5] * COUNT,
    }
)
ARRAYS = ["age", "ringed", "eggs", "place"]
LISTS = ["photographer", "species", "born", "songs", "price"]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PNG")
    return gpufeed.read_table(FRAME, source=gpufeed.MemorySource([buffer.getvalue()] * COUNT))


def make(manifest: Manifest, **options: object) -> Loader:
    settled = {
        "sampler": [4, 1, 0, 5, 2],
        "transforms": [],
        "batch_size": 3,
        "last_batch": "pad",
        "device": "cpu",
    }
    return Loader(manifest, **(settled | options))


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_they_are_those_of_the_records(manifest: Manifest, framework: str) -> None:
    with make(manifest, columns=[*ARRAYS, *LISTS], framework=framework) as loader:
        batches = list(loader)
        for batch in batches:
            rows = loader.rows(batch)
            for name in ARRAYS:
                assert type(batch[name]) is type(batch["label"])
                assert np.asarray(batch[name]).tolist() == rows[name].to_list()
            for name in LISTS:
                assert batch[name] == rows[name].to_list()
            assert batch["eggs"].dtype == batch["label"].dtype
            assert np.asarray(batch["age"]).dtype == np.float32
            assert np.asarray(batch["ringed"]).dtype == np.bool_
            assert np.asarray(batch["place"]).shape == (3, 2)
    assert batches[0]["photographer"] == ["Ceylan", None, "Ana"]
    assert batches[1]["born"] == [BORN[5], BORN[2], BORN[2]]  # the last is padding
    assert np.asarray(batches[1]["valid"]).tolist() == [True, True, False]


def with_bad(manifest: Manifest, *bad: int) -> Manifest:
    """The first four records, some of them without an image."""
    (image,) = manifest.source.read(np.array([0]))
    images = [b"no image" if row in bad else image for row in range(4)]
    return Manifest(manifest.frame.head(4), gpufeed.MemorySource(images), manifest.classes)


def test_a_blank_image_has_those_of_its_record(manifest: Manifest) -> None:
    with make(
        with_bad(manifest, 0, 1, 2),
        sampler=SequentialSampler(4),
        columns=["age", "photographer"],
        on_error="blank",
        max_failures=4,
    ) as loader:
        batch = loader.batch(0)
        assert not batch["valid"].any()
        assert batch["age"].tolist() == [0, 1.5, 3]
        assert batch["photographer"] == ["Ana", None, "Bo"]


def test_a_substitute_brings_its_own(manifest: Manifest) -> None:
    with make(
        with_bad(manifest, 1),
        sampler=SequentialSampler(4),
        columns=["born"],
        on_error="substitute",
        max_failures=4,
    ) as loader:
        assert loader.batch(0)["record_key"].tolist() == [0, 3, 2]
        assert loader.batch(0)["born"] == [BORN[0], BORN[3], BORN[2]]


def test_a_function_gets_those_of_each_record(manifest: Manifest) -> None:
    def collate(records: list[dict]) -> list[tuple]:
        return [(each["photographer"], float(each["age"]), each["place"].shape) for each in records]

    columns = ("photographer", "age", "place")
    with make(manifest, columns=columns, collate_fn=collate) as loader:
        assert loader.batch(0) == [("Ceylan", 6.0, (2,)), (None, 1.5, (2,)), ("Ana", 0.0, (2,))]


def test_views_share_them(manifest: Manifest) -> None:
    with make(manifest, transforms=gpufeed.Views([[], []]), columns=["age", "born"]) as loader:
        batch = loader.batch(0)
        assert batch["age"].tolist() == [6.0, 1.5, 0.0]
        assert batch["born"] == [BORN[4], BORN[1], BORN[0]]


def test_they_leave_the_state_alone(manifest: Manifest) -> None:
    with make(manifest, columns=["age"]) as loader:
        state = loader.state_dict()
    make(manifest).load_state_dict(state)


def test_integers_that_need_int64_have_it_or_are_refused(manifest: Manifest) -> None:
    for framework in ("numpy", "torch"):
        with make(manifest, columns=["number"], framework=framework) as loader:
            assert np.asarray(loader.batch(0)["number"]).tolist() == [2**40] * 3
    said = "column 'number' has 1099511627776, which does not fit in int32; number the values"
    with pytest.raises(ConfigError, match=said):
        make(manifest, columns=["number"], framework="jax")
    frame = manifest.frame.with_columns(number=pl.lit(2**63, dtype=pl.UInt64))
    with pytest.raises(ConfigError, match="has 9223372036854775808, which does not fit in int64"):
        make(Manifest(frame, manifest.source, manifest.classes), columns=["number"])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("age", r"columns is 'age'; it must be a list of names, as \['age'\]"),
        (["wing"], r"columns has 'wing', but the manifest has only \['path', 'label'"),
        ([3], "columns has 3, but"),
        (["label"], "columns has 'label', which a batch has already, or may have"),
        (["lam"], "columns has 'lam', which a batch has already, or may have"),
        (["age", "age"], "columns has 'age', which a batch has already"),
        (["weight"], "column 'weight' has 1 nulls; numbers and booleans come as arrays"),
        (["pairs"], "column 'pairs' has 6 nulls"),
    ],
)
def test_what_it_refuses(manifest: Manifest, columns: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(manifest, columns=columns)


def test_a_field_and_a_column_have_one_name_each(manifest: Manifest) -> None:
    class Age(gpufeed.Field):
        name = "age"

        def bind(self, _: Manifest) -> object:
            return lambda keys, _: keys

    with pytest.raises(ConfigError, match="columns has 'age', which a batch has already"):
        make(manifest, targets=[Age()], columns=["age"])
