"""Who is answered, and how."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ServeError
from dragoman.serve import server as serving
from dragoman.serve.server import HEADERS, PAGES, PageServer
from dragoman.serve.watch import Watched
from watched import LITERAL, begun, shown, update, validation


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    root = tmp_path_factory.mktemp("page") / "model"
    with shown(begun(root, [update(50), validation(50, 20.0, examples=[LITERAL])])) as server:
        yield server


def ask(
    server: PageServer, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def raw(server: PageServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionError:
            pass
        return answer


def test_it_listens_to_this_machine_alone(page: PageServer) -> None:
    assert page.socket.getsockname() == ("127.0.0.1", page.port)
    assert page.address == f"http://127.0.0.1:{page.port}/"


@pytest.mark.parametrize("path", [*PAGES, "/state.json"])
def test_the_pages(page: PageServer, path: str) -> None:
    answer, body = ask(page, path)
    assert answer.status == 200
    assert len(body) == int(answer.headers["Content-Length"]) > 100
    head, nothing = ask(page, path, "HEAD")
    assert (head.status, nothing) == (200, b"")
    assert head.headers["Content-Length"] == answer.headers["Content-Length"]


def test_the_page_loads_nothing_but_what_we_send(page: PageServer) -> None:
    text = ask(page, "/")[1].decode()
    assert "://" not in text
    assert " style=" not in text
    assert " on" not in text.replace(" on the", "")
    assert text.count("<script") == 1
    script = ask(page, "/watch.js")[1].decode()
    for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert danger not in script
    assert "://" not in script.replace("http://www.w3.org/2000/svg", "")


def test_what_is_in_the_folder_is_only_data(page: PageServer) -> None:
    answer, body = ask(page, "/state.json")
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(body)["samples"][0]["stages"] == [{"step": 50, "text": LITERAL}]


def test_what_is_known_is_not_sent_again(page: PageServer) -> None:
    tag = ask(page, "/state.json")[0].headers["ETag"]
    answer, body = ask(page, "/state.json", headers={"If-None-Match": tag})
    assert (answer.status, body, answer.headers["ETag"]) == (304, b"", tag)
    assert ask(page, "/state.json", headers={"If-None-Match": '"other"'})[0].status == 200


@pytest.mark.parametrize("path", ["/watch.html", "/state.json?x", "/../../etc/passwd", "/%2e%2e/", "*", "/pages"])
def test_other_paths(page: PageServer, path: str) -> None:
    assert ask(page, path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_it_can_only_be_read(page: PageServer, method: str) -> None:
    answer, _ = ask(page, "/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_our_own_names(page: PageServer, name: str) -> None:
    assert ask(page, "/", headers={"Host": f"{name}:{page.port}"})[0].status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "host", ["evil.example:{}", "localhost", "localhost:1", "", "localhost.evil:{}", "127.0.0.2:{}"]
)
def test_other_names_get_nothing(page: PageServer, host: str, method: str) -> None:
    answer, body = ask(page, "/state.json", method, {"Host": host.format(page.port)})
    assert answer.status == 403
    assert body.decode() == f"open {page.address} instead\n"


def test_no_name_or_two_get_nothing(page: PageServer) -> None:
    host = f"Host: localhost:{page.port}\r\n".encode()
    for request in (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\n" + host + b"Host: evil\r\n\r\n"):
        assert raw(page, request).startswith(b"HTTP/1.0 403 ")
    assert raw(page, b"GET /\r\n\r\n") == f"open {page.address} instead\n".encode()


@pytest.mark.parametrize(
    ("path", "method", "host"),
    [("/", "GET", ""), ("/state.json", "GET", ""), ("/no", "GET", ""), ("/", "POST", ""), ("/", "GET", "evil")],
)
def test_every_answer_is_guarded(page: PageServer, path: str, method: str, host: str) -> None:
    answer, _ = ask(page, path, method, {"Host": host} if host else {})
    for name, value in HEADERS.items():
        assert answer.headers.get_all(name) == [value]
    assert answer.headers["Server"] == "dragoman"
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "request_line",
    [b"\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET <b> x y z\r\n\r\n"],
)
def test_what_is_no_request(page: PageServer, request_line: bytes) -> None:
    answer = raw(page, request_line)
    assert b" 200 " not in answer
    assert b"<b>" not in answer.partition(b"\r\n\r\n")[2]
    assert ask(page, "/")[0].status == 200


def test_endless_headers_are_not_read(page: PageServer) -> None:
    host = f"GET / HTTP/1.1\r\nHost: localhost:{page.port}\r\n".encode()
    assert b" 200 " not in raw(page, host + b"X: " + b"y" * serving.MOST_BYTES + b"\r\n\r\n")
    assert raw(page, host + b"X: y\r\n\r\n").startswith(b"HTTP/1.0 200 ")


def test_whoever_drips_is_left(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "PATIENCE", 0.2)
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(100) == b""


def test_too_many_at_once_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 1)
    with shown(begun(tmp_path / "m")) as server:
        first = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        first.sendall(b"GET ")
        assert raw(server, b"GET / HTTP/1.0\r\n\r\n") == b""
        first.sendall(b"/ HTTP/1.0\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.0 403")
        first.close()


def test_a_port_that_is_taken(page: PageServer, tmp_path: Path) -> None:
    with pytest.raises(
        ServeError, match=f"port {page.port} is taken by another program; choose another one with --port"
    ):
        PageServer(Watched(begun(tmp_path / "m")), page.port)


def test_a_port_that_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(PageServer, "server_bind", refuse)
    with pytest.raises(ServeError, match="no permission for port 80; choose one above 1023 with --port"):
        PageServer(Watched(begun(tmp_path / "m")), 80)
