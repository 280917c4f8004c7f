"""Parquet files, read in a process of their own.

polars believes what a file says of itself. Where pages claim more values than there is memory for,
or a schema is nested in itself some thousand times, it ends its process, and no error can be
raised. So that process is another one, with bounds of its own.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from typing import BinaryIO

import polars as pl

from gpufeed.machine import quarter_of_memory

__all__ = ["MOST_COLUMNS", "read_apart"]

MOST_COLUMNS = 10_000
"""Columns of a table; each is looked at by itself."""

_SECONDS = 60.0
_BYTES_A_SECOND = 1 << 20
"""How long reading may take, and how much slower than any disk it may be beyond that."""
_REFUSED = 3
_NOT_STARTED = 4

# polars starts its threads at the first read. Where memory is short then, it may also wait for one
# that never came; so it reads a table of its own before it has bounds.
_CHILD = f"""
import json, resource, sys, tempfile

def end(status, error):
    print(*(str(error) or type(error).__name__).splitlines()[:1])
    sys.exit(status)

try:
    most, sys.path[:] = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import polars
    with tempfile.NamedTemporaryFile() as table:
        polars.DataFrame({{"column": [0]}}).write_parquet(table.name)
        polars.read_parquet(table.name)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
except BaseException as error:
    end({_NOT_STARTED}, error)
try:
    columns = len(polars.read_parquet_schema("/proc/self/fd/0"))
    if columns > {MOST_COLUMNS}:
        raise ValueError(f"it has {{columns:,}} columns, of which {MOST_COLUMNS:,} may be")
    frame = polars.read_parquet("/proc/self/fd/0")
except Exception as error:
    end({_REFUSED}, error)
frame.write_ipc(sys.stdout.buffer)
"""


def read_apart(file: BinaryIO) -> pl.DataFrame:
    """Read a Parquet file in a process of its own.

    Args:
        file: a regular file, from its start.

    Raises:
        ValueError: it is damaged, has more columns than `MOST_COLUMNS`, or asks for more than a
            quarter of the machine's memory.
        OSError: no process can be started, or polars not in it.
    """
    settings = json.dumps([quarter_of_memory(), sys.path])
    # With this process's own paths, and nothing else of what may change what is imported.
    command = [sys.executable, "-I", "-S", "-c", _CHILD, settings]
    length = os.fstat(file.fileno()).st_size
    with tempfile.TemporaryFile() as said:
        try:
            run = subprocess.run(  # noqa: S603 - this interpreter, and the code above
                command,
                stdin=file,
                stdout=said,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"},
                timeout=_SECONDS + length / _BYTES_A_SECOND,
            )
        except subprocess.TimeoutExpired as error:
            raise ValueError(f"reading it takes more than {error.timeout:.0f} s") from None
        said.seek(0)
        if run.returncode == _NOT_STARTED:
            reason = said.read(1000).decode(errors="replace").strip()
            raise OSError(f"polars does not start in a process of its own ({reason})")
        if run.returncode == _REFUSED:
            raise ValueError(said.read(1000).decode(errors="replace").strip())
        if run.returncode:
            raise ValueError(
                "reading it ended the process that did: it is damaged, or holds more than "
                f"{quarter_of_memory() >> 20:,} MB"
            )
        return pl.read_ipc(io.BytesIO(said.read()))
