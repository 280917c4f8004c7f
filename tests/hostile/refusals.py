"""Opens what is no regular file, or goes on without end, and says what came of each.

    python -m tests.hostile.refusals FOLDER

A process of its own, which is ended should it hang. Each line of its output is [reader, what it
met, class of the error, message], in JSON.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl

from gpufeed import (
    Loader,
    SequentialSampler,
    read_folder,
    read_nabirds,
    read_table,
)
from gpufeed import transforms as tf
from gpufeed.tools.check.dataset import check
from tests.support.media import make_manifest
from tests.support.nabirds_data import write_nabirds

HOLE = 4 << 30


def _socket(path: Path) -> None:
    # Bound by a short name, since those of sockets end at 107 letters.
    here = Path.cwd()
    os.chdir(path.parent)
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(here)


def _link_to_pipe(path: Path) -> None:
    pipe = path.with_name(f"{path.name}.pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe)


def _sparse(start: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(start)
        os.truncate(path, HOLE)

    return write


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 40, 30, 8, 2, 0, 0, 0)
HARMS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a pipe": _link_to_pipe,
    "a link to itself": lambda path: path.symlink_to(path),
    "a hole": _sparse(b""),
    "a PNG with a hole": _sparse(PNG),
    "a JPEG with a hole": _sparse(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"),
    "a JPEG filled up": lambda path: path.write_bytes(b"\xff\xd8" + b"\xff" * (8 << 20)),
    "a WebP with a hole": _sparse(b"RIFF\xff\xff\xff\xffWEBP"),
    "a TIFF with a hole": _sparse(b"II*\x00\x08\x00\x00\x00\xff\xff"),
}

Harm = Callable[[Path], object]


def by_table(root: Path, harm: Harm) -> None:
    make_manifest(root, [(30, 40)] * 2)
    harm(root / "harm.jpg")
    table = pl.DataFrame({"path": ["00000.jpg", "harm.jpg"], "label": [0, 1]})
    read_table(table, root=root)


def by_folder(root: Path, harm: Harm) -> None:
    make_manifest(root / "wren", [(30, 40)])
    (root / "auk").mkdir()
    harm(root / "auk" / "harm.jpg")
    read_folder(root)


def by_nabirds(root: Path, harm: Harm) -> None:
    write_nabirds(root)
    picture = next((root / "images").rglob("*.jpg"))
    picture.unlink()
    harm(picture)
    read_nabirds(root, sizes="headers")


def by_loader(root: Path, harm: Harm) -> None:
    """The list was made when the file was an image yet."""
    manifest = make_manifest(root, [(30, 40)] * 12)
    (root / "00005.jpg").unlink()
    harm(root / "00005.jpg")
    loader = Loader(
        manifest,
        sampler=SequentialSampler(12, num_epochs=1),
        transforms=[tf.Resize((8, 8)), tf.ToDtype("uint8")],
        batch_size=4,
        device="cpu",
        on_error="blank",
    )
    with loader:
        assert len(list(loader)) == 3
        (failure,) = loader.quarantine
    raise ValueError(f"in quarantine: {failure.path}: {failure.reason}")


def by_check(root: Path, harm: Harm) -> None:
    make_manifest(root, [(30, 40)])
    harm(root / "harm.jpg")
    frame = pl.DataFrame({"path": ["00000.jpg", "harm.jpg"]})
    (found,) = check(frame, root, max_pixels=1 << 27, progress=False).findings.rows()
    raise ValueError(f"found: {found[2]}: {found[4]}")


READERS = (by_table, by_folder, by_nabirds, by_loader, by_check)


def main() -> None:
    for reader in READERS:
        for name, harm in HARMS.items():
            root = Path(sys.argv[1], reader.__name__, name)
            root.mkdir(parents=True)
            try:
                reader(root, harm)
            except Exception as error:
                said = type(error).__name__, str(error).replace(str(root), "ROOT")
            else:
                said = "", ""
            print(json.dumps([reader.__name__, name, *said]), flush=True)


if __name__ == "__main__":
    main()
