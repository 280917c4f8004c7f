"""Whatever stands in a state, it is loaded or refused by name, and the loader is left whole."""

from __future__ import annotations

import ast
import io
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpufeed import IndexSampler, Loader, StateError, presets
from gpufeed.identity import describe_all, parse_all
from refusing import MANIFEST, NUMBERS, QUICK, VALUES, nested, refusal

QUARANTINE = ("quarantine", "quarantine, as text")
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


def by_python(text: str) -> list[tuple[str, dict[str, Any]]]:
    """What Python's own parser reads in a text."""
    node = ast.parse(text, mode="eval").body
    calls: list[ast.expr] = []
    while isinstance(node, ast.BinOp):
        calls.insert(0, node.right)
        node = node.left
    return [
        (call.func.id, {each.arg: ast.literal_eval(each.value) for each in call.keywords})
        for call in [node, *calls]
    ]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
@example("A(x={'': [1, -1.5e-05]}, y=None) | B()")
@example("A(x='\\n\\x1f\\u0301\\U0001f426\\\\')")
def test_any_text_is_parsed_as_python_does_or_refused(text: str) -> None:
    said = refusal(lambda: parse_all(text), StateError)
    assert len(said) < 250
    assert said or parse_all(text) == by_python(text)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("A(x={[]})", 5),
        ("A(x={1, 2})", 5),
        ("A(x={1: 2})", 5),
        ("A(x=(1, 2))", 4),
        ("A(x=0x1f)", 5),
        ("A(x=1+1j)", 5),
        ("A(x=1if 1else 1)", 5),
        (f"A(x={'9' * 101})", 4),
        ("A(x=open)", 4),
        ("A(x=1e999)", 4),
        ("A(**{})", 2),
        ("A(1)", 2),
        ("A(x=1,)", 6),
        ("A(x=[1,])", 7),
        ("A(x='a\nb')", 4),
        ('A(x="""a""" \'a\')', 6),
        ("A(x='a' 'a')", 8),
        ("A(x=f'{1}')", 4),
        ("A(x= # '\\\rf'{1}')", 5),
        ("A.b()", 0),
        ("A() B()", 4),
        ("A(", 2),
        ("", 0),
    ],
)
def test_what_is_not_written_is_refused_where_it_begins(text: str, letter: int) -> None:
    said = refusal(lambda: parse_all(text), StateError)
    assert said.endswith(f" at its letter {letter}"), said


def test_what_else_is_not_written_is_refused() -> None:
    for text, why in (
        ("A(x=1, x=2)", "'x' is there twice"),
        ("A(x='\\d')", "'\\\\d' in a string"),
        ("A(x='\\N{DIGIT ONE}')", "'\\\\N' in a string"),
        (f"A(x={nested(101)})", "more than 100 lists and mappings in one another"),
        (f"A(x={chr(123)}'a': 1, 'a': 2{chr(125)})", "'a' is there twice"),
        ("A(x='\\Uffffffff')", "'\\\\U' in a string"),
        ("A(x='\\U00110000')", "'\\\\U' in a string"),
    ):
        assert refusal(lambda text=text: parse_all(text), StateError).endswith(f": {why}")
    assert parse_all(f"A(x={nested(99)})")


SETTINGS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@QUICK
@given(SETTINGS, st.text("'\"f\\\n# {}1", max_size=12))
def test_any_settings_are_read_back(value: object, quotes: str) -> None:
    identity = {"kind": "A", "x": value, "y": quotes}
    text = describe_all([identity, identity])
    assert parse_all(text) == [("A", {"x": value, "y": quotes})] * 2


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
    assert len(str(caught.value)) < 250


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
            fill('A(x="""a" """f\'', "{1}", "')"),
            fill("A(x=1, #'\n y=f'", "{1}", "')"),
            fill("A(x= # '\\\rf'", "{0}", "')"),
            fill("A(x=['", "\\x1f", "'])"),
            fill("A(a", "\u0301\u0316", "=1)"),
            fill("A(x=[", "1if 1else 1,", "])"),
            fill("A(x={", "'a': {},", "'b': 1})"),
            fill("A()", " ", "("),
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
