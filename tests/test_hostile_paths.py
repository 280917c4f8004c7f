"""Pipes, devices, links and holes in the place of images: an error or quarantine, at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import refusals
from refusals import HARMS, READERS

Said = dict[tuple[str, str], tuple[str, str]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What each reader said of each harm, from a process that is ended should it hang."""
    folder = tmp_path_factory.mktemp("harm")
    command = [sys.executable, refusals.__file__, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {(reader, harm): (kind, message) for reader, harm, kind, message in rows}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("reader", [each.__name__ for each in READERS])
def test_each_is_refused_by_name(said: Said, reader: str, harm: str) -> None:
    kind, message = said[reader, harm]
    if reader == "by_loader":
        assert message.startswith("in quarantine: 00005.jpg: "), message
    elif reader == "by_check":
        assert message.startswith("found: "), message
    else:
        assert kind == "ManifestError", message
        assert "ROOT" in message


@pytest.mark.parametrize(
    ("reader", "harm", "message"),
    [
        ("by_table", "a pipe", "ROOT/harm.jpg: not a regular file but a pipe;"),
        ("by_table", "a PNG with a hole", "harm.jpg: a PNG with more than 65,536 chunks;"),
        ("by_table", "a JPEG filled up", "no scan after 65,536 segments or stray bytes;"),
        ("by_folder", "a device", "link leaves the folder ROOT: ROOT/auk/harm.jpg to /dev/zero"),
        ("by_loader", "a device", "cannot be read: not a regular file but a device"),
        ("by_loader", "a link to itself", "Too many levels of symbolic links"),
        ("by_loader", "a PNG with a hole", "the file has 4,294,967,296 bytes; the limit"),
    ],
)
def test_it_is_said_what_was_met(said: Said, reader: str, harm: str, message: str) -> None:
    assert message in said[reader, harm][1]
