"""The recipes of docs/how-to/watching.md run; the libraries' own readers find what was logged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from gpufeed import Loader, Manifest
from tests.support.loaders import make

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "watching.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def loader(pictures: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loader]:
    monkeypatch.chdir(tmp_path)
    with make(pictures, batch_size=1) as loader:
        yield loader


def run(example: str, loader: Loader) -> dict[str, Any]:
    (code,) = [each for each in EXAMPLES if example in each]
    names = {"loader": loader, "train_step": lambda _: None}
    exec(code, names)  # noqa: S102 - the page's own code
    return names


def test_tensorboard(loader: Loader) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run("SummaryWriter", loader)
    events = EventAccumulator("runs/birds").Reload()
    assert set(events.Tags()["scalars"]) == set(loader.stats.as_dict())
    read = [(each.step, each.value) for each in events.Scalars("gpufeed/images")]
    assert read == [(step, step) for step in range(10, len(loader) + 1, 10)]


def test_wandb(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run("wandb", loader)
    (written,) = Path("wandb").glob("offline-run-*/run-*.wandb")
    # Names and values are protobuf's strings, of fields 2 and 16; a summary repeats each.
    read = re.findall(rb"gpufeed/images\x82\x01.(\d+)", written.read_bytes(), re.DOTALL)
    assert [int(each) for each in read[::2]] == [*range(10, len(loader) + 1, 10)]


def test_mlflow(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # others need a database
    mlflow.set_tracking_uri(Path("store").absolute().as_uri())
    run("mlflow", loader)
    (found,) = mlflow.search_runs(output_format="list")
    assert set(found.data.metrics) == set(loader.stats.as_dict())
    history = mlflow.MlflowClient().get_metric_history(found.info.run_id, "gpufeed/images")
    assert [(each.step, each.value) for each in history] == [
        (step, step) for step in range(10, len(loader) + 1, 10)
    ]


def test_prometheus(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    from prometheus_client.parser import text_string_to_metric_families

    start = client.start_http_server
    monkeypatch.setattr(client, "start_http_server", lambda _, addr: start(0, addr, own))
    own = client.CollectorRegistry()
    monkeypatch.setattr(client, "REGISTRY", own)
    names = run("prometheus", loader)
    list(loader)
    with names["server"] as server, urlopen(f"http://127.0.0.1:{server.server_port}") as page:
        families = list(text_string_to_metric_families(page.read().decode()))
        server.shutdown()
    names["thread"].join()
    read = {each.name: sample.value for each in families for sample in each.samples}
    # Batches of the next epoch may still become ready, so not all figures stay.
    assert read.keys() == {name.replace("/", "_") for name in loader.stats.as_dict("gpufeed_")}
    assert read["gpufeed_images"] == len(loader)
    assert read["gpufeed_seconds"] == loader.stats.seconds
