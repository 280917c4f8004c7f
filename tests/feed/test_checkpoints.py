"""A loader's state rides in the checkpoints that people use: the real libraries, no stand-ins.

Every test stops in the middle of an epoch, or at its end, and resumes in a new loader with another
number of threads and another prefetch: what is left must come, batch by batch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpufeed import Loader, Manifest
from tests.support.loaders import digest, make
from tests.support.media import make_manifest, read_table, write_table

EPOCHS = 3
STEPS = 6
"""Batches in an epoch: 26 records in batches of 4, the last 2 dropped."""
STOP = 9
"""Batches trained on when the checkpoint is saved: in the middle of the second epoch."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    sizes = [(16 + number % 17, 32 - number % 13) for number in range(26)]
    return make_manifest(tmp_path_factory.mktemp("small"), sizes)


def before(manifest: Manifest, framework: str) -> Loader:
    """The loader of the run that is stopped: it has more than the rest of an epoch under way."""
    return make(manifest, framework=framework, batch_size=4, num_threads=2, prefetch=5)


def after(manifest: Manifest, framework: str) -> Loader:
    """The loader of the run that goes on."""
    return make(manifest, framework=framework, batch_size=4, num_threads=1, prefetch=1)


def rest(loader: Loader) -> list[str]:
    """Digests of the batches from where the loader stands to the end of the last epoch."""
    seen = []
    while loader.epoch < EPOCHS:
        seen += [digest(batch) for batch in loader]
    return seen


def train(loader: Loader, count: int) -> None:
    """Take some batches, over as many epochs as it takes, with others made ahead at the end."""
    while count:
        for _ in loader:
            count -= 1
            if not count:
                break


def uninterrupted(manifest: Manifest, framework: str) -> list[str]:
    with before(manifest, framework) as loader:
        whole = rest(loader)
    assert len(loader) == STEPS
    assert len(set(whole)) == len(whole) == EPOCHS * STEPS
    return whole


# ------------------------------------------------------------------- ways to save


def save_torch(loader: Loader, folder: Path, trained: int) -> None:
    import torch

    model = {"trained": torch.tensor(trained)}
    torch.save({"model": model, "loader": loader.state_dict()}, folder / "checkpoint.pt")


def restore_torch(loader: Loader, folder: Path) -> int:
    import torch

    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    loader.load_state_dict(saved["loader"])
    return int(saved["model"]["trained"])


def save_distributed(loader: Loader, folder: Path, trained: int) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    model = {"trained": torch.tensor(trained)}
    dcp.save({"model": model, "loader": loader}, checkpoint_id=folder / "checkpoint")


def restore_distributed(loader: Loader, folder: Path) -> int:
    import torch
    import torch.distributed.checkpoint as dcp

    model = {"trained": torch.tensor(-1)}
    dcp.load({"model": model, "loader": loader}, checkpoint_id=folder / "checkpoint")
    return int(model["trained"])


def save_orbax(loader: Any, folder: Path, trained: int, *, item: Callable[[Any], Any]) -> None:
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    training = {"weights": jnp.ones((2, 3)), "trained": jnp.int32(trained)}
    with ocp.CheckpointManager(folder) as manager:
        items = {"training": ocp.args.StandardSave(training), "loader": item(loader)}
        assert manager.save(trained, args=ocp.args.Composite(**items))


def restore_orbax(loader: Any, folder: Path, *, item: Callable[[Any], Any]) -> Any:
    """What Orbax gives back: of the training, and of the loader."""
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    training = {"weights": jnp.zeros((2, 3)), "trained": jnp.int32(-1)}
    with ocp.CheckpointManager(folder) as manager:
        items = {"training": ocp.args.StandardRestore(training), "loader": item(loader)}
        return manager.restore(manager.latest_step(), args=ocp.args.Composite(**items))


def save_grain(loader: Any, folder: Path, trained: int) -> None:
    import grain.checkpoint

    save_orbax(loader, folder, trained, item=grain.checkpoint.CheckpointSave)


def restore_grain(loader: Any, folder: Path) -> int:
    import grain.checkpoint

    restored = restore_orbax(loader, folder, item=grain.checkpoint.CheckpointRestore)
    assert restored["loader"] is loader
    return int(restored["training"]["trained"])


def save_iterator(loader: Loader, folder: Path, trained: int) -> None:
    save_grain(iter(loader), folder, trained)


def restore_iterator(loader: Loader, folder: Path) -> int:
    return restore_grain(iter(loader), folder)


def save_endless(loader: Loader, folder: Path, trained: int) -> None:
    save_grain(loader.forever(), folder, trained)


def restore_endless(loader: Loader, folder: Path) -> int:
    return restore_grain(loader.forever(), folder)


def save_json(loader: Loader, folder: Path, trained: int) -> None:
    import orbax.checkpoint as ocp

    save_orbax(loader, folder, trained, item=lambda each: ocp.args.JsonSave(each.state_dict()))


def restore_json(loader: Loader, folder: Path) -> int:
    import orbax.checkpoint as ocp

    restored = restore_orbax(loader, folder, item=lambda _: ocp.args.JsonRestore())
    loader.load_state_dict(restored["loader"])
    return int(restored["training"]["trained"])


class Way(NamedTuple):
    """A way to save: each takes a loader and a folder; restoring tells how much was trained."""

    framework: str
    needs: tuple[str, ...]
    save: Callable[[Loader, Path, int], None]
    restore: Callable[[Loader, Path], int]


WAYS = {
    "torch.save": Way("torch", (), save_torch, restore_torch),
    "torch.distributed": Way("torch", (), save_distributed, restore_distributed),
    "Orbax, Grain's handler": Way("jax", ("orbax.checkpoint", "grain"), save_grain, restore_grain),
    "Orbax, Grain's handler, an iterator": Way(
        "jax", ("orbax.checkpoint", "grain"), save_iterator, restore_iterator
    ),
    "Orbax, Grain's handler, an endless iterator": Way(
        "jax", ("orbax.checkpoint", "grain"), save_endless, restore_endless
    ),
    "Orbax, JSON": Way("jax", ("orbax.checkpoint",), save_json, restore_json),
}


def need(*modules: str) -> None:
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is not installed")


def go_on(table: Path, folders: dict[str, str]) -> None:
    """Resume in each way, in a process of its own; print a line of how much, and the rest."""
    for way, folder in folders.items():
        with after(read_table(table), WAYS[way].framework) as loader:
            print(WAYS[way].restore(loader, Path(folder)), *rest(loader), flush=True)


def run_go_on(table: Path, folders: dict[str, str]) -> list[list[str]]:
    script = f"""
from pathlib import Path
from tests.feed import test_checkpoints
test_checkpoints.go_on(Path({str(table)!r}), {folders!r})
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [line.split() for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def gone_on(
    small: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int, list[str]]]:
    """By way, how much was trained and what came then.

    In one process, since what it imports takes far longer than what it does.
    """
    folders = {}
    for way, (framework, needs, save, _) in WAYS.items():
        try:
            need(framework, *needs)
        except pytest.skip.Exception:
            continue
        folder = tmp_path_factory.mktemp("checkpoint")
        folders[way] = str(folder)
        with before(small, framework) as loader:
            train(loader, STOP)
            save(loader, folder, STOP)
    lines = run_go_on(write_table(small), folders)
    return {way: (int(trained), seen) for way, (trained, *seen) in zip(folders, lines, strict=True)}


# It says that there is no process group, and goes on without one, as is meant here.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable:UserWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_new_process_goes_on_from_a_checkpoint(
    way: str, small: Manifest, gone_on: dict[str, tuple[int, list[str]]]
) -> None:
    framework, needs, _, _ = WAYS[way]
    need(framework, *needs)
    trained, seen = gone_on[way]
    assert trained == STOP
    assert seen == uninterrupted(small, framework)[STOP:]


# ---------------------------------------------------------------------- torchdata


def test_a_loader_is_stateful(small: Manifest) -> None:
    need("torchdata")
    from torch.distributed.checkpoint.stateful import Stateful as DistributedStateful
    from torchdata.stateful_dataloader import Stateful as DataLoaderStateful

    loader = make(small, batch_size=4)
    assert isinstance(loader, DataLoaderStateful)
    assert isinstance(loader, DistributedStateful)


@pytest.mark.parametrize(("stop", "end"), [(4, 2 * STEPS), (STEPS, 3 * STEPS)])
def test_torchdata_nodes_go_on(stop: int, end: int, small: Manifest) -> None:
    """For two epochs, of which the first may have begun already."""
    need("torchdata")
    from torchdata import nodes

    whole = uninterrupted(small, "torch")
    with before(small, "torch") as loader:
        node = nodes.Loader(nodes.IterableWrapper(loader))
        for _, _batch in zip(range(stop), node, strict=False):
            pass
        state = node.state_dict()
    with after(small, "torch") as loader:
        node = nodes.Loader(nodes.IterableWrapper(loader))
        node.load_state_dict(state)
        assert [digest(batch) for _ in range(2) for batch in node] == whole[stop:end]
