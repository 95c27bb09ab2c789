"""The door for browsers on this machine: a fixed table of paths, and nothing for anybody who comes by another name.

A page of the internet can make a browser on this machine ask us, and can give its own name our address. So the Host
must be one of ours, other pages may read nothing, and what we send may load nothing and be framed by nobody.
"""

import contextlib
import errno
import io
import socket
import socketserver
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from dragoman.errors import ServeError
from dragoman.serve.watch import Watched

LOOPBACK = "127.0.0.1"
NAMES = ("localhost", LOOPBACK, "[::1]")
METHODS = ("GET", "HEAD")

MOST_BYTES = 16 << 10
"""Of a request, headers included; ours have less than one KiB."""

PATIENCE = 10.0
"""Seconds for a whole request to arrive."""

MOST_CONNECTIONS = 32
"""At once; a browser opens about six."""

PAGES = {
    "/": ("watch.html", "text/html; charset=utf-8"),
    "/watch.css": ("watch.css", "text/css; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Allow": ", ".join(METHODS),
}
"""With every answer, errors included."""


class PageServer(socketserver.ThreadingTCPServer):
    """Shows one training at ``http://127.0.0.1:port/`` while `serve_forever` runs."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, watched: Watched, port: int) -> None:
        """Take the port; 0 is any that is free.

        Raises:
            ServeError: it is taken, or not ours to take.
        """
        folder = Path(__file__).parent / "pages"
        self.watched = watched
        self.pages = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in PAGES.items()}
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise ServeError(_refusal(error, port)) from error
        self.port = self.socket.getsockname()[1]
        self.hosts = {f"{name}:{self.port}" for name in NAMES} | ({*NAMES} if self.port == 80 else set())

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{LOOPBACK}:{self.port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up where there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone is not worth a word."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request, one answer."""

    server: PageServer
    timeout = PATIENCE
    error_message_format = "%(explain)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def parse_request(self) -> bool:
        return super().parse_request() and self._is_allowed()

    def _is_allowed(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, explain=f"open {self.server.address} instead")
        elif self.command not in METHODS:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, explain="this page can only be read")
        else:
            return True
        return False

    def do_GET(self) -> None:
        if self.path == "/state.json":
            self._send_state()
        elif page := self.server.pages.get(self.path):
            self._send(HTTPStatus.OK, *page)
        else:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"there is nothing here; open {self.server.address}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send_state(self) -> None:
        snapshot = self.server.watched.snapshot()
        known = self.headers.get("If-None-Match") == snapshot.tag
        status, body = (HTTPStatus.NOT_MODIFIED, b"") if known else (HTTPStatus.OK, snapshot.body)
        self._send(status, body, "application/json", snapshot.tag)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, tag: str = "") -> None:
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        return "dragoman"

    def log_message(self, format: str, *args: Any) -> None:
        """A request every two seconds is no news."""


class _Arriving(io.RawIOBase):
    """The bytes of one request: so many, in so much time, however slowly they drip."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left = MOST_BYTES
        self._deadline = time.monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._deadline - time.monotonic()
        if seconds <= 0 or self._left <= 0:
            raise TimeoutError("the request is too long or too slow")
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer, min(len(buffer), self._left))
        self._left -= count
        return count


def serve(server: PageServer) -> None:
    """Answer until Ctrl-C, which is how this ends and no failure."""
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


def _refusal(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken by another program; choose another one with --port, or --port 0 for any free one"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"no permission for port {port}; choose one above 1023 with --port"
    return f"cannot listen on {LOOPBACK}:{port}: {error.strerror or error}"
