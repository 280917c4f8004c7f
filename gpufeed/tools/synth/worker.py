"""Draws every n-th picture of a set, in a process of its own; started by pictures.py.

Reads one line of JSON, the job, and writes one for each picture when its file is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpufeed.tools.synth.pictures import draw_rows
from gpufeed.tools.synth.plan import plan_nabirds


def main() -> None:
    """Do the job given on standard input."""
    job = json.loads(sys.stdin.readline())
    plan = plan_nabirds(**job["plan"])
    rows = range(job["first"], len(plan), job["step"])
    try:
        for row, lines in draw_rows(Path(job["folder"]), plan, rows):
            _say({"row": row, "lines": lines})
    except BrokenPipeError:
        raise  # nobody listens any more
    except OSError as error:
        _say({"errno": error.errno, "strerror": error.strerror, "filename": error.filename})


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
