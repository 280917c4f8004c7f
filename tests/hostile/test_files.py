"""Damaged and odd files: none ends a run, none is lost, and each is the same under every policy."""

from __future__ import annotations

import ast
import ctypes
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from gpufeed import decode
from gpufeed.decode.headers import image_size
from tests.hostile import run as hostile
from tests.hostile import table as hostile_table
from tests.hostile.child import EXACT, POLICIES
from tests.hostile.run import Outcome, Run
from tests.hostile.table import DOCUMENT
from tests.support.damage import FORMS, Damager, lie_about_size, pieces
from tests.support.heap import used_bytes
from tests.support.watched import DiedError, lines
from tests.support.written import cells

FILES = 55


@pytest.fixture(scope="module")
def outcome(testdata: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    scratch = tmp_path_factory.mktemp("hostile")
    return Run(testdata, scratch, files=FILES, seed=1, odd_step=20, together=True).run()


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_ends_a_run_and_nothing_is_lost(outcome: Outcome, policy: str) -> None:
    fed = outcome.policies[policy]
    assert (fed.crashes, fed.hangs, fed.foreign) == ([], [], [])
    assert (fed.lost, fed.double) == (0, 0)
    assert len(fed.errors) == (len(fed.refused) if policy == "raise" else 0)
    assert len(fed.missing) == len(fed.errors)
    assert len(fed.measures) == 10
    assert outcome.crashed == []


def test_a_file_is_the_same_under_every_policy(outcome: Outcome) -> None:
    assert outcome.disagreements() == []
    came = [set(outcome.policies[policy].came) for policy in EXACT]
    assert len(came[0]) > FILES // 4
    assert all(each == came[0] for each in came)


def test_threads_and_files_are_given_back(outcome: Outcome) -> None:
    """Of what is opened for each bad image there would be hundreds."""
    for fed in outcome.policies.values():
        assert fed.growth("files") <= 2
        assert fed.growth("threads") <= 16
    assert outcome.filters


def test_what_is_not_damaged_is_fed_as_pillow_decodes_it(outcome: Outcome) -> None:
    whole = outcome.files.filter(kind="nothing", gpufeed=True)
    assert len(whole) > 1
    assert whole["pillow"].all()
    assert whole["largest"].max() <= hostile_table.ALIKE


def test_damage_does_harm_of_every_kind(outcome: Outcome) -> None:
    """Else the laws above would be held by files that nothing is wrong with."""
    refused = " ".join(outcome.policies["raise"].refused.values())
    for reason in ("not a readable image", "the image is damaged", "manifest gives"):
        assert reason in refused
    counts = outcome.files.group_by("pillow", "gpufeed").len()
    assert counts["len"].sum() == len(outcome.files)
    assert len(counts) == 4
    assert 0.2 < outcome.files["gpufeed"].mean() < 0.8


def test_files_are_made_by_their_number(testdata: Path) -> None:
    photos = hostile.photos(testdata)
    made = [Damager(photos, 3).make(number) for number in (5, 2, 5)]
    assert made[0] == made[2]
    assert Damager(photos, 3).make(2) == made[1]
    assert Damager(photos, 4).make(2) != made[1]


@pytest.mark.parametrize("form", FORMS)
def test_a_lie_about_the_size_is_all_that_is_changed(testdata: Path, form: str) -> None:
    damager = Damager(hostile.photos(testdata)[:1], 0)
    content, size = damager._whole(form, np.random.default_rng(0))
    lying = lie_about_size(content, 65535, 7)
    assert image_size(content) == size
    assert image_size(lying) in ((65535, 7), (7, 65535))
    changed = sum(one != other for one, other in zip(content, lying, strict=False))
    assert changed <= 20 or form == "PNM"
    assert pieces(content) == pieces(lying) or form == "PNM"


def test_the_document_is_of_what_the_code_has(outcome: Outcome) -> None:
    """All columns and kinds, in their order, and figures as the command writes them."""
    write = "run `python -m tests.hostile.run`, which writes docs/reference/hostile.md"
    large = {case: {"measured": {"peak": 1}} for case in hostile_table.LARGE}
    for name, table in (
        ("policies", hostile_table.fed(outcome)),
        ("damage", hostile_table.compared(outcome.files)),
        ("large", hostile_table.peaks(large)),
    ):
        told = DOCUMENT.table(name)
        assert told.splitlines()[0] == table.splitlines()[0], write
        assert [row[0] for row in cells(told)] == [row[0] for row in cells(table)], write
        assert all(row[1] for row in cells(told) if not row[0].startswith("**"))
    reasons = [row[0] for row in cells(DOCUMENT.table("refusals"))]
    assert reasons == [hostile_table.alike(reason) for reason in reasons], write


def phrases_of(folder: Path) -> set[str]:
    """The parts between colons and semicolons of all texts in the code, with \\0 for a value."""
    found: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [part.value if isinstance(part, ast.Constant) else "\0" for part in parts]
            if isinstance(node, ast.JoinedStr | ast.Constant) and isinstance(texts[0], str):
                found.update(re.split("[:;] ", "".join(texts).replace("0x\0", "\0")))
    return found


def test_the_document_quotes_what_the_code_says() -> None:
    """Each phrase is one of the code's, at least half of it letter by letter."""
    known = [
        (len(phrase.replace("\0", "")), ".+".join(map(re.escape, phrase.split("\0"))))
        for phrase in phrases_of(Path(decode.__file__).parent)
    ]
    quoted = [re.split("[:;] ", row[0]) for row in cells(DOCUMENT.table("refusals"))]
    unknown = {
        phrase
        for phrase in itertools.chain(*quoted)
        if not any(
            2 * literal >= len(phrase) and re.fullmatch(pattern, phrase)
            for literal, pattern in known
        )
    }
    assert not unknown, "run `python -m tests.hostile.run`, which writes docs/reference/hostile.md"


# ------------------------------------------------------------------------------ the watch


def used_by_malloc_info(path: Path) -> int:
    """The same as malloc writes it down itself."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(bytes(path), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    told = path.read_text().rpartition("</heap>")[2]
    sizes = dict(re.findall(r'type="(fast|rest|mmap|current)"(?: count="\d+")? size="(\d+)"', told))
    free = int(sizes["fast"]) + int(sizes["rest"])
    return int(sizes["current"]) - free + int(sizes["mmap"])


def test_used_memory_is_what_malloc_tells(tmp_path: Path) -> None:
    before = used_bytes()
    taken = [bytes(50_000) for _ in range(400)]
    after = used_bytes()
    assert after - before > 400 * 50_000
    assert abs(used_by_malloc_info(tmp_path / "told.xml") - after) < 1 << 20
    del taken[::2]  # every other one, so that none of it goes back to the system
    assert after - used_bytes() > 150 * 50_000


def test_a_child_that_crashes_or_hangs_is_told_of(tmp_path: Path) -> None:
    noise = tmp_path / "noise.txt"
    for ending, words in (("os.abort()", "with -6"), ("raise SystemExit(3)", "with 3")):
        code = f"import os; print(1, flush=True); {ending}"
        said, heard = lines([sys.executable, "-c", code], noise), []
        with pytest.raises(DiedError, match=f"it ended {words}") as caught:
            heard.extend(said)
        assert (caught.value.how, heard) == ("crash", [1])
    with pytest.raises(DiedError, match="nothing was heard for") as caught:
        list(lines(["sleep", "1000"], noise, silence=0.1))
    assert caught.value.how == "hang"
    assert list(lines([sys.executable, "-c", "print(1); print('[2]')"], noise)) == [1, [2]]


# ------------------------------------------------------------------------------ memory


def test_a_picture_too_large_takes_no_memory(testdata: Path, tmp_path: Path) -> None:
    """Neither the 18 MB of its pixels, nor a good part of them, where it is refused."""
    said = hostile.large(hostile.photos(testdata), tmp_path, (3000, 2000), 1_000_000, eight=False)
    assert said["refused"]["refused"] == [
        "the image has 3000 x 2000 = 6,000,000 pixels, more than max_pixels (1,000,000); raise it "
        "if there is enough memory"
    ]
    assert 32 not in said["refused"]["fed"]
    assert len(said["refused"]["fed"]) == 65
    assert said["fed"]["refused"] == []
    assert sorted(said["fed"]["fed"]) == list(range(65))
    peak = {case: each["measured"]["peak"] * 1024 for case, each in said.items()}
    assert peak["refused"] - peak["alone"] < 3000 * 2000 * 3
    assert peak["fed"] - peak["alone"] > 3000 * 2000 * 3
