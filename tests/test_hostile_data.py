"""Lists, states and ledgers are data: whatever is in them is read or refused, and runs nothing."""

from __future__ import annotations

import ast
import io
import json
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import gpufeed
from gpufeed import (
    IndexSampler,
    Ledger,
    LedgerError,
    Loader,
    Manifest,
    ManifestError,
    StateError,
    presets,
    read_folder,
    read_nabirds,
    read_table,
)
from gpufeed.ledger import Run, _Pieces
from gpufeed.records import parquet
from gpufeed.state import describe_all, parse_all
from lying_parquet import LYING
from media import make_manifest
from nabirds_data import write_nabirds

PACKAGE = Path(gpufeed.__file__).parent
QUICK = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def refusal(ask: Callable[[], object], error: type[Exception]) -> str:
    """What is said where something is refused with this error; nothing where it is not."""
    try:
        ask()
    except error as refused:
        return str(refused) or repr(refused)
    return ""


# ------------------------------------------------------------------------------ no code

RUNS_CODE = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib"),
    *("marshal", "shelve", "code", "codeop", "runpy", "imp"),
}
CALLS = {"eval", "exec", "compile", "__import__"}


def what_runs_code(source: str) -> list[str]:
    """Where a module could run what it read."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Name) and node.id in CALLS:
            found.append(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.load":
            found.append("torch.load")
        elif isinstance(node, ast.keyword) and ast.unparse(node).startswith("allow_pickle="):
            found += [] if ast.unparse(node.value) == "False" else ["allow_pickle"]
        found += [name for name in names if name.split(".")[0] in RUNS_CODE]
    return found


def test_no_module_runs_what_it_reads() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    for path in files:
        assert what_runs_code(path.read_text()) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import marshal",
        "import shelve as s",
        "eval('1')",
        "f = exec",
        "import torch\ntorch.load('x')",
        "np.load('x', allow_pickle=True)",
        "np.load('x', allow_pickle=really)",
    ],
)
def test_the_test_above_can_fail(source: str) -> None:
    assert what_runs_code(source)


def test_code_in_a_text_is_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    for text in (
        f"A(x=open({str(target)!r}, 'w'))",
        f"A(x=__import__('os').mkdir({str(target)!r}))",
        f"A(**{{'x': open({str(target)!r}, 'w')}})",
        f"open({str(target)!r}, 'w')(x=1)",
    ):
        with pytest.raises(StateError, match="is no fingerprint of a sampler or transforms"):
            parse_all(text)
    assert not target.exists()


# ------------------------------------------------------------------------------ states

MANIFEST = Manifest(
    pl.DataFrame(
        {
            "path": [f"{number}.jpg" for number in range(20)],
            "label": [0, 1] * 10,
            "width": [40] * 20,
            "height": [30] * 20,
        }
    ),
    "/nowhere",
    ["auk", "wren"],
)

QUARANTINE = ("quarantine", "quarantine, as text")
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30), st.sampled_from([2**31, 2**63, 2**64, -1, 0]), st.floats()
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=8,
)
FAILURES = st.lists(
    st.fixed_dictionaries(
        {
            "record_key": NUMBERS,
            "path": st.sampled_from(["3.jpg", "x", ""]),
            "reason": st.text(max_size=400),
            "step": NUMBERS,
        }
    ),
    max_size=3,
)


@pytest.fixture(scope="module")
def loader() -> Loader:
    return Loader(
        MANIFEST, sampler=IndexSampler(20, shuffle=True, seed=0), batch_size=4, device="cpu"
    )


def is_left_whole(loader: Loader) -> None:
    """What a loader has of itself can be written down."""
    assert loader.step >= 0
    loader.quarantine.frame().write_parquet(io.BytesIO())
    json.loads(loader.get_state())


@QUICK
@given(
    name=st.sampled_from(["version", "records", "fingerprints", "manifest", "x", *QUARANTINE]),
    value=VALUES | FAILURES,
    ignore=st.booleans(),
)
@example(name="quarantine", value=[["record_key"]], ignore=False)
@example(name="quarantine, as text", value=[["record_key"]], ignore=False)
@example(
    name="quarantine, as text",
    value=[{"record_key": 3, "path": "3.jpg", "reason": "\ud800", "step": 0}],
    ignore=False,
)
@example(
    name="quarantine, as text",
    value=[{"record_key": 3, "path": "3.jpg", "reason": "", "step": 2**63}],
    ignore=True,
)
@example(name="records", value=10**30, ignore=True)
@example(name="records", value=10**5000, ignore=True)
@example(name="manifest", value=[["x" * 10**6]], ignore=False)
@example(name="manifest", value="x" * 10**6, ignore=False)
def test_any_change_of_a_state_is_loaded_or_refused(
    loader: Loader, name: str, value: Any, ignore: bool
) -> None:
    loader.seek(0)
    state = loader.state_dict()
    if name in state["fingerprints"]:
        state["fingerprints"][name] = value
    elif name == "quarantine, as text":
        state["quarantine"] = json.dumps(value)
    else:
        state[name] = value
    ignored = ("manifest",) if ignore else ()
    said = refusal(lambda: loader.load_state_dict(state, ignore=ignored), StateError)
    assert len(said) < 10_000
    is_left_whole(loader)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@QUICK
@given(st.one_of(st.binary(max_size=60), VALUES.map(lambda value: json.dumps(value).encode())))
@example(nested(100_000).encode())
@example(b'{"a":' * 100_000)
@example(b"9" * 100_000)
@example(b'{"version": 1, "records": ' + b"9" * 4000 + b', "fingerprints": {}}')
@example(b"\xff\xfe\x00")
@example(b'{"version": NaN, "records": 1e999}')
def test_any_bytes_are_a_state_or_refused(loader: Loader, text: bytes) -> None:
    with pytest.raises(StateError) as caught:
        loader.set_state(text)
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize("where", ["version", "records", "fingerprints", "quarantine", "manifest"])
def test_lists_in_lists_are_refused_however_deep(loader: Loader, where: str) -> None:
    """At some depth they can be read, and no more be shown."""
    loader.seek(0)
    state = loader.state_dict()
    for depth in range(100, 1100, 20):
        deep = f'"{where}": {nested(depth)}'
        rest = {name: value for name, value in state.items() if name != where}
        text = json.dumps(rest)[:-1] + f", {deep}}}"
        if where == "manifest":
            marks = json.dumps(state["fingerprints"])[:-1] + f", {deep}}}"
            text = json.dumps({**state, "fingerprints": None}).replace("null", marks)
        with pytest.raises(StateError):
            loader.set_state(text.encode())


PARTS = [
    *("A", "B(", ")", "(", "[", "]", "{", "}", ",", "=", "x=", "|", " | ", ":", "'", '"', "1"),
    *("-", "1e999", "None", "lambda: 0", "if", "else", "*", "**", "\\", "\n", "\0", "f'{1}'", ".a"),
    *("...", "await", "{[]}", "{[]: 1}", "9" * 5000, "\ud800", "not ", "for x in y", ":="),
]


@QUICK
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
@example("A(x={[]})")
@example("A(x={[]: 1})")
@example("A(**{})")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    said = refusal(lambda: parse_all(text), StateError)
    assert len(said) < 200
    assert said or all(kind.isidentifier() for kind, _ in parse_all(text))


MANY = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        *("A(x=" + "[" * MANY, "A(x=" + "[" * MANY + "]" * MANY + ")", "(" * MANY, "[" * 150),
        *("A(x=" + "-" * MANY + "1)", "A(x=" + "not " * MANY + "1)", "A()|" * MANY + "A()"),
        *("A" + ".a" * MANY + "()", "A" + "()" * MANY, "A(x=[" + "1," * MANY + "])"),
        *("A(x=" + "{1:" * 150, "A(" + "x=1," * MANY + ")", "A(x=" + "lambda: " * MANY + "1)"),
        *("A(x='" + "a" * MANY + "')", "A(x=" + "9" * MANY + ")", "A(x=1" + "+1" * MANY + ")"),
    ],
    ids=lambda text: f"{text[:12]}...",
)
def test_megabytes_are_refused_unread(text: str) -> None:
    with pytest.raises(StateError, match="is no fingerprint of a sampler or transforms") as caught:
        parse_all(text)
    assert len(str(caught.value)) < 200


LONGEST = 1 << 18


def fill(before: str, piece: str, after: str = "") -> str:
    """A text as long as one that is parsed may be, of one piece over and over."""
    times = (LONGEST - len(before) - len(after)) // len(piece)
    return before + piece * times + after


@pytest.mark.parametrize(
    "text",
    [
        *(
            fill("A(x=", "["),
            fill("A(x=", "[]," * 9, ")"),
            fill("A(x=[", "[1],", "])"),
            fill("", "("),
        ),
        fill("A(x=", "[" * (LONGEST // 2 - 3), "]" * (LONGEST // 2 - 3) + ")"),
        *(fill("A(x=", "{1:"), fill("A(x=", "-", "1)"), fill("A(x=", "not ", "1)")),
        *(
            fill("A(x=1", "+1", ")"),
            fill("A(x=1", "-1j", ")"),
            fill("A()", "|A()"),
            fill("A", "()"),
        ),
        *(fill("A(", "x=1,", ")"), fill("A(", "**{},", ")"), fill("A(x='", "a", "')")),
        *(fill("A(x='", "\\N{DIGIT ONE}", "')"), fill("A", ".a", "()"), fill("A(x=a", ".a", ")")),
        *(fill("A(x=", "9", ")"), fill("A(x=", "'' ", ")"), fill("A(x=", "lambda: ", "1)")),
        *(
            fill("A(x=f'", "{1}", "')"),
            fill("A(x=", "1 if 1 else ", "1)"),
            fill("A(x=2", "**2", ")"),
        ),
    ],
    ids=lambda text: f"{text[:12]!r}...",
)
def test_texts_as_long_as_may_be_are_parsed_or_refused(text: str) -> None:
    assert LONGEST - 40 < len(text) <= LONGEST
    said = refusal(lambda: parse_all(text), StateError)
    assert len(said) < 2500
    assert said or all(kind == "A" for kind, _ in parse_all(text))


def test_the_longest_texts_of_presets_are_far_from_too_long() -> None:
    from gpufeed.transforms.views import check_views

    text = describe_all(check_views(presets.dino()).identities)
    assert 5000 < len(text) < 50_000
    assert parse_all(text)
    assert parse_all(" | ".join([text] * 20))


# ------------------------------------------------------------------------------ ledgers

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

    monkeypatch.setattr("gpufeed.ledger._Pieces", Counted)
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
        monkeypatch.setattr("gpufeed.ledger.quarter_of_memory", lambda: needed)
        Ledger.load(path)
        monkeypatch.setattr("gpufeed.ledger.quarter_of_memory", lambda: needed - 1)
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
    monkeypatch.setattr("gpufeed.ledger.quarter_of_memory", lambda: 15 * count)
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


# ------------------------------------------------------------------------------ lists


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


def test_a_parquet_file_that_takes_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "list.parquet"
    pl.DataFrame({"number": np.arange(10_000_000)}).write_parquet(file)
    with file.open("rb") as opened, monkeypatch.context() as less:
        less.setattr(parquet, "quarter_of_memory", lambda: 75 << 20)
        with pytest.raises(ValueError, match=r"ended the process that did: .* more than 75 MB"):
            parquet.read_apart(opened)
    with file.open("rb") as opened, monkeypatch.context() as less:
        less.setattr(parquet, "_SECONDS", 0.01)
        less.setattr(parquet, "_BYTES_A_SECOND", 1 << 40)
        with pytest.raises(ValueError, match="reading it takes more than 0 s"):
            parquet.read_apart(opened)


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
