"""An S3 server on this machine, behind a proxy that can fail as networks and stores do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

BUCKET = "bucket"
FAULTS = ("busy", "broken", "reset", "cut", "short")
"""503 SlowDown; 500; no answer; a connection broken in the body; a body that is shorter."""

_REGION = (
    "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; "
    "expecting 'eu-west-3'</Message><Region>eu-west-3</Region></Error>"
)
_BUSY = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate</Message></Error>"


class FaultyStore:
    """A proxy in front of a store, which forwards requests and may spoil their answers.

    Attributes:
        address: `127.0.0.1:port`.
        faults: those that a fifth of the paths have, each in its first requests.
        always: a fault of every request for a path that contains the key.
        hold: requests for paths that contain this text are answered after `release`.
        together: answers wait until so many requests are under way.
        signers: the access keys that requests were signed with; "" for none.
        seen: how many requests there were for each path.
        spoiled: how many answers had each fault.
        sent: bytes of the answers.
        peak: the most requests that were under way together.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()

        async def start() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self._released = asyncio.Event()
            self._enough = asyncio.Event()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(start())
            self._loop.call_soon(ready.set)  # so that `close` finds it running
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            for _ in range(3):  # connections close
                self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

        # Nothing else holds one whose client has left.
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        ready.wait()
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.reset()

    def reset(self) -> None:
        """Forward everything, and forget what was counted."""
        self.faults: tuple[str, ...] = ()
        self.always: dict[str, str] = {}
        self.hold: str | None = None
        self.together = 0
        self.seen: Counter[str] = Counter()
        self.signers: set[str] = set()
        self.spoiled: Counter[str] = Counter()
        self.sent = self.peak = self._now = 0
        self._loop.call_soon_threadsafe(self._enough.clear)
        self._loop.call_soon_threadsafe(self._released.clear)

    def release(self) -> None:
        """Answer what was held."""
        self._loop.call_soon_threadsafe(self._released.set)

    def close(self) -> None:
        """End the server and its thread."""
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _fault(self, path: str, number: int) -> str | None:
        """Return the fault of the answer to a request: that of its path, in its first requests."""
        for part, fault in self.always.items():
            if part in path:
                return fault
        if not self.faults or zlib.crc32(path.encode()) % 5 or number > 2:
            return None
        return self.faults[self.spoiled.total() % len(self.faults)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        gone = (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError)
        with contextlib.suppress(*gone):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = unquote(head.split(b" ", 2)[1].decode())
                self.seen[path] += 1
                signed = re.search(rb"Credential=(\w+)/", head)
                self.signers.add(signed[1].decode() if signed else "")
                if (fault := self._fault(path, self.seen[path])) is not None:
                    self.spoiled[fault] += 1
                self._now += 1
                self.peak = max(self.peak, self._now)
                if self._now >= self.together:
                    self._enough.set()
                if self.together:
                    await self._enough.wait()
                if self.hold is not None and self.hold in path:
                    await self._released.wait()
                answer = await self._forward(head)
                self._now -= 1
                if fault is not None:
                    answer = spoil(answer, fault)
                self.sent += len(answer)
                writer.write(answer)
                await writer.drain()
                if fault in ("reset", "cut"):
                    break
        writer.close()
        self._tasks.discard(asyncio.current_task())

    async def _forward(self, head: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)[:-2])
            writer.write(b"Connection: close\r\n\r\n")
            answer = await reader.read(-1)
        finally:
            writer.close()
        return re.sub(rb"(?i)\r\nconnection: close", b"", answer, count=1)


def spoil(answer: bytes, fault: str) -> bytes:
    """Return an answer with a fault."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if fault == "busy":
        return _plain(503, _BUSY)
    if fault == "broken":
        return _plain(500, "")
    if fault == "region":
        return _plain(400, _REGION)
    if fault == "redirect":
        return _plain(301, "<Error><Code>PermanentRedirect</Code></Error>")
    if fault == "denied":
        return _plain(403, "<Error><Code>InvalidAccessKeyId</Code></Error>")
    if fault == "reset":
        return b""
    half = body[: len(body) // 2]
    if fault == "cut":
        return head + b"\r\n\r\n" + half
    # As from a proxy that lost its end, and does not know.
    length = f"\r\nContent-Length: {len(half)}".encode()
    return re.sub(rb"(?i)\r\ncontent-length: \d+", length, head) + b"\r\n\r\n" + half


def _plain(status: int, body: str) -> bytes:
    return f"HTTP/1.1 {status} Fault\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@contextlib.contextmanager
def s3() -> Iterator[FaultyStore]:
    """An empty bucket, which the environment names, behind a proxy without faults yet."""
    # Here, as each process that collects tests would take a second for it.
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    store = FaultyStore(server.get_host_and_port()[1])
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
                patch.delenv(name, raising=False)
            patch.setenv("AWS_ENDPOINT_URL", f"http://{store.address}")
            patch.setenv("AWS_ACCESS_KEY_ID", "user")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            patch.setenv("NO_PROXY", "127.0.0.1")
            server_backend().reset()  # objects outlive their server
            server_backend().create_bucket(BUCKET, "us-east-1")
            yield store
    finally:
        store.close()
        server.stop()


def server_backend() -> Any:
    """The store behind the server, without a way through HTTP."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def put(key: str, content: bytes) -> None:
    """Write an object."""
    server_backend().put_object(BUCKET, key, content)
