"""A stand-in for a long `prepare`, which is killed and started again.

python -m tests.support.prepare_until RECORD TABLE DESTINATION

TABLE is a file that `write_table` wrote. Reading never comes to RECORD, so that there is all the
time to kill it.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpufeed import Manifest, prepare
from gpufeed import transforms as tf
from gpufeed.source.base import Content, Source, fingerprint_of
from tests.support.media import read_table

PREFIX = [tf.BoxCrop(0.2), tf.ResizeLongest(48), tf.PadToSquare(48)]
SHARD = 2


class Until:
    """Reads another source up to some record, and waits forever there."""

    def __init__(self, source: Source, record: int) -> None:
        self.source = source
        self.record = record
        self.name = source.name

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        if (keys >= self.record).any():
            threading.Event().wait()
        return [*self.source.read(keys)]

    def fingerprint(self) -> str | None:
        return fingerprint_of(self.source)


def main(record: int, table: Path, destination: Path) -> None:
    whole = read_table(table)
    manifest = Manifest(whole.frame, Until(whole.source, record), whole.classes)
    prepare(manifest, destination, PREFIX, shard_size=SHARD, workers=2, progress=False)


if __name__ == "__main__":
    signal.alarm(300)
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
