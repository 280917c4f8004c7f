"""Photos are decoded by the decoder that was asked for, by nvImageCodec's own log."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import decoders
from benchmarks.gpu.choices import choices
from benchmarks.gpu.job import Job
from tests.support.devices import DEVICES


@pytest.mark.parametrize("device", DEVICES)
def test_photos_are_decoded_by_the_decoder_that_was_asked_for(
    device: str, small_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, since the log's level is read when DALI is loaded."""
    job = Job(device, str(small_photos), str(tmp_path), cores=2, quick=True)
    rows = tmp_path / "rows"
    monkeypatch.setenv("DALI_NVIMGCODEC_LOG_LEVEL", "")  # restored after `cases`
    monkeypatch.setenv("PYNVIMGCODEC_VERBOSITY", "")
    others = {name: {} for name in decoders.cases(job) if "4:2:0" not in name}
    replace(job, known=others).save(tmp_path / "job.json")
    command = [sys.executable, "-m", "benchmarks.gpu.child", "benchmarks.gpu.decoders"]
    subprocess.run(
        [*command, str(tmp_path / "job.json"), str(rows)], check=True, capture_output=True
    )
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    cases = {line["case"]: line["facts"] for line in lines if "case" in line}
    assert list(cases) == [f"{choice.name}: JPEG 4:2:0" for choice in choices(device)]
    for choice, facts in zip(choices(device), cases.values(), strict=True):
        assert facts["CPU ms an image"] > 0
        assert facts.get("ok") is (True if choice.decoder else None), facts


def test_images_that_the_log_does_not_name_went_to_the_engines() -> None:
    log = "[INFO] [x] ImageGenericDecoder::decode num_samples=9\n[INFO] [x] decode num_samples=9\n"
    log += "".join(f"[INFO] [x] 0: nvjpeg_cuda_decoder process #{n}\n" for n in (3, 1))
    log += "[INFO] [x] 1: opencv_png_decoder process #0\n"
    found = decoders.count_decoders(log)
    assert found == {"nvjpeg_cuda": 2, "opencv_png": 1, "engines": 6}
