"""A stand-in for a training run that may be killed at any time, and then goes on where it was.

It "trains" by writing down what it was handed: a line for each batch, with its step, records and
images, in `ledger.txt`. Every few steps it saves a checkpoint, which holds the loader's state and
how long the ledger was. It imports little, so that it is cheap to start.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from gpufeed import IndexSampler, Loader, Manifest
from gpufeed import transforms as tf
from tests.support.media import read_table

EPOCHS = 3
BATCH_SIZE = 2
SAVE_EVERY = 3


def make_loader(manifest: Manifest, *, num_threads: int, prefetch: int) -> Loader:
    return Loader(
        manifest,
        sampler=IndexSampler(len(manifest), shuffle=True, seed=7),
        transforms=[tf.RandomResizedCrop(16), tf.RandomHorizontalFlip(), tf.Normalize()],
        batch_size=BATCH_SIZE,
        device="cpu",
        num_threads=num_threads,
        prefetch=prefetch,
    )


def line(step: int, batch: dict[str, Any]) -> bytes:
    """What the ledger says of a batch."""
    keys = ",".join(map(str, batch["record_key"].tolist()))
    labels = ",".join(map(str, batch["label"].tolist()))
    pictures = ",".join(hashlib.sha256(image.tobytes()).hexdigest() for image in batch["image"])
    return f"{step} {keys} {labels} {pictures}\n".encode()


def save(path: Path, loader: Loader, written: int) -> None:
    """Replace the checkpoint: whoever reads it finds the old one or the new one, whole."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w") as file:
        json.dump({"loader": loader.state_dict(), "written": written}, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def restore(path: Path, loader: Loader) -> int:
    """Bring the loader to where the checkpoint was saved; return how long the ledger was then."""
    if not path.exists():
        return 0
    checkpoint = json.loads(path.read_text())
    loader.load_state_dict(checkpoint["loader"])
    return int(checkpoint["written"])


def run(
    table: Path, folder: Path, *, num_threads: int, prefetch: int, at_most: int | None = None
) -> None:
    """Train to the end of the last epoch; or for `at_most` steps, and then wait to be killed.

    It prints the step it goes on from, and a dot for each line that is in the ledger.
    """
    left = -1 if at_most is None else at_most
    loader = make_loader(read_table(table), num_threads=num_threads, prefetch=prefetch)
    with loader, (folder / "ledger.txt").open("ab", buffering=0) as ledger:
        ledger.truncate(restore(folder / "checkpoint.json", loader))
        print(loader.step, flush=True)
        while loader.epoch < EPOCHS:
            for batch in loader:
                if left == 0:
                    signal.pause()
                left -= 1
                ledger.write(line(loader.step - 1, batch))
                print(".", end="", flush=True)
                if loader.step % SAVE_EVERY == 0:
                    os.fsync(ledger.fileno())
                    save(folder / "checkpoint.json", loader, ledger.tell())


if __name__ == "__main__":
    # Should it hang, or whoever waits for it, it ends.
    signal.alarm(300)
    at_most = int(sys.argv[5]) if len(sys.argv) > 5 else None
    run(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        num_threads=int(sys.argv[3]),
        prefetch=int(sys.argv[4]),
        at_most=at_most,
    )
