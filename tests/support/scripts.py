"""Python in processes of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

from gpufeed import Manifest
from tests.support.media import write_table


def run_scripts(
    manifest: Manifest, bodies: list[str], *options: str
) -> list[subprocess.CompletedProcess[str]]:
    """Run Python in processes of their own, with `make`, `digest` and the manifest."""
    prelude = f"""
from concurrent.futures import Future
from pathlib import Path
import gpufeed
from tests.support.media import read_table
from tests.support.loaders import digest, make
manifest = read_table(Path({str(write_table(manifest))!r}))
"""
    with contextlib.ExitStack() as stack:
        started = []
        for body in bodies:
            process = subprocess.Popen(
                [sys.executable, *options, "-c", prelude + body],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            started.append(stack.enter_context(process))
            stack.callback(process.kill)  # where it hangs
        said = [process.communicate(timeout=300) for process in started]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *texts)
        for process, texts in zip(started, said, strict=True)
    ]


def run_held(manifest: Manifest, name: str, body: str) -> list[str]:
    """Run Python in a process in which the kernel holds all reads of this file; its output."""
    script = f"""
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
from tests.support.held_reads import HeldReads, UnsupportedError
path = manifest.root / {name!r}
try:
    held = HeldReads(path)
except UnsupportedError as why:
    print("unsupported:", why)
    raise SystemExit
{body}
print("done")
"""
    (ran,) = run_scripts(manifest, [script])
    if ran.stdout.startswith("unsupported"):
        pytest.skip(ran.stdout.strip())
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("done\n")
    return ran.stdout.split("\n")[:-2]
