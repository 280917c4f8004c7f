"""A web server of files in memory, which can lack what some servers lack."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class WebServer(ThreadingHTTPServer):
    """Serves `files`, by their paths with the query string.

    Attributes:
        ranges: whether a part can be asked for.
        lengths: whether answers tell their lengths.
        version: the ETag of all files; None for none.
        cut: answers left that break off in the middle.
        short: answers left whose body is shorter than the range that they say it is.
        headers: what answers have beside their own headers, or instead of these.
        redirects: where requests for these paths are sent.
        asked: the paths of all requests, and their headers.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.ranges = self.lengths = True
        self.version: str | None = '"1"'
        self.cut = self.short = 0
        self.headers: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body together
    server: WebServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers))
        if (location := self.server.redirects.get(unquote(self.path))) is not None:
            self.send_response(302)
            self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = self.server.files.get(unquote(self.path))
        if content is None:
            self.send_error(404)
            return
        expected = self.headers.get("If-Match")
        if expected is not None and expected != self.server.version:
            self.send_error(412)
            return
        part = content
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and self.server.ranges:
            start, stop = int(wanted[1]), int(wanted[2] or len(content)) + 1
            part = content[start:stop]
            if not part:
                self.send_error(416)
                return
            self.send_response(206)
            said = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
            self.send_header("Content-Range", self.server.headers.get("Content-Range", said))
        else:
            self.send_response(200)
        if "Content-Encoding" in self.server.headers:
            self.send_header("Content-Encoding", self.server.headers["Content-Encoding"])
        if self.server.version is not None:
            self.send_header("ETag", self.server.version)
        if self.server.short and len(part) < len(content):
            self.server.short -= 1
            part = part[: len(part) // 2]
        if self.server.lengths:
            self.send_header("Content-Length", str(len(part)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.server.cut and self.server.lengths:
            self.server.cut -= 1
            part = part[: len(part) // 2]
            self.close_connection = True
        with contextlib.suppress(ConnectionError):  # who wants no more hangs up
            self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def web_server(files: Mapping[str, bytes]) -> Iterator[WebServer]:
    """Serve files for as long as the context lasts."""
    with WebServer(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
