"""Whatever stands in a ledger, it is read or refused by name, and takes no more than it may."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpufeed import Ledger, LedgerError
from gpufeed.ledger import Run
from gpufeed.ledger.file import _Pieces
from refusing import QUICK, VALUES, nested, refusal

RUN = Run("m", "s", "t", num_records=9, epoch_size=9, per_epoch=9, repeats=False, pixels=True)


@pytest.fixture(scope="module")
def ledger_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ledger = Ledger(RUN)
    nine = np.arange(9)
    ledger.add(nine * 0, nine, nine, np.zeros((9, 2, 2), np.uint8))
    path = tmp_path_factory.mktemp("ledger") / "rank-0.ledger"
    ledger.save(path)
    return path


def read(path: Path, content: bytes) -> Ledger | None:
    """What a ledger's file of this content is, if it is one, and all that can be asked of it."""
    path.write_bytes(content)
    said = refusal(lambda: Ledger.load(path), LedgerError)
    assert len(said) < 1000
    if said:
        return None
    ledger = Ledger.load(path)
    for epoch in ledger.epochs:
        ledger.report(epoch)
    assert ledger.compare(ledger) is not None
    ledger.save(path)
    return ledger


@QUICK
@given(st.data())
def test_a_damaged_ledger_is_read_or_refused(ledger_file: Path, data: st.DataObject) -> None:
    content = bytearray(ledger_file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    read(ledger_file.with_name("damaged"), content[: data.draw(st.integers(0, len(content)))])


ABOUT = {"format": 1, "run": vars(RUN), "digests": {"0": "0" * 32}}


def packed(about: Any, **arrays: Any) -> bytes:
    """A ledger's file that says this of itself, or holds these."""
    text = about if isinstance(about, bytes) else json.dumps(about).encode()
    given: dict[str, Any] = {
        "about": np.frombuffer(text, np.uint8),
        "counts-0": np.zeros(9, np.uint16),
        "places-0": np.zeros(9, np.uint16),
        "pixels-0": np.zeros(9, np.uint64),
        **arrays,
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **given)
    return buffer.getvalue()


@QUICK
@given(
    name=st.sampled_from([*vars(RUN), "digests", "format", "run"]),
    value=VALUES,
)
@example(name="num_records", value=10**12)
@example(name="num_records", value=10**30)
@example(name="num_records", value=True)
@example(name="epoch_size", value=9.0)
@example(name="manifest", value=["x"])
@example(name="digests", value={"-1": "0" * 32})
@example(name="digests", value={"9" * 10_000: "0" * 32})
@example(name="digests", value={"0": "f" * 10_000})
@example(name="digests", value={"0": 5})
@example(name="format", value=["x" * 10**6])
def test_any_change_of_what_a_ledger_says_is_read_or_refused(
    ledger_file: Path, name: str, value: Any
) -> None:
    about = {**ABOUT, "run": {**vars(RUN), **({name: value} if name in vars(RUN) else {})}}
    if name not in vars(RUN):
        about[name] = value
    found = read(ledger_file.with_name("changed"), packed(about))
    if found is not None:
        assert all(type(ours) is type(vars(RUN)[key]) for key, ours in vars(found.run).items())


def test_what_is_packed_in_a_ledger_is_not_unpacked_beyond_measure(
    ledger_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandfold is what deflate can do, and a header may claim any shape."""
    large = np.zeros(1 << 25, np.uint16)
    opened: list[int] = []
    unpack = zipfile.ZipExtFile.read

    def reading(self: zipfile.ZipExtFile, count: int | None = -1) -> bytes:
        data = unpack(self, count)
        opened.append(len(data))
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", reading)
    path = ledger_file.with_name("packed")
    assert read(path, packed(ABOUT)) is not None
    assert read(path, packed(nested(100_000).encode())) is None
    opened.clear()
    for content in (
        packed(ABOUT, **{"counts-0": large}),
        packed(ABOUT, **{"pixels-0": large}),
        packed(b" " * (1 << 26)),
    ):
        assert len(content) < 1 << 20
        assert read(path, content) is None
    assert sum(opened) < 1 << 16


def with_members(content: bytes, *added: str, **options: Any) -> bytes:
    """A ledger's file with more in it: what it holds is never looked at."""
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of names that come again
        for name in added:
            archive.writestr(name, archive.read("about.npy"), **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "names",
    [
        *(["about"], ["counts-0"], ["x.npy"], ["x"], ["about.npy"], ["pixels-0.npy"]),
        *(["counts-1.npy"], ["About.npy"], ["./about.npy"], ["about.npy.npy"], ["\ud7ff" * 999]),
    ],
    ids=lambda names: names[0][:12],
)
def test_a_ledger_holds_what_it_tells_of_and_no_more(ledger_file: Path, names: list[str]) -> None:
    """numpy would take `about` where `about.npy` is asked for, of which only that was measured."""
    path = ledger_file.with_name("added")
    assert read(path, packed(ABOUT)) is not None
    assert read(path, with_members(packed(ABOUT), *names)) is None


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_ledger_is_packed_as_it_is_written(ledger_file: Path, kind: int) -> None:
    """LZMA has the file say how much memory it takes to unpack it."""
    whole = zipfile.ZipFile(io.BytesIO(packed(ABOUT)))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for member in whole.infolist():
            archive.writestr(member.filename, whole.read(member))
    assert read(ledger_file.with_name("otherwise"), buffer.getvalue()) is None


@pytest.mark.parametrize("epochs", [["07"], ["7", "07"], ["+7"], ["٧"]])
def test_an_epoch_of_a_ledger_has_one_name(ledger_file: Path, epochs: list[str]) -> None:
    about = {**ABOUT, "digests": dict.fromkeys(epochs, "0" * 32)}
    whole = np.load(io.BytesIO(packed(ABOUT)))
    buffer = io.BytesIO()
    arrays = {f"{part}-{epoch}": whole[f"{part}-0"] for epoch in epochs for part in PARTS_OF_IT}
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(buffer, about=text, **arrays)
    assert read(ledger_file.with_name("named"), buffer.getvalue()) is None


PARTS_OF_IT = ("counts", "places", "pixels")


@pytest.mark.parametrize("zip64", [False, True])
def test_a_ledger_with_a_directory_of_gigabytes_is_not_read(
    ledger_file: Path, monkeypatch: pytest.MonkeyPatch, zip64: bool
) -> None:
    """Of a file that is one hole, which says at its end that all of it is the directory."""
    length = 2 << 30
    path = ledger_file.with_name("hole")
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, length - 100, 0, 0)
    if zip64:
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, length - 100, 0)
        end = record + struct.pack("<4sLQL", b"PK\6\7", 0, length - 98, 1) + end
    with path.open("wb") as file:
        file.truncate(length)
        file.seek(length - len(end))
        file.write(end)
    asked: list[int] = []

    class Counted(_Pieces):
        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(size)
            asked.append(len(found))
            return found

    monkeypatch.setattr("gpufeed.ledger.file._Pieces", Counted)
    with pytest.raises(LedgerError, match="is no ledger") as caught:
        Ledger.load(path)
    assert "bytes would have to be read at once" in repr(caught.value.__cause__)
    assert sum(asked) < 1 << 17
    path.unlink()


@pytest.mark.parametrize("pixels", [False, True])
def test_a_ledger_of_more_than_a_quarter_of_the_memory_is_refused(
    ledger_file: Path, monkeypatch: pytest.MonkeyPatch, pixels: bool
) -> None:
    """Zeros are packed a thousandfold, so that megabytes hold what takes gigabytes."""
    count = 1 << 20
    run = {**vars(RUN), "num_records": count, "epoch_size": count, "pixels": pixels}
    zeros = np.zeros(count, np.uint16)
    arrays: dict[str, Any] = {"counts-0": zeros, "places-0": zeros}
    buffer = io.BytesIO()
    if pixels:
        arrays["pixels-0"] = np.zeros(count, np.uint64)
    about = {**ABOUT, "run": run}
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(buffer, about=text, **arrays)
    path = ledger_file.with_name("large")
    path.write_bytes(buffer.getvalue())
    assert path.stat().st_size < 1 << 17
    tracemalloc.start()
    try:
        Ledger.load(path)
        taken = tracemalloc.get_traced_memory()[1]
        needed = (20 if pixels else 12) * count
        assert 0.5 * needed < taken < needed + (4 << 20)
        monkeypatch.setattr("gpufeed.ledger.file.quarter_of_memory", lambda: needed)
        Ledger.load(path)
        monkeypatch.setattr("gpufeed.ledger.file.quarter_of_memory", lambda: needed - 1)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[1]
        said = rf"would take {needed:,} bytes of memory, with epochs \(1\) of 1,048,576 records"
        with pytest.raises(LedgerError, match=said):
            Ledger.load(path)
        assert tracemalloc.get_traced_memory()[1] - before < 1 << 20
    finally:
        tracemalloc.stop()


def test_epochs_of_a_ledger_that_take_memory_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one of them is packed to is known only when it is."""
    count = 10_000
    noise = np.random.default_rng(0).integers(0, 60_000, count)
    sizes = {"num_records": count, "epoch_size": count, "per_epoch": count, "pixels": False}
    ledger = Ledger(Run(**{**vars(RUN), **sizes}))
    for epoch in range(20):
        ledger.add(noise * 0 + epoch, noise % count, noise % count)
    ledger.save(tmp_path / "x")
    monkeypatch.setattr("gpufeed.ledger.file.quarter_of_memory", lambda: 15 * count)
    with pytest.raises(
        LedgerError, match=r"would take 1\d\d,\d\d\d bytes of memory, with epochs \(20\)"
    ):
        Ledger.load(tmp_path / "x")


def test_a_ledger_that_claims_more_than_it_holds_is_none(ledger_file: Path) -> None:
    for size in (10, 10**6, 5 * 10**8, 2**48 - 1, 10**4000):
        about = {**ABOUT, "run": {**vars(RUN), "num_records": size, "epoch_size": size}}
        path = ledger_file.with_name("claims")
        path.write_bytes(packed(about))
        with pytest.raises(LedgerError, match="is no ledger of gpufeed"):
            Ledger.load(path)
