"""Feed images through an installed gpufeed; print what every environment must share.

    python smoke.py FOLDER FRAMEWORK...

FOLDER is a synthetic NABirds. A line for each framework has the digest of two epochs, the second
resumed in a new loader. With `sources` in the place of a framework, all formats of the extras must
give the batches of files.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import gpufeed


def digest(manifest: gpufeed.Manifest, framework: str = "numpy") -> str:
    """The SHA-256 of two epochs' batches, of a loader that is made anew in the middle of them."""
    transforms = [
        gpufeed.RandomResizedCrop(48),
        gpufeed.RandomHorizontalFlip(),
        gpufeed.RandAugment(),
        gpufeed.Normalize(),
    ]

    def make() -> gpufeed.Loader:
        sampler = gpufeed.IndexSampler(len(manifest), shuffle=True, seed=1)
        return gpufeed.Loader(
            manifest,
            transforms=transforms,
            sampler=sampler,
            batch_size=5,
            framework=framework,
            device="cpu",
            shard=gpufeed.ShardOptions(0, 1),
        )

    seen = hashlib.sha256()
    loader = make()
    half = len(loader)
    batches = loader.forever()
    for number in range(2 * half):
        if number == half:
            state = json.loads(json.dumps(loader.state_dict()))
            loader.close()
            loader = make()
            loader.load_state_dict(state)
            batches = loader.forever()
        batch = next(batches)
        image = np.asarray(batch["image"])
        channels_last = image if image.shape[-1] == 3 else image.transpose(0, 2, 3, 1)
        seen.update(np.ascontiguousarray(channels_last, np.float32).tobytes())
        for name in ("label", "record_key"):
            seen.update(np.asarray(batch[name]).astype(np.int64).tobytes())
    loader.close()
    return seen.hexdigest()[:16]


def check_sources(manifest: gpufeed.Manifest, folder: Path) -> None:
    """Write the images in each format, and compare what is fed with what files give."""
    import h5py
    import lmdb
    from array_record.python.array_record_module import ArrayRecordWriter

    root = Path(str(manifest.root))
    contents = [(root / name).read_bytes() for name in manifest.frame["path"]]
    labels = {"label": manifest.frame["label"]}
    pl.DataFrame({**labels, "image": contents}).write_parquet(folder / "list.parquet")
    with h5py.File(folder / "images.h5", "w") as file:
        images = file.create_dataset("images", (len(contents),), h5py.vlen_dtype(np.uint8))
        for key, content in enumerate(contents):
            images[key] = np.frombuffer(content, np.uint8)
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 26) as db, db.begin(write=True) as writes:
        for key, content in enumerate(contents):
            writes.put(f"{key:04}".encode(), content)
    writer = ArrayRecordWriter(str(folder / "images.array_record"), "group_size:1")
    for content in contents:
        writer.write(content)
    writer.close()
    manifest.save(folder / "saved.manifest")

    def from_source(source: gpufeed.Source) -> gpufeed.Manifest:
        return gpufeed.read_table(labels, source=source, progress=False)

    paths = {**labels, "path": manifest.frame["path"]}
    read = {
        "memory": from_source(gpufeed.MemorySource(contents)),
        "parquet": gpufeed.read_table(folder / "list.parquet", image="image", progress=False),
        "hdf5": from_source(gpufeed.Hdf5Source(folder / "images.h5", "images")),
        "lmdb": from_source(gpufeed.LmdbSource(folder / "lmdb")),
        "array_record": from_source(gpufeed.ArrayRecordSource(folder / "images.array_record")),
        "saved": gpufeed.read_manifest(folder / "saved.manifest"),
        "remote": gpufeed.read_table(paths, root=f"file://{root}", progress=False),
    }
    expected = digest(manifest)
    found = {name: digest(other) for name, other in read.items()}
    wrong = {name: value for name, value in found.items() if value != expected}
    if wrong:
        raise SystemExit(f"{wrong} differ from files, which give {expected}")


def main() -> None:
    birds = gpufeed.read_nabirds(sys.argv[1], progress=False)
    for framework in sys.argv[2:]:
        if framework == "sources":
            with tempfile.TemporaryDirectory() as folder:
                check_sources(birds, Path(folder))
        else:
            print(digest(birds, framework))


if __name__ == "__main__":
    main()
