"""Carry out the cases of one step in this process, a line of JSON for each.

python -m benchmarks.gpu.child MODULE JOB ROWS
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import signal
import sys
import time
import traceback
from pathlib import Path

from benchmarks.gpu.job import Absent, Facts, Job

__all__ = ["main"]


def main(module: str, job: Path, rows: Path) -> None:
    """Append {"about"}, then {"begun"} and {"case", "facts", "seconds"} of each case, to `rows`.

    Cases that the job knows are left out.
    """
    faulthandler.enable()

    def put(**row: object) -> None:
        with rows.open("a") as file:
            file.write(json.dumps(row, default=str) + "\n")

    def note(case: str, facts: Facts, seconds: float) -> None:
        known[case] = facts
        put(case=case, facts=facts, seconds=seconds)

    step = importlib.import_module(module)
    put(about=(step.__doc__ or "").partition("\n\n")[0].replace("\n", " "))
    given = Job.load(job)
    known = given.known
    for case, run in step.cases(given).items():
        if case in known:
            continue
        put(begun=case)
        began = time.monotonic()
        try:
            facts: Facts = run()
        except Absent as why:
            facts = {"absent": str(why)}
        except Exception as error:
            traceback.print_exc()
            # DALI's messages go on with a stack trace.
            text = " ".join(str(error).partition("Stacktrace")[0].split())
            facts = {"error": f"{type(error).__name__}: {text[:500]}"}
        for name, row in facts.pop("rows", {}).items():
            note(f"{case}: {name}", row, 0)
        note(case, facts, time.monotonic() - began)


if __name__ == "__main__":
    # Processes that a case has stopped would stay so forever if this one just ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
