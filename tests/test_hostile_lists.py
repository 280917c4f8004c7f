"""Whatever stands in a list of pictures, of any format, it is read or refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from gpufeed import ManifestError, read_folder, read_nabirds, read_table
from gpufeed.records import parquet
from lying_parquet import LYING
from media import make_manifest
from nabirds_data import write_nabirds
from refusing import MANIFEST, QUICK, VALUES, refusal


@pytest.mark.parametrize("kind", LYING)
def test_a_parquet_file_that_lies_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    """polars crashes over some, and would take all memory for others."""
    file = tmp_path / "list.parquet"
    file.write_bytes(LYING[kind])
    said = refusal(lambda: read_table(file, root="/nowhere"), ManifestError)
    assert str(file) in said
    assert len(said) < 1000


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nested in itself", "reading it ended the process that did: it is damaged, or holds more"),
        ("columns", "it has 20,000 columns, of which 10,000 may be"),
        ("half", "The file must end with PAR1"),
    ],
)
def test_it_is_said_what_a_parquet_file_is(kind: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "list.parquet"
    file.write_bytes(LYING[kind])
    with pytest.raises(ManifestError, match=f"list.parquet is no valid Parquet file: .*{message}"):
        read_table(file)


@pytest.mark.parametrize("megabytes", [60, 75, 150])
def test_a_parquet_file_that_takes_too_much_is_refused(
    megabytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same each time, wherever memory ends: not where polars' threads are started."""
    file = tmp_path / "list.parquet"
    pl.DataFrame({"number": np.arange(10_000_000)}).write_parquet(file)
    with file.open("rb") as opened, monkeypatch.context() as less:
        less.setattr(parquet, "quarter_of_memory", lambda: megabytes << 20)
        message = f"process that did: it is damaged, or holds more than {megabytes} MB"
        with pytest.raises(ValueError, match=message):
            parquet.read_apart(opened)


def test_a_parquet_file_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "list.parquet"
    pl.DataFrame({"number": [0]}).write_parquet(file)
    with file.open("rb") as opened, monkeypatch.context() as less:
        less.setattr(parquet, "_SECONDS", 0.01)
        less.setattr(parquet, "_BYTES_A_SECOND", 1 << 40)
        with pytest.raises(ValueError, match="reading it takes more than 0 s"):
            parquet.read_apart(opened)


_PANICS = """
class exceptions:
    class PanicException(BaseException):
        pass
class Table:
    def write_parquet(self, name, compression):
        pass
def int_range(count):
    return count
def select(what):
    return Table()
def read_parquet_schema(name):
    return {}
def read_parquet(name):
    if name.startswith("/proc"):
        raise exceptions.PanicException("index out of bounds")
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.abort()", "can not read FILE: POLARS (exit code -6)"),
        ("raise ImportError('of another Python')", "can not read FILE: POLARS (of another Python)"),
        (_PANICS, "FILE is no valid Parquet file: reading it ended the process that did (index out "
         "of bounds): it is damaged, or holds more than"),
    ],
)  # fmt: skip
def test_a_file_is_blamed_only_where_polars_has_started(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "list.parquet"
    pl.DataFrame({"path": ["a.jpg"]}).write_parquet(file)
    (tmp_path / "polars.py").write_text(code)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("sys.path", [str(tmp_path), *sys.path])
        with pytest.raises(ManifestError) as told:
            read_table(file)
    message = message.replace("POLARS", "polars does not start in a process of its own")
    assert str(told.value).startswith(message.replace("FILE", str(file)))


def test_a_user_may_have_bounds_already(tmp_path: Path) -> None:
    file = tmp_path / "list.parquet"
    pl.DataFrame({"path": ["a.jpg"], "label": [0], "width": [1], "height": [1]}).write_parquet(file)
    code = f"""
import resource
for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_DATA):
    resource.setrlimit(kind, (1 << 30, 1 << 30))
import gpufeed
print(len(gpufeed.read_table({str(file)!r})))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "1\n", ran.stderr


@pytest.mark.parametrize(
    ("compression", "count"),
    [
        *((kind, 1000) for kind in ("snappy", "uncompressed", "gzip", "brotli", "lz4")),
        *(("zstd", count) for count in (0, 1, 100_000)),
    ],
)
def test_a_parquet_file_is_read_as_it_is(compression: Any, count: int, tmp_path: Path) -> None:
    """Of many pages and row groups, with lists, structures, categories and nothing at all."""
    numbers = pl.int_range(count, eager=True)
    frame = pl.DataFrame({"number": numbers}).with_columns(
        text=pl.format("{}.jpg", "number"),
        kind=(pl.col("number") % 7).cast(pl.String).cast(pl.Categorical),
        gaps=pl.when(pl.col("number") % 3 == 0).then("number"),
        listed=pl.concat_list("number", "number"),
        both=pl.struct("number"),
        none=pl.lit(None),
        flag=pl.col("number") % 2 == 0,
        share=pl.col("number") / 3,
    )
    file = tmp_path / "list.parquet"
    frame.write_parquet(
        file, compression=compression, row_group_size=30_000, data_page_size=100_000
    )
    with file.open("rb") as opened:
        assert_frame_equal(parquet.read_apart(opened), frame)


@pytest.mark.parametrize("link", ["file", "folder"])
def test_sizes_kept_beside_the_data_lead_nowhere_else(tmp_path: Path, link: str) -> None:
    """Else whoever made the data could have any file of the reader's overwritten."""
    make_manifest(tmp_path / "data" / "wren", [(30, 40)])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine = elsewhere / "sizes.parquet"
    mine.write_text("mine")
    beside = tmp_path / "data" / ".gpufeed"
    if link == "folder":
        beside.symlink_to(elsewhere)
    else:
        beside.mkdir()
        (beside / "sizes.parquet").symlink_to(mine)
    assert read_folder(tmp_path / "data").sizes().tolist() == [[30, 40]]
    assert mine.read_text() == "mine"
    assert [path.name for path in elsewhere.iterdir()] == ["sizes.parquet"]


TEXTS = st.lists(
    st.sampled_from(
        [
            *("path", "label", "width", "height", ",", ",", "\n", "\n", "\r\n", '"', "'", "1", " "),
            *("x.jpg", "9" * 30, "1e999", "-1", "\t", "\ufeff", "NaN", "null", "true", "", ";"),
            *("\u2028", "a" * 3000, '""', ",,,,", "../x", "/x", "\0", "\ud800"),
        ]
    ),
    max_size=30,
).map("".join)


@QUICK
@given(
    TEXTS, st.sampled_from(["path,label,width,height\n", "path,label,width,height\nx,1,2,3\n", ""])
)
@example("\na,1" + ",1" * 12_000, "path,label,width,height" + "," * 12_000)
def test_any_csv_is_read_or_refused(tmp_path: Path, text: str, header: str) -> None:
    file = tmp_path / "list.csv"
    file.write_bytes((header + text).encode(errors="surrogatepass"))
    said = refusal(lambda: read_table(file, root="/nowhere"), ManifestError)
    assert len(said) < 10_000


@pytest.mark.parametrize("before", ["", "\n", "\r\n\n"])
def test_tables_of_a_million_columns_are_refused_unread(tmp_path: Path, before: str) -> None:
    file = tmp_path / "list.csv"
    file.write_text(before + "path,label,width,height" + "," * 1_000_000 + "\nx,1,2,3\n")
    with pytest.raises(ManifestError, match=r"has 1,000,004 columns, of which 10,000 may be"):
        read_table(file)


LINES = [
    *("images.txt", "image_class_labels.txt", "sizes.txt", "bounding_boxes.txt"),
    *("photographers.txt", "train_test_split.txt", "classes.txt", "hierarchy.txt"),
]


@QUICK
@given(
    st.sampled_from(LINES),
    st.integers(0, 200),
    st.sampled_from(
        [
            b"",
            b" ",
            b"\n",
            b"\r",
            b"\0",
            b"\xff",
            b"9" * 30,
            b"-1 ",
            b"\n\n",
            b" " * 1000,
            b"../x",
            b"0 0",
        ]
    ),
)
def test_any_change_of_nabirds_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, new: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "changed birds"
    write_nabirds(folder)
    content = (folder / name).read_bytes()
    at = place % len(content)
    (folder / name).write_bytes(content[:at] + new + content[at + 1 :])
    said = refusal(lambda: read_nabirds(folder), ManifestError)
    assert not said or str(folder) in said


def test_more_parts_than_a_bird_has_take_no_memory(tmp_path: Path) -> None:
    write_nabirds(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "parts.txt").write_text("".join(f"{n} part\n" for n in range(5000)))
    (tmp_path / "parts" / "part_locs.txt").write_text("x 0 1 1 1\n")
    with pytest.raises(ManifestError, match="lists 5,000 parts; a bird has 11"):
        read_nabirds(tmp_path)


@pytest.mark.filterwarnings("ignore:none of the 1 paths in the list is in this manifest")
@QUICK
@given(VALUES)
def test_any_list_of_bad_pictures_is_taken_or_refused(value: Any) -> None:
    try:
        frame = pl.DataFrame({"path": [value]}, strict=False)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return
    said = refusal(lambda: MANIFEST.without(frame), ManifestError)
    assert bool(said) == (frame["path"].dtype != pl.String)
