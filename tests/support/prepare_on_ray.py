"""What tests/prepare/test_ray.py runs: `prepare` on three workers of Ray, one of which dies.

python -m tests.support.prepare_on_ray TABLE DESTINATION

TABLE is a file that `write_table` wrote. The first worker that reads record 5 kills itself; those
that come after it find a file beside TABLE. With a DESTINATION named "bad", an image is bad.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import ray

from gpufeed import DecodeError, Manifest, prepare
from gpufeed.source.base import Content, Source, fingerprint_of
from tests.support.media import read_table
from tests.support.prepare_until import PREFIX, SHARD


class Deadly:
    """Reads another source, and kills the process that first reads record 5."""

    def __init__(self, source: Source, mark: Path) -> None:
        self.source = source
        self.mark = mark
        self.name = source.name

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        if (keys == 5).any() and not self.mark.exists():
            self.mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return [*self.source.read(keys)]

    def fingerprint(self) -> str | None:
        return fingerprint_of(self.source)


def main(table: Path, out: Path) -> None:
    ray.init(num_cpus=3, include_dashboard=False)
    whole = read_table(table)
    manifest = Manifest(whole.frame, Deadly(whole.source, table.parent / "mark"), whole.classes)
    prepare(manifest, out, PREFIX, shard_size=SHARD, ray="local", progress=False)
    (table.parent / "00003.jpg").unlink()
    try:
        prepare(manifest, out.parent / "bad", PREFIX, on_error="raise", ray="local")
    except DecodeError as error:
        print(error.record_key, error.reason)
    ray.shutdown()


if __name__ == "__main__":
    signal.alarm(300)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
