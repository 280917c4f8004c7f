"""A store that is slow: a process of its own, which answers requests for files below a folder.

It answers GET and HEAD as S3 and web servers do, each after a latency, and sends all answers
together at no more than a rate.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
import urllib.parse
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

__all__ = ["Counts", "Store"]

_PIECE = 64 << 10
"""Bytes that are sent at a time, so that large answers do not hold up small ones."""


@dataclass
class Counts:
    """What was asked of a store, by its own count.

    Attributes:
        requests: number of requests.
        sent: bytes of answers, without their headers.
        peak: the most requests at a time.
    """

    requests: int = 0
    sent: int = 0
    peak: int = 0


class Store(AbstractContextManager["Store"]):
    """Serves the files that are below a folder now, at an address of this machine.

    Args:
        folder: each folder in it is a bucket.
        latency: seconds before each answer.
        rate: bytes per second of all answers.
    """

    def __init__(self, folder: Path, latency: float = 0, rate: float = float("inf")) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, folder), daemon=True
        )
        self._process.start()
        self.address = f"http://127.0.0.1:{self._pipe.recv()}"
        self.set(latency, rate)

    def set(self, latency: float, rate: float = float("inf")) -> None:
        """Set the latency in seconds and the rate in bytes per second."""
        self._pipe.send((latency, rate))
        self._pipe.recv()

    def counts(self) -> Counts:
        """Return what was asked since the last call."""
        self._pipe.send(None)
        found: Counts = self._pipe.recv()
        return found

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, folder: Path) -> None:
    files = {f"/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}
    latency, rate, free, now, counts = 0.0, float("inf"), 0.0, 0, Counts()

    async def send(writer: asyncio.StreamWriter, body: bytes) -> None:
        nonlocal free
        for start in range(0, len(body), _PIECE):
            piece = body[start : start + _PIECE]
            # When the line is free again, after this piece.
            free = max(free, time.monotonic()) + len(piece) / rate
            await asyncio.sleep(free - time.monotonic())
            writer.write(piece)
            counts.sent += len(piece)
            await writer.drain()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                now += 1
                counts.requests += 1
                counts.peak = max(counts.peak, now)
                try:
                    await asyncio.sleep(latency)
                    status, body = _find(files, head)
                    writer.write(status)
                    await send(writer, body)
                finally:
                    now -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def obey() -> None:
        nonlocal latency, rate, counts
        try:
            wanted = pipe.recv()
        except EOFError:  # who started this has ended
            asyncio.get_running_loop().stop()
            return
        pipe.send(counts)
        if wanted:
            latency, rate = wanted
        else:
            counts = Counts()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        asyncio.get_running_loop().add_reader(pipe.fileno(), obey)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _find(files: dict[str, Path], head: str) -> tuple[bytes, bytes]:
    """Return the status line with the headers, and the body, for the head of a request."""
    method, target, _ = head.split(" ", 2)
    path = files.get(urllib.parse.unquote(target.partition("?")[0]))
    if path is None:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b""
    size, status, extra = path.stat().st_size, "200 OK", ""
    first, end = 0, size
    if wanted := re.search(r"(?i)\r\nrange: bytes=(\d+)-(\d*)", head):
        first, end = int(wanted[1]), min(int(wanted[2] or size) + 1, size)
        status, extra = "206 Partial Content", f"Content-Range: bytes {first}-{end - 1}/{size}\r\n"
    body = b""
    if method != "HEAD":
        with path.open("rb") as file:
            file.seek(first)
            body = file.read(end - first)
    return (
        f"HTTP/1.1 {status}\r\nContent-Length: {end - first}\r\n{extra}Accept-Ranges: bytes\r\n"
        f'ETag: "{size}"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n'
    ).encode(), body
