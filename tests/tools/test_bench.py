"""`gpufeed bench`: its figures are of what it says, on data of any kind."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from nvidia import nvimgcodec

from gpufeed import Manifest, cli, read_folder
from gpufeed.cli.bench import _print_bench
from gpufeed.engine.device import Device, resolve_device
from gpufeed.source import Encoded, FileSource, MemorySource
from gpufeed.tools import bench as bench_module
from gpufeed.tools.bench import bench
from gpufeed.tools.plain_decode import PlainDecode
from tests.support.devices import DEVICES
from tests.support.media import jpeg, picture

Keys = npt.NDArray[np.int64]
QUICK = ["--seconds", "0.02", "--rounds", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven images in two class folders."""
    root = tmp_path_factory.mktemp("kinds")
    for number in range(11):
        folder = root / ("owl", "wren")[number % 2]
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(jpeg(picture(60, 80 + number, number)))
    return root


def test_figures_in_print_and_in_a_file(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "figures.json"
    command = ["bench", str(folders), *QUICK, "--batch-size", "4", "--size", "32"]
    assert cli.main([*command, "--step-ms", "5", "--threads", "1", "--json", str(target)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for pattern in (
        r"device\s+cpu",
        r"data\s+11 images \(split: all\)",
        r"preset\s+train, 32 x 32, batches of 4, numpy arrays",
        r"first batch\s+after [\d.]+ s",
        r"then\s+[\d,]+ images/s \([\d,]+ to [\d,]+\)",
        r"CPU time\s+[\d.]+ ms per image",
        r"peak host memory\s+[\d,]+ MiB",
        r"plain decode\s+[\d,]+ images/s",
        r"relative speed\s+[\d.]+ times plain decode",
        r"5 ms steps\s+[\d,]+ images/s",
        r"[\d.]+ % of the time waiting",
        r"Medians of 2 rounds of \d+ batches, with their 50 % intervals",
        rf"Figures: {re.escape(str(target))}",
    ):
        assert re.search(pattern, printed.out), (pattern, printed.out)
    kept = json.loads(target.read_text())
    assert kept["asked"]["images"] == 11
    assert kept["asked"]["threads"] == 1
    assert kept["versions"]["gpufeed"]
    found = kept["found"]
    assert found["fed"]["images_per_second"]["rounds"] == 2
    assert found["fed"]["images_per_second"]["low"] > 0
    assert found["peak_mib"] > 10
    assert 0 <= found["waiting"]["share"]["median"] <= 1
    # A consumer of 4 images each 5 ms never gets more than these.
    assert found["waiting"]["images_per_second"]["high"] <= 4 / 0.005


@pytest.mark.parametrize("times", [0.9, 1.2])
def test_it_is_said_how_it_can_be_faster_than_plain_decode(
    times: float, folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench(read_folder(folders), size=32, batch_size=4, rounds=1, seconds=0.01)
    told = replace(found, over_decoded=replace(found.over_decoded, median=times))
    _print_bench(told, "some images", "anyhow")
    assert ("Plain decode is slower because" in capsys.readouterr().out) == (times > 1)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_evaluating_in_every_framework(
    folders: Path, framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--preset", "evaluate", "--framework", framework, "--batch-size", "64"]
    assert cli.main(["bench", str(folders), *QUICK, *options, "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert f"evaluate, 224 x 224, batches of 64, {framework} arrays" in printed
    assert "From 1 round of" in printed
    assert "ms steps" not in printed


@pytest.mark.parametrize("device", DEVICES)
def test_plain_decode_is_of_the_pictures_just_fed(
    folders: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = read_folder(folders)
    decoded: list[list[Keys]] = []
    run = PlainDecode.run

    def noted(self: PlainDecode, batches: list[Keys]) -> None:
        decoded.append(batches)
        run(self, batches)

    monkeypatch.setattr(PlainDecode, "run", noted)
    options = {"device": device, "framework": "numpy" if device == "cpu" else "torch"}
    found = bench(manifest, size=32, batch_size=3, rounds=2, seconds=0.01, **options)
    assert found.device == {"cpu": "cpu", "cuda": "cuda:0"}[device]
    assert [len(batches) for batches in decoded] == [found.batches] * 2
    for batches in decoded:
        for batch in batches:
            assert len(set(batch)) == 3
            assert set(batch) <= set(range(len(manifest)))


@pytest.mark.parametrize("device", DEVICES)
def test_every_image_is_decoded(folders: Path, device: str) -> None:
    files = sorted(folders.rglob("*.jpg"))
    read: list[int] = []

    class Noting(MemorySource):
        def read(self, keys: Keys) -> list[Encoded]:
            read.extend(keys.tolist())
            return super().read(keys)

    source = Noting([file.read_bytes() for file in files])
    with PlainDecode(source, resolve_device(device), 2) as plain:
        plain.run([np.arange(4), np.arange(4, len(files))])
    assert sorted(read) == list(range(len(files)))
    missing = FileSource(folders, pl.Series(["none.jpg"]))
    with (
        PlainDecode(missing, resolve_device(device)) as plain,
        pytest.raises(FileNotFoundError, match="No such file"),
    ):
        plain.run([np.zeros(1, np.int64)])


def test_nvimagecodec_is_given_the_number_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    class Decoder:
        def __init__(self, **options: Any) -> None:
            made.append(options)

        def decode(self, streams: list[Any]) -> list[None]:
            return [None] * len(streams)

    monkeypatch.setattr(nvimgcodec, "Decoder", Decoder)
    source = MemorySource([jpeg(picture(20, 30, seed)) for seed in range(3)])
    with PlainDecode(source, Device(3), 2) as plain:
        plain.run([np.arange(2), np.arange(2, 3)])
    assert made == [{"device_id": 3, "max_num_cpu_threads": 2}]


def test_ranges(pictures: Manifest) -> None:
    for name, value in (("rounds", 0), ("seconds", float("inf")), ("step_ms", float("nan"))):
        with pytest.raises(bench_module.ConfigError, match=f"{name} is {value}; it must be a"):
            bench(pictures, **{name: value})
