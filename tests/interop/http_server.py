"""A real HTTP server on this machine whose behaviour a test chooses, as a context manager."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """What the server does with a file of ``content``.

    broken_after: bytes after which each connection breaks. slow: seconds between pieces. declared: another
    Content-Length, None for none. statuses: answers to the first requests. has_ranges: whether Range is obeyed.
    range_shift: added to the offset of what a range sends, while the header tells the offset that was asked for.
    """

    content: bytes = b""
    etag: str | None = '"v1"'
    broken_after: int | None = None
    slow: float = 0.0
    declared: int | None = -1
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    has_ranges: bool = True
    redirect: str | None = None
    endless: bool = False
    silent: bool = False
    requests: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    on_request: object = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing is printed."""

    def do_GET(self):
        b = self.server.behaviour
        b.requests.append(dict(self.headers))
        b.paths.append(self.path)
        if callable(b.on_request):
            b.on_request(b)
        self.close_connection = True
        if b.silent:
            time.sleep(1.5)
            return
        if b.statuses:
            self.send_response(b.statuses.pop(0))
            for name, value in b.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if b.redirect is not None:
            self.send_response(302)
            self.send_header("Location", b.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._send(b)

    def _send(self, b):
        start = 0
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = b.etag is not None and self.headers.get("If-Range") == b.etag
        if match and b.has_ranges and same:
            start = int(match[1])
            if start >= len(b.content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(b.content) - 1}/{len(b.content)}")
        else:
            self.send_response(200)
        body = b.content[start:]
        if b.etag:
            self.send_header("ETag", b.etag)
        if b.declared is not None and not b.endless:
            self.send_header("Content-Length", str(len(body) if b.declared == -1 else b.declared))
        for name, value in b.headers.items():
            self.send_header(name, value)
        if b.endless:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if b.endless:
            for _ in range(10_000):
                self.wfile.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
            return
        end = len(body) if b.broken_after is None else min(len(body), b.broken_after)
        step = max(1, end // 8) if b.slow else end or 1
        for offset in range(0, end, step):
            self.wfile.write(body[offset : offset + step][: end - offset])
            self.wfile.flush()
            time.sleep(b.slow)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is no failure."""


class HTTPServer:
    """Serves one behaviour at ``url``."""

    def __init__(self, **options):
        self.behaviour = Behaviour(**options)

    def __enter__(self):
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.behaviour = self.behaviour
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
