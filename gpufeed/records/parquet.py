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
from typing import IO, BinaryIO

import polars as pl

from gpufeed._util.limits import quarter_of_memory
from gpufeed._util.sanitize import sanitize

__all__ = ["MOST_COLUMNS", "read_apart"]

MOST_COLUMNS = 10_000
"""Columns of a table; each is looked at by itself."""

_SECONDS = 60.0
_BYTES_A_SECOND = 1 << 20
"""How long reading may take, and how much slower than any disk it may be beyond that."""
_REFUSED, _PANICKED = 3, 4
_STARTED = b"started\n"

# polars starts its threads at the first read, one only for files above a megabyte. Where memory is
# short then, it panics, or waits for a thread that never came; so before it has bounds it reads a
# table of its own.
_CHILD = f"""
import json, resource, sys, tempfile

def end(status, error):
    print(*(str(error) or type(error).__name__).splitlines()[:1])
    sys.exit(status)

def bound(kind, most):
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))

try:
    most, sys.path[:] = json.loads(sys.argv[1])
    bound(resource.RLIMIT_CORE, 0)
    import polars
    with tempfile.NamedTemporaryFile() as table:
        two_megabytes = polars.select(polars.int_range({1 << 18}))
        two_megabytes.write_parquet(table.name, compression="uncompressed")
        polars.read_parquet(table.name)
    bound(resource.RLIMIT_DATA, most)
    bound(resource.RLIMIT_FSIZE, most)
except BaseException as error:
    end({_REFUSED}, error)
sys.stdout.buffer.write({_STARTED!r})
sys.stdout.flush()
try:
    columns = len(polars.read_parquet_schema("/proc/self/fd/0"))
    if columns > {MOST_COLUMNS}:
        raise ValueError(f"it has {{columns:,}} columns, of which {MOST_COLUMNS:,} may be")
    frame = polars.read_parquet("/proc/self/fd/0")
except polars.exceptions.PanicException as error:
    end({_PANICKED}, error)
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
        if said.read(len(_STARTED)) != _STARTED:
            said.seek(0)
            reason = _told(said) or f"exit code {run.returncode}"
            raise OSError(f"polars does not start in a process of its own ({reason})")
        if run.returncode == _REFUSED:
            raise ValueError(_told(said))
        if run.returncode:
            panic = f" ({_told(said)})" if run.returncode == _PANICKED else ""
            raise ValueError(
                f"reading it ended the process that did{panic}: it is damaged, or holds more than "
                f"{quarter_of_memory() >> 20:,} MB"
            )
        return pl.read_ipc(io.BytesIO(said.read()))


def _told(said: IO[bytes]) -> str:
    return sanitize(said.read(1000).decode(errors="replace").strip(), 500)
