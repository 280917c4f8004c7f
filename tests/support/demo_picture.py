"""Draws docs/demo.png, the picture of the README: a batch of the set that `gpufeed demo` draws.

python -m tests.support.demo_picture
"""

from __future__ import annotations

from pathlib import Path

from gpufeed import read_nabirds
from gpufeed.sheets.sheet import save_sheet
from gpufeed.tools.demo import demo_set
from gpufeed.tools.show import show_batch

PICTURE = Path(__file__).parents[2] / "docs" / "demo.png"


def main() -> None:
    train = read_nabirds(demo_set(1000, 0), labels="species").split("train")
    shown = show_batch(train, 7, batch_size=8, device="cpu", split="train")
    few = shown.sheet.quantize(256)  # a third of the bytes
    few.info |= shown.sheet.info
    save_sheet(few, PICTURE)


if __name__ == "__main__":
    main()
