"""Carry out the cases of one step in this process, a line of JSON for each.

python -m benchmarks.gpu.child STEP JOB ROWS [DONE ...]
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


def main(step: str, job: Path, rows: Path, done: list[str]) -> None:
    """Append {"about"}, then {"begun"} and {"case", "facts", "seconds"} of each case, to `rows`."""
    faulthandler.enable()

    def put(**row: object) -> None:
        with rows.open("a") as file:
            file.write(json.dumps(row, default=str) + "\n")

    module = importlib.import_module(f"benchmarks.gpu.{step}")
    put(about=(module.__doc__ or "").partition("\n\n")[0].replace("\n", " "))
    for case, run in module.cases(Job.load(job)).items():
        if case in done:
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
        rows_of_case = facts.pop("rows", {})
        for name, row in rows_of_case.items():
            put(case=f"{case}: {name}", facts=row, seconds=0)
        put(case=case, facts=facts, seconds=time.monotonic() - began)


if __name__ == "__main__":
    # Processes that a case has stopped would stay so forever if this one just ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
