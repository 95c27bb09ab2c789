"""`dragoman watch` from its first word to Ctrl-C."""

import re
import signal
import socket
import urllib.request
from pathlib import Path

from command import call, spawn
from watched import begun, update


def test_it_says_where_it_is_and_ends_quietly(tmp_path: Path) -> None:
    process = spawn("watch", begun(tmp_path / "my-en-fr", [update(50)]), "--port", 0)
    assert process.stderr is not None
    try:
        said = process.stderr.readline().decode()
        found = re.search(r"is shown at (http://127\.0\.0\.1:\d+/) on this machine; Ctrl-C ends it", said)
        assert found, said
        with urllib.request.urlopen(found[1], timeout=30) as answer:
            assert b"watch.js" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == (b"", b"")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_what_is_no_model_folder(tmp_path: Path) -> None:
    ran = call("watch", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"dragoman: {tmp_path} is not a model folder: ")
    assert ran.err.count("\n") == 1


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = call("watch", begun(tmp_path / "m"), "--port", port)
    assert ran.code == 2
    assert f"port {port} is taken by another program; choose another one with --port" in ran.err


def test_a_port_that_is_none(tmp_path: Path) -> None:
    ran = call("watch", begun(tmp_path / "m"), "--port", 65536)
    assert ran.code == 2
    assert "--port" in ran.err
