"""Feeds thousands of damaged images, and says what became of them.

    python -m tests.hostile.run --files 20000    writes the tables of docs/reference/hostile.md
    python -m tests.hostile.run --file 1234      writes damaged file 1234 here, to be looked at
    python -m tests.hostile.run --large          writes what memory large images take

The damaged files are made of the photos of the folder that GPUFEED_TESTDATA names, shrunk; the odd
files of that folder are fed with them. All that might crash or hang is done in child processes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image

from gpufeed._util.progress import progress
from gpufeed.decode.diagnose import MAX_PIXELS
from tests.hostile import child
from tests.hostile.child import CLASSES, POLICIES
from tests.hostile.table import DOCUMENT, compared, fed, peaks, refusals
from tests.support.damage import Damager
from tests.support.media import jpeg
from tests.support.watched import DiedError, lines, python

MAKERS = 2


@dataclass
class Fed:
    """What came of all files under one policy.

    Attributes:
        came: what was made of each record, as digests of its pixels.
        refused: the reasons why records were found bad.
        errors: what was raised, and whether it was gpufeed's own.
        raised: places of the order in whose stead an error was raised.
        missing: places of the order that were not delivered, by the ledger.
        double: how many were delivered twice, by the ledger.
        measures: of the process, at each tenth of the files.
        crashes: records over which the process crashed.
        hangs: records over which it hung.
    """

    came: dict[int, set[str]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    errors: list[tuple[str, bool]] = field(default_factory=list)
    raised: set[int] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    double: int = 0
    measures: list[dict[str, int]] = field(default_factory=list)
    crashes: list[int] = field(default_factory=list)
    hangs: list[int] = field(default_factory=list)

    @property
    def foreign(self) -> list[str]:
        """The errors that are not gpufeed's own."""
        return [said for said, own in self.errors if not own]

    @property
    def lost(self) -> int:
        """How many places came neither as a batch nor as an error."""
        return len(self.missing - self.raised)

    def growth(self, name: str) -> int:
        """How much more of something there was at the end than after the first tenth."""
        return self.measures[-1][name] - self.measures[0][name]


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        files: a row for each: `key`, `path`, `kind`, `form`, `width`, `height`; `pillow`, whether
            that decodes it; `gpufeed`, whether a run does; `mean` and `largest` difference of both
            in grey levels, null where not both do.
        policies: what came under each.
        crashed: files over which the comparison crashed or hung.
        filters: whether the warnings' filters were left as they were.
    """

    files: pl.DataFrame
    policies: dict[str, Fed]
    crashed: list[int]
    filters: bool

    def disagreements(self) -> list[str]:
        """Files of which policies make different things."""
        exact = {name: self.policies[name] for name in child.EXACT}
        first = next(iter(exact.values()))
        found = []
        for key in self.files["key"].to_list():
            made = {digest for each in exact.values() for digest in each.came.get(key, ())}
            refused = {key in each.refused for each in exact.values()}
            if len(made) > 1 or len(refused) > 1 or bool(made) == (key in first.refused):
                found.append(f"file {key}: refused {refused}, {len(made)} different images")
        return found


class Run:
    """One run over damaged files.

    Args:
        data: the folder of the photos and odd files.
        scratch: an empty folder for all that is written.
        files: how many damaged files.
        seed: of all that is drawn.
        odd_step: of the odd files every so many.
        together: whether one child feeds under all policies, which is quicker for few files, or
            one under each.
        done: called with the steps done, of `steps`.
    """

    def __init__(
        self,
        data: Path,
        scratch: Path,
        *,
        files: int,
        seed: int = 0,
        odd_step: int = 1,
        together: bool = False,
        done: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._photos = photos(data)
        odd = sorted(path for path in (data / "odd_jpegs").rglob("*") if ".j" in path.name.lower())
        self._odd = [str(path) for path in odd][::odd_step]
        self._scratch = scratch
        self._files = files
        self._seed = seed
        self._together = together
        self._done = done
        self._count = files + len(self._odd)
        self.steps = self._count * (2 + len(POLICIES))

    def _child(self, role: str, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
        command = python(child.__name__, role, settings, self._scratch / "settings")
        return lines(command, self._scratch / "noise.txt")

    def run(self) -> Outcome:
        """Make, compare and feed all files."""
        files = self._made()
        self._write_table(files)
        theirs, apart, crashed = self._compared()
        policies = {name: Fed() for name in POLICIES}
        filters = True
        for group in [POLICIES] if self._together else [(name,) for name in POLICIES]:
            filters &= self._feed(group, policies)
        refused = policies["raise"].refused
        both = [each if key not in refused else None for key, each in enumerate(apart)]
        files = files.with_columns(
            pl.Series("pillow", theirs),
            pl.Series("gpufeed", [key not in refused for key in range(self._count)]),
            pl.Series("mean", [each and each[0] for each in both], dtype=pl.Float64),
            pl.Series("largest", [each and each[1] for each in both], dtype=pl.Int64),
        )
        return Outcome(files, policies, crashed, filters)

    def _made(self) -> pl.DataFrame:
        makers = 1 if self._together else MAKERS
        settings = {
            "photos": [str(path) for path in self._photos],
            "odd": self._odd,
            "files": self._files,
            "seed": self._seed,
            "root": str(self._scratch / "files"),
            "step": makers,
        }

        def work(first: int) -> list[dict[str, Any]]:
            rows = []
            for row in self._child("make", {**settings, "first": first}):
                self._done(1)
                rows.append(row)
            return rows

        with ThreadPoolExecutor(makers) as pool:
            rows = [row for part in pool.map(work, range(makers)) for row in part]
        return pl.DataFrame(rows).sort("key")

    @property
    def _places(self) -> dict[str, str]:
        return {
            "table": str(self._scratch / "table.parquet"),
            "root": str(self._scratch / "files"),
        }

    def _write_table(self, files: pl.DataFrame, name: str = "table") -> None:
        table = files.select("path", "width", "height", label=pl.col("key") % CLASSES)
        table.write_parquet(self._scratch / f"{name}.parquet")

    def _compared(self) -> tuple[list[bool], list[tuple[float, int] | None], list[int]]:
        """Of each file whether Pillow decodes it, how far apart both are, and what crashed."""
        theirs, apart, crashed = [False] * self._count, [None] * self._count, []
        start = 0
        while start < self._count:
            try:
                for said in self._child("compare", {**self._places, "start": start}):
                    self._done(1)
                    theirs[said["done"]], apart[said["done"]] = said["pillow"], said["apart"]
                    start = said["done"] + 1
            except DiedError:
                crashed.append(start)
                start += 1
        return theirs, apart, crashed

    def _feed(self, group: Sequence[str], policies: dict[str, Fed]) -> bool:
        """Feed under some policies; whether the warnings' filters were left as they were."""
        filters, start, left = True, 0, list(group)
        while left:
            settings = {
                **self._places,
                "policies": left,
                "start": start,
                "saved": str(self._scratch / "saved.ledger"),
            }
            saved, last = start, start - 1
            # What came since the ledger was saved, which is not counted should the child crash.
            fresh: list[dict[str, Any]] = []
            try:
                for said in self._child("feed", settings):
                    if "filters" in said:
                        filters &= said["filters"]
                        continue
                    now = policies[said["policy"]]
                    if "saved" in said or "end" in said:
                        for each in fresh:
                            _note(now, each)
                        fresh.clear()
                    if "saved" in said:
                        saved = said["saved"]
                    elif "end" in said:
                        now.missing = set(said["missing"])
                        now.double = said["double"]
                        now.refused |= {int(key): why for key, why in said["refused"].items()}
                        left.pop(0)
                        saved, last = 0, -1
                    else:
                        self._done(1 if left[0] == "raise" else 8)
                        fresh.append(said)
                        last = said["step"]
            except DiedError as died:
                self._take_out(died, left[0], last + 1, policies[left[0]])
                start = saved
        return filters

    def _take_out(self, died: DiedError, policy: str, step: int, fed: Fed) -> None:
        """Find the file over which a process came to its end, and empty it, so as to go on."""
        size = 1 if policy == "raise" else 8
        table = pl.read_parquet(self._places["table"])
        first = step * size
        for key in range(first, min(first + 4 * size, self._count)):
            table[key : key + 1].write_parquet(self._scratch / "one.parquet")
            settings = {
                **self._places,
                "table": str(self._scratch / "one.parquet"),
                "policies": ["blank"],
                "start": 0,
                "saved": str(self._scratch / "one.ledger"),
            }
            try:
                for _ in self._child("feed", settings):
                    pass
            except DiedError as alone:
                (fed.crashes if alone.how == "crash" else fed.hangs).append(key)
                (self._scratch / "files" / table["path"][key]).write_bytes(b"")
                return
        raise RuntimeError(
            f"a {died.how} under {policy} from batch {step} on, but over no file alone: {died}"
        )


def _note(now: Fed, said: dict[str, Any]) -> None:
    """Take over what a child said of one batch."""
    if "measured" in said:
        now.measures.append(said["measured"])
    elif "error" in said:
        now.errors.append((said["error"], said["own"]))
        now.raised.add(said["first"])
    else:
        for key, digest in said["came"]:
            now.came.setdefault(key, set()).add(digest)


def photos(data: Path) -> list[Path]:
    return sorted((data / "photos").rglob("*.jpg"))


# ------------------------------------------------------------------------------ large


def large(
    photos: Sequence[Path], scratch: Path, size: tuple[int, int], most: int, *, eight: bool = True
) -> dict[str, Any]:
    """Feed 64 small images alone, with a large one among them that is refused, and with it fed.

    And with eight large ones fed, and eight files that are bad, so that batches are mended beside.

    Args:
        photos: photos to make them of.
        scratch: an empty folder.
        size: (width, height) of the large ones.
        most: `max_pixels` by which it is refused.
        eight: whether eight large ones are fed too.

    Returns:
        Of each what the child said, by "alone", "refused", "fed" and "eight fed".
    """
    (scratch / "files").mkdir()
    rows = []
    for number in range(65):
        with Image.open(photos[number % len(photos)]) as image:
            image.draft("RGB", (256, 256))
            image.thumbnail((256, 256))
            picture = image.convert("RGB")
        if number == 64:
            picture = picture.resize(size, Image.Resampling.NEAREST)
        name = f"{number:02}.jpg"
        (scratch / "files" / name).write_bytes(jpeg(picture, quality=75))
        width, height = picture.size
        rows.append((name, width, height, number % CLASSES))
    del picture
    table = pl.DataFrame(rows, schema=["path", "width", "height", "label"], orient="row")
    bad = table[:1].with_columns(path=pl.lit("bad.jpg"))
    (scratch / "files" / "bad.jpg").write_bytes(b"")
    mixed = [part for at in range(0, 64, 8) for part in (table[at : at + 8], table[64:], bad)]
    said = {}
    cases = (
        ("alone", table[:64], most),
        # In the middle, so that others are under way beside it.
        ("refused", pl.concat([table[:32], table[64:], table[32:64]]), most),
        ("fed", pl.concat([table[:32], table[64:], table[32:64]]), size[0] * size[1]),
        ("eight fed", pl.concat(mixed), size[0] * size[1]),
    )
    for case, frame, pixels in cases if eight else cases[:-1]:
        frame.write_parquet(scratch / f"{case}.parquet")
        settings = {
            "table": str(scratch / f"{case}.parquet"),
            "root": str(scratch / "files"),
            "max_pixels": pixels,
        }
        command = python(child.__name__, "large", settings, scratch / "settings")
        (said[case],) = lines(command, scratch / "noise.txt")
    return said


# ------------------------------------------------------------------------------ the command


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000, help="how many damaged files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", type=int, help="write this damaged file here, and nothing else")
    parser.add_argument("--large", action="store_true", help="what memory a large image takes")
    options = parser.parse_args()
    named = os.environ.get("GPUFEED_TESTDATA")
    if not named or not (Path(named) / "photos").is_dir():
        parser.error("GPUFEED_TESTDATA must name the folder of the photos")
    data = Path(named)
    if options.file is not None:
        made = Damager(photos(data), options.seed).make(options.file)
        path = Path(f"hostile-{options.seed}-{options.file}.bin")
        path.write_bytes(made.content)
        print(f"{path}: {made.form}, {made.kind}; {made.size[0]} x {made.size[1]} before")
        return
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        scratch = Path(name)
        if options.large:
            said = large(photos(data), scratch, (20_000, 14_000), MAX_PIXELS)
            print(peaks(said))
            DOCUMENT.write({"large": peaks(said)})
            return
        run = Run(data, scratch, files=options.files, seed=options.seed)
        with progress("Hostile files", run.steps, unit="files") as done:
            run._done = done
            outcome = run.run()
        tell(outcome)
    tables = {"damage": compared(outcome.files), "policies": fed(outcome)}
    DOCUMENT.write({**tables, "refusals": refusals(outcome)})


def tell(outcome: Outcome) -> None:
    """Print what must not be, and what of the rest the tables do not have."""
    print(fed(outcome))
    print(compared(outcome.files))
    print(refusals(outcome))
    print(f"crashes of the comparison: {outcome.crashed}; filters kept: {outcome.filters}")
    wrong = outcome.disagreements()
    print(f"files that differ between policies: {len(wrong)}", *wrong[:10], sep="\n")
    for name, each in outcome.policies.items():
        print(name, "crashes", each.crashes, "hangs", each.hangs, "foreign", each.foreign[:5])


if __name__ == "__main__":
    main()
