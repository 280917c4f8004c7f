"""Child processes that may crash or hang, and are then ended and told of."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

SILENCE = 300.0
"""Seconds without a word after which a child counts as hanging."""


class DiedError(Exception):
    """A child came to no good end.

    Attributes:
        how: it crashed, or it hung and was ended.
    """

    def __init__(self, how: Literal["crash", "hang"], said: str) -> None:
        super().__init__(said)
        self.how = how


def lines(command: list[str], noise: Path, silence: float = SILENCE) -> Iterator[dict[str, Any]]:
    """Run a command, and give what it prints, each line of which is JSON.

    Args:
        command: the command.
        noise: a file to which its standard error is added.
        silence: seconds without a line after which it is ended.

    Raises:
        DiedError: it ended with another status than 0, or was ended.
    """
    with noise.open("ab") as error:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=error, text=True)
    said: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            said.put(line)
        said.put(None)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        while True:
            try:
                line = said.get(timeout=silence)
            except queue.Empty:
                raise DiedError("hang", f"nothing was heard for {silence:g} s") from None
            if line is None:
                break
            if line.endswith("\n"):  # the last may be half a line
                yield json.loads(line)
        code = child.wait()
        if code:
            raise DiedError("crash", f"it ended with {code}; its last words are in {noise}")
    finally:
        child.kill()
        child.wait()
        listener.join()
        assert child.stdout is not None
        child.stdout.close()


def python(module: str, role: str, settings: Mapping[str, Any], folder: Path) -> list[str]:
    """The command that runs a module in a role with settings, which are written to `folder`."""
    folder.mkdir(exist_ok=True)
    number = len(list(folder.iterdir()))
    path = folder / f"{role}-{number}.json"
    path.write_text(json.dumps(settings))
    return [sys.executable, "-m", module, role, str(path)]
